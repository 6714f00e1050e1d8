/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a receiver can compute of a group, and what the group lacks beyond that.
 *
 * Under Reed-Solomon any parity packet stands for any hole: a group is mended whole or not at all, and lacks as many packets
 * as it has holes without one, whichever they be. Under XOR a row mends one hole of its own and no other's. So rows are
 * mended one by one, and what a row lacks are data packets by name: all its holes but the one it can then compute, or all
 * of them if its parity was lost.
 */
#include <assert.h>

#include "coding/xor.h"
#include "erasure_state.h"

struct group_view {
	struct coding_group shape;
	void *data[RS_SYMBOLS_MAX];
	/* symbols of the group that are missing, ascending */
	uint8_t holes[RS_SYMBOLS_MAX];
	/* missing symbols */
	uint32_t count;
};

static bool has(struct gw_recv *recv, uint32_t packet)
{
	struct gw_run run;

	return gw_recv_next_hole(recv, packet, packet + 1, &run) == 0;
}

static void view_group(struct gw_erasure *e, uint32_t group, struct group_view *view)
{
	const struct gw_transfer *transfer = gw_recv_state(e->receiving.data);

	layout_group(&e->layout, group, &view->shape);
	view->count = 0;
	for (uint32_t i = 0; i < view->shape.count; i++) {
		uint32_t packet = layout_data(&e->layout, group, i);

		view->data[i] = (uint8_t *)transfer->addr + (uint64_t)packet * e->layout.payload;
		if (!has(e->receiving.data, packet))
			view->holes[view->count++] = (uint8_t)i;
	}
}

/* A parity packet, if it is here. */
static const void *parity_of(struct gw_erasure *e, uint32_t group, uint32_t row)
{
	uint32_t packet = layout_parity(&e->layout, group, row);

	if (!e->receiving.parity || !has(e->receiving.parity, packet))
		return NULL;
	return e->scratch + (uint64_t)packet * e->layout.payload;
}

static void count_rebuilt(struct gw_erasure *e, uint32_t group, const uint8_t *rebuilt,
			  uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		gw_recv_rebuilt(e->receiving.data, layout_data(&e->layout, group, rebuilt[i]));
}

static uint32_t mend_by_reed_solomon(struct gw_erasure *e, uint32_t group,
				     const struct group_view *view)
{
	const void *parity[RS_SYMBOLS_MAX];
	uint8_t rows[RS_SYMBOLS_MAX];
	uint32_t here = 0;

	for (uint32_t row = 0; row < e->next_row[group] && here < view->count; row++) {
		parity[here] = parity_of(e, group, row);
		if (parity[here])
			rows[here++] = (uint8_t)row;
	}
	if (here < view->count)
		return view->count - here;
	if (view->count && rs_decode(e->shared->rs, &view->shape, view->data, view->holes,
				     view->count, rows, parity))
		return view->count;
	count_rebuilt(e, group, view->holes, view->count);
	return 0;
}

static uint32_t mend_by_xor(struct gw_erasure *e, uint32_t group, const struct group_view *view,
			    uint8_t wanted[RS_SYMBOLS_MAX])
{
	const void *parity[RS_SYMBOLS_MAX];
	uint8_t holes[RS_SYMBOLS_MAX] = { 0 }, seen[RS_SYMBOLS_MAX] = { 0 }; /* of each row */
	uint8_t alone[RS_SYMBOLS_MAX];
	uint32_t m = e->layout.m, mended = 0, lacks = 0;
	int error;

	assert(m);
	for (uint32_t i = 0; i < view->count; i++)
		holes[view->holes[i] % m]++;
	for (uint32_t i = 0; i < view->count; i++) {
		uint32_t row = view->holes[i] % m;

		parity[row] = parity_of(e, group, row);
		if (!parity[row] || ++seen[row] < holes[row])
			wanted[lacks++] = view->holes[i];
		else if (holes[row] == 1)
			alone[mended++] = view->holes[i];
	}
	error = xor_decode(&view->shape, m, view->data, alone, mended, parity);
	assert(!error);
	count_rebuilt(e, group, alone, mended);
	return lacks;
}

uint32_t erasure_mend(struct gw_erasure *e, uint32_t group, uint8_t wanted[RS_SYMBOLS_MAX])
{
	struct group_view view;
	uint32_t lacks;

	view_group(e, group, &view);
	if (e->layout.code == GW_CODE_XOR)
		lacks = mend_by_xor(e, group, &view, wanted);
	else
		lacks = mend_by_reed_solomon(e, group, &view);
	if (!lacks)
		e->next_row[group] = (uint8_t)(e->layout.rows + 1);
	return lacks;
}
