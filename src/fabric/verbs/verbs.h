/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h: a fabric on libibverbs: an RDMA NIC, or the kernel's soft-RoCE, places packets.
 *
 * Two modes. UC: a data packet is one RDMA write with immediate; the NIC places it, and memory windows keep late ones
 * out. UD, for devices that have no UC queue pairs or no windows that hold: a data packet is a datagram that software
 * copies to its place. Which one a device gets is tried out, not guessed from its name.
 */
#ifndef FABRIC_VERBS_VERBS_H
#define FABRIC_VERBS_VERBS_H

#include <stdbool.h>

#include "fabric/fabric.h"

#define VERBS_DEVICE_MAX 64
#define VERBS_LANES_MAX	 8

/* What a name means: DEVICE[/PORT][@GIDINDEX][,ud][,srq][,lanes=N][,tc=N][,sl=N][,rate=N[K|M|G]] */
struct verbs_name {
	char device[VERBS_DEVICE_MAX];
	unsigned port; /* 0: the first that is up */
	int gid_index; /* -1: chosen */
	bool ud;       /* even if the device could do better */
	bool srq;      /* receive requests shared by all queue pairs: for thousands of them */
	unsigned lanes;
	unsigned traffic_class; /* of the IP header: DSCP and ECN bits */
	unsigned service_level;
	uint64_t rate_bps; /* that datagrams and multicast are held to; 0: the port's */
};

/* -EINVAL. */
int verbs_name_parse(const char *text, struct verbs_name *out);

/* Says why it failed in the log. -ENODEV: no such device or port; -ENOTSUP: built without libibverbs, or the device
 * speaks no RoCE v2. */
int verbs_open(const char *where, struct fabric **out);

/* The name of a device to prefer to user space, for `auto`: one with a port that is up and a RoCE v2 GID. False, with a
 * reason for people, where there is none. */
bool verbs_find(char device[VERBS_DEVICE_MAX], char *why, size_t why_size);

#endif
