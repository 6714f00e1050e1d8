/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions: memory that a fabric may read and write, registered once and named by every send and receive in it. A NIC keeps
 * memory, and itself, for as long as a registration holds them: what a caller leaves goes with its context.
 */
#include <errno.h>
#include <string.h>

#include "message/state.h"

static bool range_sane(const void *addr, size_t length)
{
	return addr && length && (uintptr_t)addr + length >= (uintptr_t)addr;
}

/* What the fabric did with it, kept or given back. */
static int keep_mr(struct gw_mr *mr, struct gw_context *ctx, const void *addr, size_t length,
		   int error)
{
	if (error) {
		pool_put(&ctx->mrs, mr);
		return error;
	}
	mr->ctx = ctx;
	mr->addr = (uintptr_t)addr;
	mr->length = length;
	return 0;
}

int gw_mr_register(struct gw_context *ctx, void *addr, size_t length, struct gw_mr **out)
{
	struct gw_mr *mr;
	int error;

	if (!ctx || !range_sane(addr, length) || !out)
		return -EINVAL;
	mr = pool_get(&ctx->mrs);
	if (!mr)
		return -ENOBUFS;
	error = ctx->fabric->ops->mr_register(ctx->fabric, addr, length, &mr->fabric_mr);
	error = keep_mr(mr, ctx, addr, length, error);
	if (!error)
		*out = mr;
	return error;
}

int gw_mr_register_dmabuf(struct gw_context *ctx, int fd, uint64_t offset, size_t length,
			  void *addr, struct gw_mr **out)
{
	const struct fabric_ops *ops;
	struct gw_mr *mr;
	int error;

	if (!ctx || fd < 0 || offset + length < offset || !range_sane(addr, length) || !out)
		return -EINVAL;
	ops = ctx->fabric->ops;
	if (!ops->mr_register_dmabuf) {
		strncpy(ctx->fabric->error,
			"on this fabric the processor copies, and it cannot reach a dma-buf: open a verbs "
			"device, or copy to memory of the host",
			sizeof(ctx->fabric->error) - 1);
		return -ENOTSUP;
	}
	mr = pool_get(&ctx->mrs);
	if (!mr)
		return -ENOBUFS;
	error = ops->mr_register_dmabuf(ctx->fabric, fd, offset, length, addr, &mr->fabric_mr);
	error = keep_mr(mr, ctx, addr, length, error);
	if (!error) {
		mr->unreachable = true;
		*out = mr;
	}
	return error;
}

int gw_mr_deregister(struct gw_mr *mr)
{
	if (!mr || !mr->ctx)
		return -EINVAL;
	if (!pool_owns_live(&mr->ctx->mrs, mr))
		return -ESTALE;
	if (mr->users)
		return -EBUSY;
	mr->ctx->fabric->ops->mr_deregister(mr->ctx->fabric, mr->fabric_mr);
	pool_put(&mr->ctx->mrs, mr);
	return 0;
}

bool mr_covers(const struct gw_mr *mr, const struct gw_context *ctx, const void *addr,
	       uint64_t length)
{
	uintptr_t start = (uintptr_t)addr;

	return pool_owns_live(&ctx->mrs, mr) && start >= mr->addr && length <= mr->length &&
	       start - mr->addr <= mr->length - length;
}

void mrs_close(struct gw_context *ctx)
{
	for (uint32_t i = 0; pool_used(&ctx->mrs); i++) {
		struct gw_mr *mr = pool_at(&ctx->mrs, i);

		if (!pool_owns_live(&ctx->mrs, mr))
			continue;
		ctx->fabric->ops->mr_deregister(ctx->fabric, mr->fabric_mr);
		pool_put(&ctx->mrs, mr);
	}
}
