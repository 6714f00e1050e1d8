/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be asked of a queue pair, and the timer it keeps for whoever stands above it. */
#include <errno.h>
#include <string.h>

#include "message/state.h"

int gw_qp_next_grant(const struct gw_qp *qp, struct gw_grant *out)
{
	const struct list *item;
	const struct grant *grant;
	uint32_t msn;
	int error = qp_usable(qp);

	if (error)
		return error;
	if (!out)
		return -EINVAL;
	/* Those of sends already posted are spoken for. */
	item = qp->tx.grants.next;
	for (msn = qp->tx.matched; msn != qp->tx.posted && item != &qp->tx.grants; msn++)
		item = item->next;
	if (item == &qp->tx.grants)
		return -EAGAIN;
	grant = container_of(item, struct grant, link);
	*out = (struct gw_grant){ .capacity = grant->capacity, .tag = grant->tag };
	return 0;
}

int gw_qp_timer(struct gw_qp *qp, uint64_t at)
{
	if (!qp)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	timer_set(qp->ctx, &qp->user_timer, at ? at : NEVER);
	return 0;
}

int gw_qp_peer(const struct gw_qp *qp, char *text, size_t size)
{
	if (!qp || !text || !size)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	text[0] = '\0';
	if (qp->state != QP_CREATED && qp->ctx->fabric->ops->qp_peer)
		qp->ctx->fabric->ops->qp_peer(qp->fabric_qp, text, size);
	return (int)strlen(text);
}

uint64_t gw_qp_now_ns(const struct gw_qp *qp)
{
	return qp_valid(qp) ? gw_now_ns(qp->ctx) : 0;
}
