/* SPDX-License-Identifier: BSD-3-Clause */
/* launcher_address.h: under which addresses rank 0 may be reached, and which of them a rank takes. */
#ifndef COLLECTIVE_LAUNCHER_ADDRESS_H
#define COLLECTIVE_LAUNCHER_ADDRESS_H

#include <stddef.h>

struct ifaddrs;

/* Bytes of a description with its final zero. */
#define LAUNCHER_ADDRESSES 512

/* Describes this host: its name and the addresses of its interfaces, "NAME ADDRESS ADDRESS ...". */
int launcher_addresses(char out[LAUNCHER_ADDRESSES]);

/*
 * Chooses an address of the host that is described: the first in a network that an interface of this host is in, else the first.
 * An address that this host has, too, is not another host's: bridges of containers have the same one everywhere.
 * -EINVAL: not a description, or it does not fit.
 */
int launcher_choose(const char *description, char *out, size_t size);

/* The same on a host of this name with these interfaces. */
int launcher_choose_on(const char *name, const struct ifaddrs *interfaces, const char *description,
		       char *out, size_t size);

#endif
