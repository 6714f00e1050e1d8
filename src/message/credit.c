/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much a receiver lets its peers have in flight. The fabric can hold so many packets for all queue pairs together;
 * those that data has landed on lately share them evenly. The others keep what they were told last, or, when they are
 * new, a share among all there are: whoever becomes active is told more with its first report.
 */
#include "message/state.h"

#define WINDOW_MIN	  16u /* of all together */
#define SHARE_MIN	  2u
#define EPOCH_NS	  UINT64_C(50000000)
#define OVERRUN_CALM_NS	  UINT64_C(10000000)
#define OVERRUN_REGROW_NS UINT64_C(100000000)

void credit_used(struct gw_qp *qp)
{
	struct gw_context *ctx = qp->ctx;

	if (qp->feedback.epoch == ctx->epoch)
		return;
	qp->feedback.epoch = ctx->epoch;
	ctx->active_next++;
}

uint32_t credit_share(const struct gw_context *ctx)
{
	uint32_t active = ctx->active > ctx->active_next ? ctx->active : ctx->active_next;
	uint32_t share = ctx->window / (active ? active : 1);

	return share < SHARE_MIN ? SHARE_MIN : share;
}

uint32_t credit_initial(const struct gw_context *ctx)
{
	uint32_t share = ctx->window / (ctx->qps.used ? ctx->qps.used : 1);

	return share < SHARE_MIN ? SHARE_MIN : share;
}

static void next_epoch(struct gw_context *ctx)
{
	if (ctx->now < ctx->epoch_at)
		return;
	ctx->epoch_at = ctx->now + EPOCH_NS;
	ctx->epoch++;
	ctx->active = ctx->active_next;
	ctx->active_next = 0;
}

/* Where the receive side overran everybody gets less, and slowly more again. */
void credit_update(struct gw_context *ctx)
{
	uint64_t overruns = ctx->fabric->counters[FABRIC_DROP_OVERRUN];
	uint64_t calm = ctx->now - ctx->window_changed;

	next_epoch(ctx);
	if (overruns != ctx->overruns) {
		ctx->overruns = overruns;
		if (calm < OVERRUN_CALM_NS)
			return;
		ctx->window_changed = ctx->now;
		ctx->window -= ctx->window / 4;
		if (ctx->window < WINDOW_MIN)
			ctx->window = WINDOW_MIN;
	} else if (ctx->window < ctx->fabric->caps.window && calm > OVERRUN_REGROW_NS) {
		ctx->window_changed = ctx->now;
		ctx->window += ctx->window / 16 + 1;
		if (ctx->window > ctx->fabric->caps.window)
			ctx->window = ctx->fabric->caps.window;
	}
}
