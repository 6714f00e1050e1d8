/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the path is like: how many packets it loses, how many of them in a row, and how fast it carries them.
 *
 * Loss is 1 - arrived / sent, where every transmission counts: the first, a repeat, and one that arrives when its message is
 * over. An echo says how many packets had arrived when a certain packet did, and that packet's number is how many had been
 * sent. Where packets overtake each other single echoes are wrong by as much one way as the other, so that the mean over a
 * round trip is right, whatever the order. The gate is told of losses once a round trip. One figure covers 512 packets and four
 * round trips at least. Another covers the last few dozen losses, however long they took, since a loss in a hundred thousand
 * packets matters to a large message and would never show in the first. Losses in a round trip in which the receiver ran out
 * of room are the receiver's and not the path's: it lowers its credit.
 *
 * Bursts are the receiver's to see. Packets are sent in order, so that one that lands above the next opens a hole: a run
 * of packets lost, or out of order. In the latter case they come before a repeat could have, and the hole is taken back;
 * only the latest is remembered for that, which is the one that packets out of order fall into. Reports carry how many
 * holes there were and how many packets in them, and their ratio is the mean run. A packet in its turn costs one
 * comparison.
 *
 * The rate is that of landing, from echo to echo, while there was something to send.
 *
 * A report carries the clock of its writer. The two clocks differ, but by how much does not change from one report to the next:
 * what a report takes longer than the fastest one is the queue of the way back. Clocks also drift apart. The least time rises by
 * more than they do, so that drift never passes for a queue, at the cost of a queue that stands for seconds being forgotten.
 */
#include <errno.h>

#include "base/serial.h"
#include "message/state.h"

#define LOSS_STEP   128 /* packets from one point of the loss to the next, at least */
#define LOSSES_KEPT 32.0f
/* The mean begins anew when losses, or those that it lets expect, are this many, times the mean run, and one is this many times
 * the other. */
#define CHANGE_LOSSES	8.0f
#define CHANGE_FACTOR	4.0f
#define SPAN_KEPT	131072.0f /* packets; half a gigabyte */
#define RUNS_KEPT	64.0f
#define RUN_PACKETS_MAX (1 << 20) /* in one report: no more is believed */
#define FLOW_LEAST	64.0	  /* packets: from fewer no rate is told */
#define FLOW_KEPT	1024.0
/* Each echo in order takes 1 / OVERTAKEN_KEPT from the time by which packets overtake each other. */
#define OVERTAKEN_KEPT 64
/* Fastest drift of two clocks: that at which ntpd slews one. As 1 / DRIFT. */
#define DRIFT 2000

/* Returns the mean number of packets lost in a row. As if there had been one more, of one packet: little is known from few. */
static float mean_run(const struct path_estimate *path)
{
	return (path->run_packets + 1) / (path->runs + 1);
}

/* Begins the mean anew if it cannot be true any more. */
static void see_change(struct path_estimate *path, float sent, float lost)
{
	float expected, enough = CHANGE_LOSSES * mean_run(path);

	path->late_sent += sent;
	path->late_lost += lost;
	expected = path->span > 0 ? path->late_sent * path->lost / path->span : 0;
	if (expected < enough && path->late_lost < enough)
		return;
	if (path->late_lost * CHANGE_FACTOR < expected ||
	    path->late_lost > expected * CHANGE_FACTOR) {
		path->span = path->late_sent;
		path->lost = path->late_lost > 0 ? path->late_lost : 0;
	}
	path->late_sent = path->late_lost = 0;
}

/* Moves the latest point on, and the estimates with it. */
static void add_point(struct path_estimate *path)
{
	struct loss_point *points = path->meter.points;
	const struct loss_point *first = &points[0], *last = &points[LOSS_POINTS - 1];
	double lost = path->meter.mean.lost - last->lost, sent = path->meter.mean.sent - last->sent;

	for (unsigned i = 1; i < LOSS_POINTS; i++)
		points[i - 1] = points[i];
	points[LOSS_POINTS - 1] = path->meter.mean;
	path->loss = last->lost > first->lost
			     ? (float)((last->lost - first->lost) / (last->sent - first->sent))
			     : 0.0f;
	/* One that was late is missed in one step and too many in the next: here the two cancel. */
	path->span += (float)sent;
	path->lost += (float)lost;
	if (path->lost < 0)
		path->lost = 0;
	while (path->lost > LOSSES_KEPT || path->span > SPAN_KEPT) {
		path->lost /= 2;
		path->span /= 2;
	}
	see_change(path, (float)sent, (float)lost);
}

/* Leaves packets out: of these nothing is concluded. */
static void excuse(struct loss_meter *m, double sent, double lost)
{
	m->mean.sent += sent;
	m->mean.lost += lost;
	for (unsigned i = 0; i < LOSS_POINTS; i++) {
		m->points[i].sent += sent;
		m->points[i].lost += lost;
	}
}

/* A round trip is over. */
static void end_trip(struct feedback *f)
{
	struct loss_meter *m = &f->path.meter;
	struct loss_point mean = { m->sum.sent / m->echoes, m->sum.lost / m->echoes };

	if (m->overran)
		excuse(m, mean.sent - m->mean.sent, mean.lost - m->mean.lost);
	f->untold_lost += mean.lost - m->mean.lost;
	f->untold_sent += mean.sent - m->mean.sent;
	m->mean = mean;
	m->sum = (struct loss_point){ 0 };
	m->echoes = 0;
	m->overran = false;
	if (mean.sent - m->points[LOSS_POINTS - 1].sent >= LOSS_STEP)
		add_point(&f->path);
}

void estimate_loss(struct gw_qp *qp, uint32_t sequence)
{
	struct feedback *f = &qp->feedback;
	struct loss_meter *m = &f->path.meter;

	m->sent_total += (int32_t)(sequence - m->sequence);
	m->arrived_total += (int32_t)(f->peer_arrived - m->arrived);
	m->sequence = sequence;
	m->arrived = f->peer_arrived;
	if (!m->echoes++)
		m->since_ns = qp->ctx->now;
	m->sum.sent += (double)m->sent_total;
	m->sum.lost += (double)(m->sent_total - m->arrived_total);
	if (qp->ctx->now - m->since_ns >= f->rtt_ns)
		end_trip(f);
}

void estimate_overrun(struct feedback *f, uint32_t overrun)
{
	f->path.meter.overran |= overrun != f->peer_overrun;
	f->peer_overrun = overrun;
}

void estimate_restart(struct feedback *f)
{
	f->path.meter.sequence = f->sequence;
}

/* A queue delays packets, but only random delays change their order: so this tells jitter from a queue. */
void estimate_order(struct feedback *f, uint64_t sent_ns)
{
	struct path_estimate *path = &f->path;

	if (sent_ns >= path->arrived_sent_ns) {
		path->arrived_sent_ns = sent_ns;
		path->overtaken_ns -= path->overtaken_ns / OVERTAKEN_KEPT;
	} else if (path->arrived_sent_ns - sent_ns > path->overtaken_ns) {
		path->overtaken_ns = path->arrived_sent_ns - sent_ns;
	}
}

/* From one packet to another, both sent once, if data flowed in between: they are of the same message, or the sender always had
 * something to send. Short messages are told of by one echo each. */
void estimate_rate(struct gw_qp *qp, uint32_t msn, uint32_t sequence, uint64_t landed_at)
{
	struct feedback *f = &qp->feedback;
	const struct gw_send *send = send_find(qp, msn);
	bool flowed = f->path.flow_msn == msn || serial_before(f->dry, f->path.flow_sequence);

	if (f->path.flow_at && flowed && landed_at > f->path.flow_at) {
		double packets = (double)(f->peer_arrived - f->path.flow_arrived);

		/* Packets become larger, and those that arrive first are the former ones. */
		f->path.flow_packets += packets;
		f->path.flow_bytes += packets * (send ? send->payload : qp->tx.payload);
		f->path.flow_ns += (double)(landed_at - f->path.flow_at);
	}
	while (f->path.flow_packets > FLOW_KEPT) {
		f->path.flow_packets /= 2;
		f->path.flow_bytes /= 2;
		f->path.flow_ns /= 2;
	}
	f->path.flow_msn = msn;
	f->path.flow_sequence = sequence;
	f->path.flow_at = landed_at;
	f->path.flow_arrived = f->peer_arrived;
}

static uint64_t rate_bps(const struct feedback *f)
{
	if (f->path.flow_packets < FLOW_LEAST || f->path.flow_ns <= 0)
		return 0;
	return (uint64_t)(f->path.flow_bytes * 8e9 / f->path.flow_ns);
}

void estimate_holes(struct feedback *f, const struct control_report *report)
{
	int32_t holes = (int32_t)(report->holes - f->path.peer_runs);
	int32_t packets = (int32_t)(report->hole_packets - f->path.peer_packets);

	/* Fewer than before: an old report, or some were taken back that the next will make up for. */
	if (!report->has_holes || holes <= 0)
		return;
	f->path.peer_runs = report->holes;
	f->path.peer_packets = report->hole_packets;
	if (packets < holes || packets > RUN_PACKETS_MAX)
		return;
	f->path.runs += (float)holes;
	f->path.run_packets += (float)packets;
	while (f->path.runs > RUNS_KEPT) {
		f->path.runs /= 2;
		f->path.run_packets /= 2;
	}
}

uint64_t estimate_return_queue(struct gw_qp *qp, const struct control_report *report,
			       uint64_t rtt_ns)
{
	struct path_estimate *path = &qp->feedback.path;
	uint64_t now = qp->ctx->arrived;
	int64_t least_ns = path->return_least_ns, trip_ns;

	if (!report->has_clock)
		return 0;
	/* The clock wraps: of all times that differ by a wrap, the one that is nearest to the least. */
	trip_ns = (int64_t)(int32_t)((uint32_t)(now / 1000) - report->clock_us -
				     (uint32_t)(least_ns / 1000)) *
			  1000 +
		  least_ns;
	if (now > path->return_at)
		least_ns += (int64_t)(now - path->return_at) / DRIFT;
	/* The way back takes no longer than the round trip: one of the clocks was set. */
	if (!path->return_at || trip_ns < least_ns || trip_ns - least_ns > (int64_t)rtt_ns)
		least_ns = trip_ns;
	path->return_least_ns = least_ns;
	path->return_at = now;
	return (uint64_t)(trip_ns - least_ns);
}

void estimate_gap(struct gw_qp *qp, const struct gw_recv *recv, uint32_t packet)
{
	struct feedback *f = &qp->feedback;

	if (recv->sparse)
		return;
	if (packet > recv->highest) {
		f->holes.runs++;
		f->holes.packets += packet - recv->highest;
		f->holes.latest_msn = recv->msn;
		f->holes.latest_first = recv->highest;
		f->holes.latest_end = packet;
		f->holes.latest_at = qp->ctx->now;
	} else if (recv->msn == f->holes.latest_msn && packet >= f->holes.latest_first &&
		   packet < f->holes.latest_end &&
		   qp->ctx->now - f->holes.latest_at < f->rtt_min_ns) {
		f->holes.packets--;
		/* What it leaves of the hole on either side: none, one or two. */
		f->holes.runs +=
			(packet > f->holes.latest_first) + (packet + 1 < f->holes.latest_end) - 1u;
		f->holes.latest_first = packet + 1;
	}
}

int gw_qp_estimate(const struct gw_qp *qp, struct gw_estimate *out)
{
	const struct feedback *f;

	if (!qp || !out)
		return -EINVAL;
	if (!qp_valid(qp))
		return -ESTALE;
	f = &qp->feedback;
	*out = (struct gw_estimate){
		.rtt_ns = f->rtt_ns,
		.rtt_var_ns = f->rtt_var_ns,
		.rtt_min_ns = f->rtt_min_ns,
		.loss = (double)f->path.loss,
		.window = f->window,
		.in_flight = f->sequence - f->echoed,
		.sent = f->sent,
		.retransmitted = f->retransmitted,
		.marked = f->peer_ce,
		.cnps = f->cnps,
		.loss_mean = f->path.span > 0 ? (double)(f->path.lost / f->path.span) : 0,
		.burst = (double)mean_run(&f->path),
		.rate_bps = rate_bps(f),
		.payload_send = qp->tx.payload ? qp->tx.payload : qp->size.floor,
		.payload_recv = qp->size.named,
		.payload_floor = qp->size.floor,
		.payload_most = qp->size.ceiling,
		.wake_ns = qp->ctx->fabric->caps.wake_ns,
		.payload_settled = qp->size.peer_settled,
		.packets_most = UINT32_C(1) << qp->split.packet_bits,
		.sends = qp->tx.posted - qp->tx.results_seen,
		.overtaken_ns = f->path.overtaken_ns,
	};
	return 0;
}
