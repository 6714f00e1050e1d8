/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMA devices of this host, as sysfs has them: enough to choose what to try, and to say what it was tried on.
 * $GODWIT_SYSFS names another root, for tests.
 */
#ifndef TOOLS_QUALIFY_DEVICES_H
#define TOOLS_QUALIFY_DEVICES_H

#include <jansson.h>
#include <stdbool.h>

#define QUALIFY_DEVICES_MAX 8
#define QUALIFY_DEVICE_NAME 64

struct qualify_device {
	char name[QUALIFY_DEVICE_NAME];
	/* first port that is up */
	unsigned port;
	/* index of a routable RoCE v2 address, or -1 */
	int gid_ipv4;
	int gid_ipv6;
};

/* Devices with a RoCE port that is up; only the one of this name unless null. Returns how many. */
unsigned qualify_devices_find(const char *only, struct qualify_device out[QUALIFY_DEVICES_MAX]);

/* What was found: versions and devices, also those that cannot be used and why. No addresses, no names of hosts. */
json_t *qualify_devices_describe(void);

/* Every counter of the devices' ports, by "device/counter"; and what changed between two such. */
json_t *qualify_devices_counters(const struct qualify_device *devices, unsigned count);
json_t *qualify_devices_changes(const json_t *before, const json_t *after);

#endif
