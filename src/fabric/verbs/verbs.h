/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h: a fabric on libibverbs: an RDMA NIC, or the kernel's soft-RoCE, places packets.
 *
 * It has two modes. UC: a data packet is one RDMA write with immediate; the NIC places it, and memory windows keep late
 * ones out. UD, for devices without UC queue pairs or whose memory windows do not keep late writes out: a data packet is a
 * datagram, which software copies to its place. The mode is chosen by trying (probe.c), not by the device's name.
 */
#ifndef FABRIC_VERBS_VERBS_H
#define FABRIC_VERBS_VERBS_H

#include <stdbool.h>

#include "fabric/fabric.h"

#define VERBS_DEVICE_MAX 64
#define VERBS_LANES_MAX	 8

/* A device's name taken apart: DEVICE[/PORT][@GIDINDEX][,ud][,srq][,lanes=N][,tc=N][,sl=N][,rate=N[K|M|G]] */
struct verbs_name {
	char device[VERBS_DEVICE_MAX];
	/* Port number; 0: the first that is up. */
	unsigned port;
	/* Index of the GID; -1: chosen (gid.h). */
	int gid_index;
	/* UD mode, even if the device is capable of UC mode. */
	bool ud;
	/* Receive requests shared by all queue pairs: for thousands of queue pairs. */
	bool srq;
	unsigned lanes;
	/* Traffic class of the IP header: DSCP and ECN bits. */
	unsigned traffic_class;
	unsigned service_level;
	/* Rate that UD datagrams and multicast are held to, bits a second; 0: the port's. */
	uint64_t rate_bps;
};

/* Reads a name. -EINVAL: malformed. */
int verbs_name_parse(const char *text, struct verbs_name *out);

/* Opens an endpoint on the device of this name; says why it failed (refuse.h). -ENODEV: no such device or port; -ENOTSUP:
 * built without libibverbs, or the device does not speak RoCE v2. */
int verbs_open(const char *where, struct fabric **out);

/* Finds a device for `auto`: one with a port that is up and a RoCE v2 GID. False where there is none; `why` then has the
 * reason for a person. */
bool verbs_find(char device[VERBS_DEVICE_MAX], char *why, size_t why_size);

#endif
