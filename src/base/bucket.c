/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bucket.c: one token is what a rate of 1 bit/s earns in 1 ns. Tokens earned are then a product of two integers, a byte
 * costs 8 x 10^9 tokens, and no rounding error builds up. The product fits 63 bits, because time beyond what fills the
 * bucket is cut off before the multiplication.
 */
#include "base/bucket.h"

#define TOKENS_A_BYTE INT64_C(8000000000)
/* Largest depth, debt or single request in bytes; more would overflow the counter. */
#define BYTES_LIMIT (UINT64_C(1) << 29)
/* Time in which the largest debt is paid off. */
#define DEBT_NS UINT64_C(100000000)
/* What a late sender missed is there at once, up to this time and these bytes: a host that was busy for a moment. It catches
 * up on the rest at rate / CATCH_UP above its rate, and what goes first takes no more. */
#define AT_ONCE_NS    UINT64_C(1000000)
#define AT_ONCE_BYTES (UINT64_C(1) << 20)
#define CATCH_UP      4
/* From this rate on the sender is not paced. */
#define RATE_LIMIT_BPS UINT64_C(10000000000000)

uint64_t bucket_bytes_in(uint64_t rate_bps, uint64_t time_ns)
{
	uint64_t tokens;

	/* As a rule it fits, and a division of 128 bits is a slow call. */
	if (!__builtin_mul_overflow(rate_bps, time_ns, &tokens))
		return tokens / (uint64_t)TOKENS_A_BYTE;
	return (uint64_t)((unsigned __int128)rate_bps * time_ns / TOKENS_A_BYTE);
}

uint64_t bucket_depth_bytes(const struct bucket *bucket)
{
	return (uint64_t)(bucket->depth / TOKENS_A_BYTE);
}

static int64_t tokens_for(uint64_t bytes)
{
	return (int64_t)(bytes < BYTES_LIMIT ? bytes : BYTES_LIMIT) * TOKENS_A_BYTE;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t tokens_in(const struct bucket *bucket, uint64_t time_ns)
{
	return tokens_for(bucket_bytes_in(bucket->rate_bps, time_ns));
}

/* Fills the bucket beyond its depth, or the arrears: it overflowed for so long while a sender was late. */
static void make_up(struct bucket *bucket, uint64_t over_ns)
{
	int64_t missed, at_once;

	if (over_ns > AT_ONCE_NS + bucket->late_ns)
		over_ns = AT_ONCE_NS + bucket->late_ns;
	missed = tokens_in(bucket, over_ns);
	at_once = least(least(missed, tokens_in(bucket, AT_ONCE_NS)), tokens_for(AT_ONCE_BYTES));
	bucket->tokens += at_once;
	bucket->arrears =
		least(bucket->arrears + missed - at_once, tokens_in(bucket, bucket->late_ns));
	/* Count a wait once: a sender that comes and takes nothing is not late, but idle or limited elsewhere. */
	bucket->awaited = false;
}

/* Tokens beyond the depth, of a sender that was late. */
static int64_t beyond(const struct bucket *bucket)
{
	return bucket->tokens > bucket->depth ? bucket->tokens - bucket->depth : 0;
}

/* Adds the tokens earned up to now. */
static void settle(struct bucket *bucket, uint64_t now_ns)
{
	uint64_t passed = now_ns > bucket->at_ns ? now_ns - bucket->at_ns : 0;
	uint64_t missing;
	int64_t extra;

	/* Tokens up to a time in the future were added already. */
	if (!passed && bucket->at_ns - now_ns <= BUCKET_AHEAD_NS)
		return;
	/* If the clock went back, nothing is earned, and time counts from the new value. */
	bucket->at_ns = now_ns;
	if (!bucket->rate_bps || bucket->rate_bps == BUCKET_UNPACED)
		return;
	missing = (uint64_t)(bucket->depth + beyond(bucket) - bucket->tokens);
	if (passed > missing / bucket->rate_bps) {
		bucket->tokens = bucket->depth;
		if (bucket->awaited && bucket->late_ns)
			make_up(bucket, passed - missing / bucket->rate_bps);
		return;
	}
	bucket->tokens += (int64_t)(passed * bucket->rate_bps);
	extra = least(least((int64_t)(passed * bucket->rate_bps / CATCH_UP), bucket->arrears),
		      bucket->depth - bucket->tokens);
	bucket->tokens += extra;
	bucket->arrears -= extra;
}

/* Tokens that are there now: those of the latest time, without what is earned until then. */
static int64_t tokens_now(struct bucket *bucket, uint64_t now_ns)
{
	uint64_t ahead_ns;

	settle(bucket, now_ns);
	ahead_ns = bucket->at_ns - now_ns;
	if (ahead_ns && bucket->rate_bps > (uint64_t)tokens_for(BYTES_LIMIT) / ahead_ns)
		return bucket->tokens - tokens_for(BYTES_LIMIT);
	return bucket->tokens - (int64_t)(ahead_ns * bucket->rate_bps);
}

static uint64_t whole_bytes(int64_t tokens)
{
	return tokens > 0 ? (uint64_t)(tokens / TOKENS_A_BYTE) : 0;
}

/* Forgives what the rate does not pay off in DEBT_NS. A debt that was made at a high rate would otherwise stop a sender for
 * minutes when the rate falls, and so would one that grows faster than the rate pays. */
static void forgive(struct bucket *bucket)
{
	int64_t worst = -tokens_for(bucket_bytes_in(bucket->rate_bps, DEBT_NS) + 1);

	if (bucket->tokens < worst)
		bucket->tokens = worst;
}

void bucket_init(struct bucket *bucket, uint64_t depth_bytes, uint64_t now_ns)
{
	*bucket = (struct bucket){ .rate_bps = BUCKET_UNPACED, .at_ns = now_ns };
	bucket->depth = bucket->tokens = tokens_for(depth_bytes);
}

void bucket_set(struct bucket *bucket, uint64_t rate_bps, uint64_t depth_bytes, uint64_t now_ns)
{
	int64_t late;

	settle(bucket, now_ns);
	if (rate_bps > RATE_LIMIT_BPS)
		rate_bps = BUCKET_UNPACED;
	bucket->rate_bps = rate_bps;
	if (rate_bps == BUCKET_UNPACED)
		return;
	late = beyond(bucket);
	bucket->depth = tokens_for(depth_bytes);
	bucket->tokens = least(bucket->tokens - late, bucket->depth) + late;
	forgive(bucket);
}

uint64_t bucket_allow(struct bucket *bucket, uint64_t now_ns)
{
	if (bucket->rate_bps == BUCKET_UNPACED)
		return UINT64_MAX;
	return whole_bytes(tokens_now(bucket, now_ns));
}

uint64_t bucket_allow_first(struct bucket *bucket, uint64_t now_ns)
{
	int64_t earned;

	if (bucket->rate_bps == BUCKET_UNPACED)
		return UINT64_MAX;
	settle(bucket, now_ns);
	earned = bucket->tokens - tokens_now(bucket, now_ns);
	return whole_bytes(bucket->tokens + earned / CATCH_UP);
}

void bucket_take(struct bucket *bucket, uint64_t bytes, uint64_t now_ns)
{
	if (bucket->rate_bps == BUCKET_UNPACED)
		return;
	settle(bucket, now_ns);
	bucket->awaited = false;
	bucket->tokens -= tokens_for(bytes);
	forgive(bucket);
}

uint64_t bucket_next_ns(struct bucket *bucket, uint64_t bytes, uint64_t now_ns)
{
	int64_t wanted, tokens;

	if (bucket->rate_bps == BUCKET_UNPACED)
		return now_ns;
	tokens = tokens_now(bucket, now_ns);
	wanted = bytes > bucket_depth_bytes(bucket) ? bucket->depth : tokens_for(bytes);
	if (tokens >= wanted)
		return now_ns;
	if (!bucket->rate_bps)
		return UINT64_MAX;
	bucket->awaited = true;
	/* Rounded up, so that the tokens are there at that time. */
	return now_ns +
	       ((uint64_t)wanted - (uint64_t)tokens + bucket->rate_bps - 1) / bucket->rate_bps;
}

void bucket_make_up(struct bucket *bucket, uint64_t late_ns)
{
	bucket->late_ns = late_ns;
}
