/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * size.h: how many requests queues hold, and how many completions that can make. A completion queue that overflows breaks
 * every queue pair on it, so that each reserves its worst case beforehand. Pure arithmetic.
 */
#ifndef FABRIC_VERBS_SIZE_H
#define FABRIC_VERBS_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Limits of the device. */
struct size_limits {
	uint32_t max_qp_wr;
	uint32_t max_cqe;
	uint32_t max_srq_wr;
};

struct sizes {
	/* Receive requests of a lane, in UC mode and in UD mode. */
	uint32_t uc_receives;
	uint32_t ud_receives;
	/* Send requests of a lane. */
	uint32_t sends;
	/* Requests of a control queue. */
	uint32_t control_receives;
	uint32_t control_sends;
	/* Memory windows being opened or closed at a time. */
	uint32_t binds;
	/* Entries of a completion queue, which several queue pairs share. */
	uint32_t cq;
	/* Receive requests that all queue pairs share; 0: they are not shared. */
	uint32_t shared_data;
	uint32_t shared_control;
};

/* Chooses sizes within the limits; `shared`: receive requests are shared. */
void sizes_choose(const struct size_limits *limits, bool shared, struct sizes *out);

/* Entries that every completion queue keeps for shared requests, whichever queue pair they complete for. */
uint32_t sizes_common(const struct sizes *sizes);

/* Completions that one queue pair with so many lanes, and its control, can have outstanding. In error every request
 * completes, also those that did not ask for it. */
uint32_t sizes_completions(const struct sizes *sizes, unsigned lanes, bool ud);

/* The smallest IB path MTU that holds a payload, bytes; 0: none does. */
uint32_t size_path_mtu(uint32_t payload);

/* Rate of a port by its codes for speed and width, all lanes together; 0: not known. On Ethernet it is the net rate. */
uint64_t size_port_rate_bps(uint8_t speed, uint8_t width);

#endif
