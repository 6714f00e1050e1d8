/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices, for GODWIT_FABRIC=verbs: which one answers for an interface's address, and what it says of itself. Read from
 * sysfs, which is there without libibverbs:
 *
 *	class/infiniband/DEVICE/device                     link to the PCI function; none if it is virtual
 *	class/infiniband/DEVICE/ports/N/state              "4: ACTIVE"
 *	class/infiniband/DEVICE/ports/N/rate               "100 Gb/sec (4X EDR)"
 *	class/infiniband/DEVICE/ports/N/gids/I             the address, an IPv4 one as ::ffff:a.b.c.d
 *	class/infiniband/DEVICE/ports/N/gid_attrs/types/I  "RoCE v2"
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* A queue pair names its GID in eight bits. */
#define GIDS_MAX   256
#define PORTS_MAX  8
#define NAME_CHARS 64

static bool read_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");
	bool good = file && fgets(line, (int)size, file);

	if (file)
		fclose(file);
	if (good)
		line[strcspn(line, "\n")] = '\0';
	return good;
}

static bool to_gid(const char *address, struct in6_addr *out)
{
	*out = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
	return inet_pton(AF_INET, address, out->s6_addr + 12) == 1 ||
	       inet_pton(AF_INET6, address, out) == 1;
}

/* The index of the RoCE v2 entry with this address; -1: none. */
static int gid_index(const char *port, const struct in6_addr *wanted)
{
	char path[PATH_MAX], line[64];
	struct in6_addr gid;

	for (int i = 0; i < GIDS_MAX; i++) {
		snprintf(path, sizeof(path), "%s/gids/%d", port, i);
		if (!read_line(path, line, sizeof(line)))
			return -1;
		if (inet_pton(AF_INET6, line, &gid) != 1 || memcmp(&gid, wanted, sizeof(gid)) != 0)
			continue;
		/* An entry that is not filled in has no type. */
		snprintf(path, sizeof(path), "%s/gid_attrs/types/%d", port, i);
		if (read_line(path, line, sizeof(line)) && !strcmp(line, "RoCE v2"))
			return i;
	}
	return -1;
}

static bool port_active(const char *port)
{
	char path[PATH_MAX], line[64];

	snprintf(path, sizeof(path), "%s/state", port);
	return read_line(path, line, sizeof(line)) && strstr(line, "ACTIVE");
}

static void describe(const char *name, const char *directory, const char *port, struct device *out)
{
	char path[PATH_MAX], real[PATH_MAX], line[64];
	double gigabits;

	snprintf(out->name, sizeof(out->name), "%.31s", name);
	out->pci_path[0] = '\0';
	snprintf(path, sizeof(path), "%s/device", directory);
	if (realpath(path, real) && strlen(real) < sizeof(out->pci_path))
		memcpy(out->pci_path, real, strlen(real) + 1);
	snprintf(path, sizeof(path), "%s/rate", port);
	if (read_line(path, line, sizeof(line)) && sscanf(line, "%lf", &gigabits) == 1 &&
	    gigabits > 0)
		out->speed = (int)(gigabits * 1000);
}

/* Looks for the address on the ports of one device. */
static bool look_at(const char *sysfs, const char *name, const struct in6_addr *wanted,
		    struct device *out)
{
	char directory[PATH_MAX / 4], port[PATH_MAX / 2];

	snprintf(directory, sizeof(directory), "%.200s/class/infiniband/%s", sysfs, name);
	for (int number = 1; number <= PORTS_MAX; number++) {
		int index;

		snprintf(port, sizeof(port), "%s/ports/%d", directory, number);
		index = port_active(port) ? gid_index(port, wanted) : -1;
		if (index < 0)
			continue;
		describe(name, directory, port, out);
		out->port = number;
		snprintf(out->fabric, sizeof(out->fabric), "verbs:%s/%d@%d", name, number, index);
		return true;
	}
	return false;
}

bool rdma_find(const char *sysfs, struct device *device)
{
	char path[PATH_MAX / 4];
	struct in6_addr wanted;
	struct dirent *entry;
	bool found = false;
	DIR *list;

	if (!to_gid(device->address, &wanted))
		return false;
	snprintf(path, sizeof(path), "%.200s/class/infiniband", sysfs);
	list = opendir(path);
	while (list && !found && (entry = readdir(list))) {
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < NAME_CHARS)
			found = look_at(sysfs, entry->d_name, &wanted, device);
	}
	if (list)
		closedir(list);
	return found;
}
