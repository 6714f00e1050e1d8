/* SPDX-License-Identifier: BSD-3-Clause */
/* open.h: fabrics by name. */
#ifndef FABRIC_OPEN_H
#define FABRIC_OPEN_H

#include "fabric/fabric.h"

struct fabric_faults {
	double drop;
	double duplicate;
	double reorder;
	uint64_t seed;
};

/* Whether any were asked for; null is none. */
static inline bool fabric_faulty(const struct fabric_faults *faults)
{
	return faults && (faults->drop > 0 || faults->duplicate > 0 || faults->reorder > 0);
}

struct fabric_options {
	const struct fabric_faults *faults; /* null: none */
	uint32_t lanes;			    /* ways to each peer; 0 counts as 1 */
	uint8_t traffic_class;		    /* of what is sent, without the two bits of ECN */
	bool skip_icrc;			    /* where the peer does too */
	uint64_t rate_bps; /* what datagrams and multicast are held to; 0: the port's own */
};

/*
 * Opens an endpoint by name: "roce:ADDRESS[@PORT]", "roce:INTERFACE[@PORT]", "verbs:DEVICE..." (verbs.h) or "auto".
 * Options may be null. Errors are those of gw_context_open(); open_refusal() has the reason in a sentence.
 */
int fabric_open(const char *name, const struct fabric_options *options, struct fabric **out);

#endif
