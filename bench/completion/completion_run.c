/* SPDX-License-Identifier: BSD-3-Clause */
/* The path and the messages; see completion.h. */
#include "completion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <godwit/auto.h>

#include "sim/world.h"
#include "timer_repeat.h"

#define NS_A_SECOND   UINT64_C(1000000000)
#define WARM_UP	      16 /* messages that are not counted: the ends get to know the path */
#define WAITING_LIMIT 4	 /* packets between the library and the wire */
#define QUEUE_LEAST   4096
#define LIMIT_NS      (3600 * NS_A_SECOND) /* of virtual time, for one message */
#define PEER_TIMEOUT  (600 * NS_A_SECOND)
#define BITMAP_BYTES  (UINT64_C(64) << 20)
#define RTO_RTTS      3

struct bench {
	const struct completion_options *o;
	struct world world;
	struct gw_qp *qps[2]; /* the sender's, the receiver's */
	struct gw_mr *mrs[2];
	struct gw_erasure *erasures[2];
	struct timer_repeat_options timers;
	const struct gw_scheme *scheme;
	void *memory; /* nobody touches it */
	struct gw_send *send;
	struct gw_recv *recv;
	uint64_t sent_ns;
	bool sent;
	bool received;
};

static void die(const char *what, int error)
{
	fprintf(stderr, "completion: %s: %s\n", what, strerror(-error));
	exit(1);
}

/* ---- the path -------------------------------------------------------------------------------------------------- */

static uint64_t wire_ns(const struct completion_options *o, uint64_t bytes)
{
	return (uint64_t)((double)bytes * 8 * NS_A_SECOND / (double)o->rate_bps);
}

/* An interface's queue: full while a few packets wait for the wire. */
static uint32_t allow(void *arg, uint32_t in_flight, uint32_t payload, uint64_t now,
		      uint64_t *again_ns)
{
	const struct bench *bench = arg;
	uint64_t packet_ns = wire_ns(bench->o, payload + COMPLETION_OVERHEAD);
	uint64_t busy_ns = sim_link(bench->world.sim, 0)->busy_until_ns;
	uint64_t waits_ns = busy_ns > now ? busy_ns - now : 0;
	uint64_t limit_ns = WAITING_LIMIT * packet_ns;

	(void)in_flight;
	if (waits_ns < limit_ns)
		return (uint32_t)((limit_ns - waits_ns) / packet_ns) + 1;
	*again_ns = now + waits_ns - limit_ns / 2;
	return 0;
}

static const struct gw_gate interface = { .allow = allow };

/* Room for what the path holds, three times over. */
static uint32_t queue_for(const struct completion_options *o)
{
	double in_flight =
		(double)o->rate_bps / 8 * ((double)o->rtt_ns / (double)NS_A_SECOND) / o->chunk;
	uint32_t queue = QUEUE_LEAST;

	while (queue < 6 * in_flight)
		queue *= 2;
	return queue;
}

static void open_world(struct bench *bench)
{
	const struct completion_options *o = bench->o;
	struct sim_attr sim = { .seed = o->seed, .payload = o->chunk, .no_payload = true };
	struct sim_host_attr host = { .queue = queue_for(o) };
	struct sim_shape_attr shape = { .shape = SIM_PAIR, .hosts = 2 };
	struct gw_context_attr ctx = {
		.max_qps = 2, .max_sends = 8, .max_recvs = 8, .bitmap_bytes = BITMAP_BYTES
	};
	struct gw_qp_attr qp = { .peer_timeout_ns = PEER_TIMEOUT };
	int error;

	shape.edge = (struct link_attr){ .rate_bps = o->rate_bps, .delay_ns = o->rtt_ns / 2 };
	if (o->burst > 1) {
		shape.edge.burst_leave = 1 / o->burst;
		shape.edge.burst_enter = o->loss / (1 - o->loss) / o->burst;
		shape.edge.burst_loss = 1;
	} else {
		shape.edge.loss = o->loss;
	}
	error = world_open(&bench->world, &sim, &shape, &host, &ctx);
	if (!error)
		error = world_connect(&bench->world, 0, 1, &qp, &qp, &bench->qps[0],
				      &bench->qps[1]);
	if (!error)
		error = gw_qp_set_gate(bench->qps[0], &interface, bench);
	if (error)
		die("network", error);
	if (o->control_arrives)
		sim_link(bench->world.sim, 1)->attr.loss =
			sim_link(bench->world.sim, 1)->attr.burst_enter = 0;
}

/* ---- the messages ---------------------------------------------------------------------------------------------- */

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct bench *bench = arg;

	if (result->status)
		die("a message was not sent", result->status);
	bench->sent = true;
	bench->sent_ns = now;
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct bench *bench = arg;

	(void)now;
	if (result->status || result->missing)
		die("a message did not arrive", result->status ? result->status : -EIO);
	bench->received = true;
}

static bool is_coded(const struct completion_options *o)
{
	return o->scheme == COMPLETION_CODED || o->scheme == COMPLETION_AUTO;
}

static void open_scheme(struct bench *bench)
{
	const struct completion_options *o = bench->o;
	uint32_t packets = (uint32_t)((o->size + o->chunk - 1) / o->chunk);
	struct gw_erasure_attr attr = { .max_length = o->size,
					.payload = o->chunk,
					.k = o->k,
					.m = o->m,
					.depth = o->depth,
					.code = o->code };

	bench->scheme = &gw_selective_repeat;
	for (int end = 0; end < 2; end++) {
		struct gw_context *ctx = bench->world.hosts[end].ctx;
		int error = gw_mr_register(ctx, bench->memory, o->size, &bench->mrs[end]);

		if (!error && is_coded(o)) {
			bench->scheme = o->scheme == COMPLETION_AUTO ? &gw_auto : &gw_erasure;
			error = gw_erasure_open(ctx, &attr, &bench->erasures[end]);
		}
		if (error)
			die("scheme", error);
	}
	if (o->scheme != COMPLETION_RTO)
		return;
	bench->scheme = &timer_repeat;
	bench->timers = (struct timer_repeat_options){
		.rto_ns = RTO_RTTS * o->rtt_ns,
		.unit_ns = wire_ns(o, o->chunk + COMPLETION_OVERHEAD),
		.packets_max = packets,
		.landed = calloc(packets, 1),
		.ring = calloc(packets, sizeof(*bench->timers.ring)),
	};
	if (!bench->timers.landed || !bench->timers.ring)
		die("memory", -ENOMEM);
}

static const void *options_of(const struct bench *bench, int end)
{
	if (is_coded(bench->o))
		return bench->erasures[end];
	return bench->o->scheme == COMPLETION_RTO && end == 0 ? &bench->timers : NULL;
}

static void step(struct bench *bench, uint64_t until_ns)
{
	if (!world_step(&bench->world, until_ns))
		die("a message did not end", -ETIMEDOUT);
}

/* One message, the receive posted and granted beforehand: what it takes from the post to the sender knowing. */
static uint64_t message(struct bench *bench)
{
	struct gw_transfer_attr attr = { .addr = bench->memory,
					 .length = bench->o->size,
					 .arg = bench };
	uint64_t began_ns, until_ns = sim_now_ns(bench->world.sim) + LIMIT_NS;
	struct gw_grant grant;
	int error;

	bench->sent = bench->received = false;
	attr.done = received;
	attr.mr = bench->mrs[1];
	attr.options = options_of(bench, 1);
	error = gw_transfer_recv(bench->qps[1], bench->scheme, &attr, &bench->recv);
	if (error)
		die("receive", error);
	world_touch(&bench->world, 1);
	while (gw_qp_next_grant(bench->qps[0], &grant))
		step(bench, until_ns);
	attr.done = sent;
	attr.mr = bench->mrs[0];
	attr.options = options_of(bench, 0);
	error = gw_transfer_send(bench->qps[0], bench->scheme, &attr, &bench->send);
	if (error)
		die("send", error);
	began_ns = sim_now_ns(bench->world.sim);
	world_touch(&bench->world, 0);
	while (!bench->sent || !bench->received)
		step(bench, until_ns);
	gw_send_close(bench->send);
	gw_recv_close(bench->recv);
	return bench->sent_ns - began_ns;
}

static uint64_t counter(const struct bench *bench, int end, const char *name)
{
	uint64_t value = 0;

	for (unsigned c = 0; c < gw_counter_count(); c++)
		if (!strcmp(gw_counter_name(c), name))
			gw_counter_read(bench->world.hosts[end].ctx, c, &value);
	return value;
}

void completion_run(const struct completion_options *options, uint64_t *times_ns,
		    struct completion_counts *counts)
{
	struct bench bench = { .o = options };

	bench.memory = mmap(NULL, options->size, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bench.memory == MAP_FAILED)
		die("memory", -errno);
	open_world(&bench);
	open_scheme(&bench);
	for (int i = 0; i < WARM_UP; i++)
		message(&bench);
	for (uint32_t i = 0; i < options->messages; i++)
		times_ns[i] = message(&bench);
	*counts = (struct completion_counts){
		.sent_packets = counter(&bench, 0, "sent_packets"),
		.retransmitted_packets = counter(&bench, 0, "retransmitted_packets"),
		.control_packets =
			counter(&bench, 0, "control_sent") + counter(&bench, 1, "control_sent"),
		.events = sim_events(bench.world.sim),
		.hash = sim_hash(bench.world.sim),
		.patience_ns = { gw_qp_patience_ns(bench.qps[0]), gw_qp_patience_ns(bench.qps[1]) },
	};
	if (options->scheme == COMPLETION_AUTO)
		gw_auto_explain(bench.erasures[0], counts->choice, sizeof(counts->choice));
	world_close(&bench.world);
	gw_erasure_abandon(bench.erasures[0]);
	gw_erasure_abandon(bench.erasures[1]);
	free(bench.timers.landed);
	free(bench.timers.ring);
	munmap(bench.memory, options->size);
}
