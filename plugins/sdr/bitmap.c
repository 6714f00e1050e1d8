/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bitmap.c: computes the published bitmap from Godwit's.
 *
 * Godwit has one bit for each packet and lists runs of holes. Packets between two holes have landed, and each chunk that
 * lies completely between them gets its byte. So the work depends on the number of holes, not on the size of the message,
 * and packets need not divide a chunk.
 */
#include "state.h"

static uint64_t round_up(uint64_t value, uint32_t log)
{
	return (value + (UINT64_C(1) << log) - 1) >> log;
}

/* Marks the chunks in packets [first, below), which have landed; with `joined` all packets before them have landed too. */
static void mark(struct sdr_recv_handle *handle, const struct gw_recv_status *status,
		 uint32_t first, uint32_t below, bool joined)
{
	uint32_t log = handle->qp->chunk_log;
	uint64_t from = (uint64_t)first * status->payload, to = (uint64_t)below * status->payload;

	from = joined ? from >> log : round_up(from, log);
	if (status->flags & GW_RECV_ANNOUNCED && below == status->packets)
		to = round_up(status->length, log);
	else
		to >>= log;
	/* With release order, so that a thread that sees the byte also sees the data. */
	for (; from < to; from++)
		if (!handle->bytes[from])
			__atomic_store_n(&handle->bytes[from], 1, __ATOMIC_RELEASE);
}

void bitmap_update(struct sdr_recv_handle *handle)
{
	struct gw_recv_status status;
	bool joined = true;
	uint32_t at;

	if (gw_recv_status(handle->gw, &status))
		return;
	/* Start with the last packet known to have landed: the announcement may have shown that it ends the message. */
	at = handle->whole ? handle->whole - 1 : 0;
	while (at < status.highest) {
		struct gw_run hole = { status.highest, 0 };

		gw_recv_next_hole(handle->gw, at, status.highest, &hole);
		if (hole.first > at)
			mark(handle, &status, at, hole.first, joined);
		if (joined)
			handle->whole = hole.first;
		joined = false;
		at = hole.first + hole.count;
	}
}

uint64_t bitmap_expand(const struct sdr_recv_handle *handle, uint32_t chunk)
{
	uint64_t start = (uint64_t)chunk << handle->qp->chunk_log;
	uint32_t pieces = (1u << handle->qp->chunk_log) / handle->qp->mtu;
	uint64_t length = handle->max_length, bits = 0;
	struct gw_recv_status status;
	struct gw_run hole;

	if (gw_recv_status(handle->gw, &status))
		return 0;
	if (status.flags & GW_RECV_ANNOUNCED)
		length = status.length;
	for (uint32_t i = 0; i < pieces; i++) {
		uint64_t from = start + (uint64_t)i * handle->qp->mtu;
		uint64_t to = from + handle->qp->mtu;

		if (from >= length)
			break;
		to = to < length ? to : length;
		from /= status.payload;
		to = (to + status.payload - 1) / status.payload;
		if (!gw_recv_next_hole(handle->gw, (uint32_t)from, (uint32_t)to, &hole))
			bits |= UINT64_C(1) << i;
	}
	return bits;
}
