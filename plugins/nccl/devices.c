/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The devices that NCCL sees: network interfaces that are up and have an address. A selection has the syntax of
 * NCCL_SOCKET_IFNAME: a list of prefixes, "eth,ib"; after "=" whole names, "=eth0"; after "^" those that are not wanted,
 * "^docker,lo", or "^=eth0". Without one, loopback and docker's bridges are left out unless there is nothing else.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* Reported where the system does not know the speed; NCCL's own sockets do the same. */
#define SPEED_DEFAULT 10000

static bool named(const char *list, const char *name, bool exact)
{
	while (*list) {
		size_t length = strcspn(list, ",");

		if (length && !strncmp(list, name, length) && (!exact || strlen(name) == length))
			return true;
		list += length + (list[length] == ',');
	}
	return false;
}

static bool selected(const char *selection, const char *name)
{
	bool without = selection[0] == '^', exact;

	selection += without;
	exact = selection[0] == '=';
	return named(selection + exact, name, exact) != without;
}

/* An address that peers elsewhere can use, as text. False: none of these. */
static bool usable_address(const struct sockaddr *address, char out[ADDRESS_CHARS])
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;

	if (address->sa_family == AF_INET)
		return inet_ntop(AF_INET, &v4->sin_addr, out, ADDRESS_CHARS);
	if (address->sa_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		return false;
	return inet_ntop(AF_INET6, &v6->sin6_addr, out, ADDRESS_CHARS);
}

static int speed_of(const char *name)
{
	char path[128];
	FILE *file;
	int speed = 0;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%d", &speed) != 1)
			speed = 0;
		fclose(file);
	}
	return speed > 0 ? speed : SPEED_DEFAULT;
}

static void describe(const char *name, struct device *out)
{
	char path[128], real[PATH_MAX];

	snprintf(out->name, sizeof(out->name), "%s", name);
	snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
	if (realpath(path, real) && strlen(real) < sizeof(out->pci_path))
		memcpy(out->pci_path, real, strlen(real) + 1);
	out->speed = speed_of(name);
	out->port = 1;
	snprintf(out->fabric, sizeof(out->fabric), "roce:%s@0", out->address);
	/* FNV-1a of name and address: the same interface has the same in every process of a host. */
	out->guid = UINT64_C(0xcbf29ce484222325);
	for (const char *c = out->name; *c; c++)
		out->guid = (out->guid ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
	for (const char *c = out->address; *c; c++)
		out->guid = (out->guid ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
}

static struct device *find(struct device *devices, int count, const char *name)
{
	for (int i = 0; i < count; i++) {
		if (!strcmp(devices[i].name, name))
			return &devices[i];
	}
	return NULL;
}

/* One address for each interface, IPv4 first. */
static int collect(const struct ifaddrs *list, const char *selection, struct device *out, int most)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	int count = 0;

	for (int f = 0; f < 2; f++) {
		for (const struct ifaddrs *item = list; item && count < most;
		     item = item->ifa_next) {
			char address[ADDRESS_CHARS];

			if (!item->ifa_addr || item->ifa_addr->sa_family != families[f] ||
			    !(item->ifa_flags & IFF_UP) || !selected(selection, item->ifa_name) ||
			    find(out, count, item->ifa_name) ||
			    !usable_address(item->ifa_addr, address))
				continue;
			out[count] = (struct device){ .guid = 0 };
			memcpy(out[count].address, address, sizeof(address));
			describe(item->ifa_name, &out[count++]);
		}
	}
	return count;
}

/* Keeps those interfaces for whose addresses an RDMA device answers. */
static int only_rdma(struct device *devices, int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		struct device device = devices[i];

		if (rdma_find("/sys", &device))
			devices[kept++] = device;
	}
	return kept;
}

int devices_find(const char *names, bool verbs, struct device *out, int most)
{
	struct ifaddrs *list;
	int count;

	if (getifaddrs(&list))
		return 0;
	if (names && names[0]) {
		count = collect(list, names, out, most);
	} else {
		count = collect(list, "^docker,lo", out, most);
		if (!count)
			count = collect(list, "^lo", out, most);
		if (!count)
			count = collect(list, "lo", out, most);
	}
	freeifaddrs(list);
	return verbs ? only_rdma(out, count) : count;
}
