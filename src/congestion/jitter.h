/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * jitter.h: the width of the random time by which a path delays each packet, and the reports too.
 *
 * The least of a few round-trip times lies above the minimum by a share of that time, and their mean by half of it. Neither is a
 * queue. Jitter is measured in two ways, of which the lesser counts: by how much a round-trip time differs from the mean of its two
 * neighbours, which is little in a queue that grows; and by the gap between the least round-trip time of a round and the next, which
 * is little where only some packets are late.
 */
#ifndef CONGESTION_JITTER_H
#define CONGESTION_JITTER_H

struct jitter {
	/* latest two round-trip times; 0: not measured */
	double last_ns;
	double last_but_one_ns;
	/* width of the random delay of packets, by differences from neighbours and by gaps */
	double spread_ns;
	double gap_ns;
	/* the two least round-trip times since the gap was last measured */
	double gap_least_ns;
	double gap_next_ns;
	/* round-trip times since then, and rounds behind gap_ns */
	unsigned gap_samples;
	unsigned gap_rounds;
	/* round-trip times behind spread_ns, as far as they matter */
	unsigned spread_samples;
};

/* Adds a round-trip time. `least_ns` is the minimum; one that is far above it, and above what was seen before, counts for less: a host
 * that was busy once is no jitter. */
void jitter_see(struct jitter *jitter, double rtt_ns, double least_ns);

/* Ends a round. */
void jitter_end_round(struct jitter *jitter);

/* Returns the jitter that has to be allowed for. Less than `floor_ns` is the variation of an ordinary queue. */
double jitter_ns(const struct jitter *jitter, double floor_ns);

/* Returns how far the least of `samples` round-trip times lies above the minimum, as a share of the jitter. */
double jitter_of_least(unsigned samples);

#endif
