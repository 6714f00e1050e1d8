/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mr.c: registered memory, which requests refer to by a key.
 *
 * A key is an index into the context's table, followed by eight bits that change with each registration, so that a key is
 * refused after its memory was deregistered, even if the entry is in use again.
 */
#include <stdlib.h>

#include "state.h"

#define TAG_BITS 8
#define TAG_MASK ((1u << TAG_BITS) - 1)
#define MR_MAX	 (1u << 20)

static uint32_t index_of(uint32_t lkey)
{
	return lkey >> TAG_BITS;
}

struct sdr_mr *mr_find(const struct sdr_context *ctx, uint32_t lkey)
{
	uint32_t index = index_of(lkey);
	struct sdr_mr *mr = index < ctx->mr_room ? ctx->mrs[index] : NULL;

	return mr && mr->gw && mr->lkey == lkey ? mr : NULL;
}

/* Returns an unused entry, or a new one; NULL without memory. Entries are kept, since they hold the changing bits. */
static struct sdr_mr *take_place(struct sdr_context *ctx)
{
	uint32_t index = 0, room = ctx->mr_room ? 2 * ctx->mr_room : 64;
	struct sdr_mr **mrs;

	while (index < ctx->mr_room && ctx->mrs[index] && ctx->mrs[index]->gw)
		index++;
	if (index == ctx->mr_room) {
		mrs = room > MR_MAX ? NULL : realloc(ctx->mrs, room * sizeof(*mrs));
		if (!mrs)
			return NULL;
		for (uint32_t i = ctx->mr_room; i < room; i++)
			mrs[i] = NULL;
		ctx->mrs = mrs;
		ctx->mr_room = room;
	}
	if (!ctx->mrs[index]) {
		ctx->mrs[index] = calloc(1, sizeof(**ctx->mrs));
		if (!ctx->mrs[index])
			return NULL;
		ctx->mrs[index]->ctx = ctx;
		ctx->mrs[index]->lkey = index << TAG_BITS;
	}
	return ctx->mrs[index];
}

struct sdr_mr *sdr_mr_reg(struct sdr_context *ctx, void *addr, size_t length,
			  enum sdr_access_flags flags)
{
	struct sdr_mr *mr;
	int error;

	if (!ctx || flags != SDR_ACCESS_REMOTE_WRITE) {
		complain("sdr_mr_reg: %s", ctx ? "unknown flags" : "no context");
		return NULL;
	}
	service_enter(ctx);
	mr = take_place(ctx);
	if (!mr) {
		complain("sdr_mr_reg: no memory for another registration");
		goto leave;
	}
	error = gw_mr_register(ctx->gw, addr, length, &mr->gw);
	if (error) {
		mr->gw = NULL;
		mr = NULL;
		complain_gw("sdr_mr_reg", error);
		goto leave;
	}
	mr->users = 0;
	mr->lkey = (mr->lkey & ~TAG_MASK) | ((mr->lkey + 1) & TAG_MASK);
leave:
	service_leave(ctx, false);
	return mr;
}

int sdr_mr_dereg(struct sdr_mr *mr)
{
	struct sdr_context *ctx;
	int error;

	if (!mr)
		return complain("sdr_mr_dereg: no memory region");
	ctx = mr->ctx;
	service_enter(ctx);
	if (!mr->gw)
		error = complain("sdr_mr_dereg: the memory was deregistered before");
	else if (mr->users || gw_mr_deregister(mr->gw))
		error = complain("sdr_mr_dereg: a request still uses the memory");
	else
		error = SDR_SUCCESS;
	if (error == SDR_SUCCESS)
		mr->gw = NULL;
	service_leave(ctx, false);
	return error;
}

int sdr_mr_lkey_get(struct sdr_mr *mr, uint32_t *lkey)
{
	if (!mr || !lkey)
		return complain("sdr_mr_lkey_get: no %s",
				mr ? "place for the key" : "memory region");
	*lkey = mr->lkey;
	return SDR_SUCCESS;
}

int sdr_mr_rkey_get(struct sdr_mr *mr, uint32_t *rkey)
{
	if (!mr || !rkey)
		return complain("sdr_mr_rkey_get: no %s",
				mr ? "place for the key" : "memory region");
	*rkey = mr->lkey;
	return SDR_SUCCESS;
}

void mr_free_all(struct sdr_context *ctx)
{
	for (uint32_t i = 0; i < ctx->mr_room; i++)
		free(ctx->mrs[i]);
	free(ctx->mrs);
}
