/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lateness.h: how late packets left, as a histogram of 16 steps for each power of two: quantiles within 6 %, over all
 * times a clock can show, in a few kilobytes and without keeping samples.
 */
#ifndef LAB_LATENESS_H
#define LAB_LATENESS_H

#include <stdint.h>

#define LATENESS_BUCKETS (61 * 16)

struct lateness {
	uint64_t count;
	uint64_t max_ns;
	uint64_t buckets[LATENESS_BUCKETS];
};

void lateness_add(struct lateness *lateness, uint64_t late_ns, uint64_t packets);

/* The time that the share q of all did not exceed; 0 if there were none. */
uint64_t lateness_quantile_ns(const struct lateness *lateness, double q);

/* Adds what another counted. */
void lateness_merge(struct lateness *lateness, const struct lateness *other);

#endif
