/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair's lanes: what reports say about each is handed to the path, and what that decides is counted and told. */
#include <errno.h>

#include "base/log.h"
#include "message/trace.h"

#define PEER_TEXT   80
#define NUMBER_BITS 26
/* Probe timeouts after which a silent lane is dead. */
#define PTOS_DEAD 3
/* Most times in vain that are remembered of a lane: after so many more by each other lane, one that was dead is tried again. */
#define VAIN_MOST 8

int lanes_open(struct gw_qp *qp)
{
	if (qp->ctx->fabric->caps.lanes < 2)
		return 0;
	qp->path = path_open(qp->ctx->fabric->caps.lanes);
	return qp->path ? 0 : -ENOMEM;
}

void lanes_close(struct gw_qp *qp)
{
	path_close(qp->path);
	qp->path = NULL;
}

/* Times in a row that control was sent by a lane in vain, as far as is known, up to VAIN_MOST. A lane that data does not use begins
 * with as many as there are lanes; when all are equally bad it has its turn, too. */
static uint32_t in_vain(const struct gw_qp *qp, uint32_t lane)
{
	uint32_t times = qp->control.in_vain[lane] +
			 (qp->path->lane[lane].state == PATH_USED ? 0 : qp->path->count);

	return times < VAIN_MOST ? times : VAIN_MOST;
}

/* A lane that loses half of what it carries is often in vain, but a dead one each time: by and by control leaves the dead one
 * alone. Among equals the next one has its turn. */
void lanes_turn_control(struct gw_qp *qp)
{
	const struct fabric_ops *ops = qp->ctx->fabric->ops;
	uint32_t lane = qp->control.lane, best;

	/* Several reasons in one moment are one: of two lanes two turns would lead back to the same. */
	if (!qp->path || !ops->control_by || qp->control.turned_ns == qp->ctx->now)
		return;
	qp->control.turned_ns = qp->ctx->now;
	if (qp->control.in_vain[lane] < VAIN_MOST)
		qp->control.in_vain[lane]++;
	best = (lane + 1) % qp->path->count;
	for (uint32_t i = 2; i <= qp->path->count; i++)
		if (in_vain(qp, (lane + i) % qp->path->count) < in_vain(qp, best))
			best = (lane + i) % qp->path->count;
	TRACE_QP(qp, "control by lane %u after %u by lane %u in vain", best,
		 qp->control.in_vain[lane], lane);
	if (best == lane)
		return;
	qp->control.lane = (uint8_t)best;
	qp->control.lane_ns = qp->ctx->now;
	ops->control_by(qp->fabric_qp, best);
}

void lanes_control_arrived(struct gw_qp *qp, uint64_t sent_ns)
{
	/* If control has left by this lane alone since; whoever turns at the same moment does so first. */
	if (sent_ns >= qp->control.lane_ns)
		qp->control.in_vain[qp->control.lane] = 0;
}

static void announce(struct gw_qp *qp, uint32_t lane, enum path_news news)
{
	double loss = 100.0 * (double)qp->path->lane[lane].loss;
	char peer[PEER_TEXT];

	if (news == PATH_NO_NEWS)
		return;
	if (qp->path->lane[lane].state != PATH_USED && lane == qp->control.lane)
		lanes_turn_control(qp);
	if (gw_qp_peer(qp, peer, sizeof(peer)) <= 0)
		peer[0] = '?', peer[1] = '\0';
	switch (news) {
	case PATH_LOSES:
		count(qp->ctx, COUNT_LANES_RETIRED);
		log_warn(
			"lane %u to %s loses %.1f %% of its packets, far more than the others: out of use for now",
			lane, peer, loss);
		break;
	case PATH_DEAD:
		count(qp->ctx, COUNT_LANES_RETIRED);
		log_warn(
			"nothing arrives on lane %u to %s, though the others deliver: out of use for now",
			lane, peer);
		break;
	case PATH_SMALL:
		count(qp->ctx, COUNT_LANES_RETIRED);
		log_warn(
			"lane %u to %s carries only smaller packets than the others: out of use for now",
			lane, peer);
		break;
	case PATH_BACK:
		count(qp->ctx, COUNT_LANES_RESTORED);
		log_info("lane %u to %s delivers again: back in use", lane, peer);
		break;
	case PATH_STAYS_AWAY:
		log_debug("lane %u to %s was tried and is no better", lane, peer);
		break;
	case PATH_NO_NEWS:
		break;
	}
}

void lanes_retire_small(struct gw_qp *qp, uint32_t lane)
{
	announce(qp, lane, path_small(qp->path, lane, gw_qp_answer_ns(qp), qp->ctx->now));
}

uint32_t lanes_excused(struct gw_qp *qp, uint32_t lost)
{
	return qp->path ? path_excused(qp->path, lost, qp->feedback.rtt_ns, qp->ctx->now) : 0;
}

void lanes_told(struct gw_qp *qp, const struct control_message *message)
{
	uint32_t lanes = message->report.lane_count;

	qp->path->dead_ns = PTOS_DEAD * feedback_pto_ns(qp);
	/* A peer that does not tell lanes apart has one total for all. */
	for (uint32_t i = 0; lanes == qp->path->count && i < lanes; i++) {
		struct control_lane lane = control_lane_at(message, i);

		announce(qp, i,
			 path_told(qp->path, i, lane.landed, lane.ce, gw_qp_answer_ns(qp),
				   qp->ctx->now));
	}
}

void lanes_echoed(struct gw_qp *qp, uint32_t lane, uint32_t number, uint64_t rtt_ns)
{
	uint32_t sent = qp->path->lane[lane].sent;
	uint32_t behind = (sent - number) & ((1u << NUMBER_BITS) - 1);

	announce(qp, lane,
		 path_echoed(qp->path, lane, sent - behind, rtt_ns, gw_qp_answer_ns(qp),
			     qp->ctx->now));
}

int gw_qp_lane(const struct gw_qp *qp, uint32_t index, struct gw_lane *out)
{
	const struct path_lane *lane;

	if (!qp || !out)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	if (index >= (qp->path ? qp->path->count : 0))
		return -ERANGE;
	lane = &qp->path->lane[index];
	*out = (struct gw_lane){ .sent = lane->sent,
				 .landed = lane->landed,
				 .marked = lane->marked,
				 .rtt_ns = lane->rtt_ns,
				 .loss = (double)lane->loss,
				 .retired = lane->state != PATH_USED };
	return 0;
}
