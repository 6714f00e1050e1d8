/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How large a packet reaches the peer.
 *
 * Two ends agree on a payload that their own interfaces carry. A link in between may carry less and not say so: a switch
 * that was left at 1500 among jumbo frames, a tunnel behind a firewall that eats the ICMP. Small packets pass, large ones
 * vanish, and everything seems to hang. So a queue pair, before its first data, sends a control datagram padded to the
 * size of a full packet, together with a small probe. When the small ones are answered and the large ones are not, it
 * goes down a rung: the peer is asked whether the next smaller payload reaches it, and by answering agrees to receive
 * that. The two directions settle apart. Until they have, control stays as small as the lowest rung, and so fits any path
 * that will do at all.
 *
 * No full packet has landed at that time, so that the receiver can cut its posted receives into packets anew. The first
 * message, which does not wait for all this (first.c), is sent again then.
 */
#include <errno.h>

#include "base/log.h"
#include "message/state.h"

#define TRIES_A_RUNG  4 /* small probes answered without an answer to a large one */
#define TRIES_DOUBT   16
#define TRIES_LOWEST  64
#define BACKOFF_LIMIT 5
#define RETRY_NS      UINT64_C(1000000)

static uint32_t next_rung(const struct gw_qp *qp, uint32_t below)
{
	const struct fabric_caps *caps = &qp->ctx->fabric->caps;

	for (unsigned i = 0; i < FABRIC_RUNGS; i++)
		if (caps->rungs[i] < below)
			return caps->rungs[i]; /* 0 after the last */
	return 0;
}

static uint32_t lowest_rung(const struct gw_qp *qp)
{
	uint32_t lowest = qp->tx_payload;

	for (uint32_t rung; (rung = next_rung(qp, lowest));)
		lowest = rung;
	return lowest;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

void reach_connect(struct gw_qp *qp, bool both)
{
	qp->tx_payload = qp->payload_agreed = qp->payload;
	qp->reaches = both;
	qp->reach = both && next_rung(qp, qp->payload) ? REACH_UNTRIED : REACH_SETTLED;
	qp->control_limit = qp->control_max;
	if (qp->reach == REACH_UNTRIED)
		qp->control_max = least(qp->control_max, lowest_rung(qp));
	qp->reach_at = NEVER;
}

/* Something was asked of the queue pair for the first time. */
void reach_begin(struct gw_qp *qp)
{
	if (qp->reach != REACH_UNTRIED)
		return;
	qp->reach = REACH_SEEKING;
	qp->reach_at = qp->ctx->now;
	qp->reach_misses = 0;
}

void reach_doubt(struct gw_qp *qp)
{
	if (qp->reach != REACH_SETTLED || !qp->reaches)
		return;
	qp->reach = REACH_DOUBT;
	qp->reach_at = qp->ctx->now;
	qp->reach_misses = qp->reach_backoff = 0;
	qp->reach_answered = false;
}

static void settle(struct gw_qp *qp)
{
	qp->reach = REACH_SETTLED;
	qp->reach_at = NEVER;
	qp->control_max = least(qp->control_limit, qp->tx_payload);
	send_repacket(qp);
	if (qp->stepped_down)
		first_again(qp);
	qp_owe(qp, 0);
}

/* What was agreed and used does not arrive any more: too late to agree on something else. */
static bool bear_doubt(struct gw_qp *qp)
{
	if (qp->reach_misses < TRIES_DOUBT)
		return true;
	log_warn(
		"data no longer reaches the peer, though small packets do: has the path's MTU shrunk?");
	qp_give_up(qp, -EMSGSIZE);
	return false;
}

/* The next rung down. On the lowest it is asked on for long. */
static bool step_down(struct gw_qp *qp)
{
	uint32_t rung = next_rung(qp, qp->tx_payload);

	if (!rung) {
		if (qp->reach_misses < TRIES_LOWEST)
			return true;
		log_warn(
			"not even packets with %u bytes of data reach the peer, though small ones do",
			qp->tx_payload);
		qp_give_up(qp, -EMSGSIZE);
		return false;
	}
	count(qp->ctx, COUNT_PAYLOAD_CUTS);
	log_warn(
		"packets with %u bytes of data do not reach the peer, though small ones do: a link on the way has a smaller MTU than this host's interface; trying %u bytes",
		qp->tx_payload, rung);
	qp->reach_misses = 0;
	first_stop(qp);
	qp->stepped_down = true;
	qp->tx_payload = rung;
	return true;
}

/* A round has passed without an answer. It counts against the size only if the small probe was answered. */
void reach_timer(struct gw_qp *qp)
{
	uint64_t now = qp->ctx->now;

	/* Only the latest probe's answer counts, and large ones take their time on a slow link: asking again too soon would
	 * be in its own way for ever. */
	if (qp->reach_answered) {
		qp->reach_misses++;
		qp->reach_backoff = 0;
	} else if (qp->reach_backoff < BACKOFF_LIMIT) {
		qp->reach_backoff++;
	}
	qp->reach_answered = false;
	if (qp->reach == REACH_DOUBT ? !bear_doubt(qp)
				     : qp->reach_misses >= TRIES_A_RUNG && !step_down(qp))
		return;
	qp->reach_since = now;
	qp->reach_at = now + (gw_qp_patience_ns(qp) << qp->reach_backoff);
	qp_owe(qp, OWE_REACH | OWE_PROBE);
}

/* A small probe was answered: from now on it is known how long an answer takes. */
void reach_probed(struct gw_qp *qp)
{
	uint64_t at = qp->reach_since + gw_qp_patience_ns(qp);

	qp->reach_answered = true;
	if ((qp->reach == REACH_SEEKING || qp->reach == REACH_DOUBT) && at < qp->reach_at)
		qp->reach_at = at;
}

/* The first word from the peer: it may have come up only now, and missed what it was asked. */
void reach_heard(struct gw_qp *qp)
{
	if (!qp->heard && qp->reach == REACH_SEEKING && qp->ctx->now > qp->reach_since + RETRY_NS)
		qp->reach_at = qp->ctx->now;
	qp->heard = true;
}

/* A size that is known to arrive is not given up: who asks for a smaller one has not heard, and hears it again. */
static bool hear_request(struct gw_qp *qp, uint32_t payload)
{
	if (payload > qp->payload)
		return true; /* overtaken by a smaller one */
	if (payload == qp->payload)
		qp->full_landed = true;
	if (!qp->full_landed) {
		int error;

		if (!qp->ctx->fabric->ops->qp_resize)
			return false;
		error = recv_repacket(qp, payload);
		if (error) {
			qp_give_up(qp, error);
			return true;
		}
	}
	qp_owe(qp, OWE_REACHED);
	return true;
}

bool reach_hear(struct gw_qp *qp, const struct control_reach *reach)
{
	if (reach->payload % 4 || !reach->payload)
		return false;
	if (reach->kind == CONTROL_REACH_REQUEST)
		return hear_request(qp, reach->payload);
	if (reach->payload < qp->tx_payload || reach->payload > qp->payload_agreed)
		return true;
	if (qp->reach == REACH_SEEKING) {
		qp->tx_payload = reach->payload;
		settle(qp);
	} else if (qp->reach == REACH_DOUBT) {
		qp->reach = REACH_SETTLED;
		qp->reach_at = NEVER;
		qp->feedback.stalls = 0;
	}
	return true;
}
