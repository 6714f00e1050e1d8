/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sender of the erasure scheme.
 *
 * The data is put at once. Parity is then computed a stripe at a time, one for each turn of the timer, and put behind it:
 * while the wire carries data the processor is ahead of it, and neither waits for the other. What is asked for later is
 * computed when it is asked for; an XOR code has no further parity, and is asked for data. The sender keeps nothing about single packets; as under Selective Repeat it asks when it
 * has sent everything and hears nothing.
 */
#include <errno.h>

#include "coding/xor.h"
#include "erasure_state.h"

static bool encoding(const struct gw_erasure *e)
{
	const struct erasure_sending *s = &e->sending;

	return s->parity && s->open && s->stripe < e->layout.stripes;
}

/* Sets the timer for whatever comes next: a stripe to encode, or silence to be broken. */
static void next(struct gw_erasure *e, uint64_t now)
{
	const struct erasure_sending *s = &e->sending;
	uint64_t at = 0;

	if (encoding(e)) {
		if (gw_stream_waiting(s->parity) < GW_PUTS_MAX / 2)
			at = now;
	} else if (!s->data_waiting && !s->parity_waiting) {
		at = now + erasure_backed_off(gw_qp_patience_ns(gw_send_qp(s->data)), s->silent);
	}
	gw_send_timer(s->data, at);
}

static int put_data(struct gw_erasure *e, uint32_t first, uint32_t count)
{
	const struct gw_transfer *transfer = gw_send_state(e->sending.data);
	uint64_t from = (uint64_t)first * e->layout.payload;
	uint64_t length = (uint64_t)count * e->layout.payload;
	int error;

	if (length > transfer->length - from)
		length = transfer->length - from;
	error = gw_stream_put(e->sending.data, from, (const uint8_t *)transfer->addr + from, length,
			      transfer->mr);
	if (!error && length)
		e->sending.data_waiting = true;
	return error;
}

static int put_parity(struct gw_erasure *e, uint32_t first, uint32_t count)
{
	uint64_t from = (uint64_t)first * e->layout.payload;
	int error = gw_stream_put(e->sending.parity, from, e->scratch + from,
				  (uint64_t)count * e->layout.payload, e->shared->mr);

	if (!error)
		e->sending.parity_waiting = true;
	return error;
}

static void encode(struct gw_erasure *e, uint32_t group, uint32_t first, uint32_t rows)
{
	const struct gw_transfer *transfer = gw_send_state(e->sending.data);
	const void *data[RS_SYMBOLS_MAX];
	void *parity[RS_SYMBOLS_MAX];
	struct coding_group shape;

	layout_group(&e->layout, group, &shape);
	for (uint32_t i = 0; i < shape.count; i++)
		data[i] = (const uint8_t *)transfer->addr +
			  (uint64_t)layout_data(&e->layout, group, i) * e->layout.payload;
	for (uint32_t i = 0; i < rows; i++)
		parity[i] = e->scratch + (uint64_t)layout_parity(&e->layout, group, first + i) *
						 e->layout.payload;
	if (e->layout.code == GW_CODE_XOR)
		xor_encode(&shape, rows, data, parity);
	else if (!rs_retable(e->shared->rs, e->layout.k,
			     e->layout.m)) /* another transfer's code may differ */
		rs_encode(e->shared->rs, &shape, data, first, rows, parity);
}

static void encode_stripe(struct gw_erasure *e)
{
	struct erasure_sending *s = &e->sending;
	uint32_t first = s->stripe * e->layout.depth;
	uint32_t width = layout_width(&e->layout, s->stripe);

	for (uint32_t i = 0; i < width; i++)
		encode(e, first + i, 0, e->layout.m);
	/* Parity that cannot be put is parity that is lost. */
	put_parity(e, layout_parity(&e->layout, first, 0), width * e->layout.m);
	s->stripe++;
}

/* Nothing more is encoded: what is missing is repaired with data alone. */
static void stop_coding(struct erasure_sending *s)
{
	s->open = false;
	if (s->parity)
		gw_stream_end(s->parity);
}

void erasure_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	const struct gw_transfer *transfer = gw_send_state(send);
	struct gw_erasure *e = erasure_of_send(send);
	uint32_t payload = 0;
	int error = 0;

	(void)arg;
	(void)capacity;
	gw_send_payload(send, &payload);
	layout_cut(&e->layout, transfer->length, payload);
	e->sending.cut = true;
	e->sending.codes = e->layout.m && payload <= e->attr.payload;
	if (e->layout.packets)
		error = put_data(e, 0, e->layout.packets);
	if (error)
		gw_transfer_finish_send(send, error, GW_MISSING_UNKNOWN);
	else
		next(e, now);
}

/* The receiver names what is missing, in the new numbering; groups are not coded a second time. */
void erasure_recut(struct gw_send *send, void *arg, uint64_t now)
{
	const struct gw_transfer *transfer = gw_send_state(send);
	struct gw_erasure *e = erasure_of_send(send);
	uint32_t payload = 0;

	(void)arg;
	gw_send_payload(send, &payload);
	layout_cut(&e->layout, transfer->length, payload);
	e->sending.codes = false;
	e->sending.data_waiting = false;
	stop_coding(&e->sending);
	next(e, now);
}

void erasure_drained(struct gw_send *send, void *arg, uint64_t now)
{
	struct gw_erasure *e = erasure_of_send(send);

	(void)arg;
	e->sending.data_waiting = false;
	next(e, now);
}

static bool new_round(struct erasure_sending *s, uint32_t round)
{
	if (!s->cut || (s->asked && (int32_t)(round - s->round) <= 0))
		return false;
	s->asked = true;
	s->round = round;
	s->silent = 0;
	return true;
}

void erasure_repeat(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now)
{
	struct gw_erasure *e = erasure_of_send(send);

	(void)arg;
	/* While packets wait here they may be the very ones: if not, it will ask again. */
	if (e->sending.data_waiting || !new_round(&e->sending, nack->round))
		return;
	for (uint32_t i = 0; i < nack->count; i++)
		if (put_data(e, nack->runs[i].first, nack->runs[i].count))
			break;
	next(e, now);
}

static uint32_t read_u32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       (uint32_t)bytes[3];
}

/* Puts parity rows of a group that were not sent before. Returns false if that cannot be done now. */
static bool put_rows(struct gw_erasure *e, uint32_t group, uint32_t first, uint32_t rows)
{
	/* The first pass is not computed again: the fabric may be reading it. */
	if (first < e->layout.m || first + rows > e->layout.rows)
		return false;
	if (gw_stream_waiting(e->sending.parity) + (int)rows > GW_PUTS_MAX)
		return false;
	encode(e, group, first, rows);
	for (uint32_t i = 0; i < rows; i++)
		put_parity(e, layout_parity(&e->layout, group, first + i), 1);
	return true;
}

/* Puts data symbols of a group again. */
static bool put_symbols(struct gw_erasure *e, uint32_t group, uint32_t first, uint32_t count)
{
	struct coding_group shape;

	layout_group(&e->layout, group, &shape);
	if (first + count > shape.count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (put_data(e, layout_data(&e->layout, group, first + i), 1))
			return false;
	return true;
}

void erasure_repair(struct gw_send *send, void *arg, const void *data, size_t length, uint64_t now)
{
	struct gw_erasure *e = erasure_of_send(send);
	bool fresh = e->layout.code != GW_CODE_XOR;
	const uint8_t *bytes = data;

	(void)arg;
	if (length < ERASURE_REPAIR_HEAD || bytes[0] != ERASURE_REPAIR ||
	    (fresh && (!e->sending.parity || !e->sending.open)) ||
	    !new_round(&e->sending, read_u32(bytes + 1)))
		return;
	for (size_t at = ERASURE_REPAIR_HEAD; at + ERASURE_REPAIR_ENTRY <= length;
	     at += ERASURE_REPAIR_ENTRY) {
		uint32_t group = read_u32(bytes + at);
		uint32_t first = bytes[at + 4], count = bytes[at + 5];

		/* What is not put now will be asked for again. */
		if (group >= e->layout.groups || !(fresh ? put_rows(e, group, first, count)
							 : put_symbols(e, group, first, count)))
			break;
	}
	next(e, now);
}

void erasure_send_timer(struct gw_send *send, void *arg, uint64_t now)
{
	static const uint8_t tail_probe[] = { ERASURE_TAIL_PROBE };
	struct gw_erasure *e = erasure_of_send(send);

	(void)arg;
	if (encoding(e)) {
		encode_stripe(e);
	} else {
		gw_send_control(send, tail_probe, sizeof(tail_probe));
		e->sending.silent++;
	}
	next(e, now);
}

void erasure_result(struct gw_send *send, void *arg, const struct gw_result *result, uint64_t now)
{
	(void)arg;
	(void)now;
	gw_transfer_finish_send(send, result->missing ? -ECANCELED : 0, result->missing);
}

/* ---- the end: the caller hears of it when neither message reads its memory or ours any more ----------------------- */

static void tell(struct gw_erasure *e, uint64_t now)
{
	struct gw_send *data = e->sending.data;

	e->sending.data = NULL;
	gw_transfer_sent(data, NULL, e->sending.status, now);
}

void erasure_sent(struct gw_send *send, void *arg, int status, uint64_t now)
{
	struct gw_erasure *e = erasure_of_send(send);

	(void)arg;
	e->sending.ended = true;
	e->sending.status = status;
	if (e->sending.parity)
		gw_stream_end(e->sending.parity);
	else
		tell(e, now);
}

static void parity_granted(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now)
{
	struct gw_erasure *e = arg;

	uint32_t payload = 0;

	(void)capacity;
	gw_send_payload(send, &payload);
	e->sending.open = e->sending.codes && payload == e->layout.payload;
	if (!e->sending.open)
		stop_coding(&e->sending);
	if (e->sending.cut && erasure_sends(e))
		next(e, now);
}

static void parity_drained(struct gw_send *send, void *arg, uint64_t now)
{
	struct gw_erasure *e = arg;

	(void)send;
	e->sending.parity_waiting = false;
	if (erasure_sends(e))
		next(e, now);
}

/* Also when the other end had no room for parity: then data is repeated instead. */
static void parity_sent(struct gw_send *send, void *arg, int status, uint64_t now)
{
	struct gw_erasure *e = arg;

	(void)status;
	gw_send_close(send);
	e->sending.parity = NULL;
	e->sending.parity_waiting = false;
	if (!erasure_sends(e))
		return;
	if (e->sending.ended)
		tell(e, now);
	else if (e->sending.cut)
		next(e, now);
}

/* The receiver takes no more parity: it has all, or its receive failed. What waited is dropped and will not drain. */
static void parity_result(struct gw_send *send, void *arg, const struct gw_result *result,
			  uint64_t now)
{
	struct gw_erasure *e = arg;

	(void)send;
	(void)result;
	e->sending.parity_waiting = false;
	stop_coding(&e->sending);
	if (erasure_sends(e) && e->sending.cut && !e->sending.ended)
		next(e, now);
}

static void parity_recut(struct gw_send *send, void *arg, uint64_t now)
{
	(void)send;
	(void)now;
	stop_coding(&((struct gw_erasure *)arg)->sending);
}

static const struct gw_send_handler parity_handler = { .granted = parity_granted,
						       .drained = parity_drained,
						       .result = parity_result,
						       .done = parity_sent,
						       .recut = parity_recut };

void erasure_send_begin(struct gw_send *send, uint64_t now)
{
	const struct gw_transfer *transfer = gw_send_state(send);
	struct gw_erasure *e = erasure_of_send(send);
	struct gw_send_attr attr = { .scheme = ERASURE_SCHEME_ID,
				     .handler = &parity_handler,
				     .arg = e };
	int error;

	(void)now;
	e->sending = (struct erasure_sending){ .data = send, .repeats = !e->layout.m };
	if (e->layout.m) {
		attr.length = layout_parity_bytes(transfer->length, e->attr.payload, e->layout.k,
						  e->layout.rows);
	}
	error = gw_stream_start(gw_send_qp(send), &attr, &e->sending.parity);
	if (error)
		gw_transfer_finish_send(send, error, GW_MISSING_UNKNOWN);
}
