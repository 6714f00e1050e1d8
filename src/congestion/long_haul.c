/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * long-haul: for round trips of milliseconds, where packets are lost by chance and a window is megabytes.
 *
 * A model of the path and one number. The model, after "BBR: Congestion-Based Congestion Control" (N. Cardwell, Y. Cheng
 * et al., ACM Queue 2016): the delivery rate, its maximum of late, and the least round trip. The number is the window;
 * the rate is window over round trip. Time goes in rounds of one round trip, and a decision is taken at the end of each.
 *
 * START   The window doubles each round, until the queue grows or the delivery rate stops growing.
 * DRAIN   Half of that, until the queue is gone; while it lasted, the path delivered what it can.
 * CRUISE  The window grows by a share that is smaller for a larger window, and shrinks by the queue's delay:
 *
 *	      w += w * (UP * sqrt(W_REF / w) - UP * queue / target)
 *
 *	   All flows at a bottleneck see one queue, and only one window balances that sum: they become equal, as in
 *	   "FAST TCP" (D. Wei, C. Jin, S. Low, S. Hegde, IEEE/ACM ToN 2006). A queue that stays empty means that there is
 *	   more to have: the growth then quadruples from round to round. A queue far above the target means that the path
 *	   became slower: the window falls to what the path delivers.
 * COMPETE The queue stays high although the window fell: someone else fills it. To keep to the target would be to starve.
 *	   The window then moves as TCP CUBIC's does (S. Ha, I. Rhee, L. Xu, 2008; RFC 9438), until the queue drains.
 *	   The idea of two modes is Copa's (V. Arun, H. Balakrishnan, NSDI 2018).
 *
 * Loss is not congestion: links lose packets by chance. It counts where it comes with a queue and is more than the path
 * loses without one, or is more than LOSS_CEILING. Marks (CE) are taken as DCTCP takes them (M. Alizadeh et al., SIGCOMM
 * 2010). Every few seconds a round at a lower rate lets the queue drain to measure the least round trip anew; flows that
 * share a queue see it drain together, and so come to do this together.
 */
#include <math.h>

#include "congestion/cc.h"

#define NS_A_SECOND 1e9

#define START_QUEUE   (1 / 8.0) /* of the least round trip: more queue than this ends the start */
#define START_GROWTH  1.25	/* of the delivery rate a round; less, twice, ends it too */
#define DRAIN_ROUNDS  4
#define TARGET	      0.05	/* queue, of the least round trip */
#define TARGET_MIN_NS 0.3e6
#define UP	      0.015
#define UP_MOST	      (3.2 * UP)
#define W_REF	      3e6  /* bytes whose balance is at the target: 1 Gbit/s over 25 ms */
#define CUT_MOST      0.3  /* a round */
#define CALM_ROUNDS   2	   /* with hardly a queue, before growth quadruples */
#define CALM_REST     3	   /* more of them where growth was stopped before */
#define CALM_MOST     0.6  /* growth a round then */
#define CALM_AHEAD    1.6  /* of what was delivered: the window then goes no further ahead */
#define CROWDED	      3.8  /* targets of queue: the path became slower, or someone fills it */
#define CROWDED_TRIPS 6    /* least round trips of that, before it is the latter */
#define CROWDED_ROUNDS 3
#define CUT_EVERY     0.5  /* of the time CUBIC takes to recover */
#define LOSS_CEILING  0.15
#define LOSS_FACTOR   2.0 /* times what is lost without a queue */
#define LOSS_MARGIN   0.02
#define CNP_SHARE     0.25
#define MARK_GAIN     (1 / 4.0)
#define CUBIC_C	      0.4 /* RFC 9438, in segments of 1500 bytes */
#define CUBIC_SEGMENT 1500.0
#define CUBIC_BETA    0.7
#define PROBE_EVERY_NS UINT64_C(5000000000)
#define PROBE_DEPTH   0.7	/* of the window, for a round */
#define LEAST_AGE_NS  UINT64_C(30000000000) /* four times that while others fill the queue */
#define ENTER_GROWTH  0.05 /* a round, from entering COMPETE to the first loss */
#define PEAK_ROUNDS   8 /* the maximum of the delivery rate is over 8 to 16 rounds */
#define PAST_NS	      UINT64_C(15000000000) /* what it was before others came is over 15 to 30 s */
#define WINDOW_SLACK  1.5	/* what may be in flight: reports are old when they come; the rate is what limits */
#define LEAST_PACKETS 4.0
#define MOST_BYTES    1e15

enum phase { START, DRAIN, CRUISE, COMPETE };

struct long_haul {
	double packet, most;
	double window; /* bytes */
	enum phase phase;
	const char *doing;
	double fixed_target_ns;
	/* the model */
	double least_ns; /* 0: nothing measured yet */
	uint64_t least_at;
	double rtt_ns;		  /* the last */
	double delivered;	  /* bytes per ns, in the last round */
	double peak[2];		  /* its maximum, in the last PEAK_ROUNDS and in these */
	unsigned rounds;	  /* of these */
	double past[2];		  /* likewise, over PAST_NS */
	uint64_t past_at;
	double chance;		  /* share of packets lost where there is no queue */
	double marks;		  /* share marked, smoothed */
	/* this round */
	uint64_t round_at;
	double round_least_ns; /* of its second half: how the queue stands now */
	uint64_t bytes, packets, lost, marked;
	bool noticed, halved, idle, held;
	/* the course */
	uint64_t low_at;  /* in START, when the queue was last low */
	unsigned slow;	  /* rounds of START without growth */
	double undo;	  /* the window before this round's growth */
	double ceiling;	  /* where growth was stopped last; 0: reached since */
	int calm;	  /* rounds without a queue; below zero: to rest */
	unsigned crowded; /* rounds with far too much of it, and since when */
	uint64_t crowded_at;
	double cubic_peak, cubic_k_s, queue_most_ns;
	uint64_t cubic_at;
	uint64_t probe_at;
	uint64_t probe_until; /* 0: not probing the least round trip */
	double probe_least_ns;
};

static void long_haul_init(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
	struct long_haul *l = state;

	*l = (struct long_haul){
		.packet = attr->packet_bytes,
		.most = fmin((double)attr->max_window_bytes, MOST_BYTES),
		.window = (double)attr->initial_window_bytes,
		.fixed_target_ns = (double)attr->target_queue_ns,
		.round_at = now_ns,
		.low_at = now_ns,
		.doing = "starting",
	};
}

static double target_ns(const struct long_haul *l)
{
	return l->fixed_target_ns > 0 ? l->fixed_target_ns : fmax(l->least_ns * TARGET, TARGET_MIN_NS);
}

static double peak(const struct long_haul *l)
{
	return fmax(l->peak[0], l->peak[1]);
}

/* No further for now. */
static void stop(struct long_haul *l)
{
	l->calm = 0;
	l->ceiling = peak(l) * l->least_ns;
}

static void see_rtt(struct long_haul *l, double rtt_ns, uint64_t now_ns)
{
	double near = l->least_ns * (1 + TARGET / 4);

	l->rtt_ns = rtt_ns;
	l->round_least_ns = l->round_least_ns > 0 ? fmin(l->round_least_ns, rtt_ns) : rtt_ns;
	if (l->probe_until)
		l->probe_least_ns = fmin(l->probe_least_ns, rtt_ns);
	/* Near enough is as good as measured: whoever sees the queue drain need not drain it again. */
	if (l->least_ns <= 0 || rtt_ns <= near)
		l->least_at = now_ns;
	if (l->least_ns <= 0 || rtt_ns < l->least_ns)
		l->least_ns = rtt_ns;
}

/* A look at the bare path, when the last is old. What it finds counts at once if it is near, else when the old is too old. */
static void probe(struct long_haul *l, uint64_t now_ns)
{
	if (l->probe_until) {
		if (now_ns < l->probe_until)
			return;
		l->probe_until = 0;
		if (now_ns - l->least_at > LEAST_AGE_NS * (l->phase == COMPETE ? 4 : 1) && isfinite(l->probe_least_ns)) {
			l->least_ns = l->probe_least_ns;
			l->least_at = now_ns;
		}
	} else if (l->phase >= CRUISE && now_ns - l->least_at > PROBE_EVERY_NS &&
		   now_ns - l->probe_at > PROBE_EVERY_NS) {
		l->probe_at = now_ns;
		l->probe_until = now_ns + (uint64_t)(2 * l->rtt_ns);
		l->probe_least_ns = INFINITY;
	}
}

static void enter_compete(struct long_haul *l, double queue_ns, uint64_t now_ns)
{
	l->phase = COMPETE;
	/* Half of what it held before it gave way: how many the others are is not known. */
	l->window = fmax(l->window, fmax(l->past[0], l->past[1]) / 2 * (l->least_ns + queue_ns));
	l->cubic_peak = l->window;
	l->cubic_k_s = 0;
	l->cubic_at = now_ns;
	l->queue_most_ns = queue_ns;
}

static void cut_compete(struct long_haul *l, uint64_t now_ns)
{
	l->cubic_peak = l->window;
	l->window *= CUBIC_BETA;
	l->cubic_k_s = cbrt(l->cubic_peak / CUBIC_SEGMENT * (1 - CUBIC_BETA) / CUBIC_C);
	l->cubic_at = now_ns;
}

static void round_compete(struct long_haul *l, double queue_ns, double loss, uint64_t now_ns)
{
	double t = (double)(now_ns - l->cubic_at) / NS_A_SECOND - l->cubic_k_s;

	l->doing = "competing for a queue that others fill";
	l->queue_most_ns = fmax(l->queue_most_ns, queue_ns);
	if (queue_ns < CROWDED / 2 * target_ns(l)) {
		l->phase = CRUISE;
		l->crowded = 0;
		return;
	}
	if (loss > LOSS_FACTOR * l->chance && queue_ns > l->queue_most_ns / 2 &&
	    t > (CUT_EVERY - 1) * l->cubic_k_s)
		cut_compete(l, now_ns);
	else if (loss > LOSS_CEILING)
		l->window *= 1 - LOSS_CEILING;
	else if (!l->idle && l->cubic_k_s <= 0)
		l->window *= 1 + ENTER_GROWTH;
	else if (!l->idle)
		l->window = fmax(l->window,
				 l->cubic_peak + CUBIC_C * t * t * t * CUBIC_SEGMENT);
}

static void round_cruise(struct long_haul *l, double queue_ns, double loss, uint64_t now_ns)
{
	double excess = queue_ns / target_ns(l);
	double up = fmin(UP * sqrt(W_REF / l->window), UP_MOST);
	double proven = l->delivered * (l->least_ns + target_ns(l));

	double down = fmin(UP * excess, CUT_MOST);

	l->calm = UP * excess < up / 2 ? l->calm + 1 : 0;
	if (excess > CROWDED) {
		if (!l->crowded++) {
			l->crowded_at = now_ns;
			l->queue_most_ns = queue_ns;
		}
		l->queue_most_ns = fmax(l->queue_most_ns, queue_ns);
		if (l->crowded >= CROWDED_ROUNDS && queue_ns > l->queue_most_ns / 2 &&
		    (double)(now_ns - l->crowded_at) > CROWDED_TRIPS * l->least_ns) {
			enter_compete(l, queue_ns, now_ns);
			return;
		}
	} else {
		l->crowded = 0;
	}
	/* A queue too short to be seen loses the more, the faster one grows. */
	if (l->calm > CALM_ROUNDS && loss > LOSS_FACTOR * l->chance + LOSS_MARGIN) {
		stop(l);
		l->window = fmin(l->window, l->ceiling);
		up = 0;
	}
	if (l->calm > CALM_ROUNDS)
		up = fmin(up * exp2(2 * fmin(l->calm - CALM_ROUNDS, 10)),
			  fmin(CALM_MOST, fmax(CALM_AHEAD * proven / l->window - 1, 0)));
	l->undo = l->window;
	/* Up to where it was stopped the last time and not beyond, and then a look. */
	if (l->window < l->ceiling && l->window * (1 + up) > l->ceiling) {
		up = l->ceiling / l->window - 1;
		l->ceiling = 0;
		l->calm = -CALM_REST;
	}
	if (l->idle)
		up = 0;
	if (loss > LOSS_FACTOR * l->chance && excess > 0.5)
		down = fmax(down, fmin(loss, CUT_MOST));
	l->window *= 1 + up - down;
	if (excess > CROWDED) {
		l->window = fmin(l->window, proven);
		stop(l);
	}
	l->doing = l->calm > CALM_ROUNDS ? "probing up" : excess > 1.5 ? "backing off: the queue is long" : "cruising";
}

static void leave_start(struct long_haul *l)
{
	l->phase = DRAIN;
	l->window /= 2;
	l->slow = 0;
	l->doing = "draining the queue of the start";
}

static void round_drain(struct long_haul *l, double queue_ns)
{
	if (queue_ns > target_ns(l) && ++l->slow < DRAIN_ROUNDS)
		return;
	l->phase = CRUISE;
	l->window = peak(l) * l->least_ns;
	l->calm = l->crowded = 0;
}

static void end_round(struct long_haul *l, uint64_t now_ns)
{
	double before = l->delivered;
	double queue_ns = fmax(l->round_least_ns - l->least_ns, 0);
	double loss = l->lost ? (double)l->lost / (double)(l->lost + l->packets) : 0;
	double marked = l->packets ? (double)l->marked / (double)l->packets : 0;

	l->delivered = (double)l->bytes / (double)(now_ns - l->round_at);
	if (++l->rounds >= PEAK_ROUNDS) {
		l->peak[0] = l->peak[1];
		l->peak[1] = 0;
		l->rounds = 0;
	}
	l->peak[1] = fmax(l->peak[1], l->delivered);
	if (now_ns - l->past_at > PAST_NS) {
		l->past[0] = l->past[1];
		l->past[1] = 0;
		l->past_at = now_ns;
	}
	l->past[1] = fmax(l->past[1], l->delivered);
	if (l->noticed)
		marked = fmax(marked, CNP_SHARE);
	l->marks += (marked - l->marks) * MARK_GAIN;
	if (queue_ns < target_ns(l) && l->calm <= CALM_ROUNDS)
		l->chance += (loss - l->chance) / 16;

	if (l->phase == START) {
		l->slow = l->delivered < before * START_GROWTH && !l->idle ? l->slow + 1 : 0;
		if (l->slow >= 2 || marked > 0 || loss > LOSS_CEILING)
			leave_start(l);
	} else if (l->phase == DRAIN) {
		round_drain(l, queue_ns);
	} else if (marked > 0) {
		/* The round after a cut still tells of the time before it. */
		if (!l->held)
			l->window *= 1 - l->marks / 2;
		l->held = !l->held;
		stop(l);
		l->doing = "backing off: packets were marked";
	} else if (loss > LOSS_CEILING && l->phase == CRUISE) {
		l->window = fmin(l->window, l->delivered * l->least_ns);
		stop(l);
		l->doing = "backing off: too much is lost";
	} else if (l->phase == CRUISE) {
		round_cruise(l, queue_ns, loss, now_ns);
	} else {
		round_compete(l, queue_ns, loss, now_ns);
	}
	probe(l, now_ns);
	l->round_at = now_ns;
	l->round_least_ns = 0;
	l->bytes = l->packets = l->lost = l->marked = 0;
	l->noticed = l->halved = l->idle = false;
}

static void long_haul_report(void *state, const struct cc_report *report, uint64_t now_ns)
{
	struct long_haul *l = state;

	if (report->rtt_ns)
		see_rtt(l, (double)report->rtt_ns, now_ns);
	l->bytes += report->delivered_bytes;
	l->packets += report->delivered_packets;
	l->lost += report->lost_packets;
	l->marked += report->ce_packets;
	l->idle |= report->app_limited;
	if (l->least_ns <= 0)
		return;
	if (l->phase == START) {
		if (!report->app_limited)
			l->window += (double)report->delivered_bytes;
		if (l->rtt_ns - l->least_ns < fmax(l->least_ns * START_QUEUE, target_ns(l)))
			l->low_at = now_ns;
		if ((double)(now_ns - l->low_at) > l->least_ns / 4)
			leave_start(l);
	} else if (l->phase == CRUISE && l->calm > CALM_ROUNDS &&
		   (report->ce_packets || l->rtt_ns - l->least_ns > target_ns(l))) {
		l->window = l->undo;
		stop(l);
	}
	if (!l->halved && (double)(now_ns - l->round_at) >= l->rtt_ns / 2) {
		l->halved = true;
		l->round_least_ns = report->rtt_ns ? (double)report->rtt_ns : 0;
	}
	if (l->round_least_ns > 0 && (double)(now_ns - l->round_at) >= l->rtt_ns)
		end_round(l, now_ns);
	l->window = fmin(fmax(l->window, LEAST_PACKETS * l->packet), l->most);
}

static void long_haul_cnp(void *state, uint64_t now_ns)
{
	struct long_haul *l = state;

	l->noticed = true;
}

static void long_haul_timeout(void *state, uint64_t now_ns)
{
	struct long_haul *l = state;

	l->window = fmax(l->window / 4, LEAST_PACKETS * l->packet);
	l->phase = START;
	l->slow = 0;
	l->low_at = now_ns;
	l->doing = "starting again: nothing was heard";
}

static void long_haul_limits(const void *state, struct cc_limits *out)
{
	const struct long_haul *l = state;
	double window = l->window, rate;

	if (l->least_ns <= 0) {
		*out = (struct cc_limits){ .rate_bps = CC_UNPACED, .window_bytes = (uint64_t)window };
		return;
	}
	if (l->probe_until)
		window *= PROBE_DEPTH;
	rate = window * 8 * NS_A_SECOND / l->rtt_ns * (l->phase == START ? 2 : 1);
	out->rate_bps = rate < 1e13 ? (uint64_t)rate : CC_UNPACED;
	out->window_bytes = (uint64_t)(window * (l->probe_until ? 1 : WINDOW_SLACK));
}

static void long_haul_sight(const void *state, struct cc_sight *out)
{
	const struct long_haul *l = state;

	*out = (struct cc_sight){
		.doing = l->probe_until ? "letting the queue drain to measure the path" : l->doing,
		.base_rtt_ns = (uint64_t)l->least_ns,
		.queue_ns = (uint64_t)fmax(l->rtt_ns - l->least_ns, 0),
		.delivered_bps = (uint64_t)(l->delivered * 8 * NS_A_SECOND),
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
	.sight = long_haul_sight,
};
