/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timer_repeat.h: Selective Repeat by a timer for each chunk, as SDR-RDMA describes it, to compare with. Not a scheme to
 * use: it waits where it could know.
 *
 * The sender starts a timer as a chunk leaves and repeats the chunk when it ends without an acknowledgement. The receiver
 * acknowledges what it has, and never asks.
 */
#ifndef BENCH_TIMER_REPEAT_H
#define BENCH_TIMER_REPEAT_H

#include <godwit/scheme.h>

/* Needed as the options of a send; a receive has none. One transfer at a time. */
struct timer_repeat_options {
	uint64_t rto_ns;
	uint64_t unit_ns;     /* a packet takes on the wire: when each of the first pass leaves */
	uint32_t packets_max; /* of a message */
	uint8_t *landed;      /* a byte for each packet */
	struct timer_repeat_entry {
		uint64_t due_ns;
		uint32_t packet;
	} * ring; /* packets_max entries */
};

extern const struct gw_scheme timer_repeat;

#endif
