/* SPDX-License-Identifier: BSD-3-Clause */
/* pair_stream.h: arrivals of numbered probes, of which some are lost, repeated or late. Fixed memory, no clock. */
#ifndef DOCTOR_PAIR_STREAM_H
#define DOCTOR_PAIR_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "pair.h"

/* Probes of one stream, at most. A number beyond is not counted. */
#define PAIR_STREAM_MAX 4096u

struct pair_stream {
	/* one bit for each number that arrived */
	uint64_t arrived[PAIR_STREAM_MAX / 64];
	int64_t delay_ns[PAIR_STREAM_MAX];
	uint32_t count;
	uint32_t duplicates;
	uint32_t reordered;
	/* the largest number that arrived, and whether any did */
	uint32_t latest;
};

/* Takes a probe: its number, and its delay by two clocks. */
void pair_stream_arrive(struct pair_stream *stream, uint32_t number, int64_t delay_ns);

/* Writes what the stream says into *out: counts and delays. Sorts the delays. */
void pair_stream_finish(struct pair_stream *stream, struct pair_heard *out);

/* Marks: how often each value arrived for one that was sent. */
struct pair_mark_counts {
	uint32_t arrived[PAIR_MARKS][256];
};

void pair_marks_finish(const struct pair_mark_counts *counts, struct pair_heard *out);

/* Sizes to try next, between the largest that arrived and the smallest that did not. */
#define PAIR_SIZES_MAX 20u

/* Sets `out` to sizes of IP packets in rising order and returns how many: known MTUs at first, then an even ladder. `most`
 * is the interface's MTU, which is among them as long as nothing is known to be lost. */
unsigned pair_sizes(uint32_t arrived, uint32_t lost, uint32_t most, uint32_t out[PAIR_SIZES_MAX]);

#endif
