/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * erasure.h: exact messages whose lost packets are computed from parity, and not retransmitted.
 *
 * The data is sent directly into its place. Parity packets follow as a second message on the same queue pair, into memory of
 * this scheme. Any k of a group's k + m packets give the others (Reed-Solomon), so that a loss costs no round trip. For a
 * group that lost more, the receiver requests further parity, then data. With GW_CODE_XOR parity packet i is the exclusive
 * or of the group's data packets i, i + m, i + 2 m and so on (a row): this is cheaper to compute and repairs one loss in each
 * row. For a row that lost more, the receiver requests data.
 *
 * A transfer is two messages. Both ends must use this scheme for it, and it counts twice among the context's sends or
 * receives. If the second one cannot be posted, the transfer ends with that error (-ENOBUFS), and sends and receives of the
 * two ends no longer match: close the queue pair.
 */
#ifndef GODWIT_ERASURE_H
#define GODWIT_ERASURE_H

#include <godwit/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The statistic of a message's completion time that the choice of a code minimizes. */
enum gw_goal {
	/* mean */
	GW_GOAL_MEAN,
	/* 99th percentile */
	GW_GOAL_P99,
	/* 99.9th percentile */
	GW_GOAL_P999,
};

/* How parity is computed. The sender chooses; a receiver accepts either. */
enum gw_code {
	GW_CODE_REED_SOLOMON,
	/* m <= k, and no further rows. Nothing is chosen by measurement: k defaults to 32 and m to k / 4. Not with gw_auto. */
	GW_CODE_XOR,
};

/* The options of a transfer are a struct gw_erasure, which must be given. */
extern GW_API const struct gw_scheme gw_erasure;

/* A coder, and memory for the parity of one transfer at a time, or of several (`transfers`), each with a member of its own.
 * Nothing is allocated after gw_erasure_open(); memory that no parity was written to costs address space only. */
struct gw_erasure;

/* The sender chooses each of k, m, rows and depth that is 0 for every message, from its size and from the measured
 * round-trip time, rate, loss and bursts, to meet the goal. */
struct gw_erasure_attr {
	/* bytes in the longest message; must be given */
	uint64_t max_length;
	/* most bytes of data in a packet; default 9216, what the largest frames in use carry */
	uint32_t payload;
	/* data packets in a group; if both ends give it, it must be the same */
	uint32_t k;
	/* parity packets sent with each group */
	uint32_t m;
	/* most parity packets that a group can have, including those on request; k + rows <= 256 */
	uint32_t rows;
	/* groups whose packets are sent in turn, so that a burst spreads over them; at least 16 */
	uint32_t depth;
	/* enum gw_goal */
	uint32_t goal;
	/* coding speed of this processor: bytes of data times rows of parity per second; default 50e9, that of one core */
	uint64_t coding_bytes_a_second;
	/* enum gw_code */
	uint32_t code;
	/* members; default 1 */
	uint32_t transfers;
	uint64_t reserved[2];
};

/* Allocates and registers about max_length * rows / k bytes for each member, or max_length if k or rows is 0. Returns 0, -EINVAL,
 * -ENOMEM or an error of gw_mr_register(). */
GW_API int gw_erasure_open(struct gw_context *ctx, const struct gw_erasure_attr *attr,
			   struct gw_erasure **out);

/* Returns a member, each of which serves one transfer at a time as its options; 0 is the one that was opened. They share the
 * coder, the registration and what the sender chose and why. Null: there is none of that number. */
GW_API struct gw_erasure *gw_erasure_member(struct gw_erasure *erasure, uint32_t index);

/* Frees it and its members. Returns 0, or -EBUSY while a transfer uses one. */
GW_API int gw_erasure_close(struct gw_erasure *erasure);

/* Frees it after its context was closed, also if that ended a transfer. */
GW_API void gw_erasure_abandon(struct gw_erasure *erasure);

#ifdef __cplusplus
}
#endif
#endif
