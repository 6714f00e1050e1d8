/* SPDX-License-Identifier: BSD-3-Clause */
/* The erasure scheme's memory, its parameters, and its table. What the two ends do is in erasure_send.c and _recv.c. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "erasure_state.h"

#define PAYLOAD_DEFAULT 4096u
#define PAYLOAD_LEAST	64u
#define PAYLOAD_MOST	65536u /* as a queue pair's */
#define K_DEFAULT	32u
#define ROWS_DEFAULT	16u
#define ROWS_LIMIT	254u /* a byte counts them, and says one more */
#define DEPTH_DEFAULT	16u
#define DEPTH_LIMIT	1024u

static int fill(struct gw_erasure_attr *attr)
{
	for (size_t i = 0; i < sizeof(attr->reserved) / sizeof(attr->reserved[0]); i++)
		if (attr->reserved[i])
			return -EINVAL;
	if (!attr->payload)
		attr->payload = PAYLOAD_DEFAULT;
	if (!attr->k)
		attr->k = K_DEFAULT;
	if (!attr->rows)
		attr->rows = 2 * attr->m > ROWS_DEFAULT ? 2 * attr->m : ROWS_DEFAULT;
	if (!attr->depth)
		attr->depth = DEPTH_DEFAULT;
	if (!attr->max_length || attr->reserved32 || attr->k >= RS_SYMBOLS_MAX ||
	    attr->rows > RS_SYMBOLS_MAX - attr->k || attr->m > attr->rows ||
	    attr->rows > ROWS_LIMIT || attr->depth > DEPTH_LIMIT || attr->payload > PAYLOAD_MOST ||
	    attr->payload < PAYLOAD_LEAST)
		return -EINVAL;
	return 0;
}

static void destroy(struct gw_erasure *e)
{
	rs_destroy(e->rs);
	free(e->scratch);
	free(e->next_row);
	free(e);
}

int gw_erasure_open(struct gw_context *ctx, const struct gw_erasure_attr *attr,
		    struct gw_erasure **out)
{
	struct gw_erasure *e;
	int error;

	if (!ctx || !attr || !out)
		return -EINVAL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->attr = *attr;
	error = fill(&e->attr);
	if (error) {
		free(e);
		return error;
	}
	e->groups_max = (uint32_t)(e->attr.max_length / PAYLOAD_LEAST / e->attr.k) + 2;
	e->scratch_bytes =
		layout_parity_bytes(e->attr.max_length, e->attr.payload, e->attr.k, e->attr.rows);
	e->next_row = malloc(e->groups_max);
	e->scratch = malloc(e->scratch_bytes);
	error = e->next_row && e->scratch
			? rs_create(e->attr.k, e->attr.m ? e->attr.m : e->attr.rows / 2 + 1, &e->rs)
			: -ENOMEM;
	if (!error)
		error = gw_mr_register(ctx, e->scratch, e->scratch_bytes, &e->mr);
	if (error) {
		destroy(e);
		return error;
	}
	*out = e;
	return 0;
}

int gw_erasure_close(struct gw_erasure *erasure)
{
	int error;

	if (!erasure)
		return -EINVAL;
	if (erasure->sending.data || erasure->receiving.data)
		return -EBUSY;
	error = gw_mr_deregister(erasure->mr);
	if (error)
		return error;
	destroy(erasure);
	return 0;
}

void gw_erasure_abandon(struct gw_erasure *erasure)
{
	if (erasure)
		destroy(erasure);
}

/* The mean number a group loses and three deviations, and one: for a group in some hundreds that is not enough, and that
 * one asks. */
static uint32_t parity_for(const struct gw_qp *qp, const struct gw_erasure_attr *attr)
{
	struct gw_estimate estimate;
	double lost, wanted;
	uint32_t most;

	if (attr->m)
		return attr->m;
	if (gw_qp_estimate(qp, &estimate))
		return 1;
	lost = estimate.loss * attr->k;
	wanted = ceil(lost + 3 * sqrt(lost)) + 1;
	most = attr->rows / 2 + 1;
	return wanted < most ? (uint32_t)wanted : most;
}

static int prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, uint32_t geometry[2])
{
	struct gw_erasure *e = (struct gw_erasure *)(uintptr_t)attr->options;
	uint32_t payload;
	int error;

	if (!e)
		return -EINVAL;
	error = gw_qp_payload(qp, &payload);
	if (error)
		return error;
	if (e->sending.data || e->receiving.data)
		return -EBUSY;
	if (attr->length > e->attr.max_length || payload > e->attr.payload ||
	    payload < PAYLOAD_LEAST)
		return -EMSGSIZE;
	e->layout = (struct erasure_layout){ .k = e->attr.k,
					     .m = parity_for(qp, &e->attr),
					     .rows = e->attr.rows,
					     .depth = e->attr.depth };
	geometry[0] = e->layout.k | e->layout.m << 8 | e->layout.rows << 16;
	geometry[1] = e->layout.depth;
	return 0;
}

const struct gw_scheme gw_erasure = {
	.name = "erasure",
	.id = ERASURE_SCHEME_ID,
	.prepare = prepare,
	.send_begin = erasure_send_begin,
	.recv_begin = erasure_recv_begin,
	.send = {
		.granted = erasure_granted,
		.drained = erasure_drained,
		.nack = erasure_repeat,
		.control = erasure_repair,
		.timer = erasure_send_timer,
		.result = erasure_result,
		.done = erasure_sent,
	},
	.recv = {
		.announced = erasure_look,
		.progress = erasure_look,
		.control = erasure_asked,
		.timer = erasure_recv_timer,
		.released = erasure_received,
	},
};
