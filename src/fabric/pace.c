/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole packets out of a token bucket; see pace.h. */
#include "fabric/pace.h"

#define BURST_NS   UINT64_C(250000)
#define BURST_MIN  (64u << 10)
#define BURST_MAX  (1u << 20)
#define WORTHWHILE (32u << 10) /* to come back for: batches are what makes sending cheap */

void pace_init(struct pace *pace, uint64_t rate_bps, uint32_t extra, uint64_t now_ns)
{
	uint64_t depth = rate_bps ? bucket_bytes_in(rate_bps, BURST_NS) : 0;

	if (depth < BURST_MIN)
		depth = BURST_MIN;
	if (depth > BURST_MAX)
		depth = BURST_MAX;
	pace->again_ns = UINT64_MAX;
	pace->extra = extra;
	bucket_init(&pace->bucket, depth, now_ns);
	bucket_set(&pace->bucket, rate_bps ? rate_bps : BUCKET_UNPACED, depth, now_ns);
}

unsigned pace_allow(struct pace *pace, const struct fabric_write *writes, unsigned count,
		    uint64_t now_ns)
{
	uint64_t left = bucket_allow(&pace->bucket, now_ns);
	unsigned n = 0;

	while (n < count && left >= writes[n].length + pace->extra)
		left -= writes[n++].length + pace->extra;
	if (!n && count)
		pace->again_ns = bucket_next_ns(&pace->bucket, WORTHWHILE, now_ns);
	return n;
}

void pace_left(struct pace *pace, const struct fabric_write *writes, unsigned count,
	       uint64_t now_ns)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += writes[i].length + pace->extra;
	bucket_take(&pace->bucket, bytes, now_ns);
}
