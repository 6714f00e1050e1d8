/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The automatic choice: each message under Selective Repeat or under the erasure scheme, as erasure_choose.c says.
 *
 * Nothing is repaired here. A message starts with the erasure scheme's handlers and gets Selective Repeat's when that was
 * chosen: at the sender when it begins, at the receiver when the announcement says so. Selective Repeat's state lies in the
 * request's memory from the start, the erasure scheme's is elsewhere; both leave the transfer's head alone, where the
 * options say whose memory it is. What the two have in common is the second message, which is the erasure scheme's, and its
 * way to end: when both messages have.
 */
#include <errno.h>
#include <string.h>

#include <godwit/auto.h>

#include "erasure_state.h"
#include "selective_repeat_state.h"

static int prepare(struct gw_qp *qp, const struct gw_transfer_attr *attr, uint32_t geometry[2])
{
	return erasure_prepare(qp, attr, true, geometry);
}

static const struct gw_send_handler repeat_send = {
	.granted = selective_repeat_granted,
	.drained = selective_repeat_drained,
	.nack = selective_repeat_nack,
	.timer = selective_repeat_send_timer,
	.result = selective_repeat_result,
	.done = erasure_sent,
	.recut = selective_repeat_send_recut,
};

static void send_begin(struct gw_send *send, uint64_t now)
{
	erasure_send_begin(send, now);
	if (erasure_of_send(send)->sending.repeats)
		gw_send_set_handler(send, &repeat_send);
}

/* Both messages end at once, so that one report tells both results. */
static void repeat_look(struct gw_recv *recv, void *arg, uint64_t now)
{
	const struct gw_transfer *transfer = gw_recv_state(recv);
	struct erasure_receiving *r = &erasure_of_recv(recv)->receiving;

	selective_repeat_look(recv, arg, now);
	if (transfer->finished && r->parity)
		gw_recv_complete(r->parity);
}

static const struct gw_recv_handler repeat_recv = {
	.progress = repeat_look,
	.control = selective_repeat_told,
	.timer = selective_repeat_overdue,
	.released = erasure_received,
	.recut = selective_repeat_recut,
};

/* Until the announcement it is not known what a hole means. Selective Repeat looks when progress() follows, in the same turn. */
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
	gw_recv_set_handler(recv, &repeat_recv);
}

const struct gw_scheme gw_auto = {
	.name = "auto",
	.id = AUTO_SCHEME_ID,
	.prepare = prepare,
	.send_begin = send_begin,
	.recv_begin = erasure_recv_begin,
	.send = ERASURE_SEND_HANDLER,
	.recv = ERASURE_RECV_HANDLER(announced),
};

int gw_auto_codes(struct gw_erasure *erasure, struct gw_qp *qp, uint64_t length)
{
	struct plan_params params;

	if (!erasure || !qp || length > erasure->attr.max_length ||
	    erasure->attr.code == GW_CODE_XOR)
		return -EINVAL;
	erasure_pick(erasure, qp, length, true, &params);
	return params.scheme == PLAN_MDS;
}

int gw_auto_explain(const struct gw_erasure *erasure, char *text, size_t size)
{
	static const char *const unknown =
		"selective-repeat: no loss has been measured, so that parity would mend nothing.";
	static const enum plan_goal goals[] = { PLAN_MEAN, PLAN_P99, PLAN_P999 };
	const struct erasure_shared *shared;
	const struct erasure_choice *choice;
	struct plan_choice justified;
	const char *why = unknown;
	size_t length;

	if (!erasure || (!text && size))
		return -EINVAL;
	shared = erasure->shared;
	choice = &shared->choices[shared->latest];
	if (choice->made && !plan_justify(&shared->path, shared->path_size,
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
