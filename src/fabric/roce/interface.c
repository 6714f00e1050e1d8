/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interfaces and their addresses. A RoCE device lists the addresses that it answers for in its GID table, IPv4 ones as
 * ::ffff:a.b.c.d, which can be read from sysfs:
 *
 *	class/infiniband/DEVICE/ports/N/gids/I             eight groups of four digits
 *	class/infiniband/DEVICE/ports/N/gid_attrs/types/I  "RoCE v2"
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/roce/interface.h"

#define PATH_SIZE 512
#define GIDS_MAX  256

/* Preference of an address: IPv4 3, IPv6 2, link-local IPv6 1, no IP address 0. */
static int worth(const struct sockaddr *address)
{
	if (!address)
		return 0;
	if (address->sa_family == AF_INET)
		return 3;
	if (address->sa_family != AF_INET6)
		return 0;
	return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr) ? 1 : 2;
}

static void print_address(const struct ifaddrs *item, char out[INTERFACE_ADDRESS_MAX])
{
	char text[INET6_ADDRSTRLEN];

	if (item->ifa_addr->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)item->ifa_addr;

		inet_ntop(AF_INET, &v4->sin_addr, out, INTERFACE_ADDRESS_MAX);
	} else {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)item->ifa_addr;

		inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
		if (worth(item->ifa_addr) == 1)
			snprintf(out, INTERFACE_ADDRESS_MAX, "%s%%%.15s", text, item->ifa_name);
		else
			snprintf(out, INTERFACE_ADDRESS_MAX, "%s", text);
	}
}

int interface_address(const char *name, char out[INTERFACE_ADDRESS_MAX])
{
	struct ifaddrs *all, *item, *best = NULL;

	if (!if_nametoindex(name))
		return -ENODEV;
	if (getifaddrs(&all))
		return -errno;
	for (item = all; item; item = item->ifa_next)
		if (!strcmp(item->ifa_name, name) &&
		    worth(item->ifa_addr) > (best ? worth(best->ifa_addr) : 0))
			best = item;
	if (best)
		print_address(best, out);
	freeifaddrs(all);
	return best ? 0 : -EADDRNOTAVAIL;
}

int interface_resolve(const char *where, char out[INTERFACE_ADDRESS_MAX])
{
	size_t length = strcspn(where, "@");
	char name[IF_NAMESIZE], address[INTERFACE_ADDRESS_MAX];
	int error = -ENODEV, written;

	if (length < sizeof(name)) {
		memcpy(name, where, length);
		name[length] = '\0';
		error = interface_address(name, address);
	}
	if (error && error != -ENODEV)
		return error;
	if (error)
		written = snprintf(out, INTERFACE_ADDRESS_MAX, "%s", where);
	else
		written = snprintf(out, INTERFACE_ADDRESS_MAX, "%s%s", address, where + length);
	return written < INTERFACE_ADDRESS_MAX ? 0 : -EINVAL;
}

int interface_usual(const char *sysfs, char out[INTERFACE_ADDRESS_MAX])
{
	struct ifaddrs *all, *item;
	int best = 0;

	if (getifaddrs(&all))
		return -errno;
	for (item = all; item; item = item->ifa_next) {
		char text[INTERFACE_ADDRESS_MAX], device[64];

		if (!(item->ifa_flags & IFF_UP) || item->ifa_flags & IFF_LOOPBACK ||
		    worth(item->ifa_addr) <= best)
			continue;
		print_address(item, text);
		if (interface_owner(sysfs, text, device, sizeof(device)))
			continue;
		best = worth(item->ifa_addr);
		memcpy(out, text, sizeof(text));
	}
	freeifaddrs(all);
	return best ? 0 : -EADDRNOTAVAIL;
}

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

static bool port_has(const char *port, const struct in6_addr *wanted)
{
	char path[PATH_SIZE + 64], line[64];
	struct in6_addr gid;

	for (int i = 0; i < GIDS_MAX; i++) {
		snprintf(path, sizeof(path), "%s/gids/%d", port, i);
		if (!read_line(path, line, sizeof(line)))
			return false;
		if (inet_pton(AF_INET6, line, &gid) != 1 || memcmp(&gid, wanted, sizeof(gid)) != 0)
			continue;
		/* An entry that is not filled in has no type. */
		snprintf(path, sizeof(path), "%s/gid_attrs/types/%d", port, i);
		if (read_line(path, line, sizeof(line)) && !strcmp(line, "RoCE v2"))
			return true;
	}
	return false;
}

static bool device_has(const char *device, const struct in6_addr *wanted)
{
	char ports[PATH_SIZE - 32], port[PATH_SIZE];
	struct dirent *entry;
	bool found = false;
	DIR *directory;

	snprintf(ports, sizeof(ports), "%s/ports", device);
	directory = opendir(ports);
	while (directory && !found && (entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(port, sizeof(port), "%s/%.8s", ports, entry->d_name);
		found = port_has(port, wanted);
	}
	if (directory)
		closedir(directory);
	return found;
}

bool interface_owner(const char *sysfs, const char *address, char *device, size_t size)
{
	struct in6_addr wanted = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	char devices[256], path[400], text[INTERFACE_ADDRESS_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *directory;

	snprintf(text, sizeof(text), "%s", address);
	text[strcspn(text, "@%")] = '\0'; /* cuts port and scope off */
	if (inet_pton(AF_INET, text, wanted.s6_addr + 12) != 1 &&
	    inet_pton(AF_INET6, text, &wanted) != 1)
		return false;
	snprintf(devices, sizeof(devices), "%s/class/infiniband", sysfs);
	directory = opendir(devices);
	while (directory && !found && (entry = readdir(directory))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%.64s", devices, entry->d_name);
		found = device_has(path, &wanted);
		if (found)
			snprintf(device, size, "%s", entry->d_name);
	}
	if (directory)
		closedir(directory);
	return found;
}

uint64_t interface_rate_bps(const char *sysfs, const char *name)
{
	char path[PATH_SIZE], line[32];
	long megabits;

	snprintf(path, sizeof(path), "%s/class/net/%.15s/speed", sysfs, name);
	if (!read_line(path, line, sizeof(line)))
		return 0;
	megabits = strtol(line, NULL, 10); /* -1 where it is not known */
	return megabits > 0 ? (uint64_t)megabits * 1000000 : 0;
}
