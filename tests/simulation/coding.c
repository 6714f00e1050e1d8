/* SPDX-License-Identifier: BSD-3-Clause */
/* Coders of messages under the erasure scheme and under auto, one for each end. They are small, so that groups and rows run
 * out. */
#include "reliability/erasure_state.h"
#include "simulation/flow.h"

static int open_end(const struct message *m, int end, struct gw_context *ctx,
		    struct gw_erasure **out)
{
	struct gw_erasure_attr attr = { .max_length = m->plan->capacity,
					.payload = m->flow->run->scenario->sim.payload,
					.k = m->plan->k,
					.m = m->plan->m,
					.rows = 6,
					.depth = 3 };

	if (m->plan->by_xor[end]) {
		attr.code = GW_CODE_XOR;
		attr.rows = 0;
		if (attr.k && attr.m > attr.k)
			attr.m = attr.k;
	}
	return gw_erasure_open(ctx, &attr, out);
}

int message_open_coding(struct message *m, struct gw_context *tx, struct gw_context *rx)
{
	int error;

	if (m->plan->mode != MODE_ERASURE && m->plan->mode != MODE_AUTO)
		return 0;
	error = open_end(m, 0, tx, &m->erasure[0]);
	return error ? error : open_end(m, 1, rx, &m->erasure[1]);
}

void message_saw_choice(const struct message *m)
{
	if (m->plan->mode == MODE_AUTO)
		run_saw(m->flow->run,
			m->erasure[0]->layout.m ? SIGHT_CHOSE_PARITY : SIGHT_CHOSE_REPEATING);
}

void message_close_coding(struct message *m, int end, bool lives)
{
	const struct gw_erasure *e = m->erasure[end];

	/* The receiver has asked for repairs. A coder serves one transfer here, so that this is about this message. */
	if (e && end == 1 && e->layout.code == GW_CODE_XOR && e->receiving.round)
		run_saw(m->flow->run, SIGHT_XOR_ASKED);
	if (!lives)
		gw_erasure_abandon(m->erasure[end]);
	else if (m->erasure[end] && gw_erasure_close(m->erasure[end]))
		run_fail(m->flow->run, "message %u: its coder is still in use", m->index);
	m->erasure[end] = NULL;
}
