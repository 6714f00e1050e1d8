/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * swift.c: a delay target, for the short round trips of a data centre.
 *
 * After "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", G. Kumar, N. Dukkipati,
 * K. Jang et al., SIGCOMM 2020. The window grows by a packet in a round trip while the delay is below its target, and
 * shrinks in proportion to the excess, at most once in a round trip, when it is above. The target is higher for a small
 * window, so that many flows with small windows at one port tolerate the queue that they cause; the same term makes their
 * shares equal. A window below one packet means one packet in several round trips.
 *
 * Differences from the paper:
 * - The base target is the minimum round-trip time plus a margin. The paper's fabric knows its number of hops.
 * - The delay is the round trip without queues on the way back, which make reports late: the window is larger by as much. There is no
 *   NIC clock that separates hosts from the network.
 * - On a slow link a report comes once in many round trips. A window lasts from one report to the next, and the target is
 *   higher, because what the sender does shows that much later.
 * - The delay is the minimum of the last one to two round trips, which is the standing queue. A single sample may have
 *   waited for a busy host or behind its own burst, and a smaller window would shorten neither. Random delays (jitter.h) are
 *   subtracted.
 * - It starts by doubling the window until the delay or a mark stops it, because reports are too few for growth by single
 *   packets.
 * - Where no queue stands the window doubles up to the most that has arrived of late: other flows on the path end and begin in
 *   less time than growth by single packets takes.
 * - Loss of more than 5 %, unless a test shows that it is chance (chance.h), or less loss with a delay above target and more of it
 *   than without such a delay, reduces the window to what arrives, at most once in a round trip. Other loss has no effect: busy
 *   hosts and long cables lose packets without a queue.
 * - A queue may overflow before the delay is above target. The delay at which it did lowers the target.
 * - Marks (CE) reduce the window by half of their smoothed share, as in DCTCP (M. Alizadeh et al., SIGCOMM 2010).
 * - From time to time the window is halved for two round trips, to measure the path without our own queue: a flow that
 *   started while a queue was present would otherwise take the queue for part of the path.
 * - A window that is the least for a quarter of a second takes the delay that it still measures for the path's.
 */
#include <assert.h>
#include <math.h>

#include "congestion/cc.h"
#include "congestion/chance.h"
#include "congestion/jitter.h"
#include "congestion/lesser.h"
#include "congestion/recent.h"

#define NS_A_SECOND 1e9

/* The paper's names and values. */
/* Growth, in packets in a round trip. */
#define ADD	1.0
#define BETA	0.8
#define MAX_CUT 0.5
/* Windows, in packets, between which the target depends on the window. */
#define MIN_FLOW 0.1
#define MAX_FLOW 100.0
/* Least window, in packets. The paper has 0.001, one packet in seconds, which takes as long to recover from. */
#define MIN_WIN 0.05

/* Our own values. Margin of the base target above the minimum round-trip time, as a share of that, and its upper bound; the lower
 * one is the time until a host has seen a packet. */
#define MARGIN	      0.75
#define MARGIN_MAX_NS 1e6
/* Window in packets up to which many flows may share the path, see is_small(). */
#define SMALL_WIN 6.0
/* Window above which few do, so that an empty queue is room for this one, see is_returning(), and its own delay tells the rate, see
 * pace_ns(). */
#define LARGE_WIN 12.0
/* Packets of a large window that the margin lets stand in the queue where they take longer than this: on a slow link one of them may
 * take longer than a round trip. None of a small window, so that flows on both sides of SMALL_WIN stay equal. */
#define MARGIN_PACKETS 3.0
#define MARGIN_FAST_NS 300e3
/* Most that is added to the margin because reports are few. */
#define MARGIN_AGE_MAX_NS 8e6
/* Margins that the target of the smallest window is higher. */
#define FLOW_RANGE   2.0
#define LOSS_CEILING 0.05
/* By how much losses below the ceiling reduce a small window. */
#define LOSS_CUT 0.3
/* Margin, and what the target may be above the minimum, as shares of the delay at which a queue overflowed; by how much that delay is
 * taken to be more after each round; and the least margin, as a share of the minimum round-trip time. */
#define FULL_MARGIN 0.4
#define FULL_TARGET 0.6
#define FULL_GROWTH (1 / 256.0)
#define FULL_MIN    0.125
/* Least packets lost in a round that show a full queue, and turns before in which the longest delay was that of the full queue. */
#define FULL_LOST  4.0
#define FULL_TURNS 8.0
/* Share of what arrives that is sent to test whether loss is chance: of several flows that overflow a queue together each gets less
 * than its window. */
#define TEST_DEPTH 0.7
/* Window after a timeout, in packets. */
#define TIMEOUT_WIN 4.0
/* Share of packets taken as marked in a round trip with a congestion notification. */
#define CNP_SHARE 0.25
/* The rate, in windows in a round trip: above 1, so that the window is what limits. */
#define PACE 1.1
/* Most by which a queue on the way back enlarges the window. */
#define RETURN_MOST 2.0
/* Longest time between reports that counts, in minimum round-trip times. */
#define GAP_MOST 16.0
/* The minimum round-trip time covers one to two of these. */
#define LEAST_AFTER_NS 10e9
/* Time with the least window after which the delay is that of the path. */
#define FLOOR_NS  250e6
#define MARK_GAIN 0.0625
/* Time without a round-trip time near the minimum after which the queue is drained: round trips, and at least in ns. */
#define DRAIN_TRIPS  100.0
#define DRAIN_MIN_NS 20e6
/* Share of the window that is used while the queue is drained. */
#define DRAIN_DEPTH 0.5
/* Jitter below this share of the minimum round-trip time, and below the time until a host has seen a packet, is that of a queue. */
#define JITTER_FLOOR 0.25
/* A round-trip time counts as the minimum up to this many margins above it. */
#define NEAR   (1 / 8.0)
#define SMOOTH 0.125
/* Rounds without a queue after which the window doubles. */
#define BARE_ROUNDS 1
/* The most that has arrived is that of one to two of these. */
#define PEAK_NS 1e9
/* Largest window, small enough for any integer type. */
#define MOST_BYTES 1e15

struct swift {
	/* bytes in a packet */
	double packet;
	/* window, and its largest value, in packets */
	double window;
	double most;
	/* margin from the attributes; 0: computed from MARGIN */
	double fixed_margin_ns;
	/* least margin */
	double wake_ns;
	/* minimum round-trip time of the last 10 to 20 s */
	struct recent least_ns;
	/* minimum of the last one to two round trips: the standing queue included */
	struct recent standing_ns;
	/* smoothed round-trip time, and the same without the queue of the way back; 0: not measured yet */
	double rtt_ns;
	double mean_delay_ns;
	/* the latest delay, and how long its report waited on the way back */
	double last_delay_ns;
	double return_ns;
	struct jitter jitter;
	/* delays measured in this round and in the one before */
	unsigned samples, samples_before;
	/* smoothed time between reports */
	double gap_ns;
	/* times of the latest report, of the start of this round, and of the latest reduction of the window */
	uint64_t report_at;
	uint64_t round_at;
	uint64_t cut_at;
	/* time of the latest sample without a queue */
	uint64_t bare_at;
	/* time since which the window is the least; 0: it is larger */
	uint64_t floor_at;
	/* end of the draining under way; 0: none */
	uint64_t drain_until;
	/* smoothed share of marked packets */
	double marks;
	/* packets in this round */
	double delivered, counted, lost, marked;
	/* bytes that arrived in this round; packets in a ns that arrived in the last round and in the one before, and the most in two
	 * rounds of late */
	double bytes;
	double arriving, arriving_before;
	struct recent peak;
	/* longest delay of late, and the delay at which the queue was found to be full; INFINITY: it was not */
	struct recent highest_ns;
	double full_ns;
	/* share of packets lost, as last told */
	double loss;
	/* what the path loses by chance */
	struct chance chance;
	/* less is sent, to see whether loss is chance */
	bool testing;
	/* rounds in a row that used the window and left no queue */
	unsigned bare_rounds;
	/* the window was not used in this round */
	bool idle;
	/* the window doubles each round trip */
	bool starting;
	/* a congestion notification came in this round */
	bool noticed;
	/* for swift_status() */
	const char *doing;
};

static_assert(sizeof(struct swift) <= CC_STATE_SIZE, "CC_STATE_SIZE is too small");

static void swift_init(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
	struct swift *s = state;

	*s = (struct swift){
		.packet = attr->packet_bytes,
		.window = (double)attr->initial_window_bytes / attr->packet_bytes,
		.most = lesser((double)attr->max_window_bytes, MOST_BYTES) / attr->packet_bytes,
		.fixed_margin_ns = (double)attr->target_queue_ns,
		.wake_ns = (double)attr->wake_ns,
		.round_at = now_ns,
		.report_at = now_ns,
		.cut_at = now_ns,
		.bare_at = now_ns,
		.starting = true,
		.full_ns = INFINITY,
		.marks = 1,
		.doing = "starting",
	};
	chance_init(&s->chance, LOSS_CEILING);
	recent_init(&s->least_ns, INFINITY, now_ns);
	recent_init(&s->standing_ns, INFINITY, now_ns);
	recent_init(&s->peak, 0, now_ns);
	recent_init(&s->highest_ns, 0, now_ns);
}

static double least_ns(const struct swift *s)
{
	return recent_least(&s->least_ns);
}

/* Random delay of packets that has to be allowed for. */
static double allowed_ns(const struct swift *s)
{
	return jitter_ns(&s->jitter, greater(JITTER_FLOOR * least_ns(s), s->wake_ns));
}

/* The standing queue included, random delays not. */
static double delay_ns(const struct swift *s)
{
	double late_ns = jitter_of_least(s->samples_before + s->samples) * allowed_ns(s);

	return greater(recent_least(&s->standing_ns) - late_ns, least_ns(s));
}

/* True if the window is so small that many flows may share the path: then a queue is theirs, and reports are few because each
 * sends little. */
static bool is_small(const struct swift *s)
{
	return s->window <= SMALL_WIN;
}

/* Returns the age of a report. On a slow path a report is paid for by several packets, so that reports are fewer than round trips;
 * a window must last from one to the next. */
static double age_ns(const struct swift *s)
{
	return lesser(s->gap_ns, s->rtt_ns * greater(s->window - SMALL_WIN + 1, 1));
}

/* Time in which a window is sent: a round trip, and the age of a report. */
static double turn_ns(const struct swift *s)
{
	return s->rtt_ns + age_ns(s);
}

/* Margin above the minimum where the queue has room for it. */
static double roomy_margin_ns(const struct swift *s)
{
	double base = lesser(greater(least_ns(s) * MARGIN, s->wake_ns), MARGIN_MAX_NS);
	double packets;

	if (s->fixed_margin_ns > 0)
		return s->fixed_margin_ns;
	if (is_small(s))
		return base;
	packets = MARGIN_PACKETS * (1 - SMALL_WIN / s->window);
	base += lesser(greater(packets * turn_ns(s) / s->window - MARGIN_FAST_NS, 0),
		       MARGIN_AGE_MAX_NS);
	return base + lesser(greater(age_ns(s) - s->rtt_ns / 2, 0) * MARGIN, MARGIN_AGE_MAX_NS);
}

static double margin_ns(const struct swift *s)
{
	return lesser(roomy_margin_ns(s),
		      greater((s->full_ns - least_ns(s)) * FULL_MARGIN, least_ns(s) * FULL_MIN));
}

static double target_ns(const struct swift *s)
{
	double margin = margin_ns(s);
	double window = lesser(greater(s->window, MIN_FLOW), MAX_FLOW);
	double alpha = FLOW_RANGE * margin / (1 / sqrt(MIN_FLOW) - 1 / sqrt(MAX_FLOW));
	double above = margin + alpha * (1 / sqrt(window) - 1 / sqrt(MAX_FLOW));

	return least_ns(s) +
	       lesser(above, greater((s->full_ns - least_ns(s)) * FULL_TARGET, margin));
}

/* True if no queue stands. */
static bool is_bare(const struct swift *s)
{
	return delay_ns(s) < least_ns(s) + NEAR * margin_ns(s);
}

/* Window that holds what arrives at a rate in packets in a ns, without a queue. */
static double window_at(const struct swift *s, double rate)
{
	return rate * (least_ns(s) + allowed_ns(s) / 2 + age_ns(s));
}

/* Window that holds the most that has arrived of late. */
static double back(const struct swift *s)
{
	return window_at(s, recent_most(&s->peak));
}

/* True if the window doubles back to what has arrived before, since no queue stands. */
static bool is_returning(const struct swift *s)
{
	return s->bare_rounds >= BARE_ROUNDS && s->window > LARGE_WIN && s->window < back(s);
}

/* The delay is without the queue of the way back, which is the peer's to shorten. */
static void see_rtt(struct swift *s, double rtt_ns, double delay_ns, uint64_t now_ns)
{
	recent_see_least(&s->least_ns, delay_ns, LEAST_AFTER_NS, now_ns);
	jitter_see(&s->jitter, delay_ns, least_ns(s));
	s->samples++;
	recent_see_most(&s->highest_ns, delay_ns, FULL_TURNS * turn_ns(s), now_ns);
	s->mean_delay_ns += (delay_ns - s->mean_delay_ns) * (s->rtt_ns > 0 ? SMOOTH : 1);
	s->rtt_ns += (rtt_ns - s->rtt_ns) * (s->rtt_ns > 0 ? SMOOTH : 1);
	s->last_delay_ns = delay_ns;
	s->return_ns = rtt_ns - delay_ns;
	recent_see_least(&s->standing_ns, delay_ns, turn_ns(s), now_ns);
	if (delay_ns < least_ns(s) + NEAR * margin_ns(s))
		s->bare_at = now_ns;
	if (s->drain_until && now_ns >= s->drain_until) {
		s->drain_until = 0;
		s->bare_at = now_ns;
	} else if ((double)(now_ns - s->bare_at) > greater(DRAIN_TRIPS * s->rtt_ns, DRAIN_MIN_NS)) {
		s->drain_until = now_ns + (uint64_t)(2 * s->rtt_ns);
		s->bare_at = now_ns;
	}
}

/* Reduces the window, at most once in turn_ns(): before that the last reduction does not show yet. */
static void cut(struct swift *s, double by, const char *why, uint64_t now_ns)
{
	s->starting = false;
	s->bare_rounds = 0;
	if ((double)(now_ns - s->cut_at) < s->rtt_ns + lesser(s->gap_ns, s->rtt_ns))
		return;
	s->window *= 1 - lesser(by, MAX_CUT);
	s->cut_at = now_ns;
	s->doing = why;
}

/* Window that holds what arrives now. */
static double held(const struct swift *s)
{
	return window_at(s, greater(s->arriving, s->arriving_before));
}

/* Share of the window by which losses reduce it. What arrives of a small window is too little to go by. */
static double loss_cut(const struct swift *s, double loss)
{
	if (is_small(s))
		return loss > s->chance.ceiling ? MAX_CUT : LOSS_CUT;
	return greater(1 - held(s) / s->window, 0);
}

/* Notes the delay of a queue that overflowed. */
static void see_full(struct swift *s, double loss)
{
	double highest_ns = recent_most(&s->highest_ns);

	if (!is_small(s) && s->lost >= FULL_LOST && loss > LOSS_CEILING && highest_ns > least_ns(s))
		s->full_ns = highest_ns;
}

/* Window while it is tested whether loss is chance, in packets. With less than a few, a single loss would be a timeout. */
static double test_window(const struct swift *s)
{
	return lesser(s->window, greater(held(s) * TEST_DEPTH, TIMEOUT_WIN));
}

static void judge_loss(struct swift *s, uint64_t now_ns)
{
	/* Of many flows one that sends less changes little, but a queue now and then shows that others are there. */
	bool queue = greater(s->mean_delay_ns - allowed_ns(s) / 2, delay_ns(s)) > target_ns(s);
	struct chance_round round = {
		.packets = s->counted, .lost = s->lost, .queue = queue, .idle = s->idle
	};
	double loss = s->counted > 0 ? lesser(s->lost / s->counted, 1) : 0;
	bool exceeded = chance_exceeded(&s->chance, loss, round.packets);
	enum chance_verdict verdict = CHANCE_CONGESTION;

	if (s->counted > 0)
		s->loss = loss;
	if (!queue && !s->starting && !s->testing)
		chance_learn(&s->chance, &round);
	/* With a queue, or while the window doubles, no test is needed. */
	if (s->testing || !((queue && exceeded) || (s->starting && loss > s->chance.ceiling)))
		verdict = chance_judge(&s->chance, &round, now_ns);
	/* The loss that ended the doubling was chance. */
	if (s->testing && verdict == CHANCE_FINE && !s->idle)
		s->starting = true;
	s->testing = verdict == CHANCE_SEND_LESS;
	if (s->testing) {
		s->doing = "sending less: is the loss chance?";
	} else if (verdict == CHANCE_CONGESTION) {
		cut(s, loss_cut(s, loss), "backing off: packets were lost", now_ns);
		see_full(s, loss);
		/* The path may have become slower, and losses need no queue. */
		recent_init(&s->peak, greater(s->arriving, s->arriving_before), now_ns);
	}
}

static void end_round(struct swift *s, uint64_t now_ns)
{
	double marked = s->delivered > 0 ? s->marked / s->delivered : 0;

	if (!s->testing) {
		s->arriving_before = s->arriving;
		s->arriving = s->bytes / s->packet / (double)(now_ns - s->round_at);
		recent_see_most(&s->peak, (s->arriving + s->arriving_before) / 2, PEAK_NS, now_ns);
	}
	/* A path that has become longer is another one. */
	s->full_ns = s->full_ns > least_ns(s)
			     ? s->full_ns + (s->full_ns - least_ns(s)) * FULL_GROWTH
			     : INFINITY;
	if (s->noticed)
		marked = greater(marked, CNP_SHARE);
	s->marks += (marked - s->marks) * MARK_GAIN;
	if (marked > 0)
		cut(s, s->marks / 2, "backing off: packets were marked", now_ns);
	judge_loss(s, now_ns);
	jitter_end_round(&s->jitter);
	if (!is_bare(s)) {
		s->bare_rounds = 0;
	} else if (!s->idle && !s->drain_until && s->cut_at != now_ns) {
		s->bare_rounds++;
	}
	s->idle = false;
	s->delivered = s->counted = s->lost = s->marked = s->bytes = 0;
	s->samples_before = s->samples;
	s->samples = 0;
	s->noticed = false;
	s->round_at = now_ns;
}

static void grow(struct swift *s, const struct cc_report *report)
{
	double packets = (double)report->delivered_bytes / s->packet;
	double used = packets / (1 - lesser(s->loss, CHANCE_BREAKER)) +
		      (double)report->in_flight_bytes / s->packet;

	/* In a test little is in flight and reports are uneven: only a lack of data is a pause. */
	if (s->testing) {
		s->idle |= report->app_limited;
		return;
	}
	/* A window that is not used, for lack of data or because of a rate limit, says nothing about a larger one. */
	if (used < s->window / 2) {
		s->idle = true;
		return;
	}
	if (s->starting)
		s->window += packets;
	else if (is_returning(s))
		s->window = lesser(s->window + packets, back(s));
	else
		s->window += s->window >= 1 ? ADD * packets / s->window : ADD * packets;
	if (!s->starting)
		s->doing = "probing up";
}

/* With one packet in many round trips this flow has no queue, and to send even less would not shorten the delay. Either many others
 * do the same, or the path has become longer, or so slow that a packet takes longer on it than its queue may. */
static void see_floor(struct swift *s, uint64_t now_ns)
{
	if (s->window > MIN_WIN) {
		s->floor_at = 0;
	} else if (!s->floor_at) {
		s->floor_at = now_ns;
	} else if ((double)(now_ns - s->floor_at) > FLOOR_NS) {
		recent_init(&s->least_ns, delay_ns(s), now_ns);
		s->floor_at = 0;
	}
}

static void swift_report(void *state, const struct cc_report *report, uint64_t now_ns)
{
	struct swift *s = state;
	double most_ns = is_small(s) ? s->rtt_ns : greater(GAP_MOST * least_ns(s), s->rtt_ns);
	double gap_ns = lesser((double)(now_ns - s->report_at), s->rtt_ns > 0 ? most_ns : 0);

	if (!report->app_limited)
		s->gap_ns += (gap_ns - s->gap_ns) * SMOOTH;
	s->report_at = now_ns;
	s->delivered += (double)report->delivered_packets;
	s->bytes += (double)report->delivered_bytes;
	s->counted += (double)report->counted_packets;
	s->lost += (double)report->lost_packets;
	s->marked += (double)report->marked_packets;
	if (report->larger) {
		recent_init(&s->least_ns, INFINITY, now_ns);
		recent_init(&s->standing_ns, INFINITY, now_ns);
	}
	if (report->rtt_ns)
		see_rtt(s, (double)report->rtt_ns, (double)(report->rtt_ns - report->return_ns),
			now_ns);
	if (s->rtt_ns <= 0)
		return;
	if (delay_ns(s) <= target_ns(s)) {
		if (!report->marked_packets)
			grow(s, report);
	} else if (report->rtt_ns) {
		/* A delay that was seen before is no reason to reduce the window again. */
		cut(s, BETA * (delay_ns(s) - target_ns(s)) / delay_ns(s),
		    "backing off: the queue is long", now_ns);
	}
	if ((double)(now_ns - s->round_at) >= s->rtt_ns)
		end_round(s, now_ns);
	s->window = lesser(greater(s->window, MIN_WIN), s->most);
	see_floor(s, now_ns);
}

static void swift_cnp(void *state, uint64_t now_ns)
{
	struct swift *s = state;

	s->noticed = true;
	s->starting = false;
}

static void swift_timeout(void *state, uint64_t now_ns)
{
	struct swift *s = state;

	s->window = lesser(s->window, TIMEOUT_WIN);
	/* A sender among many that get one packet through in many round trips must not double. */
	s->starting = false;
	s->testing = false;
	s->bare_rounds = 0;
	s->cut_at = now_ns;
	s->doing = "backing off: nothing was heard";
}

/* Delay over which a window is paced. A mean is out of date for many reports, in which a queue grows, or the link is idle after one;
 * where the peer sends as much, its queue and ours would swing in turn. A small window may be one of many at a queue, and tells more of
 * them by the mean. */
static double pace_ns(const struct swift *s)
{
	double above_ns = greater(s->last_delay_ns - least_ns(s), 0);
	double late_ns = allowed_ns(s);

	if (s->window <= LARGE_WIN)
		return s->mean_delay_ns;
	/* All that may be random counts as its mean. */
	return s->last_delay_ns - lesser(above_ns, late_ns) + late_ns / 2;
}

/* Windows that the pacer lets out in that time. While the window doubles, it must let out the next one, too. */
static double pace(const struct swift *s)
{
	if (s->window < 1)
		return 1;
	return s->starting || is_returning(s) ? 2 : PACE;
}

static void swift_limits(const void *state, struct cc_limits *out)
{
	const struct swift *s = state;
	double window = s->window * s->packet;
	double rate;

	if (s->drain_until)
		window *= DRAIN_DEPTH;
	else if (s->testing)
		window = test_window(s) * s->packet;
	if (s->rtt_ns <= 0) {
		*out = (struct cc_limits){ CC_UNPACED, (uint64_t)window };
		return;
	}
	rate = window * 8 * NS_A_SECOND / (pace_ns(s) + age_ns(s)) * pace(s);
	/* A queue on the way back makes reports late, and is no reason to send less. */
	window *= lesser(1 + s->return_ns / (s->last_delay_ns + age_ns(s)), RETURN_MOST);
	out->rate_bps = rate < 1e13 ? (uint64_t)rate : CC_UNPACED;
	window *= 1 + greater(age_ns(s) - s->rtt_ns, 0) / turn_ns(s);
	out->window_bytes = (uint64_t)greater(window, s->packet);
}

static void swift_status(const void *state, struct cc_status *out)
{
	const struct swift *s = state;

	*out = (struct cc_status){ .doing = s->doing };
	if (s->rtt_ns > 0) {
		out->base_rtt_ns = (uint64_t)least_ns(s);
		out->queue_ns = (uint64_t)greater(s->mean_delay_ns - least_ns(s), 0);
	}
}

const struct cc_ops cc_swift = {
	.name = "swift",
	.state_size = sizeof(struct swift),
	.init = swift_init,
	.report = swift_report,
	.cnp = swift_cnp,
	.timeout = swift_timeout,
	.limits = swift_limits,
	.status = swift_status,
};
