/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The automatic choice: each message under Selective Repeat or under the erasure scheme, as erasure_choose.c says.
 *
 * Nothing is repaired here. Every call goes on to the one scheme or the other, whose state the request's memory then holds.
 * Selective Repeat's lies there from the start, for it needs to be begun; the erasure scheme's is elsewhere. Both leave
 * the transfer's head alone, where the options say whose memory it is. What the two have in common is the second message,
 * which is the erasure scheme's, and its way to end: when both messages have.
 */
#include <errno.h>
#include <string.h>

#include <godwit/auto.h>

#include "erasure_state.h"

#define REPEAT gw_selective_repeat

static int prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, uint32_t geometry[2])
{
	return erasure_prepare(qp, attr, true, geometry);
}

/* ---- the sender ------------------------------------------------------------------------------------------------ */

static void send_begin(struct gw_send *send, uint64_t now)
{
	struct gw_transfer *transfer = gw_send_state(send);
	const void *options = transfer->options;

	erasure_send_begin(send, now);
	if (erasure_of_send(send)->layout.m || !REPEAT.send_begin)
		return;
	transfer->options = NULL; /* it has none */
	REPEAT.send_begin(send, now);
	transfer->options = options;
}

static void granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	if (erasure_of_send(send)->sending.repeats)
		REPEAT.send.granted(send, arg, capacity, now);
	else
		erasure_granted(send, arg, capacity, now);
}

static void drained(struct gw_send *send, void *arg, uint64_t now)
{
	if (erasure_of_send(send)->sending.repeats)
		REPEAT.send.drained(send, arg, now);
	else
		erasure_drained(send, arg, now);
}

static void nack(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	if (erasure_of_send(send)->sending.repeats)
		REPEAT.send.nack(send, arg, nack, now);
	else
		erasure_repeat(send, arg, nack, now);
}

static void send_control(struct gw_send *send, void *arg, const void *data, size_t length,
			 uint64_t now)
{
	if (!erasure_of_send(send)->sending.repeats)
		erasure_repair(send, arg, data, length, now);
	else if (REPEAT.send.control)
		REPEAT.send.control(send, arg, data, length, now);
}

static void send_timer(struct gw_send *send, void *arg, uint64_t now)
{
	if (erasure_of_send(send)->sending.repeats)
		REPEAT.send.timer(send, arg, now);
	else
		erasure_send_timer(send, arg, now);
}

static void result(struct gw_send *send, void *arg, const struct gw_result *result, uint64_t now)
{
	if (erasure_of_send(send)->sending.repeats)
		REPEAT.send.result(send, arg, result, now);
	else
		erasure_result(send, arg, result, now);
}

static void recut(struct gw_send *send, void *arg, uint64_t now)
{
	if (erasure_of_send(send)->sending.repeats)
		REPEAT.send.recut(send, arg, now);
	else
		erasure_recut(send, arg, now);
}

/* ---- the receiver ---------------------------------------------------------------------------------------------- */

static void recv_begin(struct gw_recv *recv, uint64_t now)
{
	struct gw_transfer *transfer = gw_recv_state(recv);
	const void *options = transfer->options;

	if (REPEAT.recv_begin) {
		transfer->options = NULL;
		REPEAT.recv_begin(recv, now);
		transfer->options = options;
	}
	erasure_recv_begin(recv, now);
}

/* Both messages end at once, so that one report tells both results. */
static void repeated(struct gw_recv *recv)
{
	const struct gw_transfer *transfer = gw_recv_state(recv);
	struct erasure_receiving *r = &erasure_of_recv(recv)->receiving;

	if (transfer->finished && r->parity)
		gw_recv_complete(r->parity);
}

/* Until the announcement it is not known what a hole means. */
static void announced(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct erasure_receiving *r = &erasure_of_recv(recv)->receiving;
	struct gw_recv_status status;

	if (gw_recv_status(recv, &status))
		return;
	r->repeats = !status.geometry[0];
	if (!r->repeats) {
		erasure_look(recv, arg, now);
		return;
	}
	REPEAT.recv.announced(recv, arg, now);
	repeated(recv);
}

static void progress(struct gw_recv *recv, void *arg, uint64_t now)
{
	if (!erasure_of_recv(recv)->receiving.repeats) {
		erasure_look(recv, arg, now);
		return;
	}
	REPEAT.recv.progress(recv, arg, now);
	repeated(recv);
}

static void recv_control(struct gw_recv *recv, void *arg, const void *data, size_t length,
			 uint64_t now)
{
	if (!erasure_of_recv(recv)->receiving.repeats) {
		erasure_asked(recv, arg, data, length, now);
		return;
	}
	REPEAT.recv.control(recv, arg, data, length, now);
	repeated(recv);
}

static void recv_timer(struct gw_recv *recv, void *arg, uint64_t now)
{
	if (!erasure_of_recv(recv)->receiving.repeats) {
		erasure_recv_timer(recv, arg, now);
		return;
	}
	REPEAT.recv.timer(recv, arg, now);
	repeated(recv);
}

static void recv_recut(struct gw_recv *recv, void *arg, uint64_t now)
{
	/* The message may still turn out to be of either kind. */
	REPEAT.recv.recut(recv, arg, now);
	erasure_recv_recut(recv, arg, now);
}

const struct gw_scheme gw_auto = {
	.name = "auto",
	.id = AUTO_SCHEME_ID,
	.prepare = prepare,
	.send_begin = send_begin,
	.recv_begin = recv_begin,
	.send = {
		.granted = granted,
		.drained = drained,
		.nack = nack,
		.control = send_control,
		.timer = send_timer,
		.result = result,
		.done = erasure_sent,
		.recut = recut,
	},
	.recv = {
		.announced = announced,
		.progress = progress,
		.control = recv_control,
		.timer = recv_timer,
		.released = erasure_received,
		.recut = recv_recut,
	},
};

int gw_auto_explain(const struct gw_erasure *erasure, char *text, size_t size)
{
	static const char *const unknown =
		"selective-repeat: no loss has been measured, so that parity would mend nothing.";
	static const enum plan_goal goals[] = { PLAN_MEAN, PLAN_P99, PLAN_P999 };
	const struct erasure_choice *choice;
	struct plan_choice justified;
	const char *why = unknown;
	size_t length;

	if (!erasure || (!text && size))
		return -EINVAL;
	choice = &erasure->choices[erasure->latest];
	if (choice->made && !plan_justify(&erasure->path, erasure->path_size,
					  goals[erasure->attr.goal], &choice->params, &justified))
		why = justified.reason;
	length = strlen(why);
	if (size) {
		size_t kept = length < size ? length : size - 1;

		memcpy(text, why, kept);
		text[kept] = '\0';
	}
	return (int)length;
}
