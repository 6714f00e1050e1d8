/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pacer.h: holds a sender to a rate, in bursts that are short in time as well as in bytes.
 *
 * A token bucket. What a rate allows and was not used is kept up to the bucket's depth, so that a sender that comes by
 * now and then still reaches its rate, and one that slept does not make up for it at once. The depth is what the rate
 * sends in burst_ns; at least one packet, or nothing could leave at a low rate; at least one group of packets where the
 * rate sends that many within a millisecond, for batches are what makes sending cheap; at most burst_bytes.
 *
 * A sender that asks at least once every burst_ns (and, at high rates, before burst_bytes have passed) gets its rate
 * exactly: tokens are counted in whole bit-nanoseconds, and nothing is rounded away.
 *
 * A busy host wakes a sender late. What a sender that was waiting (pacer_next_ns) missed so, beyond the bucket, is not
 * lost: up to late_ns of it is made up for, at a quarter more than the rate. One that had nothing to send missed nothing.
 */
#ifndef CONGESTION_PACER_H
#define CONGESTION_PACER_H

#include <stdint.h>

#define PACER_UNPACED UINT64_MAX /* as a rate: send what you like */

/* Zero stands for the default. */
struct pacer_attr {
	uint32_t packet_bytes; /* 1500 */
	uint32_t group_bytes;  /* what one call to the fabric sends at best; 64 KiB */
	uint32_t burst_bytes;  /* 1 MiB */
	uint64_t burst_ns;     /* 1 ms; at most 100 ms */
	uint64_t late_ns;      /* what may be made up for; none; at most 100 ms */
};

struct pacer {
	uint64_t rate_bps;
	int64_t tokens; /* bits x 10^9: what one bit per second earns in a nanosecond is 1. Below zero: a debt */
	int64_t depth;
	int64_t arrears; /* tokens that a late sender missed */
	uint64_t due_ns; /* when a sender that waits was told to come; 0: none waits */
	uint64_t at_ns;	 /* tokens are counted up to here */
	uint32_t packet_bytes;
	uint32_t group_bytes;
	uint32_t burst_bytes;
	uint64_t burst_ns;
	uint64_t late_ns;
};

/* Unpaced until a rate is set. */
void pacer_init(struct pacer *pacer, const struct pacer_attr *attr, uint64_t now_ns);

/* From now on. What was earned at the old rate stays, up to the new depth. 0 stops, PACER_UNPACED lets go. */
void pacer_set_rate(struct pacer *pacer, uint64_t rate_bps, uint64_t now_ns);

/* Other bounds in time than at first. */
void pacer_set_times(struct pacer *pacer, uint64_t burst_ns, uint64_t late_ns, uint64_t now_ns);

/* How many bytes may leave now; UINT64_MAX if unpaced. */
uint64_t pacer_allow(struct pacer *pacer, uint64_t now_ns);

/* They left. More than was allowed is a debt: what must go at once (a probe, a repair) is paid for later. */
void pacer_take(struct pacer *pacer, uint64_t bytes, uint64_t now_ns);

/* When that many bytes will be allowed (more than fit the bucket: when it will be full); UINT64_MAX if never. */
uint64_t pacer_next_ns(struct pacer *pacer, uint64_t bytes, uint64_t now_ns);

#endif
