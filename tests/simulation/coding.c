/* SPDX-License-Identifier: BSD-3-Clause */
/* The coders of messages under the erasure scheme and under auto: one for each end, small, so that groups and rows run out. */
#include "reliability/erasure_state.h"
#include "simulation/flow.h"

int message_open_coding(struct message *m, struct gw_context *tx, struct gw_context *rx)
{
	struct gw_erasure_attr attr = { .max_length = m->plan->capacity,
					.payload = m->flow->run->scenario->sim.payload,
					.k = m->plan->k,
					.m = m->plan->m,
					.rows = 6,
					.depth = 3 };
	int error;

	if (m->plan->mode != MODE_ERASURE && m->plan->mode != MODE_AUTO)
		return 0;
	error = gw_erasure_open(tx, &attr, &m->erasure[0]);
	return error ? error : gw_erasure_open(rx, &attr, &m->erasure[1]);
}

void message_saw_choice(const struct message *m)
{
	if (m->plan->mode == MODE_AUTO)
		run_saw(m->flow->run,
			m->erasure[0]->layout.m ? SIGHT_CHOSE_PARITY : SIGHT_CHOSE_REPEATING);
}

void message_close_coding(struct message *m, int end, bool lives)
{
	if (!lives)
		gw_erasure_abandon(m->erasure[end]);
	else if (m->erasure[end] && gw_erasure_close(m->erasure[end]))
		run_fail(m->flow->run, "message %u: its coder is still in use", m->index);
	m->erasure[end] = NULL;
}
