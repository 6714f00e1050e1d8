/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interface.h: finds the address for a user-space end: by the name of an interface, or of an interface that is up. Also
 * finds out whether an RDMA device takes UDP port 4791 of an address: a NIC, and the kernel's soft-RoCE, take RoCE packets
 * before any socket sees them, so that a socket there would wait in vain.
 */
#ifndef FABRIC_ROCE_INTERFACE_H
#define FABRIC_ROCE_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYSFS "/sys"
/* Bytes for an address as text, with a port behind it. */
#define INTERFACE_ADDRESS_MAX 96

/* Finds the address of an interface: IPv4, else IPv6, else link-local IPv6 with its scope. -ENODEV: no such interface;
 * -EADDRNOTAVAIL: it has none. */
int interface_address(const char *name, char out[INTERFACE_ADDRESS_MAX]);

/* Replaces the interface in INTERFACE[@PORT] by its address; copies anything else. -EINVAL: too long; -EADDRNOTAVAIL: the
 * interface has no address. */
int interface_resolve(const char *where, char out[INTERFACE_ADDRESS_MAX]);

/* Finds an address for `auto`: of an interface that is up, is not the loopback, and whose port 4791 no RDMA device takes. */
int interface_usual(const char *sysfs, char out[INTERFACE_ADDRESS_MAX]);

/* Finds the RDMA device that takes UDP port 4791 of ADDRESS[@PORT], in the GID tables under `sysfs` ("/sys"). False: none
 * does. */
bool interface_owner(const char *sysfs, const char *address, char *device, size_t size);

/* Rate of an interface, bits a second, as its driver says; 0: not known. */
uint64_t interface_rate_bps(const char *sysfs, const char *name);

#endif
