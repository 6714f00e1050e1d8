/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qdisc.h: asks the kernel over netlink whether packets to a peer pass a queueing discipline that holds each until the time
 * of departure that its sender gave: fq, on the interface that the route to the peer leaves by, or on all queues of it.
 * An interface on top of another one (VLAN, bond) counts as one that does not, whatever is below it.
 */
#ifndef FABRIC_ROCE_QDISC_H
#define FABRIC_ROCE_QDISC_H

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

/* What is known of an interface's disciplines after some of the answer. */
struct qdisc_view {
	int interface;
	bool root_fq;
	/* The root has a discipline for each of the interface's queues. */
	bool root_many;
	/* Disciplines below the root, and those of them that are fq. */
	unsigned below;
	unsigned below_fq;
};

/* Takes part of the kernel's answer to a request for all disciplines. True: there is more of it to come. */
bool qdisc_take(struct qdisc_view *view, const void *bytes, size_t length);

/* Whether what was seen holds packets. */
bool qdisc_view_holds(const struct qdisc_view *view);

/* Whether packets from `local` to `peer` are held until their departure; false where that cannot be found out. */
bool qdisc_holds(const struct sockaddr *local, const struct sockaddr *peer);

#endif
