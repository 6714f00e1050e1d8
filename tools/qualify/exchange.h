/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done in one case: both ends send each other messages of odd sizes at the same time, under Selective Repeat, and
 * look at every byte that arrives and at the memory around it.
 */
#ifndef TOOLS_QUALIFY_EXCHANGE_H
#define TOOLS_QUALIFY_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/scheme.h>

#define QUALIFY_MESSAGES 20
#define QUALIFY_WHY	 64

/* What one end found. */
struct qualify_result {
	/* 0, or why the exchange did not end */
	int32_t status;
	/* bytes in a packet, as agreed */
	uint32_t payload;
	/* messages with every byte right */
	uint32_t received;
	/* messages with a wrong byte, or with one outside their memory */
	uint32_t wrong;
	uint64_t bytes;
	/* packets sent */
	uint64_t sent;
	uint64_t repeated;
	/* packets thrown away, for any reason */
	uint64_t dropped;
	/* packets sent that arrived with a congestion mark */
	uint32_t marked;
	uint32_t cnps;
	/* "" when there is nothing to add */
	char why[QUALIFY_WHY];
};

struct qualify_message {
	struct qualify_run *run;
	uint32_t number;
	uint32_t length;
	uint8_t *memory;
	struct gw_send *send;
	struct gw_recv *recv;
};

struct qualify_run {
	struct gw_context *ctx;
	struct gw_qp *qp;
	struct gw_mr *mr;
	uint8_t *memory;
	bool caller;
	/* bytes of which message sizes are odd multiples; the same at both ends */
	uint32_t unit;
	/* messages of both directions that ended */
	uint32_t ended;
	/* first status that was not 0 */
	int failed;
	struct qualify_message out[QUALIFY_MESSAGES], in[QUALIFY_MESSAGES];
	struct qualify_result result;
	/* what the fabric logged when it was opened; "" if nothing */
	char found[512];
};

/* Opens the fabric with one queue pair on it, which seals its packets with these keys unless they are null. A failure is
 * told in run->result, too. */
int qualify_run_open(struct qualify_run *run, const char *fabric, uint32_t payload, bool caller,
		     uint64_t timeout_ns, const struct gw_faults *faults,
		     const struct gw_seal *seal);

/* Exchanges everything, within the time. What came of it is in run->result. -EINTR when a signal came. */
int qualify_run_exchange(struct qualify_run *run, const struct gw_qp_info *peer,
			 uint64_t timeout_ns);

void qualify_run_close(struct qualify_run *run);

#endif
