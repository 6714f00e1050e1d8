/* SPDX-License-Identifier: BSD-3-Clause */
/* pacer.c: the depth of the token bucket at each rate; base/bucket.c counts the tokens. */
#include "congestion/pacer.h"

#define DEFAULT_PACKET	 1500u
#define DEFAULT_BATCH	 (64u << 10)
#define DEFAULT_BURST	 (1u << 20)
#define DEFAULT_BURST_NS UINT64_C(1000000)
#define TIME_LIMIT_NS	 UINT64_C(100000000)
/* The bucket holds up to a batch of what the rate sends in two bursts, and in a time between these: hosts cannot time shorter ones. */
#define TIMED_MIN_NS UINT64_C(100000)
#define TIMED_MAX_NS UINT64_C(500000)

static uint64_t depth_at(const struct pacer *pacer, uint64_t rate_bps)
{
	uint64_t bytes = bucket_bytes_in(rate_bps, pacer->burst_ns);
	uint64_t timed_ns = 2 * pacer->burst_ns, timed;

	if (timed_ns < TIMED_MIN_NS)
		timed_ns = TIMED_MIN_NS;
	if (timed_ns > TIMED_MAX_NS)
		timed_ns = TIMED_MAX_NS;
	timed = bucket_bytes_in(rate_bps, timed_ns);
	if (timed > pacer->batch_bytes)
		timed = pacer->batch_bytes;
	if (bytes < timed)
		bytes = timed;
	if (bytes > pacer->burst_bytes)
		bytes = pacer->burst_bytes;
	if (bytes < pacer->packet_bytes)
		bytes = pacer->packet_bytes;
	return bytes;
}

void pacer_init(struct pacer *pacer, const struct pacer_attr *attr, uint64_t now_ns)
{
	*pacer = (struct pacer){
		.packet_bytes = attr->packet_bytes ? attr->packet_bytes : DEFAULT_PACKET,
		.batch_bytes = attr->batch_bytes ? attr->batch_bytes : DEFAULT_BATCH,
		.burst_bytes = attr->burst_bytes ? attr->burst_bytes : DEFAULT_BURST,
	};
	bucket_init(&pacer->bucket, pacer->packet_bytes, now_ns);
	pacer_set_times(pacer, attr->burst_ns ? attr->burst_ns : DEFAULT_BURST_NS, attr->late_ns,
			now_ns);
}

void pacer_set_times(struct pacer *pacer, uint64_t burst_ns, uint64_t late_ns, uint64_t now_ns)
{
	uint64_t rate_bps = pacer->bucket.rate_bps;

	pacer->burst_ns = burst_ns < TIME_LIMIT_NS ? burst_ns : TIME_LIMIT_NS;
	bucket_set(&pacer->bucket, rate_bps, depth_at(pacer, rate_bps), now_ns);
	bucket_make_up(&pacer->bucket, late_ns < TIME_LIMIT_NS ? late_ns : TIME_LIMIT_NS);
}

void pacer_set_rate(struct pacer *pacer, uint64_t rate_bps, uint64_t now_ns)
{
	if (rate_bps == pacer->bucket.rate_bps)
		return;
	bucket_set(&pacer->bucket, rate_bps, depth_at(pacer, rate_bps), now_ns);
}
