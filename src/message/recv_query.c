/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be asked of a receive: its state, its bits, its immediate. Nothing here changes anything. */
#include <errno.h>

#include "base/bitmap.h"
#include "message/state.h"

static int check(const struct gw_recv *recv, const void *out)
{
	if (!recv || !out)
		return -EINVAL;
	return recv_valid(recv) ? 0 : -ESTALE;
}

int gw_recv_status(const struct gw_recv *recv, struct gw_recv_status *out)
{
	int error = check(recv, out);

	if (error)
		return error;
	*out = (struct gw_recv_status){ .packets = recv->packets,
					.length = recv->is_announced ? recv->length : 0,
					.landed = recv->landed,
					.highest = recv->highest,
					.scheme = recv->scheme,
					.geometry = { recv->geometry[0], recv->geometry[1] },
					.payload = recv->payload };
	if (recv->is_announced && recv->status != -EMSGSIZE) {
		out->flags |= GW_RECV_ANNOUNCED;
		if (recv->landed == recv->packets)
			out->flags |= GW_RECV_FULL;
	}
	if (recv_is_completed(recv))
		out->flags |= GW_RECV_COMPLETED;
	if (recv_is_released(recv))
		out->flags |= GW_RECV_RELEASED;
	return 0;
}

static uint32_t chunks_of(const struct gw_recv *recv)
{
	return (recv->capacity_packets + recv->chunk_packets - 1) / recv->chunk_packets;
}

int gw_recv_bitmap(const struct gw_recv *recv, const uint64_t **words, uint32_t *chunks)
{
	int error = check(recv, words);

	if (error)
		return error;
	if (!chunks)
		return -EINVAL;
	*words = recv->chunks;
	*chunks = chunks_of(recv);
	return 0;
}

int gw_recv_expand(const struct gw_recv *recv, uint32_t chunk, uint64_t *packets)
{
	int error = check(recv, packets);
	uint32_t first;
	uint64_t word;

	if (error)
		return error;
	if (chunk >= chunks_of(recv))
		return -ERANGE;
	first = chunk * recv->chunk_packets;
	word = recv->bits[first / 64] >> first % 64;
	if (recv->chunk_packets < 64)
		word &= (UINT64_C(1) << recv->chunk_packets) - 1;
	*packets = word;
	return 0;
}

int gw_recv_next_hole(const struct gw_recv *recv, uint32_t from, uint32_t below, struct gw_run *out)
{
	struct bitmap_run run;
	size_t cursor = from;
	int error = check(recv, out);

	if (error)
		return error;
	if (below > recv->capacity_packets)
		below = recv->capacity_packets;
	if (from >= below || !bitmap_next_hole(recv->bits, below, &cursor, &run))
		return 0;
	out->first = (uint32_t)run.first;
	out->count = (uint32_t)run.count;
	return 1;
}

int gw_recv_imm(const struct gw_recv *recv, uint32_t *imm)
{
	int error = check(recv, imm);

	if (error)
		return error;
	if (recv->is_announced) {
		if (!recv->has_imm)
			return -ENODATA;
		*imm = recv->imm;
		return 0;
	}
	/* Rebuilt from the packets before the announcement came. Zero may mean that there is none: only it can tell. */
	if (!recv->pieces || recv->fragments != (uint32_t)((UINT64_C(1) << recv->pieces) - 1) ||
	    !recv->fragment_value)
		return -EAGAIN;
	*imm = recv->fragment_value;
	return 0;
}

int gw_recv_test(const struct gw_recv *recv)
{
	int error = check(recv, recv);

	if (error)
		return error;
	if (!recv_is_released(recv))
		return 0;
	return recv->status ? recv->status : 1;
}

int gw_recv_close(struct gw_recv *recv)
{
	int error = check(recv, recv);

	if (error)
		return error;
	if (!recv_is_released(recv))
		return -EBUSY;
	recv->closed = true;
	recv_reap(recv);
	return 0;
}

int gw_recv_timer(struct gw_recv *recv, uint64_t at)
{
	int error = check(recv, recv);

	if (error)
		return error;
	if (recv_is_completed(recv))
		return -EALREADY;
	timer_set(recv->ctx, &recv->timer, at ? at : NEVER);
	return 0;
}

void *gw_recv_state(struct gw_recv *recv)
{
	return recv && recv_valid(recv) ? recv->state : NULL;
}

struct gw_qp *gw_recv_qp(const struct gw_recv *recv)
{
	return recv && recv_valid(recv) ? recv->qp : NULL;
}

int gw_recv_set_handler(struct gw_recv *recv, const struct gw_recv_handler *handler)
{
	if (!recv)
		return -EINVAL;
	if (!recv_valid(recv))
		return -ESTALE;
	recv->handler = handler;
	return 0;
}
