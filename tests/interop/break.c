/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes the data queue pairs of a verbs fabric into error, as a fault of the device would. */
#include "fabric/verbs/endpoint.h"
#include "message/state.h"

void break_lanes(struct gw_qp *qp);

void break_lanes(struct gw_qp *qp)
{
	const struct verbs_qp *inner = verbs_qp(qp->fabric_qp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	for (unsigned i = 0; i < inner->lanes; i++)
		ibv_modify_qp(inner->lane[i]->qp, &attr, IBV_QP_STATE);
	if (inner->endpoint->binder)
		ibv_modify_qp(inner->endpoint->binder->qp, &attr, IBV_QP_STATE);
}
