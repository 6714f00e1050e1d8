/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole packets out of a token bucket; see rate_limit.h. */
#include "fabric/rate_limit.h"

#define BURST_NS  UINT64_C(250000)
#define BURST_MIN (64u << 10)
#define BURST_MAX (1u << 20)
/* Bytes that have to be there before a refused sender is told to try again: batches make sending cheap. */
#define WORTHWHILE (32u << 10)

void rate_limit_init(struct rate_limit *limit, uint64_t rate_bps, uint32_t extra, uint64_t now_ns)
{
	uint64_t depth = rate_bps ? bucket_bytes_in(rate_bps, BURST_NS) : 0;

	if (depth < BURST_MIN)
		depth = BURST_MIN;
	if (depth > BURST_MAX)
		depth = BURST_MAX;
	limit->again_ns = UINT64_MAX;
	limit->extra = extra;
	bucket_init(&limit->bucket, depth, now_ns);
	bucket_set(&limit->bucket, rate_bps ? rate_bps : BUCKET_UNPACED, depth, now_ns);
}

unsigned rate_limit_allow(struct rate_limit *limit, const struct fabric_write *writes,
			  unsigned count, uint64_t now_ns)
{
	uint64_t left = bucket_allow(&limit->bucket, now_ns);
	unsigned n = 0;

	while (n < count && left >= writes[n].length + limit->extra)
		left -= writes[n++].length + limit->extra;
	if (!n && count)
		limit->again_ns = bucket_next_ns(&limit->bucket, WORTHWHILE, now_ns);
	return n;
}

void rate_limit_sent(struct rate_limit *limit, const struct fabric_write *writes, unsigned count,
		     uint64_t now_ns)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += writes[i].length + limit->extra;
	bucket_take(&limit->bucket, bytes, now_ns);
}
