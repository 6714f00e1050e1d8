/* SPDX-License-Identifier: BSD-3-Clause */
/* See lossy.h. */
#include "lossy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel/state.h"
#include "message/state.h"
#include "sim/world.h"

#define NS_A_SECOND UINT64_C(1000000000)
#define WARM	    10u
/* As on an MTU of 1500. */
#define PAYLOAD_USUAL 1408u
/* Bytes that a simulated packet has beside its payload. */
#define HEADERS 64u
/* Bytes that a control datagram has beside its content. */
#define CONTROL_HEADERS 52u
/* Longest time of a burst, in times that its packets take on the link. */
#define BURST_TIMES 4
/* Longest run, in virtual time. */
#define LIMIT_NS (3600 * NS_A_SECOND)
/* How exactly the stops of hosts are timed, in ns. */
#define STEP_NS UINT64_C(20000)

/* Bytes that the sender's control datagrams take on the link, and packets that had arrived before. */
struct counts {
	uint64_t control_bytes;
	uint64_t twice;
};

struct stream {
	const struct lossy_path *path;
	struct world world;
	struct gw_channel *channel[2];
	struct gw_mr *mr[2];
	uint8_t *memory;
	uint32_t messages;
	/* Operations posted and ended, of the sender and of the receiver. */
	uint32_t posted[2];
	uint32_t ended[2];
	uint64_t idle_ns[IDLE_REASONS];
	uint64_t warm_ns;
	/* Counts at that time. */
	struct counts warm;
	/* Draws the times at which hosts stop, and when each next stops or goes on, in ns. */
	struct rng rng;
	uint64_t turn_ns[2];
	/* When the next line is printed, in ns, and what the link had carried at the last, in bytes. */
	uint64_t line_ns;
	uint64_t carried;
	/* Largest rate at which the controller believed packets to arrive, in bits a second. */
	uint64_t believed_bps;
	bool failed;
};

static void post(struct stream *s, int end);

static uint64_t counter(const struct stream *s, int end, enum message_counter which)
{
	return s->world.hosts[end].ctx->counters[which];
}

static struct counts counted(const struct stream *s)
{
	return (struct counts){
		.control_bytes = counter(s, 0, COUNT_CONTROL_BYTES) +
				 CONTROL_HEADERS * counter(s, 0, COUNT_CONTROL_SENT),
		.twice = counter(s, 1, COUNT_DUPLICATE) + counter(s, 1, COUNT_LATE),
	};
}

static void op_ended(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct stream *s = arg;
	int end = op->receiving;

	s->failed |= result->status != 0;
	gw_op_close(op);
	s->ended[end]++;
	if (end && s->ended[end] == WARM) {
		s->warm_ns = sim_now_ns(s->world.sim);
		s->warm = counted(s);
		memset(s->idle_ns, 0, sizeof(s->idle_ns));
	}
	if (s->failed)
		return;
	if (s->path->rest && s->ended[end] == s->path->rest) {
		for (uint32_t i = 0; i < s->path->depth; i++)
			post(s, end);
	} else if (!s->path->rest || s->posted[end] != s->path->rest) {
		post(s, end);
	}
}

static void post(struct stream *s, int end)
{
	struct gw_op_attr attr = { .addr = s->memory,
				   .length = s->path->size,
				   .mr = s->mr[end],
				   .scheme = s->path->scheme || s->path->automatic
						     ? s->path->scheme
						     : &gw_selective_repeat,
				   .done = op_ended,
				   .arg = s };
	struct gw_op *op;

	if (s->posted[end] == s->messages)
		return;
	s->posted[end]++;
	if ((end ? gw_channel_recv : gw_channel_send)(s->channel[end], &attr, &op))
		s->failed = true;
}

static enum lossy_idle why_idle(const struct stream *s)
{
	const struct gw_channel *ch = s->channel[0];
	const struct gw_qp *qp = ch->qp[BULK];
	const struct feedback *f = &qp->feedback;

	if (list_empty(&qp->tx.ready))
		return list_empty(&qp->tx.waiting) && list_empty(&ch->bulk_sends) ? IDLE_MESSAGE
										  : IDLE_GRANT;
	if (f->sequence - f->echoed >= f->window)
		return IDLE_CREDIT;
	return governor_in_flight(&ch->governor) + qp->tx.payload >
			       cc_limits(&ch->governor.cc).window_bytes
		       ? IDLE_WINDOW
		       : IDLE_PACER;
}

static uint32_t payload_of(const struct lossy_path *path)
{
	return path->payload ? path->payload : PAYLOAD_USUAL;
}

static struct link_attr link_of(const struct lossy_path *path, double loss)
{
	struct link_attr link = { .rate_bps = path->rate_bps,
				  .delay_ns = path->rtt_ns / 2,
				  .jitter_ns = path->jitter_ns,
				  .reorder = path->reorder,
				  .reorder_ns = path->reorder_ns,
				  .duplicate = path->duplicate,
				  .queue_bytes = path->rate_bps / 8 * path->rtt_ns / NS_A_SECOND };

	if (link.queue_bytes < 64u << 10)
		link.queue_bytes = 64u << 10;
	if (path->burst <= 1) {
		link.loss = loss;
	} else if (loss > 0) {
		link.burst_loss = 1;
		link.burst_leave = 1 / path->burst;
		link.burst_enter = link.burst_leave * loss / (1 - loss);
		/* As in the lab: whoever waits is out of it. */
		link.burst_max_ns =
			(uint64_t)(BURST_TIMES * path->burst * 8 * (payload_of(path) + HEADERS) *
				   1e9 / (double)path->rate_bps);
	}
	return link;
}

static void open_stream(struct stream *s)
{
	const struct lossy_path *path = s->path;
	struct sim_attr sim = { .seed = path->seed + 1,
				.payload = payload_of(path),
				.rungs = { 1024 },
				.start_ns = NS_A_SECOND };
	struct sim_shape_attr shape = { .shape = SIM_PAIR,
					.hosts = 2,
					.edge = link_of(path, path->loss) };
	struct sim_host_attr host = { .queue = path->queue ? path->queue : 1 << 16,
				      .window_most = 1 << 16,
				      .lanes = path->lanes };
	struct gw_context_attr ctx = { .max_qps = 8 };
	struct link_attr back = link_of(path, path->back);
	struct gw_channel_info info[2];
	int error = world_open(&s->world, &sim, &shape, &host, &ctx);

	if (path->back_bps)
		back.rate_bps = path->back_bps;
	sim_link(s->world.sim, 1)->attr = back;
	s->memory = malloc(path->size);
	for (int end = 0; end < 2 && !error; end++) {
		struct gw_channel_attr attr = { .peer_timeout_ns = 600 * NS_A_SECOND,
						.congestion = path->congestion };

		error = gw_channel_create(s->world.hosts[end].ctx, &attr, &s->channel[end]);
		if (!error)
			error = gw_channel_info(s->channel[end], &info[end]);
		if (!error)
			error = gw_mr_register(s->world.hosts[end].ctx, s->memory, path->size,
					       &s->mr[end]);
	}
	for (int end = 0; end < 2 && !error; end++)
		error = gw_channel_connect(s->channel[end], &info[!end]);
	if (error || !s->memory) {
		fprintf(stderr, "lossy: the simulated channel does not open: %d\n", error);
		abort();
	}
	for (int end = 1; end >= 0; end--) {
		for (uint32_t i = 0; i < path->depth; i++)
			post(s, end);
		world_touch(&s->world, (uint32_t)end);
	}
}

/* Charges the time of the last step in which the link had nothing to send. */
static void charge(struct stream *s, uint64_t from_ns, uint64_t busy_until_ns, enum lossy_idle why)
{
	uint64_t now = sim_now_ns(s->world.sim);

	if (busy_until_ns > from_ns)
		from_ns = busy_until_ns;
	if (now > from_ns)
		s->idle_ns[why] += now - from_ns;
}

/* Stops each host now and then, as others on the same machine do. */
static void stall(struct stream *s)
{
	uint64_t now = sim_now_ns(s->world.sim);

	for (uint32_t host = 0; s->path->stall_ns && host < 2; host++) {
		struct world_host *h = &s->world.hosts[host];

		if (now < s->turn_ns[host])
			continue;
		world_stall(&s->world, host, !h->stalled);
		s->turn_ns[host] =
			now + rng_below(&s->rng, h->stalled ? s->path->stall_ns : s->path->run_ns);
	}
}

/* Changes the path at its times. */
static void change(struct stream *s)
{
	const struct lossy_path *path = s->path;
	uint64_t passed_ns = sim_now_ns(s->world.sim) - NS_A_SECOND;

	if (path->step_ns && passed_ns >= path->step_ns)
		sim_link(s->world.sim, 0)->attr.rate_bps = path->step_bps;
	for (uint32_t i = 0; path->outage_ns && i < 2; i++)
		sim_link(s->world.sim, i)->down =
			passed_ns >= path->outage_ns &&
			passed_ns < path->outage_ns + path->outage_length_ns;
}

/* Returns the next time after `now_ns` at which the path changes. */
static uint64_t next_change_ns(const struct lossy_path *path, uint64_t now_ns)
{
	uint64_t times[] = { path->step_ns, path->outage_ns,
			     path->outage_ns ? path->outage_ns + path->outage_length_ns : 0 };
	uint64_t next_ns = LIMIT_NS;

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (times[i] && NS_A_SECOND + times[i] > now_ns && NS_A_SECOND + times[i] < next_ns)
			next_ns = NS_A_SECOND + times[i];
	return next_ns;
}

/* Returns the bits that the path can carry between two times, without losses. */
static double capacity(const struct lossy_path *path, uint64_t from_ns, uint64_t to_ns)
{
	double bits = 0;

	while (from_ns < to_ns) {
		uint64_t next_ns = next_change_ns(path, from_ns);
		uint64_t passed_ns = from_ns - NS_A_SECOND;
		uint64_t until_ns = next_ns < to_ns ? next_ns : to_ns;
		bool down = path->outage_ns && passed_ns >= path->outage_ns &&
			    passed_ns < path->outage_ns + path->outage_length_ns;
		bool stepped = path->step_ns && passed_ns >= path->step_ns;

		if (!down)
			bits += (double)(stepped ? path->step_bps : path->rate_bps) *
				(double)(until_ns - from_ns) / (double)NS_A_SECOND;
		from_ns = until_ns;
	}
	return bits;
}

static void see_belief(struct stream *s)
{
	const struct cc *cc = &s->channel[0]->governor.cc;
	struct cc_status status;

	cc->ops->status(cc->state, &status);
	if (status.delivered_bps > s->believed_bps)
		s->believed_bps = status.delivered_bps;
}

/* Prints what the sender is allowed and what the link carried since the last line. */
static void print_line(struct stream *s)
{
	const struct governor *g = &s->channel[0]->governor;
	const struct gw_qp *qp = s->channel[0]->qp[BULK];
	uint64_t now = sim_now_ns(s->world.sim);
	struct link *link = sim_link(s->world.sim, 0);
	struct cc_limits limits = cc_limits(&g->cc);
	char text[CC_TEXT_SIZE];

	if (!s->path->every_ns || now < s->line_ns)
		return;
	cc_explain(&g->cc, text, sizeof(text));
	printf("%9.3f s: link %7.2f Mbit/s, rate %8.2f, window %8llu, in flight %8llu, credit %8llu, queue %7llu, ended %u; %s\n",
	       (double)(now - NS_A_SECOND) / 1e9,
	       (double)(link->stats.bytes - s->carried) * 8e3 / (double)s->path->every_ns,
	       (double)limits.rate_bps / 1e6, (unsigned long long)limits.window_bytes,
	       (unsigned long long)governor_in_flight(g),
	       (unsigned long long)qp->feedback.window * qp->tx.payload,
	       (unsigned long long)link_queued_bytes(link, now), s->ended[1], text);
	s->carried = link->stats.bytes;
	s->line_ns = now + s->path->every_ns;
}

static void sum_up(struct stream *s, struct lossy_result *out)
{
	const struct lossy_path *path = s->path;
	struct counts total = counted(s);
	uint64_t now = sim_now_ns(s->world.sim);
	double seconds, left;

	out->ended = s->ended[1] == s->messages && !s->failed;
	out->took_ns = now - NS_A_SECOND;
	out->counted_ns = now - (s->warm_ns ? s->warm_ns : NS_A_SECOND);
	seconds = (double)out->counted_ns / (double)NS_A_SECOND;
	left = capacity(path, now - out->counted_ns, now) / seconds * (1 - path->loss);
	out->goodput_bps = s->ended[1] > WARM
				   ? (double)(s->ended[1] - WARM) * (double)path->size * 8 / seconds
				   : 0;
	out->share = out->goodput_bps / (left * payload_of(path) / (payload_of(path) + HEADERS));
	out->busy = 1;
	for (int i = 0; i < IDLE_REASONS; i++) {
		out->idle[i] = (double)s->idle_ns[i] / (double)out->counted_ns;
		out->busy -= out->idle[i];
	}
	out->control_share = (double)(total.control_bytes - s->warm.control_bytes) * 8 *
			     (1 - path->loss) / (left * seconds);
	out->twice_share = (double)(total.twice - s->warm.twice) * 8 *
			   (payload_of(path) + HEADERS) / (left * seconds);
	out->believed = (double)s->believed_bps / (double)path->rate_bps;
	out->sent = counter(s, 0, COUNT_SENT);
	out->again = counter(s, 0, COUNT_RETRANSMITTED);
	out->duplicate = counter(s, 1, COUNT_DUPLICATE) + counter(s, 1, COUNT_LATE);
	out->stalls = counter(s, 0, COUNT_STALLS);
	out->control = counter(s, 0, COUNT_CONTROL_SENT) + counter(s, 1, COUNT_CONTROL_SENT);
	gw_channel_explain(s->channel[0], out->explain, sizeof(out->explain));
}

static uint32_t enough_messages(const struct lossy_path *path)
{
	double bytes =
		(double)path->rate_bps / 8 * 200 * (double)path->rtt_ns / (double)NS_A_SECOND;
	double count_ = bytes / (double)path->size;

	return WARM + path->depth + 20 + (count_ < 4000 ? (uint32_t)count_ : 4000);
}

void lossy_run(const struct lossy_path *path, struct lossy_result *out)
{
	struct stream s = { .path = path,
			    .messages = path->messages ? path->messages : enough_messages(path) };
	bool more = true;

	rng_seed(&s.rng, path->seed + 2);
	open_stream(&s);
	while (more && s.ended[1] < s.messages && !s.failed) {
		uint64_t from_ns = sim_now_ns(s.world.sim);
		uint64_t busy_until_ns = sim_link(s.world.sim, 0)->busy_until_ns;
		enum lossy_idle why = why_idle(&s);

		uint64_t until_ns = next_change_ns(path, from_ns);

		stall(&s);
		change(&s);
		if (path->stall_ns && from_ns + STEP_NS < until_ns)
			until_ns = from_ns + STEP_NS;
		more = world_step(&s.world, until_ns) || until_ns < LIMIT_NS;
		charge(&s, from_ns, busy_until_ns, why);
		see_belief(&s);
		print_line(&s);
	}
	sum_up(&s, out);
	for (int end = 0; end < 2; end++) {
		gw_channel_close(s.channel[end]);
		gw_mr_deregister(s.mr[end]);
	}
	world_close(&s.world);
	free(s.memory);
}
