/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bucket.h: a token bucket, which limits a sender to a rate.
 *
 * Unused tokens are kept up to the bucket's depth. So a sender that asks only now and then still reaches its rate,
 * and one that was idle cannot send more than one depth at once. A sender that asks before the bucket is full gets
 * its rate exactly: tokens are counted in whole bit-nanoseconds, and nothing is rounded.
 *
 * The bucket reads no clock: the caller passes the time. It may pass times up to BUCKET_AHEAD_NS in the future, for bytes that
 * are handed over now and leave then, and the present in between: nothing is earned twice.
 */
#ifndef GODWIT_BASE_BUCKET_H
#define GODWIT_BASE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

/* As a rate: no limit. */
#define BUCKET_UNPACED UINT64_MAX

/* A time that is earlier than the last by at most this follows one in the future; by more, the clock went back. */
#define BUCKET_AHEAD_NS UINT64_C(10000000)

struct bucket {
	/* tokens earned, in bits per second */
	uint64_t rate_bps;
	/* tokens in the bucket, in bits x 10^-9 (1 bit/s earns one token in 1 ns); negative: a debt; above the depth: those that a
	 * late sender missed */
	int64_t tokens;
	/* most tokens that the bucket holds for a sender that was not late */
	int64_t depth;
	/* time up to which tokens were added, the latest that was passed */
	uint64_t at_ns;
	/* tokens that a late sender missed beyond what it got at once, and may still catch up on */
	int64_t arrears;
	/* most lateness that is caught up on later; 0: none is made up for */
	uint64_t late_ns;
	/* bucket_next_ns() told a sender when to come, and it has taken nothing since */
	bool awaited;
};

/* Starts with a full bucket, unpaced until a rate is set. */
void bucket_init(struct bucket *bucket, uint64_t depth_bytes, uint64_t now_ns);

/* Sets rate and depth from now on. Tokens earned at the old rate stay, up to the new depth. Rate 0 stops the sender,
 * BUCKET_UNPACED removes the limit. The depth is at most 512 MiB. */
void bucket_set(struct bucket *bucket, uint64_t rate_bps, uint64_t depth_bytes, uint64_t now_ns);

/* A sender that waits until bucket_next_ns() and comes later than that loses the tokens that overflow meanwhile. This
 * gives it those of the first millisecond (1 MiB at most) beyond the bucket's depth, and lets it catch up on `late_ns` more,
 * at a quarter above the rate. 0: it loses all. */
void bucket_make_up(struct bucket *bucket, uint64_t late_ns);

/* Returns how many bytes may leave now; UINT64_MAX if unpaced. */
uint64_t bucket_allow(struct bucket *bucket, uint64_t now_ns);

/* As bucket_allow(), for bytes that are not to wait behind those that leave later: what is allowed at the latest time passed,
 * and a quarter of what is earned until then. Bytes that come after pay for it. */
uint64_t bucket_allow_first(struct bucket *bucket, uint64_t now_ns);

/* Takes the tokens of bytes that left. More than was allowed becomes a debt, so that what must leave at once (a probe,
 * a retransmission) is paid for later; but no more than the rate pays in 100 ms. */
void bucket_take(struct bucket *bucket, uint64_t bytes, uint64_t now_ns);

/* Returns when that many bytes will be allowed, or when the bucket will be full if it cannot hold them; UINT64_MAX if
 * never. */
uint64_t bucket_next_ns(struct bucket *bucket, uint64_t bytes, uint64_t now_ns);

uint64_t bucket_depth_bytes(const struct bucket *bucket);

/* Bytes that are sent at this rate in this time. */
uint64_t bucket_bytes_in(uint64_t rate_bps, uint64_t time_ns);

#endif
