/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * measure.h: measurements between two ranks, each over one source port.
 *
 * A pair measures one direction after the other: round trips of small messages, then as much data as goes through, then data at
 * half that rate. Packets are counted during the last part only, so that what a full queue drops is not taken for a loss of the
 * path.
 */
#ifndef TOOLS_MESH_MEASURE_H
#define TOOLS_MESH_MEASURE_H

#include "port.h"

struct measured {
	/* half of the shortest round trip; NAN: none */
	double latency_us;
	/* rate of data that this end sent; 0: none got through */
	double bps;
	/* packets that this end sent at half that rate, and that it received from the other end */
	struct port_counts counts;
};

/* Measures both directions. One of the two ends is `first`. Time is that of each part. Both calls return 0; what the path does
 * not let through shows in the result. -EINTR: a signal came. */
int measure_pair(struct link *link, bool first, uint64_t time_ns, struct measured *out);

/* Sends on one link while data arrives on the other, which belongs to the same port. Either may be null. */
int measure_shift(struct link *out, struct link *in, uint64_t time_ns, double *bps);

#endif
