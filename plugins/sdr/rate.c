/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attr.rate_limit: a bucket of bytes that fills at the rate and that packets empty. It holds what the rate brings in a
 * quarter of a millisecond, and a few packets at least, so that a late timer does not cost throughput.
 */
#include "state.h"

#define NS_PER_SECOND	 UINT64_C(1000000000)
#define BURST_PER_SECOND 4000
#define BURST_PACKETS	 16
#define IDLE_SECONDS	 1 /* longer idle times fill no more, and would overflow */

void rate_set(struct rate *rate, uint32_t kbit_per_second, uint32_t packet)
{
	rate->bytes_per_second = (uint64_t)kbit_per_second * 1000 / 8;
	rate->burst_bytes = rate->bytes_per_second / BURST_PER_SECOND;
	if (rate->burst_bytes < (uint64_t)packet * BURST_PACKETS)
		rate->burst_bytes = (uint64_t)packet * BURST_PACKETS;
	rate->level_bytes = rate->burst_bytes;
}

static void fill(struct rate *rate, uint64_t now)
{
	uint64_t passed_ns = now - rate->filled_at;
	uint64_t bytes;

	if (passed_ns > IDLE_SECONDS * NS_PER_SECOND)
		passed_ns = IDLE_SECONDS * NS_PER_SECOND;
	bytes = rate->bytes_per_second * passed_ns / NS_PER_SECOND;
	if (!bytes)
		return; /* the time is kept for the next call, or slow rates would never fill */
	rate->filled_at = now;
	rate->level_bytes += bytes;
	if (rate->level_bytes > rate->burst_bytes)
		rate->level_bytes = rate->burst_bytes;
}

static uint32_t allow(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
		      uint64_t *again_ns)
{
	struct rate *rate = arg;
	uint64_t missing;

	fill(rate, now);
	if (rate->level_bytes >= payload)
		return (uint32_t)(rate->level_bytes / payload);
	missing = payload - rate->level_bytes;
	*again_ns = now + missing * NS_PER_SECOND / rate->bytes_per_second + 1;
	return 0;
}

static void sent(void *arg, uint32_t packets, uint64_t bytes, uint64_t now)
{
	struct rate *rate = arg;

	rate->level_bytes -= bytes < rate->level_bytes ? bytes : rate->level_bytes;
}

const struct gw_gate rate_gate = { .allow = allow, .sent = sent };
