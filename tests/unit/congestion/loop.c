/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop: at every turn the earliest of what can happen does. A packet lands (they land in the order they entered the
 * link, so a queue holds them), a receiver owes a report, feedback reaches a sender (in order too, a queue a flow), a
 * sender may send, a sender gives up waiting, a millisecond has passed. Flows are few, so the earliest is found by
 * looking at all.
 */
#include "loop.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER	       UINT64_MAX
#define REPORT_MIN_NS  (100 * UINT64_C(1000))
#define REPORT_MAX_NS  (5 * MS)
#define GIVE_UP_MIN_NS (20 * MS)
#define GIVE_UP_MAX_NS S
#define SAMPLES	       100000

/* A packet on its way, and then what is told of it. */
struct item {
	uint64_t at_ns;
	uint64_t exit_ns; /* from the queue */
	uint64_t sent_ns;
	uint64_t hold_ns;
	uint64_t sequence;
	uint64_t landed, landed_ce; /* at the receiver so far */
	uint64_t delivered_then, delivered_then_ns;
	uint8_t flow;
	bool ce;
};

struct fifo {
	struct item *items;
	size_t head, tail, size; /* counted up; size is a power of two */
};

struct flow {
	const struct loop_flow *attr;
	uint32_t packet;
	struct cc cc;
	struct pacer pacer;
	struct tcp tcp;
	struct fifo feedback;
	/* sender */
	uint64_t next;	  /* sequence */
	uint64_t reached; /* all below are delivered or lost */
	uint64_t told, told_ce;
	uint64_t heard_ns, delivered, delivered_ns, patience;
	uint64_t send_at;
	bool starved; /* had nothing to send since the last report */
	/* receiver */
	uint64_t landed, landed_ce;
	struct item last; /* packet that landed */
	uint64_t report_at, reported_ns, report_every;
	uint64_t measured_bytes, traced_bytes;
};

struct loop {
	const struct loop_attr *attr;
	struct link link;
	struct rng noise;
	struct fifo transit;
	struct flow flow[LOOP_FLOWS];
	unsigned step;
	uint64_t now, tick_at;
	double *queue_ns;
	size_t samples;
	struct loop_result *out;
};

static struct item *push(struct fifo *fifo)
{
	if (fifo->tail - fifo->head == fifo->size) {
		size_t size = fifo->size ? 2 * fifo->size : 256;
		struct item *items = malloc(size * sizeof(*items));

		assert(items);
		for (size_t i = fifo->head; i != fifo->tail; i++)
			items[i & (size - 1)] = fifo->items[i & (fifo->size - 1)];
		free(fifo->items);
		fifo->items = items;
		fifo->size = size;
	}
	return &fifo->items[fifo->tail++ & (fifo->size - 1)];
}

static struct item *head(const struct fifo *fifo)
{
	return fifo->head == fifo->tail ? NULL : &fifo->items[fifo->head & (fifo->size - 1)];
}

static uint64_t head_at(const struct fifo *fifo)
{
	return fifo->head == fifo->tail ? NEVER : head(fifo)->at_ns;
}

static bool active(const struct flow *flow, uint64_t now)
{
	const struct loop_flow *attr = flow->attr;

	return now >= attr->start_ns && (!attr->stop_ns || now < attr->stop_ns);
}

/* When a flow that goes on and off may send again. */
static uint64_t on_at(const struct flow *flow, uint64_t now)
{
	uint64_t period = flow->attr->on_ns + flow->attr->off_ns, phase;

	if (!flow->attr->off_ns)
		return now;
	phase = (now - flow->attr->start_ns) % period;
	return phase < flow->attr->on_ns ? now : now + period - phase;
}

/* When the flow may send next, as far as is known now. */
static void plan(struct loop *loop, struct flow *flow)
{
	uint64_t in_flight = flow->next - flow->reached, at = loop->now;

	flow->send_at = NEVER;
	if (flow->attr->stop_ns && loop->now >= flow->attr->stop_ns)
		return;
	if (loop->now < flow->attr->start_ns) {
		flow->send_at = flow->attr->start_ns;
		return;
	}
	if (on_at(flow, at) != at) {
		flow->send_at = on_at(flow, at);
		flow->starved = true;
		return;
	}
	if (flow->attr->kind == LOOP_CC) {
		struct cc_limits limits = cc_limits(&flow->cc);

		pacer_set_rate(&flow->pacer, limits.rate_bps, at);
		if ((in_flight + 1) * flow->packet <= limits.window_bytes)
			flow->send_at = pacer_next_ns(&flow->pacer, flow->packet, at);
	} else {
		pacer_set_rate(
			&flow->pacer,
			flow->tcp.pace_bps > 0 ? (uint64_t)flow->tcp.pace_bps : PACER_UNPACED, at);
		if ((double)in_flight + 1 <= flow->tcp.cwnd)
			flow->send_at = pacer_next_ns(&flow->pacer, flow->packet, at);
	}
}

static void send_one(struct loop *loop, struct flow *flow)
{
	struct link_verdict verdict;

	if (flow->next == flow->reached)
		flow->heard_ns = loop->now;
	pacer_take(&flow->pacer, flow->packet, loop->now);
	if (flow->attr->kind == LOOP_CC)
		cc_sent(&flow->cc, flow->packet, loop->now);
	verdict = link_enter(&loop->link, loop->now, flow->packet);
	if (verdict.copies) {
		struct item *item = push(&loop->transit);

		*item = (struct item){
			.at_ns = verdict.at_ns[0],
			.exit_ns = verdict.at_ns[0] - loop->link.attr.delay_ns,
			.sent_ns = loop->now,
			.sequence = flow->next,
			.flow = (uint8_t)(flow - loop->flow),
			.ce = verdict.ce,
			.delivered_then = flow->delivered,
			.delivered_then_ns = flow->delivered ? flow->delivered_ns : loop->now,
		};
	}
	flow->next++;
	plan(loop, flow);
}

static void feed_back(struct loop *loop, struct flow *flow, const struct item *what, uint64_t hold)
{
	uint64_t late = loop->attr->noise_ns ? rng_below(&loop->noise, loop->attr->noise_ns) : 0;
	uint64_t at = loop->now + loop->link.attr.delay_ns + flow->attr->extra_delay_ns + late;
	struct item *item;

	if (flow->feedback.head != flow->feedback.tail) {
		uint64_t before =
			flow->feedback.items[(flow->feedback.tail - 1) & (flow->feedback.size - 1)]
				.at_ns;

		at = at > before ? at : before;
	}
	item = push(&flow->feedback);
	*item = *what;
	item->at_ns = at;
	item->hold_ns = hold;
	item->landed = flow->landed;
	item->landed_ce = flow->landed_ce;
}

static size_t slot(const struct loop *loop)
{
	return loop->now * LOOP_SLOTS / (loop->attr->to_ns + 1);
}

static void land(struct loop *loop)
{
	struct item item = *head(&loop->transit);
	struct flow *flow = &loop->flow[item.flow];

	loop->transit.head++;
	flow->landed++;
	flow->landed_ce += item.ce;
	if (loop->now >= loop->attr->from_ns)
		flow->measured_bytes += flow->packet;
	flow->traced_bytes += flow->packet;
	loop->out->delivered_bps[slot(loop)] += flow->packet * 8.0;
	item.at_ns = loop->now;
	if (flow->attr->kind != LOOP_CC) {
		feed_back(loop, flow, &item, 0);
		return;
	}
	flow->last = item;
	if (flow->report_at == NEVER) {
		uint64_t due = flow->reported_ns + flow->report_every;

		flow->report_at = due > loop->now ? due : loop->now;
	}
}

static void report(struct loop *loop, struct flow *flow)
{
	flow->report_at = NEVER;
	flow->reported_ns = loop->now;
	feed_back(loop, flow, &flow->last, loop->now - flow->last.at_ns);
}

static void hear(struct loop *loop, struct flow *flow)
{
	struct item item = *head(&flow->feedback);
	uint64_t jitter =
		loop->attr->jitter_ns ? rng_below(&loop->noise, loop->attr->jitter_ns) : 0;
	uint64_t rtt = loop->now - item.sent_ns - item.hold_ns + jitter;
	uint64_t passed = item.sequence + 1 > flow->reached ? item.sequence + 1 - flow->reached : 0;
	uint64_t landed = item.landed - flow->told;
	uint64_t lost = passed > landed ? passed - landed : 0;

	flow->feedback.head++;
	flow->reached += passed;
	flow->heard_ns = loop->now;
	if (flow->attr->kind == LOOP_CC) {
		struct cc_report told = {
			.delivered_bytes = landed * flow->packet,
			.delivered_packets = landed,
			.lost_packets = lost,
			.counted_packets = landed + lost,
			.marked_packets = item.landed_ce - flow->told_ce,
			.rtt_ns = rtt,
			.in_flight_bytes = (flow->next - flow->reached) * flow->packet,
			.app_limited = flow->starved,
		};

		flow->starved = false;
		cc_report(&flow->cc, &told, loop->now);
	} else {
		struct tcp_ack ack = {
			.rtt_ns = rtt,
			.sequence = item.sequence,
			.next = flow->next,
			.lost = lost,
			.in_flight = flow->next - flow->reached,
			.delivered_then = item.delivered_then,
			.delivered_then_ns = item.delivered_then_ns,
		};

		tcp_ack(&flow->tcp, &ack, flow->packet, loop->now);
		flow->delivered++;
		flow->delivered_ns = loop->now;
	}
	flow->told = item.landed;
	flow->told_ce = item.landed_ce;
	plan(loop, flow);
}

static uint64_t give_up_at(const struct flow *flow)
{
	return flow->next > flow->reached ? flow->heard_ns + flow->patience : NEVER;
}

static void give_up(struct loop *loop, struct flow *flow)
{
	flow->reached = flow->next;
	flow->heard_ns = loop->now;
	loop->out->timeouts++;
	if (flow->attr->kind == LOOP_CC)
		cc_timeout(&flow->cc, loop->now);
	else
		tcp_timeout(&flow->tcp);
	plan(loop, flow);
}

/* The link became faster or slower: what waits in it leaves accordingly. */
static void change_rate(struct loop *loop, uint64_t rate_bps)
{
	struct link *link = &loop->link;
	double by = (double)link->attr.rate_bps / (double)rate_bps;

	for (size_t i = loop->transit.head; i != loop->transit.tail; i++) {
		struct item *item = &loop->transit.items[i & (loop->transit.size - 1)];

		if (item->exit_ns > loop->now) {
			item->exit_ns =
				loop->now + (uint64_t)((double)(item->exit_ns - loop->now) * by);
			item->at_ns = item->exit_ns + link->attr.delay_ns;
		}
	}
	if (link->busy_until_ns > loop->now)
		link->busy_until_ns =
			loop->now + (uint64_t)((double)(link->busy_until_ns - loop->now) * by);
	link->attr.rate_bps = rate_bps;
}

static void trace(struct loop *loop)
{
	uint64_t every = loop->attr->trace_ns ? loop->attr->trace_ns : 100 * MS;
	char text[CC_TEXT_SIZE];

	if (!loop->attr->trace || loop->now % every)
		return;
	printf("%8.3f s queue %7.3f ms ", (double)loop->now / 1e9,
	       (double)link_queued_bytes(&loop->link, loop->now) * 8e3 /
		       (double)loop->link.attr.rate_bps);
	for (unsigned i = 0; i < loop->attr->flows; i++) {
		struct flow *flow = &loop->flow[i];

		printf("%8.1f", (double)flow->traced_bytes * 8e3 / (double)every);
		flow->traced_bytes = 0;
	}
	if (loop->attr->flow[0].kind == LOOP_CC) {
		cc_explain(&loop->flow[0].cc, text, sizeof(text));
		printf("  %s", text);
	}
	printf("\n");
}

static void tick(struct loop *loop)
{
	const struct loop_attr *attr = loop->attr;
	double queue_ns;
	uint64_t until;

	if (loop->step < LOOP_STEPS && attr->steps[loop->step].at_ns &&
	    loop->now >= attr->steps[loop->step].at_ns)
		change_rate(loop, attr->steps[loop->step++].rate_bps);
	until = loop->link.busy_until_ns;
	queue_ns = until > loop->now ? (double)(until - loop->now) : 0;
	loop->out->slot_queue_ns[slot(loop)] = fmax(loop->out->slot_queue_ns[slot(loop)], queue_ns);
	if (loop->now >= attr->from_ns && loop->samples < SAMPLES)
		loop->queue_ns[loop->samples++] = queue_ns;
	trace(loop);
	loop->tick_at += MS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(struct loop *loop)
{
	const struct loop_attr *attr = loop->attr;
	struct loop_result *out = loop->out;
	double span_s = (double)(attr->to_ns - attr->from_ns) / 1e9, sum = 0, squares = 0;
	double lost = (double)(loop->link.stats.lost + loop->link.stats.overflow);
	double all = lost + (double)loop->link.stats.forwarded;

	for (unsigned i = 0; i < attr->flows; i++) {
		double bps = (double)loop->flow[i].measured_bytes * 8 / span_s;

		out->share[i] = bps / (double)loop->link.attr.rate_bps;
		sum += bps;
		squares += bps * bps;
		free(loop->flow[i].feedback.items);
	}
	out->goodput_bps = sum;
	out->jain = squares > 0 ? sum * sum / (attr->flows * squares) : 0;
	out->utilisation =
		sum / (double)loop->link.attr.rate_bps / (1 - link_mean_loss(&attr->link));
	out->loss = lost / all;
	out->overflow = (double)loop->link.stats.overflow / all;
	for (unsigned i = 0; i < LOOP_SLOTS; i++)
		out->delivered_bps[i] *= LOOP_SLOTS * 1e9 / (double)attr->to_ns;
	qsort(loop->queue_ns, loop->samples, sizeof(double), compare);
	out->queue_median_ns = loop->queue_ns[loop->samples / 2];
	out->queue_p95_ns = loop->queue_ns[loop->samples * 95 / 100];
	out->queue_max_ns = loop->queue_ns[loop->samples - 1];
	free(loop->transit.items);
	free(loop->queue_ns);
}

static void open_flow(struct loop *loop, unsigned i)
{
	struct flow *flow = &loop->flow[i];
	struct pacer_attr pacer = { 0 };
	struct cc_attr cc;
	uint64_t rtt;

	flow->attr = &loop->attr->flow[i];
	flow->packet = flow->attr->packet_bytes ? flow->attr->packet_bytes : 1500;
	if (flow->attr->kind == LOOP_CC) {
		cc = flow->attr->cc;
		cc.packet_bytes = flow->packet;
		cc_init(&flow->cc, flow->attr->ops, &cc, flow->attr->start_ns);
	} else {
		tcp_init(&flow->tcp, flow->attr->kind, flow->attr->start_ns);
	}
	rtt = 2 * loop->link.attr.delay_ns + flow->attr->extra_delay_ns;
	flow->report_every = rtt / 4;
	if (flow->report_every < REPORT_MIN_NS)
		flow->report_every = REPORT_MIN_NS;
	if (flow->report_every > REPORT_MAX_NS)
		flow->report_every = REPORT_MAX_NS;
	flow->patience = 16 * rtt < GIVE_UP_MIN_NS ? GIVE_UP_MIN_NS : 16 * rtt;
	if (flow->patience > GIVE_UP_MAX_NS)
		flow->patience = GIVE_UP_MAX_NS;
	flow->report_at = NEVER;
	pacer.packet_bytes = flow->packet;
	pacer.burst_ns = rtt / 8 < MS ? rtt / 8 : MS;
	pacer_init(&flow->pacer, &pacer, 0);
	plan(loop, flow);
}

static void land_first(struct loop *loop, struct flow *flow)
{
	land(loop);
}

static void tick_first(struct loop *loop, struct flow *flow)
{
	tick(loop);
}

/* The earliest of all that can happen does. */
static void turn(struct loop *loop)
{
	void (*act)(struct loop *, struct flow *) = tick_first;
	uint64_t at = loop->tick_at;
	struct flow *who = NULL;

	for (unsigned i = 0; i < loop->attr->flows; i++) {
		struct flow *flow = &loop->flow[i];
		const uint64_t times[] = { head_at(&flow->feedback), flow->report_at, flow->send_at,
					   give_up_at(flow) };
		void (*const acts[])(struct loop *, struct flow *) = { hear, report, send_one,
								       give_up };

		for (unsigned j = 0; j < 4; j++) {
			if (times[j] < at) {
				at = times[j];
				act = acts[j];
				who = flow;
			}
		}
	}
	if (head_at(&loop->transit) < at) {
		at = head_at(&loop->transit);
		act = land_first;
	}
	loop->now = at;
	/* What was planned to be sent may no longer be wanted. */
	if (act == send_one && (!active(who, at) || on_at(who, at) != at))
		plan(loop, who);
	else
		act(loop, who);
}

void loop_run(const struct loop_attr *attr, struct loop_result *out)
{
	static struct loop loop;

	loop = (struct loop){ .attr = attr, .out = out };
	*out = (struct loop_result){ 0 };
	link_init(&loop.link, &attr->link, attr->seed);
	rng_seed(&loop.noise, attr->seed + 1);
	loop.queue_ns = calloc(SAMPLES, sizeof(double));
	assert(loop.queue_ns && attr->flows <= LOOP_FLOWS);
	for (unsigned i = 0; i < attr->flows; i++)
		open_flow(&loop, i);
	while (loop.now < attr->to_ns)
		turn(&loop);
	measure(&loop);
}
