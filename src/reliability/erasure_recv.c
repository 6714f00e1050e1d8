/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiver of the erasure scheme.
 *
 * A stripe is looked at when parity of it, or of a later one, has landed: before that its holes may be packets under way.
 * A group that has as many parity packets as holes is decoded in place, and its packets count as landed. One that has too
 * few when parity well above has landed, or when the sender says that it has sent everything, asks for as many fresh rows
 * as it lacks; and again for others once a patience, since any row is as good as another. When it has asked for all there
 * are, its holes are named as under Selective Repeat. An XOR code has no fresh rows: its groups ask for data symbols by
 * name, those that its rows cannot do without.
 */
#include <errno.h>
#include <string.h>

#include "erasure_state.h"

#define ENTRIES_MAX   ((GW_CONTROL_MAX - ERASURE_REPAIR_HEAD) / ERASURE_REPAIR_ENTRY)
#define REQUESTS_A_GO 4

/* Groups that ask, on their way into datagrams. */
struct request {
	uint8_t bytes[GW_CONTROL_MAX];
	uint32_t entries;
	uint32_t sent;
	/* a group has asked for every row */
	bool exhausted;
};

/* Takes the sender's word for how groups are made up. False: it is nothing this end could decode. */
static bool understood(const struct gw_erasure *e, const uint32_t geometry[2],
		       struct erasure_layout *out)
{
	uint32_t k = geometry[0] & 0xff, m = geometry[0] >> ERASURE_GEOMETRY_M & 0xff;
	uint32_t rows = geometry[0] >> ERASURE_GEOMETRY_ROWS & 0xff;
	uint32_t code = geometry[0] >> ERASURE_GEOMETRY_CODE, depth = geometry[1];

	if (code == GW_CODE_XOR && rows == 0 && m <= k)
		rows = m;
	else if (code != GW_CODE_REED_SOLOMON || k > e->k_max || rows > RS_SYMBOLS_MAX - e->k_max)
		return false;
	if (!k || !m || m > rows || rows > ERASURE_ROWS_LIMIT || !depth || depth > UINT16_MAX)
		return false;
	out->k = k;
	out->m = m;
	out->rows = rows;
	out->depth = depth;
	out->code = code;
	return true;
}

static void cut(struct gw_erasure *e, const struct gw_recv_status *status)
{
	const struct gw_transfer *transfer = gw_recv_state(e->receiving.data);
	struct erasure_receiving *r = &e->receiving;
	struct erasure_layout *layout = &e->layout;
	struct gw_recv_status parity;

	r->codes = !r->recut && r->parity && !gw_recv_status(r->parity, &parity) &&
		   parity.payload == status->payload && understood(e, status->geometry, layout) &&
		   status->scheme == transfer->scheme->id;
	if (!r->codes)
		*layout = (struct erasure_layout){ .k = 1, .m = 1, .rows = 1, .depth = 1 };
	layout_cut(layout, status->length, status->payload);
	/* The peer chose some of this: what it names must lie within our memory. */
	if (layout->groups > e->groups_max ||
	    (uint64_t)layout->groups * layout->rows * layout->payload > e->parity_most)
		r->codes = false;
	if (r->codes)
		memset(e->next_row, (int)layout->m, layout->groups);
	r->cut = true;
}

static bool whole(const struct gw_erasure *e, uint32_t group)
{
	return e->next_row[group] > e->layout.rows;
}

static void write_u32(uint8_t *bytes, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(value >> 8 * (3 - i));
}

static void flush(struct gw_erasure *e, struct request *request)
{
	struct erasure_receiving *r = &e->receiving;
	uint32_t done = 0;

	while (done < request->entries) {
		uint32_t left = request->entries - done;
		uint32_t count = left < r->entries_max ? left : r->entries_max;
		/* Where the entries before were: the head is shorter than one. */
		uint8_t *bytes = request->bytes + done * ERASURE_REPAIR_ENTRY;

		bytes[0] = ERASURE_REPAIR;
		write_u32(bytes + 1, ++r->round);
		if (gw_recv_control(r->data, bytes,
				    ERASURE_REPAIR_HEAD + count * ERASURE_REPAIR_ENTRY) ==
			    -EMSGSIZE &&
		    count > 1) {
			r->entries_max = count / 2; /* the path takes no datagram as long as that */
			continue;
		}
		done += count;
		request->sent++;
	}
	request->entries = 0;
}

/* Returns whether there was room for it. */
static bool ask_for(struct gw_erasure *e, struct request *request, uint32_t group, uint32_t first,
		    uint32_t count)
{
	uint8_t *entry =
		request->bytes + ERASURE_REPAIR_HEAD + request->entries * ERASURE_REPAIR_ENTRY;

	if (request->sent >= REQUESTS_A_GO)
		return false;
	write_u32(entry, group);
	entry[4] = (uint8_t)first;
	entry[5] = (uint8_t)count;
	if (++request->entries >= e->receiving.entries_max)
		flush(e, request);
	return true;
}

static void ask_for_rows(struct gw_erasure *e, struct request *request, uint32_t group,
			 uint32_t count)
{
	if (e->next_row[group] + count > e->layout.rows)
		request->exhausted = true;
	else if (ask_for(e, request, group, e->next_row[group], count))
		e->next_row[group] = (uint8_t)(e->next_row[group] + count);
}

static void ask_for_symbols(struct gw_erasure *e, struct request *request, uint32_t group,
			    const uint8_t *wanted, uint32_t count)
{
	for (uint32_t i = 0, run; i < count; i += run) {
		for (run = 1; i + run < count && wanted[i + run] == wanted[i] + run;)
			run++;
		if (!ask_for(e, request, group, wanted[i], run))
			return;
		e->next_row[group] = 0;
	}
}

/* Names every hole in provable stripes: some group has no rows left to ask for. */
static void name_holes(struct gw_erasure *e, const struct gw_recv_status *status)
{
	struct erasure_receiving *r = &e->receiving;
	uint64_t below = (uint64_t)r->provable * e->layout.depth * e->layout.k;
	uint32_t from = 0;

	if (below > status->packets)
		below = status->packets;
	gw_recv_nack_holes(r->data, ++r->round, &from, (uint32_t)below);
}

/* How far the first pass of parity has come: one past the highest packet of it that landed. */
static uint32_t first_pass(struct gw_erasure *e)
{
	uint32_t end = e->layout.groups * e->layout.m, at = e->receiving.passed;
	struct gw_run run;

	while (e->receiving.parity && gw_recv_next_hole(e->receiving.parity, at, end, &run) == 1) {
		if (run.first > e->receiving.passed)
			e->receiving.passed = run.first;
		at = run.first + run.count;
		if (at >= end)
			return e->receiving.passed;
		e->receiving.passed = at;
	}
	return e->receiving.parity ? e->receiving.passed = end : 0;
}

static uint32_t stripes_below(const struct gw_erasure *e, uint32_t parity)
{
	return parity / (e->layout.depth * e->layout.m);
}

static void set_timer(struct gw_erasure *e, uint64_t now)
{
	struct erasure_receiving *r = &e->receiving;

	gw_recv_timer(r->data,
		      now + erasure_backed_off(gw_qp_patience_ns(gw_recv_qp(r->data)), r->quiet));
}

/* Goes through the stripes that can be judged: mends what can be mended, and asks. `again`: also for what was asked for
 * before. Returns whether anything was asked for. */
static bool judge(struct gw_erasure *e, const struct gw_recv_status *status, bool again)
{
	struct erasure_receiving *r = &e->receiving;
	struct request request = { .entries = 0 };
	uint8_t wanted[RS_SYMBOLS_MAX];
	uint32_t passed = r->codes ? first_pass(e) : 0;
	/* Also the one of which some parity has landed, but none before: looking costs as much as the stripe is long. */
	uint32_t visible = r->codes && passed ? stripes_below(e, passed - 1) + 1 : 0;

	r->provable = r->tail ? e->layout.stripes
			      : stripes_below(e, passed > SLACK_FIRST ? passed - SLACK_FIRST : 0);
	if (passed == e->layout.groups * e->layout.m)
		r->provable = e->layout.stripes; /* the very last one landed */
	if (visible > e->layout.stripes || r->tail)
		visible = e->layout.stripes;
	for (uint32_t stripe = r->stripe; r->codes && stripe < visible; stripe++) {
		uint32_t first = stripe * e->layout.depth, open = 0;

		for (uint32_t group = first; group < first + layout_width(&e->layout, stripe);
		     group++) {
			uint32_t lacks = whole(e, group) ? 0 : erasure_mend(e, group, wanted);

			open += lacks > 0;
			if (!lacks || stripe >= r->provable ||
			    (!again && e->next_row[group] != e->layout.m))
				continue;
			if (e->layout.code == GW_CODE_XOR)
				ask_for_symbols(e, &request, group, wanted, lacks);
			else
				ask_for_rows(e, &request, group, lacks);
		}
		if (!open && stripe == r->stripe)
			r->stripe++;
	}
	flush(e, &request);
	if (again && (request.exhausted || !r->codes))
		name_holes(e, status);
	return request.sent || request.exhausted;
}

static bool finished(struct gw_erasure *e, struct gw_recv_status *status)
{
	struct erasure_receiving *r = &e->receiving;

	if (gw_recv_status(r->data, status) || status->flags & GW_RECV_COMPLETED)
		return true;
	if (!(status->flags & GW_RECV_FULL))
		return false;
	gw_transfer_finish_recv(r->data, 0, 0);
	if (r->parity)
		gw_recv_complete(r->parity);
	return true;
}

static void look(struct gw_erasure *e, bool again, uint64_t now)
{
	struct erasure_receiving *r = &e->receiving;
	struct gw_recv_status status;
	bool asked;

	if (r->ended || r->repeats || finished(e, &status) || !(status.flags & GW_RECV_ANNOUNCED))
		return;
	if (!r->cut)
		cut(e, &status);
	if (status.landed != r->landed)
		r->quiet = 0;
	asked = judge(e, &status, again);
	if (finished(e, &status))
		return;
	r->landed = status.landed;
	if (again || asked) {
		r->asked_ns = now;
		set_timer(e, now);
	}
	/* Groups that ask for the first time say nothing about those that asked before. */
	r->quiet += again;
}

void erasure_look(struct gw_recv *recv, void *arg, uint64_t now)
{
	(void)arg;
	look(erasure_of_recv(recv), false, now);
}

void erasure_recv_recut(struct gw_recv *recv, void *arg, uint64_t now)
{
	struct gw_erasure *e = erasure_of_recv(recv);

	(void)arg;
	e->receiving.recut = e->receiving.tail = true;
	e->receiving.cut = false;
	look(e, true, now);
}

void erasure_recv_timer(struct gw_recv *recv, void *arg, uint64_t now)
{
	(void)arg;
	look(erasure_of_recv(recv), true, now);
}

void erasure_asked(struct gw_recv *recv, void *arg, const void *data, size_t length, uint64_t now)
{
	struct gw_erasure *e = erasure_of_recv(recv);

	(void)arg;
	if (length < 1 || *(const uint8_t *)data != ERASURE_TAIL_PROBE)
		return;
	e->receiving.tail = true;
	e->receiving.quiet = 0;
	/* But for what was asked for so lately that the question may still be under way. */
	look(e,
	     !e->receiving.asked_ns ||
		     now - e->receiving.asked_ns >= gw_qp_answer_ns(gw_recv_qp(recv)),
	     now);
}

/* ---- the end: the caller hears of it when nothing lands in its memory or ours any more ---------------------------- */

static void tell(struct gw_erasure *e, uint64_t now)
{
	struct gw_recv *data = e->receiving.data;

	e->receiving.data = NULL;
	gw_transfer_received(data, NULL, e->receiving.status, now);
}

void erasure_received(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	struct gw_erasure *e = erasure_of_recv(recv);

	(void)arg;
	e->receiving.ended = true;
	e->receiving.status = status;
	if (e->receiving.parity)
		gw_recv_complete(e->receiving.parity);
	else
		tell(e, now);
}

static void parity_progress(struct gw_recv *recv, void *arg, uint64_t now)
{
	(void)recv;
	if (erasure_receives(arg))
		look(arg, false, now);
}

/* Also when it was too small for the sender's parity: then data is asked for instead. */
static void parity_released(struct gw_recv *recv, void *arg, int status, uint64_t now)
{
	struct gw_erasure *e = arg;

	(void)status;
	gw_recv_close(recv);
	e->receiving.parity = NULL;
	e->receiving.codes = false;
	if (e->receiving.ended && erasure_receives(e))
		tell(e, now);
}

static const struct gw_recv_handler parity_handler = { .progress = parity_progress,
						       .released = parity_released };

void erasure_recv_begin(struct gw_recv *recv, uint64_t now)
{
	const struct gw_transfer *transfer = gw_recv_state(recv);
	struct gw_erasure *e = erasure_of_recv(recv);
	struct gw_recv_attr attr = { .addr = e->scratch,
				     .length = e->parity_most,
				     .mr = e->shared->mr,
				     .tag = transfer->tag,
				     .flags = GW_RECV_SPARSE | GW_RECV_SAME_SIZE,
				     .handler = &parity_handler,
				     .arg = e };
	int error;

	(void)now;
	e->receiving = (struct erasure_receiving){ .data = recv, .entries_max = ENTRIES_MAX };
	error = gw_recv_post(gw_recv_qp(recv), &attr, &e->receiving.parity);
	if (error == -ENOBUFS) {
		/* No memory for its bitmap: it is posted all the same, or the two ends would count differently. */
		attr.length = 0;
		error = gw_recv_post(gw_recv_qp(recv), &attr, &e->receiving.parity);
	}
	if (error)
		gw_transfer_finish_recv(recv, error, GW_MISSING_UNKNOWN);
}
