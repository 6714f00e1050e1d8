/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of channels while all ranks send to all: exchange.h. */
#include <string.h>

#include "collective/comm.h"

/* Least bytes for a rank: fewer are over in a burst. And least ranks: a sender alone meets nobody. */
#define LEAST_BYTES (UINT64_C(8) << 10)
#define LEAST_PEERS 2
/* Limits are lifted after this share more than an exchange should take, and round trips. */
#define LIFT_SHARE 10
#define LIFT_TRIPS 4

void exchange_init(struct gw_comm *comm)
{
	unsigned *counter = &comm->exchange.counter;

	while (*counter < gw_counter_count() && strcmp(gw_counter_name(*counter), "landed_bytes"))
		++*counter;
}

static struct exchange_track *track_of(const struct gw_coll *coll)
{
	return &coll->comm->tracks[coll_track(coll)].exchange;
}

/* What bytes of this rank take with those of other exchanges beside them, in ns. */
static double takes_ns(const struct gw_comm *comm, double bytes)
{
	return bytes * comm->exchange.running * 8e9 / (double)comm->exchange.arrivals.rate_bps;
}

uint64_t exchange_limit_bps(const struct gw_comm *comm, uint32_t track)
{
	const struct exchange *e = &comm->exchange;
	const struct exchange_track *t = &comm->tracks[track].exchange;
	uint64_t own = comm->channel.rate_bps, share,
		 least_ns = ARRIVALS_WINDOWS * arrivals_window_ns(comm->network.rtt_ns);

	/* A short one is over before all senders have opened their windows. */
	if (!t->peers || !e->arrivals.rate_bps || gw_now_ns(comm->office->ctx) >= t->lift_ns ||
	    takes_ns(comm, (double)t->peers * (double)t->bytes) < (double)least_ns)
		return own;
	share = arrivals_allowed_bps(&e->arrivals) / t->peers / e->running;
	return own && own < share ? own : share;
}

static void limit_track(struct gw_comm *comm, uint32_t track)
{
	struct exchange_track *t = &comm->tracks[track].exchange;
	uint64_t limit = exchange_limit_bps(comm, track);
	bool limits = limit != comm->channel.rate_bps;

	if (!limits && !t->limited)
		return;
	t->limited = limits;
	for (uint32_t r = 0; comm->tracks[track].links && r < comm->size; r++)
		if (comm->tracks[track].links[r])
			gw_channel_set_rate(comm->tracks[track].links[r]->channel,
					    limit ? limit : GW_RATE_UNLIMITED);
}

static void limit_tracks(struct gw_comm *comm)
{
	for (uint32_t t = 0; t < comm->track_count; t++)
		limit_track(comm, t);
}

void exchange_begin(struct gw_coll *coll, uint32_t peers, uint64_t bytes, uint64_t total)
{
	struct gw_comm *comm = coll->comm;
	uint64_t now = gw_now_ns(comm->office->ctx);
	struct exchange_track *t = track_of(coll);

	/* The first operation of a track connects ranks, and opens windows. */
	if (peers < LEAST_PEERS || bytes < LEAST_BYTES || coll->number < comm->track_count)
		return;
	if (!comm->exchange.running++)
		arrivals_begin(&comm->exchange.arrivals);
	coll->exchanges = true;
	t->peers = peers;
	t->bytes = bytes;
	t->lift_ns = UINT64_MAX;
	if (comm->exchange.arrivals.rate_bps)
		t->lift_ns = now + LIFT_TRIPS * comm->network.rtt_ns +
			     (uint64_t)(takes_ns(comm, (double)total) * (1 + 1.0 / LIFT_SHARE));
	limit_tracks(comm);
}

void exchange_end(struct gw_coll *coll)
{
	struct gw_comm *comm = coll->comm;

	if (!coll->exchanges)
		return;
	coll->exchanges = false;
	track_of(coll)->peers = 0;
	if (!--comm->exchange.running)
		arrivals_end(&comm->exchange.arrivals);
	limit_tracks(comm);
}

void exchange_turn(struct gw_comm *comm)
{
	struct exchange *e = &comm->exchange;
	uint64_t now, bytes;
	bool changed;

	if (!e->running || gw_counter_read(comm->office->ctx, e->counter, &bytes))
		return;
	now = gw_now_ns(comm->office->ctx);
	changed = arrivals_see(&e->arrivals, arrivals_window_ns(comm->network.rtt_ns), bytes, now);
	for (uint32_t t = 0; t < comm->track_count; t++)
		changed |=
			comm->tracks[t].exchange.limited && now >= comm->tracks[t].exchange.lift_ns;
	if (changed)
		limit_tracks(comm);
}
