/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How large a data packet may be.
 *
 * The size belongs to a message: a grant names it, and it holds for that message. Two ends agree on a ceiling, what both
 * interfaces carry, and on a floor, what every path carries. Grants start at the floor. A link on the way may carry less
 * than the interfaces and not say so: a switch left at 1500 among jumbo frames, a tunnel behind a firewall that drops
 * ICMP. So the sender of data probes, beside the data: control datagrams padded to the length of a full packet, on every
 * lane. The receiver acknowledges those that arrive; every control header carries the largest size that the sender knows
 * to arrive on all of its lanes; and the receiver names that size in later grants.
 *
 *	IDLE      -> PROBING    the first request
 *	PROBING   -> SETTLED    the ceiling arrived, or PROBE_ROUNDS rounds brought small answers only
 *	SETTLED   -> PROBING    below the ceiling, after a pause: paths change, and probes are lost like any packet
 *	others    -> DOUBTED    UNHEARD_LEAST packets are in flight and nothing landed for a probe timeout
 *	DOUBTED   -> SETTLED    something landed, or a large probe arrived
 *	DOUBTED   -> CUTTING    CUT_ROUNDS rounds brought small answers only: the path has shrunk. At the floor there is
 *	                        nothing smaller: after LOST_ROUNDS the queue pair ends with -EMSGSIZE
 *	CUTTING   -> PROBING    the peer follows the new epoch, and every open message has a grant at the floor: later
 *	                        ones may be larger
 *
 * A cut: the sender raises its epoch and asks for grants at the floor until it has them. The receiver gives each open
 * receive with larger packets a new key, so that nothing of the old size lands, and translates its bitmap: what landed
 * stays landed (resize.c). Control of another epoch counts packets differently and is ignored.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "constants/protocol.h"
#include "message/info.h"
#include "message/trace.h"

#define PROBE_ROUNDS  5
#define CUT_ROUNDS    3
#define LOST_ROUNDS   16
#define UNHEARD_LEAST 16
#define PEER_TEXT     80
#define RAISE_NS      UINT64_C(10000000000)
#define RAISE_SHIFT   6

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The largest size up to `payload` that is allowed. */
static uint32_t round_down(const struct size *s, uint32_t payload)
{
	payload -= payload % s->multiple;
	while (s->divides && s->divides % payload)
		payload -= s->multiple;
	return payload;
}

void size_init(struct size *s, const struct fabric_caps *caps, const struct gw_qp_attr *attr)
{
	s->divides = attr->payload_divides;
	s->multiple = attr->payload_shift > 2 ? 1u << attr->payload_shift : 4;
	s->extra = attr->seal ? caps->seal_extra : 0;
	s->ceiling = round_down(s, attr->payload ? attr->payload : caps->max_payload - s->extra);
	s->floor = s->ceiling;
	for (unsigned i = 0; i < FABRIC_RUNGS && caps->rungs[i]; i++)
		s->floor = least(s->floor, round_down(s, caps->rungs[i] - s->extra));
	s->own_floor = s->floor;
}

bool size_connect(struct gw_qp *qp, const struct peer_info *info)
{
	struct size *s = &qp->size;

	/* Tiny packets take much memory for bitmaps: only this end itself may ask for them. */
	if (info->payload < s->ceiling && info->payload < SIZE_LEAST)
		return false;
	s->ceiling = least(s->ceiling, info->payload);
	s->floor = least(least(s->floor, info->floor), s->ceiling);
	/* A NIC's packets have one size. */
	if (!info->probes || !qp->ctx->fabric->caps.rungs[0])
		s->floor = s->ceiling;
	s->proven = s->named = s->floor;
	for (unsigned i = 0; i < FABRIC_LANES_MAX; i++)
		s->lane_proven[i] = s->floor;
	s->state = s->floor == s->ceiling ? SIZE_SETTLED : SIZE_IDLE;
	s->peer_settled = s->floor == s->ceiling;
	s->at = NEVER;
	if (s->ceiling % s->multiple || s->floor % s->multiple)
		return false;
	return !s->divides || (s->divides % s->ceiling == 0 && s->divides % s->floor == 0);
}

static void start(struct gw_qp *qp, enum size_state state)
{
	static const char *const names[] = { "idle", "probing", "doubted", "cutting", "settled" };
	struct size *s = &qp->size;

	TRACE_QP(qp, "size %s proven=%u", names[state], s->proven);
	s->state = (uint8_t)state;
	s->rounds = s->backoff = 0;
	s->answered = false;
	s->at = qp->ctx->now;
	qp_arm(qp);
}

void size_begin(struct gw_qp *qp)
{
	if (qp->size.state == SIZE_IDLE)
		start(qp, SIZE_PROBING);
}

static bool size_lane_used(const struct gw_qp *qp, uint32_t lane)
{
	if (!qp->path)
		return lane == 0;
	return lane < qp->path->count && qp->path->lane[lane].state == PATH_USED;
}

/* Nothing is smaller than the floor: before a path is said not to carry even that, all of its lanes are asked. Small probes take any
 * lane, and one that loses everything proves nothing about sizes. */
bool size_lane_asked(const struct gw_qp *qp, uint32_t lane)
{
	const struct size *s = &qp->size;

	return size_lane_used(qp, lane) || (s->state == SIZE_DOUBTED && s->proven == s->floor &&
					    qp->path && lane < qp->path->count);
}

/* Data left by this lane two answers ago, nothing was ever heard of it, and others deliver: it may be dead, and must not hold
 * up the others. */
static bool is_mute(const struct gw_qp *qp, uint32_t lane)
{
	const struct path_lane *l = qp->path ? &qp->path->lane[lane] : NULL;

	if (!l || l->heard_ns || !l->waits_ns ||
	    qp->ctx->now - l->waits_ns < 2 * gw_qp_answer_ns(qp))
		return false;
	for (uint32_t i = 0; i < qp->path->count; i++)
		if (qp->path->lane[i].heard_ns)
			return true;
	return false;
}

/* What every lane in use carries; with `best`, what one of them does. */
static uint32_t proven(const struct gw_qp *qp, bool best)
{
	uint32_t result = best ? 0 : UINT32_MAX;

	for (uint32_t i = 0; i < FABRIC_LANES_MAX; i++) {
		uint32_t lane = qp->size.lane_proven[i];

		if (size_lane_used(qp, i) && !is_mute(qp, i) &&
		    (best ? lane > result : lane < result))
			result = lane;
	}
	return result == UINT32_MAX ? qp->size.floor : result;
}

static void settle(struct gw_qp *qp)
{
	struct size *s = &qp->size;

	TRACE_QP(qp, "size settled proven=%u ceiling=%u", s->proven, s->ceiling);
	s->state = SIZE_SETTLED;
	s->unheard_ns = 0;
	s->at = NEVER;
	if (s->proven < s->ceiling) {
		s->at = qp->ctx->now + (RAISE_NS << least(s->searches, RAISE_SHIFT));
		if (s->searches < UINT8_MAX)
			s->searches++;
	} else {
		s->searches = 0;
	}
	qp_owe_soon(qp, OWE_ACK);
	qp_arm(qp);
}

/* Takes over what the lanes carry now, and lets the peer know with the next control message. At the ceiling the search is
 * over. */
static void update(struct gw_qp *qp)
{
	struct size *s = &qp->size;
	uint32_t size = proven(qp, false);

	if (size <= s->proven)
		return;
	s->proven = size;
	qp_owe_soon(qp, OWE_ACK);
	if (size == s->ceiling && s->state == SIZE_PROBING)
		settle(qp);
}

unsigned size_probes(const struct gw_qp *qp, uint32_t lane, uint32_t payloads[FABRIC_RUNGS + 1])
{
	const struct fabric_caps *caps = &qp->ctx->fabric->caps;
	const struct size *s = &qp->size;
	/* The ceiling alone at first: most paths carry what their ends do. Then one size more each round. */
	unsigned most = s->state == SIZE_DOUBTED ? 1 : s->rounds + 1u, count = 0;
	uint32_t above = s->state == SIZE_DOUBTED ? 0 : s->lane_proven[lane];
	uint32_t ceiling = s->state == SIZE_DOUBTED ? s->proven : s->ceiling;

	if (ceiling > above)
		payloads[count++] = ceiling;
	for (unsigned i = 0; i < FABRIC_RUNGS && caps->rungs[i] && count < most; i++) {
		uint32_t payload = round_down(s, caps->rungs[i] - s->extra);

		if (payload < ceiling && payload > above)
			payloads[count++] = payload;
	}
	return count;
}

/* A lane that carries less than all the others is not used: it would hold up the others. */
static void retire_small_lanes(struct gw_qp *qp)
{
	uint32_t best = proven(qp, true), used = 0, small = 0;

	for (uint32_t i = 0; i < FABRIC_LANES_MAX; i++)
		if (size_lane_used(qp, i)) {
			used++;
			small += qp->size.lane_proven[i] < best;
		}
	if (!small || 2 * small >= used)
		return;
	for (uint32_t i = 0; i < FABRIC_LANES_MAX; i++)
		if (size_lane_used(qp, i) && qp->size.lane_proven[i] < best)
			lanes_retire_small(qp, i);
}

/* Large packets do not arrive any more, small ones do. */
static void cut(struct gw_qp *qp)
{
	struct size *s = &qp->size;
	char peer[PEER_TEXT];

	if (gw_qp_peer(qp, peer, sizeof(peer)) <= 0)
		strcpy(peer, "the peer");
	log_warn(
		"packets with %u bytes of data no longer reach %s, though small ones do: a link on the way has a smaller MTU than before; going on with %u bytes",
		s->proven, peer, s->floor);
	count(qp->ctx, COUNT_PAYLOAD_CUTS);
	s->epoch++;
	s->cut_known = false;
	s->proven = s->floor;
	for (unsigned i = 0; i < FABRIC_LANES_MAX; i++)
		s->lane_proven[i] = s->floor;
	feedback_forget(qp);
	start(qp, SIZE_CUTTING);
	resize_hold(qp);
}

/* A search and a cut go on when nothing is asked of the queue pair, as long as the peer answers: its user may wait for the grants that a
 * cut has forgotten before it asks. All else waits until then. */
uint64_t size_due(const struct gw_qp *qp)
{
	const struct size *s = &qp->size;
	bool goes_on = (s->state == SIZE_PROBING || s->state == SIZE_CUTTING) &&
		       s->backoff < BACKOFF_LIMIT;

	/* A padded probe is larger than what an address may get that has not answered. */
	return qp->reach.proven && (goes_on || qp_waits(qp)) ? s->at : NEVER;
}

/* How long answers to a round of probes may take. */
static uint64_t round_ns(const struct gw_qp *qp)
{
	uint64_t patience = gw_qp_patience_ns(qp), took = qp->size.took_ns + qp->size.took_ns / 4;

	return took > patience ? took : patience;
}

/* A round of probes is over. It counts against the size only if a small probe was answered. */
void size_timer(struct gw_qp *qp)
{
	struct size *s = &qp->size;
	uint64_t wait;

	if (s->state == SIZE_SETTLED) {
		/* Whether something is asked of the queue pair or not, data may follow. */
		start(qp, SIZE_PROBING);
	} else if (s->answered && s->state != SIZE_CUTTING) {
		s->rounds++;
		s->backoff = 0;
	} else if (s->backoff < BACKOFF_LIMIT) {
		s->backoff++;
	}
	s->answered = false;
	if (size_cut_check(qp))
		return;
	if (s->state == SIZE_PROBING && s->rounds >= PROBE_ROUNDS) {
		retire_small_lanes(qp);
		update(qp);
		if (s->state == SIZE_PROBING)
			settle(qp);
		return;
	}
	if (s->state == SIZE_DOUBTED && s->rounds >= CUT_ROUNDS && s->proven > s->floor) {
		cut(qp);
		return;
	}
	if (s->state == SIZE_DOUBTED && s->rounds >= LOST_ROUNDS) {
		log_warn(
			"not even packets with %u bytes of data reach the peer, though small ones do: is the path's MTU below 1280?",
			s->floor);
		qp_give_up(qp, -EMSGSIZE);
		return;
	}
	/* A padded probe takes its time on a slow link; answers are never too late, so that asking seldom costs little. */
	wait = round_ns(qp) << s->backoff;
	s->asked_ns = qp->ctx->now;
	s->at = qp->ctx->now + wait;
	qp_owe(qp, OWE_SIZE | OWE_PROBE);
}

/* Data left, and nothing was heard of it for long: is it the packets' size? */
static void doubt(struct gw_qp *qp)
{
	struct size *s = &qp->size;
	uint32_t unheard = qp->feedback.sequence - qp->feedback.echoed;

	if (s->unheard_ns && unheard >= UNHEARD_LEAST && s->state != SIZE_DOUBTED &&
	    s->state != SIZE_CUTTING &&
	    qp->ctx->now - s->unheard_ns > gw_qp_patience_ns(qp) + REPORT_DELAY_POOR_NS)
		start(qp, SIZE_DOUBTED);
}

/* The answer to a probe of before this round says nothing about this round's large ones; but the peer is there, and how long
 * an answer takes is known, with the time for which the peer held it back. */
void size_probe_answered(struct gw_qp *qp, uint64_t sent_ns)
{
	struct size *s = &qp->size;

	if (sent_ns >= s->asked_ns)
		s->answered = true;
	s->took_ns = qp->ctx->now - sent_ns;
	if (s->backoff && s->at != NEVER && s->at > qp->ctx->now + round_ns(qp)) {
		s->at = qp->ctx->now + round_ns(qp);
		qp_arm(qp);
	}
	s->backoff = 0;
	doubt(qp);
}

void size_sent(struct gw_qp *qp)
{
	struct size *s = &qp->size;

	if (s->floor == s->ceiling)
		return;
	if (!s->unheard_ns)
		s->unheard_ns = qp->ctx->now;
	doubt(qp);
}

void size_landed(struct gw_qp *qp)
{
	struct size *s = &qp->size;

	s->unheard_ns = 0;
	if (s->state == SIZE_DOUBTED)
		settle(qp);
	else if (s->state == SIZE_PROBING)
		update(qp);
}

void size_header(struct gw_qp *qp, const struct control_header *header)
{
	struct size *s = &qp->size;
	uint32_t size = least(header->size, s->ceiling);

	/* The peer may have come up only now, and missed the first round. */
	if (!s->heard && s->state == SIZE_PROBING)
		start(qp, SIZE_PROBING);
	s->heard = true;
	if (header->epoch_applied == s->epoch)
		s->cut_known = true;
	size_cut_check(qp);
	if (header->epoch != s->applied)
		return;
	if (size > s->named)
		s->named = round_down(s, size);
	if (header->settled && !s->peer_settled) {
		s->peer_settled = true;
		recv_place(qp);
	}
}

static void probe_arrived(struct gw_qp *qp, const struct control_size *size)
{
	uint32_t *arrived = &qp->size.arrived[size->lane];

	if (size->payload > *arrived)
		*arrived = size->payload;
	qp_owe(qp, OWE_ARRIVED);
}

static void probe_acknowledged(struct gw_qp *qp, const struct control_size *size)
{
	struct size *s = &qp->size;
	uint32_t *lane = &s->lane_proven[size->lane];

	/* The answer to a probe from before a cut says nothing of the path as it is. */
	if (s->state == SIZE_CUTTING)
		return;
	if (s->state == SIZE_DOUBTED) {
		if (size->payload >= s->proven)
			size_landed(qp);
		return;
	}
	if (size->payload <= *lane || size->payload > s->ceiling)
		return;
	*lane = size->payload;
	s->rounds = 0;
	update(qp);
}

bool size_message(struct gw_qp *qp, const struct control_header *header,
		  const struct control_size *size)
{
	if (size->payload % 4 || !size->payload || size->lane >= FABRIC_LANES_MAX)
		return false;
	switch ((enum control_size_kind)size->kind) {
	case CONTROL_SIZE_PROBE:
		probe_arrived(qp, size);
		return true;
	case CONTROL_SIZE_ARRIVED:
		if (header->epoch_applied == qp->size.epoch)
			probe_acknowledged(qp, size);
		return true;
	case CONTROL_SIZE_CUT:
		return resize_asked(qp, header->epoch, size);
	}
	return false;
}

bool size_cut_check(struct gw_qp *qp)
{
	struct size *s = &qp->size;

	if (s->state != SIZE_CUTTING || !s->cut_known || resize_waits(qp))
		return false;
	start(qp, SIZE_PROBING);
	return true;
}
