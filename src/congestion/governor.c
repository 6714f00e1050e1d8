/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * governor.c: a controller and a pacer behind the gates of queue pairs. The message layer counts packets, the controller
 * counts bytes; the mean size of the packets in flight converts between the two. When larger packets are found to arrive, those
 * in flight are smaller by up to seven times, and arrive first: they have a mean of their own.
 */
#include "congestion/governor.h"

/* Packets that the express queue pair may have in flight although the window is full. */
#define EXPRESS_PACKETS 8
/* Bytes that bulk data waits for before it is sent, at most; and the shortest time in which they are sent. */
#define BATCH_BYTES    (32u << 10)
#define BATCH_LEAST_NS 50000
/* From this rate on a batch has BATCH_BYTES. */
#define BATCH_BPS UINT64_C(10000000000)
/* Least rate, in packets. */
#define PACKETS_A_SECOND 10
/* A batch or a burst lasts at most 1 / BURST_SHARE of a round trip. */
#define BURST_SHARE   8
#define BURST_MOST_NS 4000000
/* Time after which a sender whose rate limit is 0 asks again. */
#define STOPPED_NS UINT64_C(1000000000)
/* Packets have become larger when those just sent have more than 1 + 1 / GROWN_SHARE times the mean of the latest in flight. */
#define GROWN_SHARE 4
/* A sender that was late for more than a millisecond may catch up on 1 / LATE_SHARE of a round trip. */
#define LATE_SHARE 2

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Sets the pacer to the controller's rate, but not below a few packets a second: a controller that mistakes other delay for
 * a queue might reduce the rate without end, and would then get no more reports that tell it otherwise. */
static void set_rate(struct governor *g, uint64_t now)
{
	uint64_t floor_bps = (uint64_t)g->pacer.packet_bytes * 8 * PACKETS_A_SECOND;
	uint64_t rate_bps = cc_limits(&g->cc).rate_bps;

	if (rate_bps < floor_bps)
		rate_bps = floor_bps;
	pacer_set_rate(&g->pacer, least(rate_bps, g->cap_bps), now);
}

/* Sets the pacer's burst and lateness from the round-trip time: on a long path a longer burst does no harm, and a host that
 * was busy for part of a round trip should not send less in it. */
static void set_times(struct governor *g, uint64_t rtt_ns, uint64_t now)
{
	uint64_t burst_ns = least(rtt_ns / BURST_SHARE, BURST_MOST_NS);

	g->rtt_ns = rtt_ns;
	pacer_set_times(&g->pacer, burst_ns, rtt_ns / LATE_SHARE, now);
}

uint64_t governor_in_flight(const struct governor *g)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < g->sides; i++)
		bytes += g->side[i].former.bytes + g->side[i].latest.bytes;
	return bytes;
}

/* Takes packets out, as far as they are there, and lowers *packets by their number; returns their bytes. */
static uint64_t land(struct governor_flight *flight, uint64_t *packets)
{
	uint32_t landed = (uint32_t)least(*packets, flight->packets);
	uint64_t bytes = landed ? flight->bytes * landed / flight->packets : 0;

	flight->packets -= landed;
	flight->bytes -= bytes;
	*packets -= landed;
	return bytes;
}

/* Takes out the packets that left first, which are the first to arrive; returns their bytes. */
static uint64_t land_first(struct governor_side *side, uint64_t packets)
{
	uint64_t bytes = land(&side->former, &packets);

	bytes += land(&side->latest, &packets);
	return bytes + packets * side->packet_bytes;
}

/* Notes how many packets are in flight. */
static void set_in_flight(struct governor_side *side, uint64_t packets)
{
	uint64_t known = (uint64_t)side->former.packets + side->latest.packets;

	if (known > packets) {
		land_first(side, known - packets);
	} else if (known < packets) {
		side->latest.packets += (uint32_t)(packets - known);
		side->latest.bytes += (packets - known) * side->packet_bytes;
	}
}

/* Returns how many packets the window has room for. */
static uint32_t window_allows(const struct governor_side *side, uint32_t in_flight,
			      uint32_t payload)
{
	const struct governor *g = side->governor;
	uint64_t window = cc_limits(&g->cc).window_bytes;
	uint64_t used = governor_in_flight(g);
	uint64_t packets = window > used ? (window - used) / payload : 0;

	/* One packet may always leave, since the report about it is what reopens the gate, even if the other queue pair
	 * fills the window. */
	if (!in_flight && !packets)
		packets = 1;
	if (side->express && in_flight < EXPRESS_PACKETS && packets < EXPRESS_PACKETS - in_flight)
		packets = EXPRESS_PACKETS - in_flight;
	return (uint32_t)least(packets, UINT32_MAX);
}

/* Returns how many bytes bulk data waits for, because sending in batches is cheaper. A batch is a queue at the bottleneck, so
 * it must be short compared with the round trip, or with what hosts can time. */
static uint64_t batch_bytes(const struct governor *g)
{
	const struct pacer *pacer = &g->pacer;
	uint64_t time_ns = g->rtt_ns / BURST_SHARE;
	uint64_t bytes;

	if (time_ns < BATCH_LEAST_NS)
		time_ns = BATCH_LEAST_NS;
	bytes = pacer->bucket.rate_bps < BATCH_BPS
			? bucket_bytes_in(pacer->bucket.rate_bps, time_ns)
			: BATCH_BYTES;
	return least(least(bytes, BATCH_BYTES), bucket_depth_bytes(&pacer->bucket) / 2);
}

/* Goes on from what another governor of the path has learned, if that is newer than what this one has. */
static void catch_up(struct governor *g, uint64_t now)
{
	const struct governor *latest = g;

	for (const struct list *node = g->path.next; node != &g->path; node = node->next) {
		const struct governor *other = container_of(node, struct governor, path);

		if (other->reported_ns > latest->reported_ns)
			latest = other;
	}
	if (latest == g || !cc_follow(&g->cc, &latest->cc))
		return;
	g->reported_ns = latest->reported_ns;
	if (latest->rtt_ns)
		set_times(g, latest->rtt_ns, now);
	set_rate(g, now);
}

static uint32_t allow(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
		      uint64_t *again_ns)
{
	struct governor_side *side = arg;
	struct pacer *pacer = &side->governor->pacer;
	uint64_t wanted = batch_bytes(side->governor);
	uint64_t bytes;
	uint32_t packets;

	set_in_flight(side, in_flight);
	if (!list_empty(&side->governor->path) && !governor_in_flight(side->governor))
		catch_up(side->governor, now);
	*again_ns = UINT64_MAX;
	if (!side->governor->cap_bps) {
		/* Nothing is waited for that a probe could bring: governor_cap() asks again. */
		*again_ns = now + STOPPED_NS;
		return 0;
	}
	packets = window_allows(side, in_flight, payload);
	if (!packets)
		return 0;
	if (side->express || wanted < payload)
		wanted = payload;
	/* A short message does not wait behind bulk data that leaves later. */
	bytes = side->express ? pacer_allow_first(pacer, now) : pacer_allow(pacer, now);
	if (bytes < wanted) {
		*again_ns = pacer_next_ns(pacer, wanted, now);
		return 0;
	}
	return (uint32_t)least(packets, bytes / payload);
}

static void sent(void *arg, uint32_t packets, uint64_t bytes, uint64_t now)
{
	struct governor_side *side = arg;
	struct governor_flight *latest = &side->latest;

	if (bytes / packets * GROWN_SHARE * latest->packets > latest->bytes * (GROWN_SHARE + 1)) {
		side->former.packets += latest->packets;
		side->former.bytes += latest->bytes;
		*latest = (struct governor_flight){ 0 };
	}
	latest->packets += packets;
	latest->bytes += bytes;
	side->packet_bytes = (7 * side->packet_bytes + bytes / packets + 4) / 8;
	cc_sent(&side->governor->cc, bytes, now);
	pacer_take(&side->governor->pacer, bytes, now);
}

static void report(void *arg, const struct gw_path_report *path, uint64_t now)
{
	struct governor_side *side = arg;
	struct governor *g = side->governor;
	struct cc_report known = { .delivered_packets = path->delivered_packets,
				   .delivered_bytes = land_first(side, path->delivered_packets),
				   .lost_packets = path->lost_packets,
				   .counted_packets = path->counted_packets,
				   .marked_packets = path->marked_packets,
				   .rtt_ns = path->rtt_ns,
				   .return_ns = path->return_queue_ns,
				   .rtt_bytes = path->rtt_bytes };

	set_in_flight(side, path->in_flight_packets);
	side->idle = path->idle;
	known.in_flight_bytes = governor_in_flight(g);
	known.app_limited = true;
	for (unsigned i = 0; i < g->sides; i++)
		known.app_limited &= g->side[i].idle;
	cc_report(&g->cc, &known, now);
	g->reported_ns = now;
	if (path->rtt_ns)
		set_times(g, path->rtt_ns, now);
	set_rate(g, now);
}

static void cnp(void *arg, uint64_t now)
{
	struct governor_side *side = arg;

	cc_cnp(&side->governor->cc, now);
	set_rate(side->governor, now);
}

static void timeout(void *arg, uint64_t now)
{
	struct governor_side *side = arg;

	cc_timeout(&side->governor->cc, now);
	set_rate(side->governor, now);
}

static void undo_timeout(void *arg, uint64_t now)
{
	struct governor_side *side = arg;

	cc_undo_timeout(&side->governor->cc);
	set_rate(side->governor, now);
}

static void credit(void *arg, uint32_t packets, uint64_t now)
{
	struct governor_side *side = arg;
	struct governor *g = side->governor;
	uint64_t bytes = 0;

	side->credit_bytes = (uint64_t)packets * side->packet_bytes;
	for (unsigned i = 0; i < g->sides; i++)
		bytes += g->side[i].credit_bytes;
	cc_credit(&g->cc, bytes, now);
}

static const struct gw_gate governor_gate = {
	.allow = allow,
	.sent = sent,
	.report = report,
	.cnp = cnp,
	.timeout = timeout,
	.credit = credit,
	.undo_timeout = undo_timeout,
	.flags = GW_GATE_AHEAD,
};

void governor_init(struct governor *g, struct governor *beside)
{
	*g = (struct governor){ 0 };
	list_init(&g->path);
	if (beside)
		list_add_tail(&beside->path, &g->path);
}

void governor_leave(struct governor *g)
{
	list_del(&g->path);
}

void governor_open(struct governor *g, const struct cc_ops *ops, uint64_t cap_bps,
		   struct gw_qp *const *qps, unsigned count, uint64_t now)
{
	struct pacer_attr pacer = { 0 };
	struct cc_attr cc = { 0 };
	struct gw_estimate path = { 0 };

	gw_qp_estimate(qps[0], &path);
	*g = (struct governor){ .cap_bps = cap_bps, .path = g->path, .sides = count };
	/* Packets grow as larger ones are found to arrive: what is to hold for one of them must hold for the largest. */
	pacer.packet_bytes = cc.packet_bytes = path.payload_most;
	pacer_init(&g->pacer, &pacer, now);
	cc.wake_ns = path.wake_ns;
	cc_init(&g->cc, ops, &cc, now);
	for (unsigned i = 0; i < count; i++)
		g->side[i] = (struct governor_side){ .governor = g,
						     .qp = qps[i],
						     .packet_bytes = path.payload_send,
						     .idle = true,
						     .express = i > 0 };
	set_rate(g, now);
	for (unsigned i = 0; i < count; i++)
		gw_qp_set_gate(qps[i], &governor_gate, &g->side[i]);
}

void governor_cap(struct governor *g, uint64_t cap_bps, uint64_t now)
{
	g->cap_bps = cap_bps;
	set_rate(g, now);
	for (unsigned i = 0; i < g->sides; i++)
		gw_qp_reopen(g->side[i].qp);
}

void governor_close(struct governor *g)
{
	governor_leave(g);
	for (unsigned i = 0; i < g->sides; i++)
		gw_qp_set_gate(g->side[i].qp, NULL, NULL);
}
