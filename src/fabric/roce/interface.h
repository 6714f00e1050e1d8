/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interface.h: which of this host's addresses a user-space end may have. Names of interfaces become addresses, and an
 * address whose UDP port 4791 an RDMA device takes for itself is known before a socket waits there in vain: a NIC, and
 * the kernel's soft-RoCE, swallow RoCE packets before any socket sees them.
 */
#ifndef FABRIC_ROCE_INTERFACE_H
#define FABRIC_ROCE_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYSFS		      "/sys"
#define INTERFACE_ADDRESS_MAX 96 /* a port behind it included */

/* The address of an interface, IPv4 before IPv6, link-local IPv6 (with its scope) last. -ENODEV: no such interface;
 * -EADDRNOTAVAIL: it has none. */
int interface_address(const char *name, char out[INTERFACE_ADDRESS_MAX]);

/* Of INTERFACE[@PORT] the address takes the interface's place; anything else stays as it is. -EINVAL: too long. */
int interface_resolve(const char *where, char out[INTERFACE_ADDRESS_MAX]);

/* An address for `auto`: of the first interface that is up, is not the loopback, and is not a device's own. */
int interface_usual(const char *sysfs, char out[INTERFACE_ADDRESS_MAX]);

/* The RDMA device that takes UDP port 4791 of ADDRESS[@PORT], by the GID tables under `sysfs` ("/sys"). */
bool interface_owner(const char *sysfs, const char *address, char *device, size_t size);

/* How fast an interface says it is, in bits a second; 0 where it does not say. */
uint64_t interface_rate_bps(const char *sysfs, const char *name);

#endif
