/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair's lanes: what reports say about each is handed to the path, and what that decides is counted and told. */
#include <errno.h>

#include "base/log.h"
#include "message/state.h"

#define PEER_TEXT   80
#define NUMBER_BITS 26
/* Probe timeouts after which a silent lane is dead. */
#define PTOS_DEAD 3

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

void lanes_turn_control(struct gw_qp *qp)
{
	const struct fabric_ops *ops = qp->ctx->fabric->ops;

	/* Several reasons in one moment are one: of two lanes two turns would lead back to the same. */
	if (!qp->path || !ops->control_by || qp->control.turned_ns == qp->ctx->now)
		return;
	qp->control.turned_ns = qp->ctx->now;
	qp->control.lane_works = false;
	/* The lanes in use first. If none of them carries control, one that loses much is better than none. */
	if (qp->control.turns < qp->path->count) {
		qp->control.turns++;
		qp->control.lane = (uint8_t)path_repeat(qp->path, qp->control.lane);
	} else {
		qp->control.lane = (uint8_t)((qp->control.lane + 1u) % qp->path->count);
	}
	ops->control_by(qp->fabric_qp, qp->control.lane);
}

void lanes_control_arrived(struct gw_qp *qp, uint64_t sent_ns)
{
	if (sent_ns <= qp->control.turned_ns)
		return;
	qp->control.lane_works = true;
	qp->control.turns = 0;
}

/* Of two lanes one may be dead: whoever turned at each repeat could meet it each time. */
void lanes_repeat_control(struct gw_qp *qp)
{
	if (!qp->control.lane_works)
		lanes_turn_control(qp);
	qp->control.lane_works = false;
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
