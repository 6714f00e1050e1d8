/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * long_haul.c: for round trips of milliseconds, where links lose packets at random and a window is megabytes.
 *
 * The state is a model of the path (model.h), after "BBR: Congestion-Based Congestion Control" (N. Cardwell, Y. Cheng et
 * al., ACM Queue 2016), and the window; the rate is the window divided by the round-trip time. The window changes at the
 * end of each round, in one of four phases:
 *
 * START   The window doubles each round, until the queue grows or the delivery rate stops growing.
 * DRAIN   The window is halved until no more is in flight than the path holds. While there was a queue, the path delivered
 *	   at its full rate.
 * CRUISE  The window grows by a share that is smaller for a larger window, and shrinks with the queueing delay:
 *
 *	      w += w * UP * (sqrt(W_REF / w) - queue / target)
 *
 *	   All flows at a bottleneck see the same queue, and only one window balances the sum, so that their windows become
 *	   equal, as in "FAST TCP" (D. Wei, C. Jin, S. Low, S. Hegde, IEEE/ACM ToN 2006). If the queue stays empty, there
 *	   is more bandwidth, and the growth quadruples from round to round. If the queue is far above the target, the path
 *	   has become slower, and the window falls to what the path delivers.
 * COMPETE The queue stays high although the window was reduced: other flows fill it. See compete.h.
 *
 * Loss alone is not congestion, since links lose packets at random. It counts if it comes with a queue and exceeds what the
 * path loses without one. Above LOSS_CEILING a test decides whether it is chance (chance.h). Marks (CE) are handled as in DCTCP (M. Alizadeh et al., SIGCOMM
 * 2010). Every few seconds the queue is drained to measure the minimum round-trip time again.
 */
#include <assert.h>
#include <math.h>

#include "congestion/compete.h"
#include "congestion/flight.h"

#define NS_A_SECOND 1e9
/* Bounds of the window, in packets and in bytes. */
#define LEAST_PACKETS 4.0
#define MOST_BYTES    1e15
/* Bytes in flight are limited to this many windows: reports are old when they come, and the rate is what limits. Where reports are
 * fewer than round trips, more is in flight as far as is known: what is sent from one report to the next, and a share of a
 * window. */
#define WINDOW_SLACK 1.5
#define GAP_SLACK    1.2
/* Weight of a new value in the smoothed time between reports, and its largest value in minimum round-trip times. */
#define GAP_GAIN 0.125
#define GAP_MOST 16.0

/* START ends if the queue stays above this share of the minimum round-trip time for a quarter of that and two reports, or
 * if the delivery rate grows by less than this factor in two rounds. */
#define START_QUEUE  0.125
#define START_GROWTH 1.25
#define DRAIN_ROUNDS 4
/* First windows that the path holds when its minimum round-trip time includes none of their queue. */
#define KNOWN 4.0

/* Target of the queueing delay, as a share of the minimum round-trip time, its least value, and packets that it lets stand in the
 * queue at least: on a slow link one of them takes longer than that. */
#define TARGET	       0.05
#define TARGET_MIN_NS  0.3e6
#define TARGET_PACKETS 2.0
/* Growth of the window in a round. */
#define UP	0.015
#define UP_MOST (3.2 * UP)
/* Window in bytes that balances exactly at the target: 1 Gbit/s over 25 ms. */
#define W_REF 3e6
/* Largest reduction in a round. */
#define CUT_MOST 0.3
/* Rounds with hardly any queue before the growth quadruples, and how many more after growth was stopped. */
#define CALM_ROUNDS 2
#define CALM_REST   3
/* Rounds in a row with a full window that have shown what the path takes: a pause after them tells nothing, since in the last round
 * others that share it may have paused already. */
#define FULL_ROUNDS 2
/* Share of the peak rate below which, with a queue, the path has become slower. */
#define SLOWER 0.75
/* Rounds that still show losses of growth after it was stopped. */
#define SETTLE_ROUNDS 2
/* The same after START, whose losses are many: some are repeated and lost again, and are proven rounds later. */
#define START_SETTLE_ROUNDS 4
/* Largest growth in a round then, and largest window as a multiple of what the path delivers. A sender whose host is late
 * does not use its window: what is delivered counts as if it had, but no more than this often. */
#define CALM_MOST    0.6
#define CALM_AHEAD   1.6
#define LATE_MOST    4.0
#define LOSS_CEILING 0.15
/* While probing, loss counts if it exceeds chance by this much more. */
#define LOSS_MARGIN 0.02
#define MARK_GAIN   (1 / 4.0)

enum phase { START, DRAIN, CRUISE, COMPETE };

struct long_haul {
	struct model model;
	struct compete compete;
	/* bytes in a packet; largest window in bytes; target from the attributes, 0 if computed from TARGET */
	double packet, most, fixed_target_ns;
	/* window before the first measurement, in bytes */
	double first;
	/* mean bytes in a packet of the latest report */
	double mean;
	/* window, in bytes */
	double window;
	/* bytes sent in this round, and share of the window that was used in the last */
	double sent, used;
	/* what was sent between pauses */
	struct flights flights;
	/* longest queue in this round, and longest that flights left behind, whose first packets meet none; 0: no pause of late */
	double high_ns, left_ns;
	/* smoothed share of marked packets */
	double marks;
	/* smoothed time between reports, in ns, and the time of the latest */
	double gap_ns;
	uint64_t report_at;
	/* for long_haul_status() */
	const char *doing;
	enum phase phase;
	/* the window was reduced because of marks in the last round */
	bool held;
	/* the sender paused in the last round */
	bool paused;
	/* rounds in a row in which it did not, the latest such */
	unsigned full;
	/* less is sent, to see whether loss is chance */
	bool testing;
	/* in DRAIN: no more is in flight than the path holds, although round-trip times tell of a queue for another round trip */
	bool drained;
	/* rounds of START without growth of the delivery rate, or rounds of DRAIN */
	unsigned slow;
	/* in START: when the queue was last low, reports since then, and bytes that they told of */
	uint64_t low_at;
	unsigned high;
	double high_bytes;
	/* rounds with hardly any queue; negative: rounds to wait before they count */
	int calm;
	/* rounds to come whose losses may be due to growth that was stopped */
	unsigned settling;
	/* window before this round's growth, in bytes */
	double undo;
	/* window at which growth was last stopped, in bytes; 0: it was reached since */
	double ceiling;
};

static_assert(sizeof(struct long_haul) <= CC_STATE_SIZE, "CC_STATE_SIZE is too small");

static void long_haul_init(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
	struct long_haul *l = state;

	*l = (struct long_haul){
		.packet = attr->packet_bytes,
		.most = fmin((double)attr->max_window_bytes, MOST_BYTES),
		.window = (double)attr->initial_window_bytes,
		.first = (double)attr->initial_window_bytes,
		.fixed_target_ns = (double)attr->target_queue_ns,
		.low_at = now_ns,
		.used = 1,
		.doing = "starting",
	};
	model_init(&l->model, LOSS_CEILING, now_ns);
}

static double target_ns(const struct long_haul *l)
{
	double peak = model_peak(&l->model);
	double packets_ns = peak > 0 ? TARGET_PACKETS * l->mean / peak : 0;

	if (l->fixed_target_ns > 0)
		return l->fixed_target_ns;
	return fmax(fmax(l->model.least_ns * TARGET, TARGET_MIN_NS), packets_ns);
}

/* Stops the quadrupling growth, and remembers where. */
static void stop(struct long_haul *l)
{
	l->calm = 0;
	l->settling = SETTLE_ROUNDS;
	l->ceiling = model_peak(&l->model) * model_trip(&l->model);
}

/* Returns the bytes of a flight that left at the window's rate; 0: none of late. */
static double paced_bytes(const struct long_haul *l)
{
	return flights_paced(&l->flights, l->window, model_trip(&l->model));
}

/* Returns the share by which the window grows this round; negative if it must shrink. */
static double growth(struct long_haul *l, double excess)
{
	const struct model *m = &l->model;
	double up = fmin(UP * sqrt(W_REF / l->window), UP_MOST);
	double ahead =
		CALM_AHEAD * m->delivered / l->used * (model_trip(m) + target_ns(l)) / l->window -
		1;

	/* The end of several full windows says nothing: what the path takes, these have shown. */
	if (m->idle && l->full >= FULL_ROUNDS)
		return fmin(up, UP * excess);
	/* Less was sent than the window allows, and slowly, or into a queue that has drained since, so that an empty queue says
	 * nothing. The window does not grow, and shrinks only where that of a flow that uses it would: messages that are sent one at a
	 * time would lose all of it otherwise. */
	if ((m->idle && paced_bytes(l) <= 0) || m->probing ||
	    UP * l->left_ns > up / 2 * target_ns(l)) {
		l->calm = 0;
		return fmin(up, UP * excess);
	}
	l->calm = UP * excess < up / 2 ? l->calm + 1 : 0;
	/* A short buffer overflows before its queue can be measured; fast growth then shows as loss. */
	if (l->calm > CALM_ROUNDS && chance_exceeded(&m->chance, m->loss - LOSS_MARGIN, m->sent)) {
		stop(l);
		return fmin(l->ceiling / l->window - 1, 0);
	}
	if (l->calm > CALM_ROUNDS) {
		up *= exp2(2 * fmin(l->calm - CALM_ROUNDS, 10));
		up = fmin(fmin(up, CALM_MOST), fmax(ahead, 0));
	}
	/* Grow up to where growth was last stopped, and wait there for some rounds. */
	if (l->window < l->ceiling && l->window * (1 + up) > l->ceiling) {
		up = l->ceiling / l->window - 1;
		l->ceiling = 0;
		l->calm = -CALM_REST;
	}
	return up;
}

static void round_cruise(struct long_haul *l, uint64_t now_ns)
{
	const struct model *m = &l->model;
	double excess = m->queue_ns / target_ns(l);
	double up = growth(l, excess);
	double down = fmin(UP * excess, CUT_MOST);

	if (compete_needed(&l->compete, m, target_ns(l), now_ns)) {
		l->phase = COMPETE;
		l->window = compete_enter(&l->compete, m, l->window, now_ns);
		l->doing = "competing for a queue that others fill";
		return;
	}
	if (excess > 0.5 && chance_exceeded(&m->chance, m->loss, m->sent) &&
	    !chance_is_open(&m->chance))
		down = fmax(down, fmin(m->loss, CUT_MOST));
	l->undo = l->window;
	l->window = fmax(l->window * (1 + up - down), compete_floor(&l->compete, m, now_ns));
	l->doing = l->calm > CALM_ROUNDS ? "probing up"
		   : up < down / 2	 ? "backing off: the queue is long"
					 : "cruising";
	/* Rounds soon after a pause tell of packets that left in it, and what arrived of these is not what the path carries. */
	if (compete_crowded(m, target_ns(l)) && !m->idle && l->full > FULL_ROUNDS) {
		l->window = fmin(l->window, model_rate(m) * (model_trip(m) + target_ns(l)));
		stop(l);
		/* The path has become slower than at its peak. */
		if (model_rate(m) < SLOWER * model_peak(m))
			l->ceiling = model_rate(m) * model_trip(m);
	}
}

static void leave_start(struct long_haul *l)
{
	l->phase = DRAIN;
	l->window /= 2;
	l->drained = false;
	l->slow = 0;
	l->settling = START_SETTLE_ROUNDS;
	l->doing = "draining the queue of the start";
}

/* True if what the path holds is known: much more than the first window, whose own queue may be part of the minimum round-trip
 * time otherwise. */
static bool holds_known(const struct long_haul *l)
{
	return !l->model.unsure && model_peak(&l->model) * model_trip(&l->model) > KNOWN * l->first;
}

/* Ends the reduction of DRAIN when no more is in flight than the path holds: round-trip times tell so a round trip later. */
static void drain(struct long_haul *l, const struct cc_report *report)
{
	double holds = model_peak(&l->model) * model_trip(&l->model);

	if (l->drained || !holds_known(l) || (double)report->in_flight_bytes > holds)
		return;
	l->drained = true;
	l->slow = 0;
	l->window = fmax(report->app_limited ? l->window : 0, holds);
}

/* More is lost than chance explains: sends no more than what arrives. */
static void congested(struct long_haul *l)
{
	const struct model *m = &l->model;

	if (l->phase == START) {
		leave_start(l);
	} else {
		l->window = fmin(l->window, m->delivered * model_trip(m));
		stop(l);
		l->doing = "backing off: too much is lost";
	}
}

/* Learns from the losses of a round. Returns true if they decide about the window. */
static bool judge_loss(struct long_haul *l, uint64_t now_ns)
{
	struct model *m = &l->model;
	struct chance_round round = { .packets = m->sent,
				      .lost = m->sent * m->loss,
				      .queue = compete_crowded(m, target_ns(l)),
				      .idle = m->idle };
	enum chance_verdict verdict;

	/* The sender's own growth loses packets in a short buffer. */
	if (l->phase == CRUISE && l->calm > CALM_ROUNDS)
		return false;
	if (m->queue_ns < target_ns(l) && !l->testing)
		chance_learn(&m->chance, &round);
	/* A queue that others fill stands, so that no test is needed. */
	if (l->settling || l->phase == COMPETE) {
		l->settling -= l->settling > 0;
		return false;
	}
	verdict = chance_judge(&m->chance, &round, now_ns);
	/* In START more is allowed than was sent when the loss was measured. */
	if (verdict == CHANCE_SEND_LESS && !l->testing && l->phase == START)
		l->window = fmin(l->window, m->delivered / (1 - m->loss) * m->rtt_ns);
	l->testing = verdict == CHANCE_SEND_LESS;
	if (l->testing)
		l->doing = "sending less: is the loss chance?";
	else if (verdict == CHANCE_CONGESTION)
		congested(l);
	return verdict != CHANCE_FINE;
}

static void end_round(struct long_haul *l, double before, uint64_t now_ns)
{
	const struct model *m = &l->model;

	if (judge_loss(l, now_ns))
		return;
	l->marks += (m->marked - l->marks) * MARK_GAIN;
	l->held &= m->marked > 0;
	if (l->phase == START) {
		l->slow = m->delivered < before * START_GROWTH && !m->idle ? l->slow + 1 : 0;
		if (l->slow >= 2 || m->marked > 0 ||
		    (m->idle && chance_exceeded(&m->chance, m->loss - LOSS_MARGIN, m->sent)))
			leave_start(l);
	} else if (l->phase == DRAIN) {
		/* The first round began before the queue did. */
		bool early = !l->drained && !l->slow && holds_known(l);

		if ((early || m->queue_ns > target_ns(l)) && ++l->slow < DRAIN_ROUNDS)
			return;
		l->phase = CRUISE;
		l->calm = 0;
		l->window = fmax(m->idle ? l->window : 0, model_peak(m) * model_trip(m));
	} else if (m->marked > 0) {
		/* The round after a reduction still reports marks from before it. */
		if (!l->held)
			l->window *= 1 - l->marks / 2;
		l->held = !l->held;
		stop(l);
		l->doing = "backing off: packets were marked";
	} else if (l->phase == CRUISE) {
		round_cruise(l, now_ns);
	} else if (compete_over(m, target_ns(l))) {
		l->phase = CRUISE;
	} else {
		l->window = compete_round(&l->compete, m, l->window, now_ns);
		l->doing = "competing for a queue that others fill";
	}
}

static void long_haul_sent(void *state, uint64_t bytes, uint64_t now_ns)
{
	struct long_haul *l = state;

	l->sent += (double)bytes;
	flights_sent(&l->flights, bytes, model_trip(&l->model), now_ns);
}

/* Notes how much of the window was used in the round that began then. */
static void see_use(struct long_haul *l, uint64_t began_ns, uint64_t now_ns)
{
	double trips = (double)(now_ns - began_ns) / fmax(l->model.rtt_ns, l->model.least_ns);

	l->used = fmin(fmax(l->sent / (l->window * trips), 1 / LATE_MOST), 1);
	l->sent = 0;
}

/* Counts rounds in which the window was full, up to the pause after them. Notes the queue that the flights of a round left, which
 * counts up to the first round without a pause. */
static void see_pause(struct long_haul *l)
{
	if (!l->model.idle)
		l->full = l->paused ? 1 : l->full + 1;
	else if (l->paused)
		l->full = 0;
	if (l->model.idle)
		l->left_ns = l->high_ns;
	else if (!l->paused)
		l->left_ns = 0;
	l->paused = l->model.idle;
	l->high_ns = 0;
}

/* Where little is sent, reports are fewer than round trips. */
static void see_gap(struct long_haul *l, const struct cc_report *report, uint64_t now_ns)
{
	double gap_ns = fmin((double)(now_ns - l->report_at), GAP_MOST * l->model.least_ns);

	if (!report->app_limited && l->report_at)
		l->gap_ns += (gap_ns - l->gap_ns) * GAP_GAIN;
	l->report_at = now_ns;
}

/* Returns by how much the window grows in START: a flight that left at twice the rate that the window stands for arrived, so that the
 * window may double. That of a sender that pauses may be less than the window; it counts as long as there is no queue. */
static double earned(const struct long_haul *l, const struct cc_report *report)
{
	double flight = l->window;

	if (report->app_limited)
		flight = model_queue_now(&l->model) < target_ns(l) ? fmin(paced_bytes(l), flight)
								   : 0;
	return l->testing || flight <= 0 ? 0 : (double)report->delivered_bytes * l->window / flight;
}

static void long_haul_report(void *state, const struct cc_report *report, uint64_t now_ns)
{
	struct long_haul *l = state;
	double before = l->model.delivered;
	uint64_t began_ns = l->model.round_at;
	bool round = model_report(&l->model, report, l->window, now_ns);
	double queue_ns = model_queue_now(&l->model);

	if (l->model.least_ns <= 0)
		return;
	if (report->delivered_packets)
		l->mean = (double)report->delivered_bytes / (double)report->delivered_packets;
	see_gap(l, report, now_ns);
	l->high_ns = fmax(l->high_ns, queue_ns);
	if (l->phase == START) {
		l->window += earned(l, report);
		l->high++;
		l->high_bytes += (double)report->delivered_bytes;
		if (queue_ns < fmax(l->model.least_ns * START_QUEUE, target_ns(l))) {
			l->low_at = now_ns;
			l->high = 0;
			l->high_bytes = 0;
		}
		if (l->high >= 2 && (double)(now_ns - l->low_at) > l->model.least_ns / 4) {
			/* While a queue stood, the path delivered at its full rate. The mean of a whole round in which the
			 * window doubled is less, and the sender may pause before there is another. */
			if (holds_known(l))
				model_saw(&l->model, l->high_bytes / (double)(now_ns - l->low_at));
			leave_start(l);
		}
	} else if (l->phase == DRAIN) {
		drain(l, report);
	} else if (l->phase == CRUISE && l->calm > CALM_ROUNDS &&
		   (report->marked_packets || queue_ns > target_ns(l))) {
		l->window = l->undo;
		stop(l);
	}
	if (round) {
		see_use(l, began_ns, now_ns);
		see_pause(l);
		end_round(l, before, now_ns);
		if (l->phase >= CRUISE && !l->testing)
			model_probe(&l->model, l->phase == COMPETE, now_ns);
	}
	l->window = fmin(fmax(l->window, LEAST_PACKETS * l->packet), l->most);
}

static void long_haul_cnp(void *state, uint64_t now_ns)
{
	struct long_haul *l = state;

	model_cnp(&l->model);
}

static void long_haul_timeout(void *state, uint64_t now_ns)
{
	struct long_haul *l = state;

	l->window = fmin(l->window, LEAST_PACKETS * l->packet);
	l->phase = START;
	l->testing = false;
	l->calm = 0;
	l->slow = 0;
	l->low_at = now_ns;
	l->high = 0;
	l->high_bytes = 0;
	l->doing = "starting again: nothing was heard";
}

static void long_haul_limits(const void *state, struct cc_limits *out)
{
	const struct long_haul *l = state;
	const struct model *m = &l->model;
	double window = l->window * (l->testing	   ? CHANCE_TEST
				     : m->draining ? MODEL_PROBE_DEPTH
						   : 1);
	/* Spreading a window over the whole mean round-trip time loses the queue to BBR where that makes the jitter. */
	double trip = m->least_ns + (model_trip(m) - m->least_ns) / 8 +
		      (l->phase == DRAIN && l->drained ? 0 : model_queue_now(m));
	double rate = m->least_ns > 0 ? window * 8 * NS_A_SECOND / trip : INFINITY;

	/* While the window doubles, the pacer must let the next window out within this round trip. */
	if (l->phase == START && !l->testing)
		rate *= 2;
	out->rate_bps = rate < 1e13 ? (uint64_t)rate : CC_UNPACED;
	out->window_bytes = (uint64_t)window;
	if (m->least_ns > 0 && !m->probing && l->phase != START)
		out->window_bytes = (uint64_t)fmax(
			window * WINDOW_SLACK,
			window * GAP_SLACK + fmin(model_peak(m), window / trip) * l->gap_ns);
}

static void long_haul_status(const void *state, struct cc_status *out)
{
	const struct long_haul *l = state;

	*out = (struct cc_status){
		.doing =
			l->model.probing ? "letting the queue drain to measure the path" : l->doing,
		.base_rtt_ns = (uint64_t)l->model.least_ns,
		.queue_ns = (uint64_t)fmax(l->model.rtt_ns - l->model.least_ns, 0),
		.delivered_bps = (uint64_t)(l->model.arriving * 8 * NS_A_SECOND),
	};
}

const struct cc_ops cc_long_haul = {
	.name = "long-haul",
	.state_size = sizeof(struct long_haul),
	.init = long_haul_init,
	.sent = long_haul_sent,
	.report = long_haul_report,
	.cnp = long_haul_cnp,
	.timeout = long_haul_timeout,
	.limits = long_haul_limits,
	.status = long_haul_status,
};
