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
	int32_t status;	   /* 0, or why it did not come to its end */
	uint32_t payload;  /* that was agreed on */
	uint32_t received; /* messages, all bytes right */
	uint32_t wrong;	   /* messages with a byte that is not, or with one outside their memory */
	uint64_t bytes;
	uint64_t sent; /* packets */
	uint64_t repeated;
	uint64_t dropped; /* packets thrown away, for whatever reason */
	uint32_t marked;  /* of ours, as the peer saw it */
	uint32_t cnps;
	char why[QUALIFY_WHY]; /* "" when there is nothing to add */
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
	uint32_t unit;	/* that sizes are odd multiples of; the same at both ends */
	uint32_t ended; /* messages, of both directions */
	int failed;	/* the first status that was not 0 */
	struct qualify_message out[QUALIFY_MESSAGES], in[QUALIFY_MESSAGES];
	struct qualify_result result;
	char found[512]; /* what the fabric said when it was opened, "" if nothing */
};

/* Opens the fabric with one queue pair on it. A failure is told in run->result, too. */
int qualify_run_open(struct qualify_run *run, const char *fabric, uint32_t payload, bool caller,
		     uint64_t timeout_ns, const struct gw_faults *faults);

/* Exchanges everything, within the time. What came of it is in run->result. -EINTR when a signal came. */
int qualify_run_exchange(struct qualify_run *run, const struct gw_qp_info *peer,
			 uint64_t timeout_ns);

void qualify_run_close(struct qualify_run *run);

#endif
