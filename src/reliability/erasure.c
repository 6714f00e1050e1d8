/* SPDX-License-Identifier: BSD-3-Clause */
/* The erasure scheme's memory, its parameters, and its table. What the two ends do is in erasure_send.c and _recv.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "erasure_state.h"

#define PAYLOAD_DEFAULT	  9216u /* what the largest frames in use carry */
#define PAYLOAD_LEAST	  64u
#define PAYLOAD_MOST	  65536u /* as a queue pair's */
#define K_DEFAULT	  32u
#define K_MOST		  128u
#define ROWS_DEFAULT	  32u /* as many as data packets: enough for a loss of 40 % */
#define DEPTH_LIMIT	  1024u
#define TRANSFERS_LIMIT	  65536u
#define SCRATCH_ALIGNMENT 64u
#define XOR_SHARE	  4u /* data packets for each of parity, where m is open */

static int check(const struct gw_erasure_attr *attr)
{
	uint32_t k = attr->k ? attr->k : 1;

	if (attr->reserved[0] || attr->reserved[1] || attr->transfers > TRANSFERS_LIMIT ||
	    attr->code > GW_CODE_XOR ||
	    (attr->code == GW_CODE_XOR &&
	     (attr->m > (attr->k ? attr->k : K_DEFAULT) || (attr->rows && attr->rows != attr->m))))
		return -EINVAL;
	if (!attr->max_length || attr->goal > GW_GOAL_P999 || k >= RS_SYMBOLS_MAX ||
	    attr->m > RS_SYMBOLS_MAX - k || attr->rows > RS_SYMBOLS_MAX - k ||
	    attr->m > ERASURE_ROWS_LIMIT || attr->rows > ERASURE_ROWS_LIMIT ||
	    (attr->rows && attr->m > attr->rows) || attr->depth > DEPTH_LIMIT ||
	    attr->payload > PAYLOAD_MOST || (attr->payload && attr->payload < PAYLOAD_LEAST))
		return -EINVAL;
	return 0;
}

/* What memory and coder are made for. Where k is open that is as many data packets as one group may ever have. */
static void size_up(struct gw_erasure *e)
{
	struct gw_erasure_attr *attr = &e->attr;
	uint64_t packets;

	if (!attr->payload)
		attr->payload = PAYLOAD_DEFAULT;
	packets = attr->max_length / attr->payload + 1;
	if (!attr->k && (attr->m || attr->code == GW_CODE_XOR))
		attr->k = K_DEFAULT;
	if (attr->code == GW_CODE_XOR) {
		attr->m = attr->m ? attr->m : (attr->k + XOR_SHARE - 1) / XOR_SHARE;
		attr->rows = attr->m;
	}
	for (e->k_max = attr->k ? attr->k : PLAN_K_LEAST;
	     !attr->k && e->k_max < K_MOST && e->k_max < packets;)
		e->k_max *= 2;
	e->m_max = attr->m ? attr->m : e->k_max;
	if (e->m_max > RS_SYMBOLS_MAX - e->k_max)
		e->m_max = RS_SYMBOLS_MAX - e->k_max;
}

/* Rows that there is memory for, where groups have the default size or the one given. */
static uint32_t rows_for(const struct gw_erasure_attr *attr)
{
	uint32_t rows = attr->rows;
	uint32_t most = RS_SYMBOLS_MAX - (attr->k ? attr->k : K_DEFAULT);

	if (!rows)
		rows = 2 * attr->m > ROWS_DEFAULT ? 2 * attr->m : ROWS_DEFAULT;
	return rows < most ? rows : most;
}

static void destroy(struct gw_erasure *e)
{
	if (e->shared) {
		rs_destroy(e->shared->rs);
		if (e->shared->scratch)
			munmap(e->shared->scratch, e->shared->scratch_bytes);
		free(e->shared->next_row);
		free(e->shared);
	}
	free(e);
}

/* Gets what the members share, and gives each its part of the memory. */
static int get_memory(struct gw_context *ctx, struct gw_erasure *e)
{
	struct erasure_shared *shared = calloc(1, sizeof(*shared));
	uint32_t members = e->attr.transfers;
	uint64_t bytes =
		(e->scratch_bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
	int error;

	e->shared = shared;
	if (!shared || bytes > SIZE_MAX / members)
		return -ENOMEM;
	shared->open = 1;
	shared->next_row = malloc((size_t)e->groups_max * members);
	shared->scratch_bytes = bytes * members;
	shared->scratch = mmap(NULL, shared->scratch_bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shared->scratch == MAP_FAILED)
		shared->scratch = NULL;
	if (!shared->next_row || !shared->scratch)
		return -ENOMEM;
	error = rs_create(e->k_max, e->m_max, &shared->rs);
	if (!error)
		error = gw_mr_register(ctx, shared->scratch, shared->scratch_bytes, &shared->mr);
	for (uint32_t i = 0; !error && i < members; i++) {
		e[i] = e[0];
		e[i].scratch = shared->scratch + bytes * i;
		e[i].parity_most = e->scratch_bytes;
		e[i].next_row = shared->next_row + (size_t)e->groups_max * i;
	}
	return error;
}

int gw_erasure_open(struct gw_context *ctx, const struct gw_erasure_attr *attr,
		    struct gw_erasure **out)
{
	struct gw_erasure *e;
	int error;

	if (!ctx || !attr || !out)
		return -EINVAL;
	error = check(attr);
	if (error)
		return error;
	e = calloc(attr->transfers ? attr->transfers : 1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->attr = *attr;
	e->attr.transfers = attr->transfers ? attr->transfers : 1;
	size_up(e);
	e->groups_max = (uint32_t)(e->attr.max_length / PAYLOAD_LEAST /
				   (e->attr.k ? e->attr.k : PLAN_K_LEAST)) +
			2;
	e->scratch_bytes =
		layout_parity_bytes(e->attr.max_length, e->attr.payload,
				    e->attr.k ? e->attr.k : K_DEFAULT, rows_for(&e->attr));
	error = get_memory(ctx, e);
	if (error) {
		destroy(e);
		return error;
	}
	*out = e;
	return 0;
}

struct gw_erasure *gw_erasure_member(struct gw_erasure *erasure, uint32_t index)
{
	return erasure && index < erasure->attr.transfers ? erasure + index : NULL;
}

/* Takes the memory back from a transfer whose handle was closed before its end. */
static bool busy(struct gw_erasure *e)
{
	if (erasure_sends(e) || erasure_receives(e))
		return true;
	if (e->sending.data && e->sending.parity)
		gw_send_close(e->sending.parity);
	if (e->receiving.data && e->receiving.parity && gw_recv_close(e->receiving.parity))
		return true;
	e->sending = (struct erasure_sending){ .data = NULL };
	e->receiving = (struct erasure_receiving){ .data = NULL };
	return false;
}

int gw_erasure_close(struct gw_erasure *erasure)
{
	int error;

	if (!erasure)
		return -EINVAL;
	for (uint32_t i = 0; i < erasure->attr.transfers; i++)
		if (busy(&erasure[i]))
			return -EBUSY;
	error = gw_mr_deregister(erasure->shared->mr);
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

static uint64_t parity_most(const struct gw_erasure *e, const struct gw_estimate *path)
{
	uint64_t counted = (uint64_t)path->payload_floor * path->packets_most;

	return e->scratch_bytes < counted ? e->scratch_bytes : counted;
}

int erasure_prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, bool repeat,
		    uint32_t geometry[2])
{
	struct gw_erasure *e = (struct gw_erasure *)(uintptr_t)attr->options;
	struct gw_estimate path;
	int error;

	if (!e || (repeat && e->attr.code == GW_CODE_XOR))
		return -EINVAL;
	error = gw_qp_estimate(qp, &path);
	if (error)
		return error;
	if (busy(e))
		return -EBUSY;
	if (attr->length > e->attr.max_length || path.payload_floor < PAYLOAD_LEAST)
		return -EMSGSIZE;
	e->parity_most = parity_most(e, &path);
	erasure_choose(e, qp, attr->length, repeat);
	geometry[0] = geometry[1] = 0;
	if (e->layout.m) {
		geometry[0] = e->layout.k | e->layout.m << ERASURE_GEOMETRY_M |
			      e->layout.code << ERASURE_GEOMETRY_CODE;
		if (e->layout.code != GW_CODE_XOR)
			geometry[0] |= e->layout.rows << ERASURE_GEOMETRY_ROWS;
		geometry[1] = e->layout.depth;
	}
	return 0;
}

static int prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, uint32_t geometry[2])
{
	return erasure_prepare(qp, attr, false, geometry);
}

const struct gw_scheme gw_erasure = {
	.name = "erasure",
	.id = ERASURE_SCHEME_ID,
	.prepare = prepare,
	.send_begin = erasure_send_begin,
	.recv_begin = erasure_recv_begin,
	.send = ERASURE_SEND_HANDLER,
	.recv = ERASURE_RECV_HANDLER(erasure_look),
};
