/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The token bucket. One token is what a rate of one bit per second earns in one nanosecond, so that earning is a plain
 * product of integers and a byte costs 8 x 10^9. A day at 100 Gbit/s is then off by nothing at all. The bucket's depth
 * keeps the product within 63 bits: time beyond what fills the bucket is worth nothing, and is cut off before the
 * multiplication.
 */
#include "congestion/pacer.h"

#define TOKENS_A_BYTE	 INT64_C(8000000000)
#define DEFAULT_PACKET	 1500u
#define DEFAULT_GROUP	 (64u << 10)
#define DEFAULT_BURST	 (1u << 20)
#define DEFAULT_BURST_NS UINT64_C(1000000)
#define TIME_LIMIT_NS	 UINT64_C(100000000)
#define GROUP_WITHIN_NS	 UINT64_C(1000000)
#define BYTES_LIMIT	 (UINT64_C(1) << 29) /* more in one call, or of debt, does not fit the counter */
#define CATCH_UP	 4		     /* of the rate */
#define RATE_LIMIT_BPS	 UINT64_C(10000000000000)

static uint64_t bytes_in(uint64_t rate_bps, uint64_t time_ns)
{
	return (uint64_t)((unsigned __int128)rate_bps * time_ns / TOKENS_A_BYTE);
}

static int64_t depth_of(const struct pacer *pacer)
{
	uint64_t bytes = bytes_in(pacer->rate_bps, pacer->burst_ns);

	if (bytes < pacer->group_bytes &&
	    bytes_in(pacer->rate_bps, GROUP_WITHIN_NS) >= pacer->group_bytes)
		bytes = pacer->group_bytes;
	if (bytes > pacer->burst_bytes)
		bytes = pacer->burst_bytes;
	if (bytes < pacer->packet_bytes)
		bytes = pacer->packet_bytes;
	return (int64_t)bytes * TOKENS_A_BYTE;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The bucket ran over for so long. */
static void note_arrears(struct pacer *pacer, uint64_t over_ns)
{
	uint64_t most = bytes_in(pacer->rate_bps, pacer->late_ns);

	if (over_ns > pacer->late_ns)
		over_ns = pacer->late_ns;
	if (most > BYTES_LIMIT)
		most = BYTES_LIMIT;
	pacer->arrears =
		least(pacer->arrears + (int64_t)bytes_in(pacer->rate_bps, over_ns) * TOKENS_A_BYTE,
		      (int64_t)most * TOKENS_A_BYTE);
	/* Once for each wait: who comes and takes nothing is not late, but idle or held by something else. */
	pacer->due_ns = 0;
}

static void settle(struct pacer *pacer, uint64_t now_ns)
{
	uint64_t passed = now_ns > pacer->at_ns ? now_ns - pacer->at_ns : 0;
	uint64_t missing = (uint64_t)(pacer->depth - pacer->tokens);
	int64_t extra;

	/* A clock that went back earns nothing, and is believed from here on. */
	pacer->at_ns = now_ns;
	if (!pacer->rate_bps || pacer->rate_bps == PACER_UNPACED)
		return;
	if (passed > missing / pacer->rate_bps) {
		pacer->tokens = pacer->depth;
		if (pacer->due_ns && pacer->late_ns)
			note_arrears(pacer, passed - missing / pacer->rate_bps);
		return;
	}
	pacer->tokens += (int64_t)(passed * pacer->rate_bps);
	extra = least(least((int64_t)(passed * pacer->rate_bps / CATCH_UP), pacer->arrears),
		      pacer->depth - pacer->tokens);
	pacer->tokens += extra;
	pacer->arrears -= extra;
}

void pacer_init(struct pacer *pacer, const struct pacer_attr *attr, uint64_t now_ns)
{
	*pacer = (struct pacer){
		.rate_bps = PACER_UNPACED,
		.at_ns = now_ns,
		.packet_bytes = attr->packet_bytes ? attr->packet_bytes : DEFAULT_PACKET,
		.group_bytes = attr->group_bytes ? attr->group_bytes : DEFAULT_GROUP,
		.burst_bytes = attr->burst_bytes ? attr->burst_bytes : DEFAULT_BURST,
	};
	if (pacer->packet_bytes > BYTES_LIMIT)
		pacer->packet_bytes = BYTES_LIMIT;
	if (pacer->burst_bytes > BYTES_LIMIT)
		pacer->burst_bytes = BYTES_LIMIT;
	pacer->depth = (int64_t)pacer->packet_bytes * TOKENS_A_BYTE;
	pacer->tokens = pacer->depth;
	pacer_set_times(pacer, attr->burst_ns ? attr->burst_ns : DEFAULT_BURST_NS, attr->late_ns,
			now_ns);
}

static void set_depth(struct pacer *pacer)
{
	if (pacer->rate_bps == PACER_UNPACED)
		return;
	pacer->depth = depth_of(pacer);
	pacer->tokens = least(pacer->tokens, pacer->depth);
}

void pacer_set_times(struct pacer *pacer, uint64_t burst_ns, uint64_t late_ns, uint64_t now_ns)
{
	settle(pacer, now_ns);
	pacer->burst_ns = burst_ns < TIME_LIMIT_NS ? burst_ns : TIME_LIMIT_NS;
	pacer->late_ns = late_ns < TIME_LIMIT_NS ? late_ns : TIME_LIMIT_NS;
	set_depth(pacer);
}

void pacer_set_rate(struct pacer *pacer, uint64_t rate_bps, uint64_t now_ns)
{
	settle(pacer, now_ns);
	if (rate_bps > RATE_LIMIT_BPS)
		rate_bps = PACER_UNPACED;
	if (rate_bps == pacer->rate_bps)
		return;
	pacer->rate_bps = rate_bps;
	set_depth(pacer);
}

uint64_t pacer_allow(struct pacer *pacer, uint64_t now_ns)
{
	if (pacer->rate_bps == PACER_UNPACED)
		return UINT64_MAX;
	settle(pacer, now_ns);
	return pacer->tokens > 0 ? (uint64_t)(pacer->tokens / TOKENS_A_BYTE) : 0;
}

void pacer_take(struct pacer *pacer, uint64_t bytes, uint64_t now_ns)
{
	int64_t worst = -(int64_t)BYTES_LIMIT * TOKENS_A_BYTE;

	if (pacer->rate_bps == PACER_UNPACED)
		return;
	settle(pacer, now_ns);
	if (bytes > BYTES_LIMIT)
		bytes = BYTES_LIMIT;
	pacer->due_ns = 0;
	pacer->tokens -= (int64_t)bytes * TOKENS_A_BYTE;
	if (pacer->tokens < worst)
		pacer->tokens = worst;
}

uint64_t pacer_next_ns(struct pacer *pacer, uint64_t bytes, uint64_t now_ns)
{
	int64_t wanted;

	if (pacer->rate_bps == PACER_UNPACED)
		return now_ns;
	settle(pacer, now_ns);
	wanted = bytes > (uint64_t)(pacer->depth / TOKENS_A_BYTE) ? pacer->depth
								  : (int64_t)bytes * TOKENS_A_BYTE;
	if (pacer->tokens >= wanted)
		return now_ns;
	if (!pacer->rate_bps)
		return UINT64_MAX;
	/* Rounded up: whoever comes at that time finds them there. */
	pacer->due_ns = now_ns + ((uint64_t)(wanted - pacer->tokens) + pacer->rate_bps - 1) /
					 pacer->rate_bps;
	return pacer->due_ns;
}
