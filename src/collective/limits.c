/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of channels while operations run: limits.h. */

#include "collective/comm.h"

/* Least bytes for a rank: fewer are over in a burst. */
#define LEAST_BYTES (UINT64_C(8) << 10)
/* Limits are lifted after this share more than an operation should take, and round trips. */
#define LIFT_SHARE 10
#define LIFT_TRIPS 4
/* Of so many operations one is a trial, and which one: windows are open by then. */
#define TRIAL_EVERY 32
#define TRIAL_FIRST 8

void limits_init(struct gw_comm *comm)
{
	comm->limits.counter = (unsigned)gw_counter_find("landed_bytes");
}

static struct track_limits *track_of(const struct gw_coll *coll)
{
	return &coll->comm->tracks[coll_track(coll)].limits;
}

/* What bytes of this rank take alone, in ns. */
static double alone_ns(const struct gw_comm *comm, double bytes)
{
	return bytes * 8e9 / (double)comm->limits.arrivals.rate_bps;
}

/* The same with those of other operations beside them. */
static double takes_ns(const struct gw_comm *comm, double bytes)
{
	return alone_ns(comm, bytes) * comm->limits.running;
}

static double bytes_at_once(const struct flow *flow)
{
	return (double)flow->peers * (double)flow->bytes;
}

/* Whether links are full while the operation runs. What arrives in one that waits tells how long it waited, and a limit of that
 * would make it wait longer, again and again. */
static bool fills(const struct gw_comm *comm, const struct flow *flow)
{
	return flow->bytes >= LEAST_BYTES && flow->meanwhile &&
	       (!comm->limits.arrivals.rate_bps ||
		alone_ns(comm, (double)flow->meanwhile) >=
			(double)arrivals_window_ns(comm->network.rtt_ns, 0));
}

uint64_t limits_bps(const struct gw_comm *comm, uint32_t track)
{
	const struct limits *l = &comm->limits;
	const struct track_limits *t = &comm->tracks[track].limits;
	uint64_t own = comm->channel.rate_bps, share;

	if (!t->flow.peers || !l->arrivals.rate_bps || gw_now_ns(comm->office->ctx) >= t->lift_ns ||
	    !limits_serve(takes_ns(comm, bytes_at_once(&t->flow)), comm->network.rtt_ns))
		return own;
	share = arrivals_allowed_bps(&l->arrivals) / t->flow.peers / l->running;
	return own && own < share ? own : share;
}

static void limit_track(struct gw_comm *comm, uint32_t track)
{
	struct track_limits *t = &comm->tracks[track].limits;
	uint64_t limit = limits_bps(comm, track);
	bool limits = limit != comm->channel.rate_bps;

	if (!limits && !t->limited)
		return;
	t->limited = limits;
	comm->limits.limited |= limits;
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

/* How long windows are while an operation runs on a track. */
static uint64_t window_ns(const struct gw_comm *comm)
{
	double longest = 0;

	for (uint32_t t = 0; t < comm->track_count; t++) {
		double bytes = bytes_at_once(&comm->tracks[t].limits.flow);

		longest = bytes > longest ? bytes : longest;
	}
	return arrivals_window_ns(comm->network.rtt_ns,
				  comm->limits.arrivals.rate_bps ? takes_ns(comm, longest) : 0);
}

/* The same operations at all ranks: what arrives at one shows what the others send. */
static bool is_trial(uint32_t number)
{
	return number % TRIAL_EVERY == TRIAL_FIRST;
}

void limits_begin(struct gw_coll *coll, const struct flow *flow)
{
	struct gw_comm *comm = coll->comm;
	uint64_t now = gw_now_ns(comm->office->ctx);
	struct track_limits *t = track_of(coll);

	/* The first operation connects ranks, and opens windows. */
	if (!fills(comm, flow) || !coll->number)
		return;
	if (!comm->limits.running++) {
		arrivals_begin(&comm->limits.arrivals, is_trial(coll->number));
		comm->limits.limited = false;
	}
	coll->limited = true;
	t->flow = *flow;
	t->lift_ns = UINT64_MAX;
	if (comm->limits.arrivals.rate_bps)
		t->lift_ns =
			now + LIFT_TRIPS * comm->network.rtt_ns +
			(uint64_t)(takes_ns(comm, (double)flow->total) * (1 + 1.0 / LIFT_SHARE));
	limit_tracks(comm);
}

void limits_end(struct gw_coll *coll)
{
	struct gw_comm *comm = coll->comm;

	if (!coll->limited)
		return;
	coll->limited = false;
	track_of(coll)->flow.peers = 0;
	if (!--comm->limits.running)
		arrivals_end(&comm->limits.arrivals, comm->limits.limited);
	limit_tracks(comm);
}

void limits_turn(struct gw_comm *comm)
{
	struct limits *l = &comm->limits;
	uint64_t now, bytes;
	bool changed;

	if (!l->running || gw_counter_read(comm->office->ctx, l->counter, &bytes))
		return;
	now = gw_now_ns(comm->office->ctx);
	changed = arrivals_see(&l->arrivals, window_ns(comm), bytes, now);
	for (uint32_t t = 0; t < comm->track_count; t++)
		changed |= comm->tracks[t].limits.limited && now >= comm->tracks[t].limits.lift_ns;
	if (changed)
		limit_tracks(comm);
}
