/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the path is like: how many packets it loses, how many of them in a row, and how fast it carries them.
 *
 * Loss is how far the echo moved in the order of sending, against how many landed meanwhile. One figure follows it within
 * hundreds of packets. Another covers the last few dozen losses, however long they took, since a loss in a hundred thousand
 * packets matters to a large message and would never show in the first.
 *
 * Bursts are the receiver's to see. Packets are sent in order, so that one that lands above the next opens a hole: a run
 * of packets lost, or out of order. In the latter case they come before a repeat could have, and the hole is taken back;
 * only the latest is remembered for that, which is the one that packets out of order fall into. Reports carry how many
 * holes there were and how many packets in them, and their ratio is the mean run. A packet in its turn costs one
 * comparison.
 *
 * The rate is that of landing, from echo to echo of one message.
 */
#include <errno.h>

#include "message/state.h"

#define LOSS_SPAN	32 /* packets at least behind a sample of the loss */
#define LOSS_SMOOTHED	512u
#define LOSSES_KEPT	32.0f
#define SPAN_KEPT	131072.0f /* packets; half a gigabyte */
#define RUNS_KEPT	64.0f
#define RUN_PACKETS_MAX (1 << 20) /* in one report: no more is believed */
#define FLOW_LEAST	64.0	  /* packets: from fewer no rate is told */
#define FLOW_KEPT	8192.0

void estimate_loss(struct feedback *f)
{
	uint32_t span = f->echoed - f->echo_at_loss;
	uint32_t landed = f->peer_landed - f->peer_landed_at_echo;
	float weight, sample;

	if ((int32_t)span < LOSS_SPAN)
		return;
	sample = landed >= span ? 0.0f : 1.0f - (float)landed / (float)span;
	weight = span > LOSS_SMOOTHED ? 1.0f : (float)span / LOSS_SMOOTHED;
	f->path.loss += (sample - f->path.loss) * weight;
	/* One out of order is missed in one sample and too many in the next: here the two cancel. */
	f->path.span += (float)span;
	f->path.lost += (float)(int32_t)(span - landed);
	if (f->path.lost < 0)
		f->path.lost = 0;
	while (f->path.lost > LOSSES_KEPT || f->path.span > SPAN_KEPT) {
		f->path.lost /= 2;
		f->path.span /= 2;
	}
	f->echo_at_loss = f->echoed;
	f->peer_landed_at_echo = f->peer_landed;
}

/* Only from one packet to another of the same message, both sent once: in between, data flowed. */
void estimate_rate(struct feedback *f, uint32_t msn, uint64_t landed_at)
{
	if (f->path.flow_at && f->path.flow_msn == msn && landed_at > f->path.flow_at) {
		f->path.flow_packets += (double)(f->peer_landed - f->path.flow_landed);
		f->path.flow_ns += (double)(landed_at - f->path.flow_at);
	}
	while (f->path.flow_packets > FLOW_KEPT) {
		f->path.flow_packets /= 2;
		f->path.flow_ns /= 2;
	}
	f->path.flow_msn = msn;
	f->path.flow_at = landed_at;
	f->path.flow_landed = f->peer_landed;
}

static uint64_t rate_bps(const struct gw_qp *qp)
{
	const struct feedback *f = &qp->feedback;

	if (f->path.flow_packets < FLOW_LEAST || f->path.flow_ns <= 0)
		return 0;
	return (uint64_t)(f->path.flow_packets * qp->tx.payload * 8e9 / f->path.flow_ns);
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
		/* As if there had been one more, of one packet: little is known from few. */
		.burst = (double)((f->path.run_packets + 1) / (f->path.runs + 1)),
		.rate_bps = (uint64_t)rate_bps(qp),
		.payload_send = qp->tx.payload ? qp->tx.payload : qp->size.floor,
		.payload_recv = qp->size.named,
		.payload_floor = qp->size.floor,
		.payload_most = qp->size.ceiling,
		.payload_settled = qp->size.peer_settled,
	};
	return 0;
}
