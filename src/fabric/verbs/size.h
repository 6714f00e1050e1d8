/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * size.h: how deep queues are, and how many completions they can come to. A completion queue that overflows takes every
 * queue pair on it down, so each user reserves its worst case beforehand. Pure arithmetic.
 */
#ifndef FABRIC_VERBS_SIZE_H
#define FABRIC_VERBS_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* What the device allows. */
struct size_limits {
	uint32_t max_qp_wr;
	uint32_t max_cqe;
	uint32_t max_srq_wr;
};

struct sizes {
	uint32_t uc_receives; /* a lane */
	uint32_t ud_receives; /* likewise, where software places */
	uint32_t sends;	      /* a lane */
	uint32_t control_receives;
	uint32_t control_sends;
	uint32_t binds; /* memory windows being opened or closed */
	uint32_t cq;	/* entries of a completion queue that several queue pairs share */
	/* Where receive requests are shared; else 0. */
	uint32_t shared_data;
	uint32_t shared_control;
};

void sizes_choose(const struct size_limits *limits, bool shared, struct sizes *out);

/* Entries that every completion queue keeps for shared requests, whichever queue pair they complete for. */
uint32_t sizes_common(const struct sizes *sizes);

/* The most completions one queue pair with so many lanes, and its control, can have outstanding. In error every request
 * completes, also those that were posted without asking for it. */
uint32_t sizes_completions(const struct sizes *sizes, unsigned lanes, bool ud);

/* The smallest IB path MTU that holds a payload; 0 where none does. */
uint32_t size_path_mtu(uint32_t payload);

/* What a port's codes for speed and width come to, of all its lanes together; 0: not known. On Ethernet they stand for
 * the net rate. */
uint64_t size_port_rate_bps(uint8_t speed, uint8_t width);

#endif
