/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bucket.h: a token bucket, which holds a sender to a rate.
 *
 * What the rate allows and was not used is kept up to the bucket's depth, so that a sender that comes by now and then
 * still reaches its rate, and one that slept does not make up for it at once. A sender that asks before the bucket is
 * full gets its rate exactly: tokens are counted in whole bit-nanoseconds, and nothing is rounded away.
 *
 * It reads no clock: the caller has the time.
 */
#ifndef GODWIT_BASE_BUCKET_H
#define GODWIT_BASE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#define BUCKET_UNPACED UINT64_MAX /* as a rate: send what you like */

struct bucket {
	uint64_t rate_bps;
	int64_t tokens; /* bits x 10^9: what one bit per second earns in a nanosecond is 1. Below zero: a debt */
	int64_t depth;
	uint64_t at_ns;	 /* tokens are counted up to here */
	int64_t arrears; /* tokens that a late sender missed */
	uint64_t late_ns;
	bool awaited; /* a sender was told when to come, and has not taken anything since */
};

/* Full, and unpaced until a rate is set. */
void bucket_init(struct bucket *bucket, uint64_t depth_bytes, uint64_t now_ns);

/* From now on. What was earned at the old rate stays, up to the new depth. 0 stops, BUCKET_UNPACED lets go. The depth is
 * cut to 512 MiB. */
void bucket_set(struct bucket *bucket, uint64_t rate_bps, uint64_t depth_bytes, uint64_t now_ns);

/* A sender that waits (bucket_next_ns) and comes late has missed what ran over meanwhile: up to so long of it is made up
 * for, at a quarter more than the rate. */
void bucket_make_up(struct bucket *bucket, uint64_t late_ns);

/* How many bytes may leave now; UINT64_MAX if unpaced. */
uint64_t bucket_allow(struct bucket *bucket, uint64_t now_ns);

/* They left. More than was allowed is a debt: what must go at once (a probe, a repair) is paid for later. */
void bucket_take(struct bucket *bucket, uint64_t bytes, uint64_t now_ns);

/* When that many bytes will be allowed (more than fit the bucket: when it will be full); UINT64_MAX if never. */
uint64_t bucket_next_ns(struct bucket *bucket, uint64_t bytes, uint64_t now_ns);

uint64_t bucket_depth_bytes(const struct bucket *bucket);

/* What a rate sends in that time. */
uint64_t bucket_bytes_in(uint64_t rate_bps, uint64_t time_ns);

#endif
