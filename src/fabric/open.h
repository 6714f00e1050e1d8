/* SPDX-License-Identifier: BSD-3-Clause */
/* open.h: fabrics by name. */
#ifndef FABRIC_OPEN_H
#define FABRIC_OPEN_H

#include "fabric/fabric.h"

/* Faults injected on the way out, as probabilities for each packet. */
struct fabric_faults {
	double drop;
	double duplicate;
	double reorder;
	uint64_t seed;
};

/* Whether any faults were asked for; null is none. */
static inline bool fabric_faulty(const struct fabric_faults *faults)
{
	return faults && (faults->drop > 0 || faults->duplicate > 0 || faults->reorder > 0);
}

struct fabric_options {
	/* Null: none. */
	const struct fabric_faults *faults;
	/* Lanes to each peer; 0 counts as 1. */
	uint32_t lanes;
	/* Traffic class of packets sent; the two bits of ECN are 0. */
	uint8_t traffic_class;
	/* Whether to leave out the ICRC where the peer does too. */
	bool skip_icrc;
	/* Whether data is never handed to the kernel before it leaves. */
	bool no_departures;
	/* Rate that UD datagrams and multicast are held to, bits a second; 0: the port's own. */
	uint64_t rate_bps;
};

/*
 * Opens an endpoint by name: "roce:ADDRESS[@PORT]", "roce:INTERFACE[@PORT]", "verbs:DEVICE..." (verbs.h) or "auto".
 * Options may be null. Errors are those of gw_context_open(); open_refusal() has the reason in a sentence.
 */
int fabric_open(const char *name, const struct fabric_options *options, struct fabric **out);

#endif
