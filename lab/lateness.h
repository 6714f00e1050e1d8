/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lateness.h: a histogram of times, such as how late packets left, with 16 steps for each power of two: it gives quantiles
 * within 6 % for any time, in a few kilobytes, without storing samples.
 */
#ifndef LAB_LATENESS_H
#define LAB_LATENESS_H

#include <stdint.h>

#define LATENESS_BUCKETS (61 * 16)

struct lateness {
	/* packets counted */
	uint64_t count;
	/* longest time */
	uint64_t max_ns;
	/* packets in each step */
	uint64_t buckets[LATENESS_BUCKETS];
};

/* Counts packets that were this late. */
void lateness_add(struct lateness *lateness, uint64_t late_ns, uint64_t packets);

/* Returns the time that a share q of the packets did not exceed; 0 if there were none. */
uint64_t lateness_quantile_ns(const struct lateness *lateness, double q);

/* Adds the packets of another histogram. */
void lateness_merge(struct lateness *lateness, const struct lateness *other);

#endif
