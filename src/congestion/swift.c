/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * swift: a target for the delay, for round trips inside a building.
 *
 * After "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", G. Kumar, N. Dukkipati,
 * K. Jang et al., SIGCOMM 2020. The window grows by a packet a round trip while the delay is below its target, and
 * shrinks in proportion to the excess, at most once a round trip, when it is above. The target is higher for a small
 * window, so that many flows at one port, each with little, do not fight over less queue than they make; the same term
 * makes their shares equal. A window below one packet is a rate: one packet in several round trips.
 *
 * Where this differs from the paper, and why:
 * - The base target is the least round trip seen plus a margin. The paper's fabric knows its hops; ours is any.
 * - The delay is the whole round trip. There is no NIC clock to tell the ends from the fabric.
 * - It is judged by the least of the last one to two round trips: what stands in the queue. One sample may have waited
 *   for a busy host, or behind the burst it left in, and neither is a queue that a smaller window would shorten.
 * - It starts by doubling, until the delay or a mark says stop. Reports are too few to climb by single packets.
 * - Loss of more than one packet in 20 halves the window, of less with a delay above target it takes three tenths, once
 *   a round trip. Other loss is repaired and nothing more: busy hosts and long cables lose packets without a queue.
 * - Silence halves it, and is forgiven when it turns out that all arrived: a host had slept.
 * - Marks (CE) shrink the window by half of their smoothed share, as DCTCP does (M. Alizadeh et al., SIGCOMM 2010).
 * - Now and then half the rate for a moment, to see the path without our own queue: a flow that started into a queue
 *   would else take it for the path, and never give way.
 */
#include <assert.h>
#include <math.h>

#include "congestion/cc.h"
#include "congestion/recent.h"

#define NS_A_SECOND 1e9

/* The paper's names and values. */
#define ADD	 1.0 /* packets a round trip */
#define BETA	 0.8
#define MAX_CUT	 0.5
#define MIN_FLOW 0.1   /* packets: below, the target grows no more */
#define MAX_FLOW 100.0 /* above, it shrinks no more */
/* The paper has 0.001: a packet in seconds, and as long until good news comes. */
#define MIN_WIN 0.05

/* Ours. Of the least round trip: so far above it lies the base target, within these. */
#define MARGIN	       0.75
#define MARGIN_MIN_NS  50e3
#define MARGIN_MAX_NS  1e6
#define FLOW_RANGE     2.0 /* margins that the smallest flow is granted on top */
#define LOSS_CEILING   0.05
#define LOSS_CUT       0.3
#define CNP_SHARE      0.25 /* marked, of a round trip in which a notification came */
#define PACE	       1.1  /* of window over round trip: the window is what limits */
#define LEAST_AFTER_NS 10e9 /* the least round trip is forgotten after one to two of these */
#define MARK_GAIN      0.0625
#define DRAIN_TRIPS    100.0 /* round trips without a sight of the bare path, before a look at it */
#define DRAIN_MIN_NS   20e6
#define DRAIN_DEPTH    0.5
#define NEAR	       (1 / 8.0) /* margins above the least: as good as the bare path */
#define SMOOTH	       0.125
#define MOST_BYTES     1e15 /* so that every window fits every integer */

struct swift {
	double packet;
	double window; /* packets */
	double most;
	double fixed_margin_ns; /* from the attributes; 0: by MARGIN */
	struct recent least_ns;
	struct recent standing_ns; /* least of the last round trip or two */
	double rtt_ns;		   /* smoothed; 0: none yet */
	double gap_ns;		   /* between reports, smoothed */
	uint64_t report_at;
	uint64_t round_at; /* of the last look at marks and losses */
	uint64_t cut_at;
	uint64_t bare_at;		/* the path was last seen bare */
	uint64_t drain_until;		/* 0: not draining */
	double marks;			/* share, smoothed */
	double delivered, lost, marked; /* packets in this round */
	double before_silence;		/* the window; 0: something was heard since */
	double sent_since;		/* the last time it was given up waiting, packets */
	bool starting;
	bool noticed; /* a CNP, in this round */
	const char *doing;
};

static_assert(sizeof(struct swift) <= CC_STATE_SIZE, "CC_STATE_SIZE is too small");

static void swift_init(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
	struct swift *s = state;

	*s = (struct swift){
		.packet = attr->packet_bytes,
		.window = (double)attr->initial_window_bytes / attr->packet_bytes,
		.most = fmin((double)attr->max_window_bytes, MOST_BYTES) / attr->packet_bytes,
		.fixed_margin_ns = (double)attr->target_queue_ns,
		.round_at = now_ns,
		.report_at = now_ns,
		.cut_at = now_ns,
		.bare_at = now_ns,
		.starting = true,
		.marks = 1,
		.doing = "starting",
	};
	recent_init(&s->least_ns, INFINITY, now_ns);
	recent_init(&s->standing_ns, INFINITY, now_ns);
}

static double least_ns(const struct swift *s)
{
	return recent_least(&s->least_ns);
}

static double delay_ns(const struct swift *s)
{
	return recent_least(&s->standing_ns);
}

/* What is in flight is known a report late: so long does it take until a change of the window shows. */
static double turn_ns(const struct swift *s)
{
	return s->rtt_ns + s->gap_ns;
}

static double margin_ns(const struct swift *s)
{
	if (s->fixed_margin_ns > 0)
		return s->fixed_margin_ns;
	return fmin(fmax(least_ns(s) * MARGIN, MARGIN_MIN_NS), MARGIN_MAX_NS);
}

static double target_ns(const struct swift *s)
{
	double margin = margin_ns(s);
	double window = fmin(fmax(s->window, MIN_FLOW), MAX_FLOW);
	double alpha = FLOW_RANGE * margin / (1 / sqrt(MIN_FLOW) - 1 / sqrt(MAX_FLOW));

	return least_ns(s) + margin + alpha * (1 / sqrt(window) - 1 / sqrt(MAX_FLOW));
}

static void see_rtt(struct swift *s, double rtt_ns, uint64_t now_ns)
{
	recent_see_least(&s->least_ns, rtt_ns, LEAST_AFTER_NS, now_ns);
	s->rtt_ns = s->rtt_ns > 0 ? s->rtt_ns + (rtt_ns - s->rtt_ns) * SMOOTH : rtt_ns;
	recent_see_least(&s->standing_ns, rtt_ns, turn_ns(s), now_ns);
	if (rtt_ns < least_ns(s) + NEAR * margin_ns(s))
		s->bare_at = now_ns;
	if (s->drain_until && now_ns >= s->drain_until) {
		s->drain_until = 0;
		s->bare_at = now_ns;
	} else if ((double)(now_ns - s->bare_at) > fmax(DRAIN_TRIPS * s->rtt_ns, DRAIN_MIN_NS)) {
		s->drain_until = now_ns + (uint64_t)(2 * s->rtt_ns);
		s->bare_at = now_ns;
	}
}

/* At most once a turn, which is when the last cut shows; else one queue would be answered twice. */
static void cut(struct swift *s, double by, const char *why, uint64_t now_ns)
{
	s->starting = false;
	if ((double)(now_ns - s->cut_at) < turn_ns(s))
		return;
	s->window *= 1 - fmin(by, MAX_CUT);
	s->cut_at = now_ns;
	s->doing = why;
}

static void end_round(struct swift *s, uint64_t now_ns)
{
	double marked = s->delivered > 0 ? s->marked / s->delivered : 0;
	double lost = s->lost > 0 ? s->lost / (s->delivered + s->lost) : 0;

	if (s->noticed)
		marked = fmax(marked, CNP_SHARE);
	s->marks += (marked - s->marks) * MARK_GAIN;
	if (marked > 0)
		cut(s, s->marks / 2, "backing off: packets were marked", now_ns);
	if (lost > LOSS_CEILING || (lost > 0 && delay_ns(s) > target_ns(s)))
		cut(s, lost > LOSS_CEILING ? MAX_CUT : LOSS_CUT, "backing off: packets were lost",
		    now_ns);
	s->delivered = s->lost = s->marked = 0;
	s->noticed = false;
	s->round_at = now_ns;
}

static void grow(struct swift *s, const struct cc_report *report)
{
	double packets = (double)report->delivered_bytes / s->packet;
	double used = packets + (double)report->in_flight_bytes / s->packet;

	/* A window that is not used, be it for want of work or for a cap, proves nothing about a larger one. */
	if (used < s->window / 2)
		return;
	if (s->starting)
		s->window += packets;
	else
		s->window += s->window >= 1 ? ADD * packets / s->window : ADD * packets;
	if (!s->starting)
		s->doing = "probing up";
}

/* More arrived than was sent since: what was given up was not lost. */
static void forgive_silence(struct swift *s, const struct cc_report *report)
{
	if (s->before_silence > 0 && (double)report->delivered_packets > s->sent_since)
		s->window = fmax(s->window, s->before_silence);
	s->before_silence = 0;
}

static void swift_report(void *state, const struct cc_report *report, uint64_t now_ns)
{
	struct swift *s = state;
	double gap_ns = fmin((double)(now_ns - s->report_at), s->rtt_ns);

	if (!report->app_limited)
		s->gap_ns += (gap_ns - s->gap_ns) * SMOOTH;
	s->report_at = now_ns;
	s->delivered += (double)report->delivered_packets;
	s->lost += (double)report->lost_packets;
	s->marked += (double)report->marked_packets;
	forgive_silence(s, report);
	if (report->rtt_ns)
		see_rtt(s, (double)report->rtt_ns, now_ns);
	if (s->rtt_ns <= 0)
		return;
	if (delay_ns(s) > target_ns(s))
		cut(s, BETA * (delay_ns(s) - target_ns(s)) / delay_ns(s),
		    "backing off: the queue is long", now_ns);
	else if (!report->marked_packets)
		grow(s, report);
	if ((double)(now_ns - s->round_at) >= s->rtt_ns)
		end_round(s, now_ns);
	s->window = fmin(fmax(s->window, MIN_WIN), s->most);
}

static void swift_cnp(void *state, uint64_t now_ns)
{
	struct swift *s = state;

	s->noticed = true;
	s->starting = false;
}

static void swift_sent(void *state, uint64_t bytes, uint64_t now_ns)
{
	struct swift *s = state;

	s->sent_since += (double)bytes / s->packet;
}

static void swift_timeout(void *state, uint64_t now_ns)
{
	struct swift *s = state;

	if (s->before_silence <= 0)
		s->before_silence = s->window;
	s->sent_since = 0;
	s->window = fmax(s->window * (1 - MAX_CUT), MIN_WIN);
	s->starting = false;
	s->cut_at = now_ns;
	s->doing = "backing off: nothing was heard";
}

static void swift_limits(const void *state, struct cc_limits *out)
{
	const struct swift *s = state;
	double window = s->window * s->packet;
	double rate;

	if (s->drain_until)
		window *= DRAIN_DEPTH;
	if (s->rtt_ns <= 0) {
		*out = (struct cc_limits){ CC_UNPACED, (uint64_t)window };
		return;
	}
	/* While it doubles, the pacer must let the next window out within this round trip. */
	rate = window * 8 * NS_A_SECOND / turn_ns(s) * (s->window < 1 ? 1 : s->starting ? 2 : PACE);
	out->rate_bps = rate < 1e13 ? (uint64_t)rate : CC_UNPACED;
	out->window_bytes = (uint64_t)fmax(window, s->packet);
}

static void swift_status(const void *state, struct cc_status *out)
{
	const struct swift *s = state;

	*out = (struct cc_status){ .doing = s->doing };
	if (s->rtt_ns > 0) {
		out->base_rtt_ns = (uint64_t)least_ns(s);
		out->queue_ns = (uint64_t)fmax(s->rtt_ns - least_ns(s), 0);
	}
}

const struct cc_ops cc_swift = {
	.name = "swift",
	.state_size = sizeof(struct swift),
	.init = swift_init,
	.sent = swift_sent,
	.report = swift_report,
	.cnp = swift_cnp,
	.timeout = swift_timeout,
	.limits = swift_limits,
	.status = swift_status,
};
