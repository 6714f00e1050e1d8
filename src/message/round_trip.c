/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The round trip as it was measured: smoothed, with its deviation and its minimum. What follows from it: how long to wait for an answer, and
 * when an echo is overdue. Before the first sample a long one is assumed, or what the application's hint says.
 */
#include "constants/protocol.h"
#include "message/state.h"

#define PATIENCE_UNKNOWN_NS UINT64_C(50000000)
/* Round-trip time and its deviation that are assumed before the first sample: as QUIC does, a third of a second. */
#define RTT_UNKNOWN_NS	   UINT64_C(333000000)
#define RTT_VAR_UNKNOWN_NS UINT64_C(167000000)
/* Round trips, as the hint says, that the first ones may take: there may be queues now. */
#define HINT_TRIPS     3u
#define HINT_MARGIN_NS UINT64_C(5000000)
/* Least allowance for deviation in the probe timeout. */
#define PTO_VAR_MIN_NS UINT64_C(1000000)
/* rtt_min_ns covers one to two of these. */
#define RTT_MIN_SPAN_NS UINT64_C(15000000000)

/* How long to wait for the peer before a round trip was measured. */
static uint64_t first_wait_ns(const struct gw_qp *qp)
{
	uint64_t wait_ns;

	if (!qp || !qp->rtt_hint_ns)
		return PATIENCE_UNKNOWN_NS;
	wait_ns = HINT_TRIPS * qp->rtt_hint_ns + HINT_MARGIN_NS;
	return wait_ns < RTT_UNKNOWN_NS ? wait_ns : RTT_UNKNOWN_NS;
}

/* A round trip, and so many deviations of it or this share of it, whichever is more; but not less than `least_ns`. */
static uint64_t wait_ns(const struct gw_qp *qp, uint64_t deviations, uint64_t share,
			uint64_t least_ns)
{
	const struct feedback *f;
	uint64_t margin_ns, whole_ns;

	if (!qp || !qp->feedback.rtt_ns)
		return first_wait_ns(qp);
	f = &qp->feedback;
	margin_ns = deviations * f->rtt_var_ns;
	if (margin_ns < f->rtt_ns / share)
		margin_ns = f->rtt_ns / share;
	whole_ns = f->rtt_ns + f->hold_ns + margin_ns;
	return whole_ns < least_ns ? least_ns : whole_ns;
}

uint64_t gw_qp_patience_ns(const struct gw_qp *qp)
{
	return wait_ns(qp, 4, PATIENCE_SHARE, PATIENCE_MIN_NS);
}

uint64_t gw_qp_answer_ns(const struct gw_qp *qp)
{
	return wait_ns(qp, 2, ANSWER_SHARE, ANSWER_MIN_NS);
}

uint64_t feedback_pto_ns(const struct gw_qp *qp)
{
	const struct feedback *f = &qp->feedback;
	uint64_t var_ns = 4 * (f->rtt_ns ? f->rtt_var_ns : RTT_VAR_UNKNOWN_NS);
	uint64_t rtt_ns = f->rtt_ns ? f->rtt_ns : RTT_UNKNOWN_NS;

	if (!f->rtt_ns && qp->rtt_hint_ns) {
		rtt_ns = first_wait_ns(qp);
		var_ns = 0;
	}
	return rtt_ns + f->hold_ns + (var_ns > PTO_VAR_MIN_NS ? var_ns : PTO_VAR_MIN_NS) +
	       (feedback_pays_since(qp, f->echoed) ? REPORT_DELAY_MAX_NS : REPORT_DELAY_POOR_NS);
}

static void see_rtt_min(struct gw_qp *qp, uint64_t sample_ns)
{
	struct feedback *f = &qp->feedback;

	if (qp->ctx->now - f->rtt_min_since_ns > RTT_MIN_SPAN_NS) {
		f->rtt_min_ns = f->rtt_min_now_ns;
		f->rtt_min_now_ns = sample_ns;
		f->rtt_min_since_ns = qp->ctx->now;
	}
	if (sample_ns < f->rtt_min_now_ns)
		f->rtt_min_now_ns = sample_ns;
	if (sample_ns < f->rtt_min_ns)
		f->rtt_min_ns = sample_ns;
}

void feedback_rtt(struct gw_qp *qp, uint64_t sample_ns)
{
	struct feedback *f = &qp->feedback;
	uint64_t error;

	if (!sample_ns)
		sample_ns = 1;
	if (!f->rtt_ns) {
		f->rtt_ns = f->rtt_min_ns = f->rtt_min_now_ns = sample_ns;
		f->rtt_min_since_ns = qp->ctx->now;
		f->rtt_var_ns = sample_ns / 2;
		return;
	}
	error = sample_ns > f->rtt_ns ? sample_ns - f->rtt_ns : f->rtt_ns - sample_ns;
	/* Decay first, then add: the other way round it settles at 7/8 of the truth. */
	f->rtt_var_ns = f->rtt_var_ns - f->rtt_var_ns / 4 + error / 4;
	f->rtt_ns = f->rtt_ns - f->rtt_ns / 8 + sample_ns / 8;
	see_rtt_min(qp, sample_ns);
}

void feedback_held(struct gw_qp *qp, uint64_t hold_ns)
{
	struct feedback *f = &qp->feedback;

	f->hold_ns = f->hold_ns - f->hold_ns / 8 + hold_ns / 8;
}
