/* SPDX-License-Identifier: BSD-3-Clause */
/* lateness.c: bucket 16 e + m holds the values whose top bit is bit e + 3 and whose next four bits are m; values below 16 are
 * their own bucket. */
#include "lateness.h"

#define STEPS 16

static unsigned bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < STEPS)
		return (unsigned)value;
	shift = 59U - (unsigned)__builtin_clzll(value);
	return (shift + 1) * STEPS + (unsigned)(value >> shift) - STEPS;
}

/* The largest value that falls into the bucket. */
static uint64_t bucket_end(unsigned bucket)
{
	unsigned shift;

	if (bucket < STEPS)
		return bucket;
	shift = bucket / STEPS - 1;
	return ((uint64_t)(bucket % STEPS + STEPS) << shift) + ((UINT64_C(1) << shift) - 1);
}

void lateness_add(struct lateness *lateness, uint64_t late_ns, uint64_t packets)
{
	lateness->buckets[bucket_of(late_ns)] += packets;
	lateness->count += packets;
	if (late_ns > lateness->max_ns)
		lateness->max_ns = late_ns;
}

uint64_t lateness_quantile_ns(const struct lateness *lateness, double q)
{
	double wanted = q * (double)lateness->count;
	uint64_t seen = 0;

	if (!lateness->count)
		return 0;
	for (unsigned i = 0; i < LATENESS_BUCKETS; i++) {
		seen += lateness->buckets[i];
		if (seen && (double)seen >= wanted) {
			uint64_t end = bucket_end(i);

			return end < lateness->max_ns ? end : lateness->max_ns;
		}
	}
	return lateness->max_ns;
}

void lateness_merge(struct lateness *lateness, const struct lateness *other)
{
	for (unsigned i = 0; i < LATENESS_BUCKETS; i++)
		lateness->buckets[i] += other->buckets[i];
	lateness->count += other->count;
	if (other->max_ns > lateness->max_ns)
		lateness->max_ns = other->max_ns;
}
