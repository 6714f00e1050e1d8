/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * long-haul: for round trips of milliseconds, where packets are lost by chance and a window is megabytes.
 *
 * A model of the path (model.h) after "BBR: Congestion-Based Congestion Control" (N. Cardwell, Y. Cheng et al., ACM
 * Queue 2016), and one number, the window; the rate is window over round trip. A decision is taken at the end of each
 * round.
 *
 * START   The window doubles each round, until the queue grows or the delivery rate stops growing.
 * DRAIN   Half of that, until the queue is gone; while it lasted, the path delivered what it can.
 * CRUISE  The window grows by a share that is smaller for a larger window, and shrinks by the queue's delay:
 *
 *	      w += w * UP * (sqrt(W_REF / w) - queue / target)
 *
 *	   All flows at a bottleneck see one queue, and only one window balances that sum: they become equal, as in
 *	   "FAST TCP" (D. Wei, C. Jin, S. Low, S. Hegde, IEEE/ACM ToN 2006). A queue that stays empty means that there is
 *	   more to have: the growth then quadruples from round to round. A queue far above the target means that the path
 *	   became slower: the window falls to what the path delivers.
 * COMPETE The queue stays high although the window fell: someone else fills it. See compete.h.
 *
 * Loss is not congestion: links lose packets by chance. It counts where it comes with a queue and is more than the path
 * loses without one, or is more than LOSS_CEILING. Marks (CE) are taken as DCTCP takes them (M. Alizadeh et al., SIGCOMM
 * 2010). Every few seconds the queue is let drain, to measure the least round trip anew.
 */
#include <assert.h>
#include <math.h>

#include "congestion/compete.h"

#define NS_A_SECOND   1e9
#define LEAST_PACKETS 4.0
#define MOST_BYTES    1e15
/* Windows in flight at most: reports are old when they come, and it is the rate that limits. */
#define WINDOW_SLACK 1.5

/* Queue, of the least round trip, that ends the start when it lasts a quarter of it and two reports. */
#define START_QUEUE  0.125
#define START_GROWTH 1.25 /* of the delivery rate a round; less, twice: ends it too */
#define DRAIN_ROUNDS 4

#define TARGET	      0.05 /* queue, of the least round trip */
#define TARGET_MIN_NS 0.3e6
#define UP	      0.015 /* a round */
#define UP_MOST	      (3.2 * UP)
#define W_REF	      3e6 /* bytes whose balance is at the target: 1 Gbit/s over 25 ms */
#define CUT_MOST      0.3 /* a round */
#define CALM_ROUNDS   2	  /* with hardly a queue, before growth quadruples */
#define CALM_REST     3	  /* more of them where growth was stopped before */
#define CALM_MOST     0.6 /* growth a round then */
#define CALM_AHEAD    1.6 /* of what was delivered: the window then goes no further */
#define LOSS_CEILING  0.15
#define LOSS_FACTOR   2.0 /* times what is lost without a queue */
#define LOSS_MARGIN   0.02
#define CHANCE_GAIN   (1 / 16.0)
#define MARK_GAIN     (1 / 4.0)

enum phase { START, DRAIN, CRUISE, COMPETE };

struct long_haul {
	struct model model;
	struct compete compete;
	double packet, most, fixed_target_ns;
	double window; /* bytes */
	double chance; /* share of packets lost where there is no queue */
	double marks;  /* share marked, smoothed */
	const char *doing;
	enum phase phase;
	bool held;	 /* the last round was one of marks, and answered */
	unsigned slow;	 /* rounds of START without growth, or of DRAIN */
	uint64_t low_at; /* in START, when the queue was last low, and reports since */
	unsigned high;
	int calm;	/* rounds without a queue; below zero: to rest */
	double undo;	/* the window before this round's growth */
	double ceiling; /* where growth was stopped last; 0: reached since */
};

static_assert(sizeof(struct long_haul) <= CC_STATE_SIZE, "CC_STATE_SIZE is too small");

static void long_haul_init(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
	struct long_haul *l = state;

	*l = (struct long_haul){
		.packet = attr->packet_bytes,
		.most = fmin((double)attr->max_window_bytes, MOST_BYTES),
		.window = (double)attr->initial_window_bytes,
		.fixed_target_ns = (double)attr->target_queue_ns,
		.low_at = now_ns,
		.doing = "starting",
	};
	model_init(&l->model, now_ns);
}

static double target_ns(const struct long_haul *l)
{
	return l->fixed_target_ns > 0 ? l->fixed_target_ns
				      : fmax(l->model.least_ns * TARGET, TARGET_MIN_NS);
}

/* No further for now. */
static void stop(struct long_haul *l)
{
	l->calm = 0;
	l->ceiling = model_peak(&l->model) * l->model.least_ns;
}

/* The share to grow by. */
static double growth(struct long_haul *l, double excess)
{
	const struct model *m = &l->model;
	double up = fmin(UP * sqrt(W_REF / l->window), UP_MOST);
	double ahead = CALM_AHEAD * m->delivered * (m->least_ns + target_ns(l)) / l->window - 1;

	if (m->idle) {
		l->calm = 0;
		return 0;
	}
	l->calm = UP * excess < up / 2 ? l->calm + 1 : 0;
	/* A queue too short to be seen loses the more, the faster one grows. */
	if (l->calm > CALM_ROUNDS && m->loss > LOSS_FACTOR * l->chance + LOSS_MARGIN) {
		stop(l);
		return fmin(l->ceiling / l->window - 1, 0);
	}
	if (l->calm > CALM_ROUNDS) {
		up *= exp2(2 * fmin(l->calm - CALM_ROUNDS, 10));
		up = fmin(fmin(up, CALM_MOST), fmax(ahead, 0));
	}
	/* Up to where it was stopped the last time and not beyond, and then a look. */
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
	if (m->loss > LOSS_FACTOR * l->chance && excess > 0.5)
		down = fmax(down, fmin(m->loss, CUT_MOST));
	l->undo = l->window;
	l->window *= 1 + up - down;
	l->doing = l->calm > CALM_ROUNDS ? "probing up"
		   : up < down / 2	 ? "backing off: the queue is long"
					 : "cruising";
	if (compete_crowded(m, target_ns(l)) && !m->idle) {
		l->window = fmin(l->window, model_rate(m) * (m->least_ns + target_ns(l)));
		stop(l);
	}
}

static void leave_start(struct long_haul *l)
{
	l->phase = DRAIN;
	l->window /= 2;
	l->slow = 0;
	l->doing = "draining the queue of the start";
}

static void end_round(struct long_haul *l, double before, uint64_t now_ns)
{
	const struct model *m = &l->model;

	l->marks += (m->marked - l->marks) * MARK_GAIN;
	l->held &= m->marked > 0;
	if (m->queue_ns < target_ns(l) && l->calm <= CALM_ROUNDS)
		l->chance += (m->loss - l->chance) * CHANCE_GAIN;
	if (l->phase == START) {
		l->slow = m->delivered < before * START_GROWTH && !m->idle ? l->slow + 1 : 0;
		if (l->slow >= 2 || m->marked > 0 || m->loss > LOSS_CEILING)
			leave_start(l);
	} else if (l->phase == DRAIN) {
		if (m->queue_ns > target_ns(l) && ++l->slow < DRAIN_ROUNDS)
			return;
		l->phase = CRUISE;
		l->calm = 0;
		if (!m->idle)
			l->window = model_peak(m) * m->least_ns;
	} else if (m->marked > 0) {
		/* The round after a cut still tells of the time before it. */
		if (!l->held)
			l->window *= 1 - l->marks / 2;
		l->held = !l->held;
		stop(l);
		l->doing = "backing off: packets were marked";
	} else if (m->loss > LOSS_CEILING && l->phase == CRUISE) {
		l->window = fmin(l->window, m->delivered * m->least_ns);
		stop(l);
		l->doing = "backing off: too much is lost";
	} else if (l->phase == CRUISE) {
		round_cruise(l, now_ns);
	} else if (compete_over(m, target_ns(l))) {
		l->phase = CRUISE;
	} else {
		l->window = compete_round(&l->compete, m, l->window, l->chance, now_ns);
		l->doing = "competing for a queue that others fill";
	}
}

static void long_haul_report(void *state, const struct cc_report *report, uint64_t now_ns)
{
	struct long_haul *l = state;
	double before = l->model.delivered;
	bool round = model_report(&l->model, report, l->window, now_ns);
	double queue_ns = l->model.rtt_ns - l->model.least_ns;

	if (l->model.least_ns <= 0)
		return;
	if (l->phase == START) {
		if (!report->app_limited)
			l->window += (double)report->delivered_bytes;
		l->high++;
		if (queue_ns < fmax(l->model.least_ns * START_QUEUE, target_ns(l))) {
			l->low_at = now_ns;
			l->high = 0;
		}
		if (l->high >= 2 && (double)(now_ns - l->low_at) > l->model.least_ns / 4)
			leave_start(l);
	} else if (l->phase == CRUISE && l->calm > CALM_ROUNDS &&
		   (report->marked_packets || queue_ns > target_ns(l))) {
		l->window = l->undo;
		stop(l);
	}
	if (round) {
		end_round(l, before, now_ns);
		if (l->phase >= CRUISE)
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

	l->window = fmax(l->window / 4, LEAST_PACKETS * l->packet);
	l->phase = START;
	l->slow = 0;
	l->low_at = now_ns;
	l->high = 0;
	l->doing = "starting again: nothing was heard";
}

static void long_haul_limits(const void *state, struct cc_limits *out)
{
	const struct long_haul *l = state;
	double window = l->window * (l->model.probing ? MODEL_PROBE_DEPTH : 1);
	double rate = l->model.least_ns > 0 ? window * 8 * NS_A_SECOND / l->model.rtt_ns : INFINITY;

	/* While it doubles, the pacer must let the next window out within this round trip. */
	if (l->phase == START)
		rate *= 2;
	out->rate_bps = rate < 1e13 ? (uint64_t)rate : CC_UNPACED;
	out->window_bytes = (uint64_t)window;
	if (l->model.least_ns > 0 && !l->model.probing)
		out->window_bytes = (uint64_t)(window * WINDOW_SLACK);
}

static void long_haul_status(const void *state, struct cc_status *out)
{
	const struct long_haul *l = state;

	*out = (struct cc_status){
		.doing =
			l->model.probing ? "letting the queue drain to measure the path" : l->doing,
		.base_rtt_ns = (uint64_t)l->model.least_ns,
		.queue_ns = (uint64_t)fmax(l->model.rtt_ns - l->model.least_ns, 0),
		.delivered_bps = (uint64_t)(l->model.delivered * 8 * NS_A_SECOND),
	};
}

const struct cc_ops cc_long_haul = {
	.name = "long-haul",
	.state_size = sizeof(struct long_haul),
	.init = long_haul_init,
	.report = long_haul_report,
	.cnp = long_haul_cnp,
	.timeout = long_haul_timeout,
	.limits = long_haul_limits,
	.status = long_haul_status,
};
