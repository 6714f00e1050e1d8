/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draws a scenario from a seed. Most draws lead to trouble: few slots, so that they are used again; small queues, short
 * timers, heavy loss. Some networks are without faults, for bugs that show only there.
 */
#include <stdio.h>
#include <string.h>

#include "simulation/scenario.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* Packets that may be in flight towards a host that is no NIC, by default. */
#define WINDOW_MOST	   2048
#define CONTROL_LOSS_LIMIT 0.6
/* Tells the generator of far scenarios from the one of all others. */
#define FAR_SALT UINT64_C(0x66617261776179)

static uint64_t between(struct rng *rng, uint64_t low, uint64_t high)
{
	return low + rng_below(rng, high - low + 1);
}

static uint32_t pick(struct rng *rng, const uint32_t *values, size_t count)
{
	return values[rng_below(rng, count)];
}
#define PICK(rng, ...)                                                                             \
	pick(rng, (const uint32_t[]){ __VA_ARGS__ },                                               \
	     sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static void draw_link(struct rng *rng, struct link_attr *link)
{
	static const uint64_t delays[] = { 1 * US, 20 * US, 200 * US, 2 * MS, 12 * MS };
	static const double losses[] = { 0, 0, 0.001, 0.01, 0.05, 0.2 };

	link->delay_ns = delays[rng_below(rng, 5)];
	link->rate_bps = rng_chance(rng, 0.7) ? UINT64_C(10000000) << rng_below(rng, 12) : 0;
	link->loss = losses[rng_below(rng, 6)];
	if (rng_chance(rng, 0.25)) {
		link->burst_enter = 0.005;
		link->burst_leave = 0.1;
		link->burst_loss = 0.7;
	}
	if (rng_chance(rng, 0.3))
		link->duplicate = 0.03;
	if (rng_chance(rng, 0.3))
		link->corrupt = 0.02;
	if (rng_chance(rng, 0.3)) {
		link->reorder = 0.05;
		link->reorder_ns = between(rng, 1, 2 * link->delay_ns);
	}
	if (rng_chance(rng, 0.2))
		link->jitter_ns = between(rng, 1, link->delay_ns);
	if (rng_chance(rng, 0.3)) {
		link->queue_bytes = between(rng, 20000, 400000);
		link->ecn_bytes = link->queue_bytes / 3;
	}
}

static void draw_shape(struct rng *rng, struct sim_shape_attr *shape)
{
	uint64_t draw = rng_below(rng, 10);

	draw_link(rng, &shape->edge);
	shape->core = shape->edge;
	if (draw < 6) {
		shape->shape = SIM_PAIR;
		shape->hosts = 2;
	} else if (draw < 8) {
		shape->shape = SIM_STAR;
		shape->hosts = (uint32_t)between(rng, 3, 6);
	} else if (draw < 9) {
		shape->shape = SIM_RING;
		shape->leaves = (uint32_t)between(rng, 2, 4);
		shape->hosts = shape->leaves + (uint32_t)rng_below(rng, 3);
		draw_link(rng, &shape->core);
	} else {
		shape->shape = SIM_CLOS;
		shape->leaves = 2;
		shape->spines = 2;
		shape->hosts = 4;
		draw_link(rng, &shape->core);
	}
}

/* Returns an upper bound of the time that a packet can be under way: slots of NIC hosts rest for so long. */
static uint64_t lifetime(const struct sim_shape_attr *shape)
{
	uint64_t total = 0;
	const struct link_attr *links[2] = { &shape->edge, &shape->core };

	for (int i = 0; i < 2; i++) {
		uint64_t queue = links[i]->rate_bps
					 ? 4 * MS + UINT64_C(8000000) * 8 * S / links[i]->rate_bps
					 : 0;

		total += 2 *
			 (links[i]->delay_ns + links[i]->jitter_ns + links[i]->reorder_ns + queue);
	}
	return total;
}

static void draw_host(struct rng *rng, struct scenario *s)
{
	struct sim_host_attr *host = &s->host;

	host->lanes = rng_chance(rng, 0.5) ? 1 : (uint32_t)between(rng, 2, 4);
	host->queue = PICK(rng, 32, 64, 256, 4096);
	host->nic = rng_chance(rng, 0.55);
	if (!host->nic)
		return;
	host->fence_ns = rng_chance(rng, 0.7) ? between(rng, 0, 500 * US) : 0;
	host->read_ns = rng_chance(rng, 0.85)
				? between(rng, 0, rng_chance(rng, 0.9) ? 200 * MS : 50 * US)
				: 0;
	host->completion_ns = rng_chance(rng, 0.7) ? between(rng, 0, 200 * US) : 0;
	host->lifetime_ns = lifetime(&s->shape);
	if (!rng_chance(rng, 0.9))
		return;
	/* A fast network and a slow host: completions still wait to be polled when their slot is used again. Two bits of
	 * generation tell four uses apart, so that the slot needs to rest for only a third of the time that a completion
	 * can take. */
	host->undrained = true;
	host->fence_ns = 10 * US;
	host->completion_ns = between(rng, 8 * MS, 60 * MS);
	s->shape.edge.delay_ns = s->shape.core.delay_ns = 1 * US;
	s->shape.edge.rate_bps = s->shape.core.rate_bps = 0;
	s->shape.edge.jitter_ns = s->shape.core.jitter_ns = 0;
	s->shape.edge.reorder_ns = s->shape.core.reorder_ns = 1 * US;
	host->lifetime_ns = lifetime(&s->shape);
	if (host->lifetime_ns < host->completion_ns / 3 + 1)
		host->lifetime_ns = host->completion_ns / 3 + 1;
}

static void draw_qp(struct rng *rng, struct scenario *s)
{
	struct gw_qp_attr *qp = &s->qp;

	s->sim.payload = PICK(rng, 64, 256, 1024, 1436);
	/* Sometimes the path carries smaller packets than the interfaces, but always the largest control datagram. */
	if (s->sim.payload >= 1024 && rng_chance(rng, 0.6)) {
		s->sim.rungs[0] = 768;
		s->sim.rungs[1] = 512;
		s->sim.path_payload = PICK(rng, 0, 600, 800);
	}
	qp->chunk_packets = PICK(rng, 1, 2, 16, 64);
	qp->slots = PICK(rng, 1, 2, 4, 8, 64);
	if (s->host.undrained)
		qp->slots = PICK(rng, 1, 2);
	if (rng_chance(rng, 0.3)) {
		qp->slot_bits = (uint8_t)between(rng, 6, 12);
		qp->user_bits = (uint8_t)between(rng, 2, 8);
		qp->packet_bits = (uint8_t)(32 - qp->slot_bits - qp->user_bits);
	}
	qp->peer_timeout_ns = between(rng, 1, 8) * S;
}

static void draw_message(struct rng *rng, struct message_plan *m, uint32_t payload)
{
	uint64_t most = rng_chance(rng, 0.1) ? UINT64_C(400) * payload : UINT64_C(24) * payload;

	m->mode = rng_chance(rng, 0.5) ? MODE_EXACT : (enum message_mode)rng_below(rng, MODES);
	m->length = rng_chance(rng, 0.06) ? 0 : between(rng, 1, most);
	if (rng_chance(rng, 0.3))
		m->length -= m->length % payload;
	m->capacity = m->length + (rng_chance(rng, 0.5) ? rng_below(rng, 3000) : 0);
	if (message_is_raw(m) && rng_chance(rng, 0.02) && m->length)
		m->capacity = m->length - 1;
	if (!m->capacity)
		m->capacity = 1;
	m->has_imm = rng_chance(rng, 0.5);
	m->imm = (uint32_t)rng_u64(rng);
	m->hold_ns = between(rng, 0, 40 * MS);
	m->receive_early = message_is_raw(m) && rng_chance(rng, 0.05);
	m->send_abandoned = message_is_raw(m) && rng_chance(rng, 0.05);
	m->gaps = rng_chance(rng, 0.5) ? (uint32_t)between(rng, 2, 9) : 0;
	m->stream_twice = rng_chance(rng, 0.3);
	m->k = PICK(rng, 0, 1, 4, 16, 32);
	m->m = PICK(rng, 0, 1, 2, 4);
	m->deadline_ns = between(rng, 0, rng_chance(rng, 0.5) ? 2 * MS : 200 * MS);
	m->floor_ppm = PICK(rng, 0, 0, 500000, 1000000);
	m->in_line = (m->imm & 7) > 0;
	m->by_xor[0] = m->mode == MODE_ERASURE && m->imm >> 3 & 1;
	m->by_xor[1] = m->mode == MODE_ERASURE && m->imm >> 4 & 1;
}

static void draw_flows(struct rng *rng, struct scenario *s)
{
	uint32_t pairs = (uint32_t)between(rng, 1, s->shape.hosts > 2 ? 3 : 2);

	s->flow_count = 2 * pairs;
	for (uint32_t i = 0; i < s->flow_count; i++) {
		struct flow_plan *flow = &s->flow[i];

		if (i % 2) {
			flow->from = s->flow[i - 1].to;
			flow->to = s->flow[i - 1].from;
			flow->messages = rng_chance(rng, 0.6) ? 0 : (uint32_t)between(rng, 1, 8);
		} else {
			flow->from = (uint32_t)rng_below(rng, s->shape.hosts);
			do {
				flow->to = (uint32_t)rng_below(rng, s->shape.hosts);
			} while (flow->to == flow->from);
			flow->messages = (uint32_t)between(rng, 1, MESSAGES_MAX);
		}
		flow->sends_open = (uint32_t)between(rng, 1, 16);
		flow->recvs_open = (uint32_t)between(rng, 1, 12);
		for (uint32_t m = 0; m < flow->messages; m++) {
			draw_message(rng, &flow->message[m], s->sim.payload);
			if (s->host.undrained && message_is_raw(&flow->message[m]))
				flow->message[m].hold_ns =
					rng_below(rng, s->host.completion_ns / 2);
		}
	}
}

static void draw_misfortunes(struct rng *rng, struct scenario *s)
{
	if (!rng_chance(rng, 0.5))
		return;
	s->misfortune_count = (uint32_t)between(rng, 1, MISFORTUNES_MAX);
	for (uint32_t i = 0; i < s->misfortune_count; i++) {
		struct misfortune *m = &s->misfortune[i];

		m->kind = (enum misfortune_kind)rng_below(rng, MISFORTUNES);
		m->at_ns = between(rng, 0, rng_chance(rng, 0.5) ? 2 * MS : 200 * MS);
		m->for_ns = between(rng, 1 * MS, rng_chance(rng, 0.2) ? 12 * S : 400 * MS);
		m->which = (uint32_t)rng_u64(rng);
		if (m->kind == DEATH || m->kind == CLOSE || m->kind == JUMP ||
		    2 * m->for_ns >= s->qp.peer_timeout_ns)
			s->may_fail = true;
	}
}

/* Returns the mean loss of the longest route. Where it is heavy a peer may hear nothing for its whole timeout. */
static double path_loss(const struct sim_shape_attr *shape)
{
	double through = 1 - link_mean_loss(&shape->edge);
	double core = 1 - link_mean_loss(&shape->core);

	if (shape->shape != SIM_PAIR)
		through *= through;
	if (shape->shape == SIM_RING || shape->shape == SIM_CLOS)
		through *= core * core;
	return 1 - through;
}

/* Where there are several lanes some may be longer than the others, lose or reorder packets, or lose all of them. */
static void draw_lanes(struct rng *rng, struct scenario *s)
{
	/* Whether the path loses much even without the loss of its lanes. */
	bool hard = path_loss(&s->shape) > 0.1;
	double lost = 0;

	if (s->host.lanes < 2 || !rng_chance(rng, 0.75))
		return;
	s->shape.uneven = true;
	for (uint32_t i = 0; i < s->host.lanes; i++) {
		struct link_attr *lane = &s->shape.lane[i];

		if (rng_chance(rng, 0.5))
			lane->delay_ns = between(rng, 0, 2 * s->shape.edge.delay_ns);
		if (rng_chance(rng, 0.2))
			lane->jitter_ns = between(rng, 0, s->shape.edge.delay_ns);
		if (rng_chance(rng, 0.3))
			lane->loss = hard ? 0.05 : 0.4;
	}
	/* At most one lane loses everything: the others have to deliver. */
	if (rng_chance(rng, 0.4) && !hard)
		s->shape.lane[rng_below(rng, s->host.lanes)].loss = 1;
	if (s->host.nic)
		s->host.lifetime_ns += 3 * s->shape.edge.delay_ns;
	/* Where one of two lanes is dead and the other loses much, little control arrives before the peer's timeout. */
	for (uint32_t i = 0; i < s->host.lanes; i++)
		lost += s->shape.lane[i].loss / s->host.lanes;
	if (lost > CONTROL_LOSS_LIMIT)
		s->may_fail = true;
}

/* Returns the links that a packet crosses on the longest route. */
static uint32_t hops(const struct sim_shape_attr *shape)
{
	return shape->shape == SIM_PAIR ? 1 : shape->shape == SIM_STAR ? 2 : 4;
}

/* One scenario in eight is far apart: round trips up to 1 s, rates from 2 Mbit/s, up to 40 % loss. It has a generator of its
 * own, so that all other scenarios are what their seeds have always given. */
static void draw_far(struct scenario *s)
{
	static const double losses[] = { 0, 0, 0.01, 0.1, 0.25, 0.4 };
	struct link_attr *links[2] = { &s->shape.edge, &s->shape.core };
	uint32_t count = hops(&s->shape);
	uint64_t delay;
	struct rng rng;
	double loss;

	rng_seed(&rng, s->seed ^ FAR_SALT);
	if (s->host.undrained || !rng_chance(&rng, 0.125))
		return;
	delay = between(&rng, 10, rng_chance(&rng, 0.5) ? 100 : 500) * MS / count;
	loss = losses[rng_below(&rng, 6)] / count;
	for (int i = 0; i < 2; i++) {
		links[i]->delay_ns = delay;
		links[i]->loss = loss;
		/* The slots of a NIC rest for as long as its link may hold packets: that would be minutes. */
		if (links[i]->rate_bps && rng_chance(&rng, 0.5) && !s->host.nic)
			links[i]->rate_bps = UINT64_C(2000000) << rng_below(&rng, 9);
		if (links[i]->jitter_ns)
			links[i]->jitter_ns = between(&rng, 1, delay);
		if (links[i]->reorder_ns)
			links[i]->reorder_ns = between(&rng, 1, 2 * delay);
	}
	s->far_ns = 2 * count * (delay + links[0]->jitter_ns + links[0]->reorder_ns);
	if (s->qp.peer_timeout_ns < 10 * s->far_ns)
		s->qp.peer_timeout_ns = 10 * s->far_ns;
	if (s->host.nic)
		s->host.lifetime_ns = lifetime(&s->shape);
}

/* Some processes read slowly: packets wait in their buffers and run over. Drawn last, so that the rest of a scenario is what
 * its seed has always given. */
static void draw_reader(struct rng *rng, struct scenario *s)
{
	/* The slots of a NIC rest for as long as a completion takes; here that would have no bound. */
	if (!s->host.nic && rng_chance(rng, 0.5))
		s->host.drain_ns = UINT64_C(1000) << rng_below(rng, 9);
	if (s->host.drain_ns && rng_chance(rng, 0.5))
		s->host.queue = PICK(rng, 8, 16, 32);
}

/* Returns how long a packet may wait in a queue of the slowest links. */
static uint64_t queueing_ns(const struct scenario *s)
{
	uint64_t window = s->host.nic ? s->host.queue / 2 : WINDOW_MOST;
	uint64_t bytes = s->flow_count * window * (s->sim.payload + 64);
	uint64_t edge = s->shape.edge.rate_bps, core = s->shape.core.rate_bps;
	uint64_t rate = edge && (!core || edge < core) ? edge : core;

	return rate ? bytes * 8 * S / rate : 0;
}

void scenario_draw(uint64_t seed, struct scenario *out)
{
	struct rng rng;

	memset(out, 0, sizeof(*out));
	rng_seed(&rng, seed);
	out->seed = seed;
	out->sim.seed = rng_u64(&rng);
	out->sim.start_ns = rng_chance(&rng, 0.5) ? 0 : rng_below(&rng, 1000 * S);
	draw_shape(&rng, &out->shape);
	draw_host(&rng, out);
	draw_qp(&rng, out);
	draw_flows(&rng, out);
	draw_misfortunes(&rng, out);
	draw_far(out);
	/* Without congestion control the windows of all flows may fill one queue, and signs of life wait behind them. */
	if (queueing_ns(out) > out->qp.peer_timeout_ns / 4)
		out->may_fail = true;
	/* A burst lasts for a number of packets. Where few are sent it can last longer than the peer's timeout. */
	if (out->shape.edge.burst_enter > 0 || out->shape.core.burst_enter > 0)
		out->may_fail = true;
	out->loss = path_loss(&out->shape);
	if (out->loss > 0.25)
		out->may_fail = true;
	out->channels = rng_chance(&rng, 0.3);
	draw_lanes(&rng, out);
	/* A NIC's packets have one size. */
	if (out->host.nic) {
		out->sim.path_payload = 0;
	} else if (out->sim.rungs[0] && rng_chance(&rng, 0.6)) {
		out->shrink_ns = rng_below(&rng, rng_chance(&rng, 0.5) ? 10 * MS : S);
		out->shrink_payload = PICK(&rng, 600, 800);
	}
	draw_reader(&rng, out);
	/* A lane that loses everything is never used again; one that does so for a time is. */
	for (uint32_t i = 0; i < out->host.lanes; i++) {
		struct link_attr *lane = &out->shape.lane[i];

		if (!out->shape.uneven || lane->loss < 1 || !rng_chance(&rng, 0.5))
			continue;
		lane->loss = 0;
		lane->burst_enter = 0.01;
		lane->burst_leave = 0.03;
		lane->burst_loss = 1;
	}
}

static void print_link(const char *name, const struct link_attr *link)
{
	fprintf(stderr,
		"  %s: %.0f Mbit/s, %.3f ms (+%.3f), queue %lu, loss %g, bursts %g, duplicates %g, corrupt %g, reorder %g by %.3f ms\n",
		name, (double)link->rate_bps / 1e6, (double)link->delay_ns / 1e6,
		(double)link->jitter_ns / 1e6, (unsigned long)link->queue_bytes, link->loss,
		link->burst_enter, link->duplicate, link->corrupt, link->reorder,
		(double)link->reorder_ns / 1e6);
}

void scenario_print(const struct scenario *s)
{
	static const char *const shapes[] = { "pair", "star", "ring", "clos" };
	static const char *const kinds[] = { "partition", "stall", "death", "jump", "close" };

	fprintf(stderr,
		"seed %lu: %s of %u, payload %u, %s hosts, %u lanes, queue %u, %lu ns to read a packet%s\n",
		(unsigned long)s->seed, shapes[s->shape.shape], s->shape.hosts, s->sim.payload,
		s->host.nic ? "NIC" : "software", s->host.lanes, s->host.queue,
		(unsigned long)s->host.drain_ns, s->may_fail ? ", may fail" : "");
	if (s->channels)
		fputs("  channels\n", stderr);
	if (s->sim.rungs[0])
		fprintf(stderr, "  path carries %u bytes, %u from %.3f ms on\n",
			s->sim.path_payload, s->shrink_payload, (double)s->shrink_ns / 1e6);
	print_link("edge", &s->shape.edge);
	print_link("core", &s->shape.core);
	for (uint32_t i = 0; s->shape.uneven && i < s->host.lanes; i++)
		print_link("lane", &s->shape.lane[i]);
	fprintf(stderr,
		"  slots %u, chunks of %u, split %u/%u/%u, timeout %.1f s, lifetime %.3f ms\n",
		s->qp.slots, s->qp.chunk_packets, s->qp.slot_bits, s->qp.packet_bits,
		s->qp.user_bits, (double)s->qp.peer_timeout_ns / 1e9,
		(double)s->host.lifetime_ns / 1e6);
	for (uint32_t i = 0; i < s->flow_count; i++)
		fprintf(stderr, "  flow %u: %u to %u, %u messages, %u sends and %u receives open\n",
			i, s->flow[i].from, s->flow[i].to, s->flow[i].messages,
			s->flow[i].sends_open, s->flow[i].recvs_open);
	for (uint32_t i = 0; i < s->misfortune_count; i++)
		fprintf(stderr, "  %s of %u at %.3f ms for %.3f ms\n", kinds[s->misfortune[i].kind],
			s->misfortune[i].which, (double)s->misfortune[i].at_ns / 1e6,
			(double)s->misfortune[i].for_ns / 1e6);
}
