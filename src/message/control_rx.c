/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control datagrams from the peer: each is checked against what this end knows before it changes anything.
 *
 * The cumulative numbers in each header may lag behind what is known (an old datagram) and are then ignored; ahead of
 * what this end has ever said they are a lie or another connection's, and that message is dropped and counted.
 * A statement that is old news is answered with our own numbers: the peer repeats it because it does not know.
 */
#include <assert.h>
#include <errno.h>

#include "base/serial.h"
#include "constants/protocol.h"
#include "message/trace.h"

/* In [low, high], as serial numbers. */
static bool within(uint32_t low, uint32_t value, uint32_t high)
{
	return value - low <= high - low;
}

static bool plausible(uint32_t known, uint32_t claimed, uint32_t said)
{
	return within(known, claimed, said) || serial_before(claimed, known);
}

/*
 * The peer is heard for the first time. It may have been connected just now, and what was sent to it before is lost. Nothing
 * measured says when that would be repeated, so it is done at once: what was granted and announced is told again, and the first
 * send, which left before any grant came, asks the receiver what it lacks.
 */
static void first_heard(struct gw_qp *qp)
{
	struct gw_send *send = send_find(qp, qp->tx.results_seen);

	/* Ends that wait for grants have met before. */
	if (!qp->rx.first_bytes ||
	    (qp->tx.announce_acked == qp->tx.matched && qp->rx.grants_acked == qp->rx.granted))
		return;
	qp->feedback.probe_at = qp->ctx->now;
	qp_tell_again(qp);
	if (send && qp->tx.announce_acked != qp->tx.matched && !send_is_ended(send) &&
	    !send_is_answered(send))
		timer_hasten(qp->ctx, &send->timer);
}

/* Takes the cumulative numbers in. False when they cannot be. */
static bool take_header(struct gw_qp *qp, const struct control_header *header)
{
	bool news = false, first = !qp->size.heard;

	if (!plausible(qp->tx.announce_acked, header->announced, qp->tx.matched) ||
	    !plausible(qp->rx.grants_acked, header->granted, qp->rx.granted) ||
	    !plausible(qp->rx.results_acked, header->results, qp->rx.completed) ||
	    /* A receive may be given up before anything was sent into it: only the slots bound this one. */
	    !plausible(qp->tx.results_seen, header->completed,
		       qp->tx.results_seen + qp->tx.mask + 1))
		return false;
	if (serial_after(header->announced, qp->tx.announce_acked)) {
		qp->tx.announce_acked = header->announced;
		news = true;
	}
	if (serial_after(header->granted, qp->rx.grants_acked)) {
		qp->rx.grants_acked = header->granted;
		news = true;
	}
	if (serial_after(header->results, qp->rx.results_acked)) {
		recv_results_acked(qp, header->results);
		news = true;
	}
	qp->control.heard_at = qp->ctx->now;
	qp->feedback.probes_unanswered = 0;
	size_header(qp, header);
	if (news) {
		/* Whatever is still open has just been shown to be on its way: start the clock again. */
		qp->control.repeats = 0;
		qp->control.repeat_at = NEVER;
		lanes_control_arrived(qp, qp->control.first_ns);
		qp_schedule(qp);
	}
	if (first)
		first_heard(qp);
	return true;
}

/* 0 stands for a receive that ended before it was granted. */
static bool payload_sane(const struct gw_qp *qp, uint32_t payload)
{
	return !payload ||
	       (payload >= qp->size.floor && payload <= qp->size.ceiling && !(payload % 4));
}

/* The peer repeats what is known. On a long path repeats do not wait for answers: until the latest datagram can have been answered,
 * the repeat may have left before that arrived. */
static void owe_ack_again(struct gw_qp *qp)
{
	uint64_t rtt_ns = qp->feedback.rtt_min_ns;

	if (!second_copy_ns(rtt_ns) || qp->ctx->now - qp->control.told_at >= rtt_ns)
		qp_owe_soon(qp, OWE_ACK);
}

static bool take_grant(struct gw_qp *qp, const struct control_message *message)
{
	/* From before a cut: it will be repeated. */
	if (message->header.epoch_applied != qp->size.epoch)
		return true;
	for (unsigned i = 0; i < message->grant.count && qp->state == QP_CONNECTED; i++) {
		struct control_grant_entry entry = control_grant_at(message, i);
		struct grant known = { .target = { .slot = entry.slot,
						   .generation = entry.generation,
						   .rkey = entry.rkey },
				       .va = entry.address,
				       .capacity = entry.capacity,
				       .tag = entry.tag,
				       .payload = entry.payload ? entry.payload : qp->size.floor };
		uint32_t msn = message->grant.first_msn + i;
		struct grant *grant;

		if (entry.slot != (msn & qp->tx.mask) || !payload_sane(qp, entry.payload))
			return false;
		if (serial_before(msn, qp->tx.grants_seen)) {
			resize_granted(qp, msn, &known);
			owe_ack_again(qp);
			continue;
		}
		/* At most as many as the peer has slots, each in its place; and never with a gap. */
		if (msn != qp->tx.grants_seen)
			return true;
		if (msn - qp->tx.results_seen > qp->tx.mask)
			return false;
		/* Beyond its own share it takes from what all have in common; what finds no room will be repeated. */
		if (qp->tx.grants_seen - qp->tx.matched >= GRANTS_EACH &&
		    pool_used(&qp->ctx->grants) >= GRANTS_COMMON)
			return true;
		grant = pool_get(&qp->ctx->grants);
		assert(grant);
		*grant = known;
		list_add_tail(&qp->tx.grants, &grant->link);
		qp->tx.grants_seen++;
		qp->tx.grants_fresh = true;
		qp_owe_soon(qp, OWE_ACK);
		if (!list_empty(&qp->tx.waiting) || (qp->handler && qp->handler->granted))
			qp_schedule(qp); /* qp_run() will match it */
	}
	if (qp->state == QP_CONNECTED)
		size_cut_check(qp);
	return true;
}

static bool take_announce(struct gw_qp *qp, const struct control_message *message)
{
	for (unsigned i = 0; i < message->announce.count && qp->state == QP_CONNECTED; i++) {
		struct control_announce_entry entry = control_announce_at(message, i);
		uint32_t msn = message->announce.first_msn + i;
		struct gw_recv *recv;

		if (serial_before(msn, qp->rx.announced)) {
			owe_ack_again(qp);
			continue;
		}
		if (msn != qp->rx.announced)
			return true;
		if (!serial_before(msn, qp->rx.granted))
			return false; /* not granted, so not sendable */
		qp->rx.announced++;
		qp_owe_soon(qp, OWE_ACK);
		if (!qp->size.peer_settled)
			recv_place(qp);
		recv = recv_find(qp, msn);
		if (recv)
			recv_announce(recv, &entry);
	}
	return true;
}

static bool take_report(struct gw_qp *qp, const struct control_message *message)
{
	feedback_reported(qp, message);
	for (unsigned i = 0; i < message->report.result_count && qp->state == QP_CONNECTED; i++) {
		struct control_result entry = control_result_at(message, i);
		struct gw_result result = { .missing = entry.missing };
		struct gw_send *send;

		if (serial_before(entry.msn, qp->tx.results_seen)) {
			owe_ack_again(qp);
			continue;
		}
		if (entry.msn - qp->tx.results_seen > qp->tx.mask)
			return false;
		/* One given up before its turn may have no send yet; that will hear of it when this is repeated. */
		send = send_find(qp, entry.msn);
		if (!send)
			continue;
		qp_owe_soon(qp, OWE_ACK);
		send_result(send, &result);
	}
	return true;
}

static bool take_nack(struct gw_qp *qp, const struct control_message *message)
{
	const struct control_nack *body = &message->nack;
	struct gw_send *send = send_find(qp, body->msn);
	struct gw_run runs[GW_NACK_RUNS_MAX];
	struct gw_nack nack = { .round = body->round, .below = body->below, .runs = runs };

	if (!send) {
		if (!serial_before(body->msn, qp->tx.results_seen))
			return false;
		qp_owe_soon(qp, OWE_ACK);
		return true;
	}
	/* Of another epoch: it counts packets of another size. */
	if (send_is_ended(send) || send->held || message->header.epoch_applied != qp->size.epoch)
		return true;
	if (body->below > send->packets || body->run_count > GW_NACK_RUNS_MAX)
		return false;
	for (unsigned i = 0; i < body->run_count; i++) {
		struct control_run run = control_run_at(message, i);

		runs[nack.count++] = (struct gw_run){ run.first, run.count };
	}
	/* Nothing was ever echoed, and of this message nothing landed: what left before the peer was connected is not in flight. */
	if (!qp->feedback.echoed && nack.count == 1 && runs[0].count == send->packets)
		feedback_forget(qp);
	if (!send_is_answered(send) && send->handler && send->handler->nack)
		send->handler->nack(send, send->arg, &nack, qp->ctx->now);
	return true;
}

static bool take_scheme(struct gw_qp *qp, const struct control_message *message)
{
	const struct control_scheme *body = &message->scheme;
	uint8_t epoch = body->side == CONTROL_TO_RECEIVER ? message->header.epoch
							  : message->header.epoch_applied;

	/* Of another epoch: it counts packets of another size. */
	if (epoch != (body->side == CONTROL_TO_RECEIVER ? qp->size.applied : qp->size.epoch))
		return true;
	if (body->side == CONTROL_TO_RECEIVER) {
		struct gw_recv *recv = recv_find(qp, body->msn);

		if (recv && !recv_is_completed(recv)) {
			if (recv->handler && recv->handler->control)
				recv->handler->control(recv, recv->arg, body->payload,
						       body->payload_length, qp->ctx->now);
		} else if (recv || serial_before(body->msn, qp->rx.results_acked)) {
			qp_owe(qp,
			       OWE_REPORT); /* it asks about something finished: its result was lost */
		}
	} else {
		struct gw_send *send = send_find(qp, body->msn);

		if (send && !send_is_ended(send) && !send_is_answered(send) && send->handler &&
		    send->handler->control)
			send->handler->control(send, send->arg, body->payload, body->payload_length,
					       qp->ctx->now);
	}
	return true;
}

static bool take_probe(struct gw_qp *qp, const struct control_message *message)
{
	const struct control_probe *body = &message->probe;
	struct feedback *f = &qp->feedback;
	uint64_t asked_ns;

	if (body->kind == CONTROL_PROBE_REQUEST) {
		/* Of the questions in one block none had an answer when the next was asked: ours go astray, and there may be a
		 * way on which they do not. A new block says that one of ours has arrived. */
		if (PROBE_BLOCK(body->id) > PROBE_BLOCK(f->reply_id)) {
			if (f->replied_ns)
				lanes_control_arrived(qp, f->replied_ns);
			f->replied_ns = 0;
		} else if (f->reply_since && body->id > f->reply_id) {
			lanes_turn_control(qp);
		}
		f->reply_id = body->id;
		f->reply_time = body->time_ns;
		f->reply_since = qp->ctx->arrived;
		/* Whoever asks may have missed the last report. The count of packets wraps, and may be 0 although some landed. */
		qp_owe(qp, f->landed || f->echo_valid ? OWE_REPLY | OWE_REPORT : OWE_REPLY);
		return true;
	}
	/* The time is our own, so that an answer is a sample however late it comes; each counts once. */
	asked_ns = reach_answered(qp, body->time_ns);
	if (asked_ns <= f->answered_ns || asked_ns > qp->ctx->arrived)
		return true;
	f->answered_ns = asked_ns;
	lanes_control_arrived(qp, asked_ns);
	f->probe_id = PROBE_BLOCK(f->probe_id) + PROBE_BLOCK_SIZE;
	f->probe_at = f->probe_later;
	if (qp->ctx->arrived - asked_ns >= body->hold_ns)
		feedback_rtt(qp, qp->ctx->arrived - asked_ns - body->hold_ns);
	feedback_held(qp, body->hold_ns + (qp->ctx->now - qp->ctx->arrived));
	size_probe_answered(qp, asked_ns);
	feedback_answered(qp, asked_ns);
	return true;
}

static bool take_credit(struct gw_qp *qp, const struct control_message *message)
{
	uint32_t window = message->credit.window_packets;

	if (!window || window > CREDIT_MAX)
		return false;
	feedback_credit(qp, window);
	return true;
}

static bool take_body(struct gw_qp *qp, const struct control_message *message)
{
	switch ((enum control_type)message->header.type) {
	case CONTROL_ANNOUNCE:
		return take_announce(qp, message);
	case CONTROL_GRANT:
		return take_grant(qp, message);
	case CONTROL_REPORT:
		return take_report(qp, message);
	case CONTROL_NACK:
		return take_nack(qp, message);
	case CONTROL_CREDIT:
		return take_credit(qp, message);
	case CONTROL_PROBE:
		return take_probe(qp, message);
	case CONTROL_SCHEME:
		return take_scheme(qp, message);
	case CONTROL_SIZE:
		return size_message(qp, &message->header, &message->size);
	case CONTROL_DATA:
		return recv_land_inline(qp, &message->data);
	case CONTROL_CLOSE:
		qp_gone(qp, -ECONNRESET);
		return true;
	}
	return true;
}

/* Takes a message in. `known`: its header says what that of the message before it said. Returns whether the header was right. */
static bool take_message(struct gw_qp *qp, const uint8_t *bytes, size_t length, bool known)
{
	struct gw_context *ctx = qp->ctx;
	struct control_message message;
	int error = control_decode(bytes, length, &message);

	if (error) {
		count(ctx, error == -ENOMSG	       ? COUNT_DROP_CONTROL_UNKNOWN
			   : error == -EPROTONOSUPPORT ? COUNT_DROP_CONTROL_VERSION
						       : COUNT_DROP_CONTROL);
		return known;
	}
	if (!known && message.header.token != qp->control.token) {
		count(ctx, COUNT_DROP_TOKEN);
		return false;
	}
	count(ctx, COUNT_CONTROL_HEARD);
	if (!known && !take_header(qp, &message.header)) {
		count(ctx, COUNT_DROP_CLAIM);
		return false;
	}
	if (!take_body(qp, &message))
		count(ctx, COUNT_DROP_CLAIM);
	return true;
}

void control_received(struct gw_qp *qp, const uint8_t *bytes, uint32_t length)
{
	const uint8_t *before = NULL;

	if (trace_is_on())
		trace_datagram(qp, "rx", bytes, length);
	while (qp->state == QP_CONNECTED) {
		int first = control_first(bytes, length);

		if (first < 0) {
			count(qp->ctx, first == -EPROTONOSUPPORT ? COUNT_DROP_CONTROL_VERSION
								 : COUNT_DROP_CONTROL);
			return;
		}
		before = take_message(qp, bytes, (size_t)first,
				      before && control_same_header(before, bytes))
				 ? bytes
				 : NULL;
		if (!qp_valid(qp))
			return; /* closed by a callback */
		bytes += first;
		length -= (uint32_t)first;
		if (!length)
			break;
	}
	qp_arm(qp);
}
