/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads sysfs: one directory for each device and port, one file for each attribute, any of which may be missing. */
#include "devices.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <godwit/godwit.h>

#include "tools/report.h"

#define PATH_SIZE  512
#define FACT_SIZE  256
#define GIDS_MAX   256
#define PORTS_MAX  8
#define MAPPED	   "0000:0000:0000:0000:0000:ffff:"
#define LINK_LOCAL "fe80:"
#define NO_ADDRESS "0000:0000:0000:0000:0000:0000:0000:0000"

static const char *root(void)
{
	const char *given = getenv("GODWIT_SYSFS");

	return given && given[0] ? given : "/sys";
}

/* The file's first line, or "". */
static void read_line(const char *path, char out[FACT_SIZE])
{
	FILE *file = fopen(path, "re");

	out[0] = '\0';
	if (!file)
		return;
	if (!fgets(out, FACT_SIZE, file))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	fclose(file);
}

static void read_fact(const char *device, const char *name, char out[FACT_SIZE])
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/%s", root(), device, name);
	read_line(path, out);
}

static void read_port_fact(const char *device, unsigned port, const char *name, char out[FACT_SIZE])
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "ports/%u/%.200s", port, name);
	read_fact(device, path, out);
}

/* sysfs lists devices in no order; a report lists them by name. */
static int list(const char *directory, struct dirent ***out)
{
	return scandir(directory, out, NULL, alphasort);
}

static void free_list(struct dirent **entries, int count)
{
	while (count-- > 0)
		free(entries[count]);
	free(entries);
}

static void find_gids(struct qualify_device *device)
{
	device->gid_ipv4 = device->gid_ipv6 = -1;
	for (int i = 0; i < GIDS_MAX; i++) {
		char name[32], gid[FACT_SIZE], type[FACT_SIZE];

		snprintf(name, sizeof(name), "gids/%d", i);
		read_port_fact(device->name, device->port, name, gid);
		snprintf(name, sizeof(name), "gid_attrs/types/%d", i);
		read_port_fact(device->name, device->port, name, type);
		if (!gid[0] || strcmp(type, "RoCE v2") != 0 || !strcmp(gid, NO_ADDRESS))
			continue;
		if (!strncmp(gid, MAPPED, strlen(MAPPED))) {
			if (device->gid_ipv4 < 0)
				device->gid_ipv4 = i;
		} else if (strncmp(gid, LINK_LOCAL, strlen(LINK_LOCAL)) != 0 &&
			   device->gid_ipv6 < 0) {
			device->gid_ipv6 = i;
		}
	}
}

/* Why it cannot be used, or null. */
static const char *examine(struct qualify_device *device)
{
	const char *why = "no port is up";

	for (device->port = 1; device->port <= PORTS_MAX; device->port++) {
		char fact[FACT_SIZE];

		read_port_fact(device->name, device->port, "state", fact);
		if (!strstr(fact, "ACTIVE"))
			continue;
		read_port_fact(device->name, device->port, "link_layer", fact);
		if (strcmp(fact, "Ethernet") != 0) {
			why = "its port is not Ethernet, and this is about RoCE";
			continue;
		}
		find_gids(device);
		if (device->gid_ipv4 >= 0 || device->gid_ipv6 >= 0)
			return NULL;
		why = "no routable RoCE v2 address";
	}
	return why;
}

static int list_devices(struct dirent ***out)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/class/infiniband", root());
	return list(path, out);
}

unsigned qualify_devices_find(const char *only, struct qualify_device out[QUALIFY_DEVICES_MAX])
{
	struct dirent **entries;
	int found = list_devices(&entries);
	unsigned count = 0;

	for (int i = 0; i < found && count < QUALIFY_DEVICES_MAX; i++) {
		struct qualify_device device = { 0 };
		const char *name = entries[i]->d_name;

		if (name[0] == '.' || strlen(name) >= sizeof(device.name) ||
		    (only && strcmp(name, only) != 0))
			continue;
		snprintf(device.name, sizeof(device.name), "%s", name);
		if (!examine(&device))
			out[count++] = device;
	}
	if (found >= 0)
		free_list(entries, found);
	return count;
}

static json_t *describe_device(const char *name)
{
	static const char *const facts[][2] = {
		{ "firmware", "fw_ver" },	   { "type", "hca_type" },
		{ "board", "board_id" },	   { "hardware", "hw_rev" },
		{ "pci_vendor", "device/vendor" }, { "pci_device", "device/device" },
	};
	struct qualify_device device = { 0 };
	json_t *object = json_object();
	char fact[FACT_SIZE], path[PATH_SIZE], target[PATH_SIZE];
	const char *why;
	ssize_t length;

	snprintf(device.name, sizeof(device.name), "%s", name);
	json_object_set_new(object, "name", report_text(name));
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
		read_fact(name, facts[i][1], fact);
		if (fact[0])
			json_object_set_new(object, facts[i][0], report_text(fact));
	}
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/driver", root(), name);
	length = readlink(path, target, sizeof(target) - 1);
	if (length > 0) {
		target[length] = '\0';
		json_object_set_new(
			object, "driver",
			report_text(strrchr(target, '/') ? strrchr(target, '/') + 1 : target));
	}
	why = examine(&device);
	json_object_set_new(object, "usable", json_boolean(!why));
	if (why) {
		json_object_set_new(object, "why_not", json_string(why));
		return object;
	}
	json_object_set_new(object, "port", json_integer(device.port));
	json_object_set_new(object, "ipv4", json_boolean(device.gid_ipv4 >= 0));
	json_object_set_new(object, "ipv6", json_boolean(device.gid_ipv6 >= 0));
	read_port_fact(name, device.port, "rate", fact);
	json_object_set_new(object, "rate", report_text(fact));
	return object;
}

static void describe_system(json_t *object)
{
	FILE *file = fopen("/etc/os-release", "re");
	char line[FACT_SIZE], name[FACT_SIZE];
	struct utsname system;

	json_object_set_new(object, "godwit", json_string(gw_version()));
	if (!uname(&system)) {
		json_object_set_new(object, "kernel", report_text(system.release));
		json_object_set_new(object, "machine", report_text(system.machine));
	}
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "PRETTY_NAME=\"%255[^\"]\"", name) == 1)
			json_object_set_new(object, "system", report_text(name));
	if (file)
		fclose(file);
}

json_t *qualify_devices_describe(void)
{
	json_t *object = json_object(), *devices = json_array();
	struct dirent **entries;
	int found = list_devices(&entries);

	describe_system(object);
	for (int i = 0; i < found; i++)
		if (entries[i]->d_name[0] != '.' && json_array_size(devices) < QUALIFY_DEVICES_MAX)
			json_array_append_new(devices, describe_device(entries[i]->d_name));
	if (found >= 0)
		free_list(entries, found);
	json_object_set_new(object, "devices", devices);
	return object;
}

json_t *qualify_devices_counters(const struct qualify_device *devices, unsigned count)
{
	static const char *const kinds[] = { "counters", "hw_counters" };
	json_t *object = json_object();

	for (unsigned i = 0; i < 2 * count; i++) {
		const struct qualify_device *device = &devices[i / 2];
		char path[PATH_SIZE], name[PATH_SIZE], fact[FACT_SIZE];
		struct dirent **entries;
		int found;

		snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%u/%s", root(),
			 device->name, device->port, kinds[i % 2]);
		found = list(path, &entries);
		for (int at = 0; at < found; at++) {
			const char *counter = entries[at]->d_name;
			char *end;
			long long value;

			snprintf(name, sizeof(name), "%s/%.200s", kinds[i % 2], counter);
			read_port_fact(device->name, device->port, name, fact);
			value = strtoll(fact, &end, 10);
			if (counter[0] == '.' || end == fact || !strcmp(counter, "lifespan"))
				continue;
			snprintf(name, sizeof(name), "%s/%.200s", device->name, counter);
			json_object_set_new(object, name, json_integer(value));
		}
		if (found >= 0)
			free_list(entries, found);
	}
	return object;
}

json_t *qualify_devices_changes(const json_t *before, const json_t *after)
{
	json_t *changes = json_object(), *value;
	const char *name;

	json_object_foreach((json_t *)after, name, value)
	{
		json_int_t change = json_integer_value(value) -
				    json_integer_value(json_object_get(before, name));

		if (change)
			json_object_set_new(changes, name, json_integer(change));
	}
	return changes;
}
