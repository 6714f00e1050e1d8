/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * erasure.h: exact messages whose losses are computed and not repeated.
 *
 * The data goes where it belongs; behind it, as a message of its own on the same queue pair, go parity packets, into memory
 * that this scheme owns. Any k of a group's k + m packets give the others, so that a loss costs no round trip. A group that
 * lost more asks for further parity, then for data. Or, where the sender says so, parity packet i is the exclusive or of the
 * group's data packets i, i + m, i + 2 m and so on: that is cheaper to compute, and mends one loss in each such row. A row that
 * lost more asks for its data.
 *
 * A transfer is two messages: both ends must use this scheme for it, it counts twice among the context's sends or
 * receives, and where the second of them cannot be posted it ends with that error (-ENOBUFS). The ends then no longer
 * count alike: close the queue pair.
 */
#ifndef GODWIT_ERASURE_H
#define GODWIT_ERASURE_H

#include <godwit/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is to be short. */
enum gw_goal {
	GW_GOAL_MEAN, /* the time a message takes on average */
	GW_GOAL_P99,  /* that of the 99th in a hundred */
	GW_GOAL_P999,
};

/* How parity is made. The choice is the sender's: any receiver of this scheme takes either. */
enum gw_code {
	GW_CODE_REED_SOLOMON,
	GW_CODE_XOR, /* m <= k, and no rows beyond m. Not under gw_auto, and nothing is chosen: k is 32 and m is k / 4 where open. */
};

/* The options of a transfer are a struct gw_erasure, and they are needed. */
extern GW_API const struct gw_scheme gw_erasure;

/* A coder, and memory for the parity of one transfer at a time. Nothing is allocated later. */
struct gw_erasure;

struct gw_erasure_attr {
	uint64_t max_length; /* of a message; needed */
	uint32_t payload;    /* the most bytes a packet will have; default 4096 */
	/* Those below are the sender's choice, message by message, where they are 0: by size and by what was measured of
	 * round trip, rate, loss and bursts, so that the goal is met best. */
	uint32_t k;	/* data packets in a group; where both ends give it, they give the same */
	uint32_t m;	/* parity packets sent with a group */
	uint32_t rows;	/* parity packets a group can have in all, k + rows <= 256 */
	uint32_t depth; /* groups that take turns, so that a burst spreads over them; at least 16 */
	uint32_t goal;	/* enum gw_goal */
	/* How fast this processor codes: bytes of data times rows of parity; default 50e9, which is what one core does. */
	uint64_t coding_bytes_a_second;
	uint32_t code; /* enum gw_code */
	uint32_t reserved_word;
	uint64_t reserved[2];
};

/* -EINVAL, -ENOMEM, and the errors of gw_mr_register(). The memory is about max_length * rows / k bytes, half of max_length
 * where those are 0. */
GW_API int gw_erasure_open(struct gw_context *ctx, const struct gw_erasure_attr *attr,
			   struct gw_erasure **out);

/* -EBUSY while a transfer uses it. */
GW_API int gw_erasure_close(struct gw_erasure *erasure);

/* The same once its context is closed, whatever transfer that ended. */
GW_API void gw_erasure_abandon(struct gw_erasure *erasure);

#ifdef __cplusplus
}
#endif
#endif
