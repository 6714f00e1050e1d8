/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a message is to be coded, or whether at all, by what is known of the path.
 *
 * The planner is asked, and what it said is kept for each size, in powers of two: it is asked again when round trip, rate,
 * loss or bursts have moved by a quarter, and not more often than a few times a second. It then keeps what it said before unless
 * something is better by some per cent. So a choice neither follows every wind nor costs a message anything.
 */
#include <math.h>
#include <string.h>

#include <godwit/auto.h>

#include "erasure_state.h"
#include "selective_repeat_state.h"

#define MOVED		 1.25
#define RENEWED_NS	 UINT64_C(100000000) /* at most so often */
#define RENEWALS	 8u
#define K_DEFAULT	 32u
#define DEPTH_LEAST	 16u
#define ROWS_SPARE	 4u /* for a second request, where there is little parity */
#define RATE_UNKNOWN_BPS UINT64_C(10000000000)
#define LOSS_MOST	 0.5
#define LOSS_MARGIN                                                                                \
	1.15 /* some dozens of losses say no more; too little parity costs a round trip, too much some per cent */
#define BURSTS_BY_CHANCE 1.25
/* A request and its repeat may both be late, and what is late is waited for. */
#define JITTER_TIMES 2
#define OPEN_SHARE   12

/* Rows that a group can have in all: twice what it is sent with, as far as the parity message can hold them. */
static uint32_t rows_for(const struct gw_erasure *e, uint64_t length, uint32_t k, uint32_t m)
{
	uint32_t rows = m < ROWS_SPARE ? m + ROWS_SPARE : 2 * m;
	uint64_t fit = layout_rows_within(e->parity_most, length, e->attr.payload, k);
	uint32_t most = RS_SYMBOLS_MAX - e->k_max;

	if (e->attr.rows)
		rows = e->attr.rows;
	if (most > ERASURE_ROWS_LIMIT)
		most = ERASURE_ROWS_LIMIT;
	if (rows > most)
		rows = most;
	return rows < fit ? rows : (uint32_t)fit;
}

struct fitting {
	const struct gw_erasure *e;
	uint64_t length;
};

static bool fits(void *arg, unsigned k, unsigned m)
{
	const struct fitting *fitting = arg;

	return m <= fitting->e->m_max && rows_for(fitting->e, fitting->length, k, m) >= m;
}

static bool moved(double before, double now)
{
	return now > before * MOVED || now * MOVED < before;
}

static bool stale(const struct erasure_choice *choice, const struct gw_estimate *now, double open,
		  bool repeat)
{
	return !choice->made || choice->repeat != repeat ||
	       moved(choice->rtt_ns, (double)now->rtt_min_ns) ||
	       moved(choice->rate_bps, (double)now->rate_bps) ||
	       moved(choice->loss, now->loss_mean) || moved(choice->burst, now->burst) ||
	       moved(choice->overtaken_ns, (double)now->overtaken_ns) || moved(choice->open, open);
}

/* A wait as it is on a steady path, and as it is now: with a queue, and with some for the deviation of round-trip times. A message that
 * others follow mostly does not wait: these prove what is missing of it. */
static uint64_t waited_ns(const struct gw_erasure *e, uint64_t steady_ns, uint64_t now_ns)
{
	double more_ns = (double)now_ns - (double)steady_ns;

	return (uint64_t)((double)steady_ns + more_ns / e->shared->open);
}

static void describe(struct gw_erasure *e, struct gw_qp *qp, const struct gw_estimate *now,
		     struct plan_path *path)
{
	double loss = now->loss_mean * LOSS_MARGIN;
	uint64_t rate_bps = now->rate_bps ? now->rate_bps : RATE_UNKNOWN_BPS;
	uint32_t payload = now->payload_send;

	if (loss > LOSS_MOST)
		loss = LOSS_MOST;
	/* What was measured is data alone, and what arrives of it; and the least round trip, for what the message itself queues up is
	 * planned for. */
	rate_bps = (uint64_t)((double)rate_bps / (1 - fmin(now->loss_mean, LOSS_MOST)));
	rate_bps += (uint64_t)((double)rate_bps * PACKET_OVERHEAD / payload);
	plan_path_init(path, now->rtt_min_ns, rate_bps, loss);
	path->payload = payload;
	path->report_share = 0;
	path->patience_ns = waited_ns(e, path->patience_ns, gw_qp_patience_ns(qp));
	path->answer_ns = waited_ns(e, path->answer_ns, gw_qp_answer_ns(qp));
	path->ask_ns = waited_ns(e, path->ask_ns, selective_repeat_ask_ns(qp));
	path->jitter_ns = JITTER_TIMES * now->overtaken_ns;
	/* Independent losses are next to each other now and then. */
	if (now->burst * (1 - loss) > BURSTS_BY_CHANCE)
		path->burst = now->burst;
	if (e->attr.coding_bytes_a_second)
		path->rs_bytes_a_second = (double)e->attr.coding_bytes_a_second;
}

static uint32_t depth_least(const struct gw_erasure *e)
{
	uint32_t depth = e->attr.depth ? e->attr.depth : DEPTH_LEAST;

	return depth < PLAN_INTERLEAVE_MAX ? depth : PLAN_INTERLEAVE_MAX;
}

static void ask(struct gw_erasure *e, struct gw_qp *qp, uint64_t length,
		const struct gw_estimate *now, struct erasure_choice *choice)
{
	static const enum plan_goal goals[] = { PLAN_MEAN, PLAN_P99, PLAN_P999 };
	struct fitting fitting = { e, length };
	struct plan_limits limits = { .repeat = choice->repeat,
				      .k = e->attr.k,
				      .k_max = e->k_max,
				      .m = e->attr.m,
				      .open = e->shared->open,
				      .interleave = depth_least(e),
				      .fits = fits,
				      .arg = &fitting };

	if (!choice->made)
		choice->params.scheme = PLAN_SCHEMES;
	describe(e, qp, now, &e->shared->path);
	e->shared->path_size = length;
	if (plan_pick(&e->shared->path, length, goals[e->attr.goal], &limits, &choice->params))
		return;
	choice->made = true;
	choice->rtt_ns = (double)now->rtt_min_ns;
	choice->rate_bps = (double)now->rate_bps;
	choice->loss = now->loss_mean;
	choice->burst = now->burst;
	choice->overtaken_ns = (double)now->overtaken_ns;
	choice->open = e->shared->open;
}

/* As good as any while nothing is known. */
static struct plan_params by_default(const struct gw_erasure *e, bool repeat)
{
	struct plan_params params = { .scheme = repeat ? PLAN_SR_NACK : PLAN_MDS,
				      .k = e->attr.k,
				      .m = e->attr.m ? e->attr.m : 1,
				      .interleave = DEPTH_LEAST };

	if (!params.k)
		params.k = e->k_max < K_DEFAULT ? e->k_max : K_DEFAULT;
	return params;
}

/* Up to RENEWALS at once, since the first figures of a path change much, and then one for every RENEWED_NS. */
static bool may_renew(struct erasure_choice *choice, uint64_t now)
{
	uint64_t all_ns = RENEWALS * RENEWED_NS, from = now > all_ns ? now - all_ns : 0;

	if (!choice->made || choice->spent < from)
		choice->spent = from;
	if (now - choice->spent < RENEWED_NS)
		return false;
	choice->spent += RENEWED_NS;
	return true;
}

/* Learns how many messages are open. Falls at once: parts of one message are posted together, and who waits for its end before the
 * next begins has one open. Data and parity are two sends. */
static void see_open(struct erasure_shared *shared, uint32_t sends)
{
	double open = 1 + (double)sends / 2;

	shared->open =
		open < shared->open ? open : shared->open + (open - shared->open) / OPEN_SHARE;
}

void erasure_pick(struct gw_erasure *e, struct gw_qp *qp, uint64_t length, bool repeat,
		  struct plan_params *params)
{
	uint32_t packets = (uint32_t)(length / e->attr.payload) + 1, size = 0;
	struct erasure_shared *shared = e->shared;
	struct gw_estimate estimate;
	struct erasure_choice *choice;

	*params = by_default(e, repeat);
	while (packets >>= 1)
		size++;
	choice = &shared->choices[size % ERASURE_CHOICES];
	if (!length || gw_qp_estimate(qp, &estimate) || !estimate.rtt_min_ns ||
	    estimate.loss_mean <= 0)
		return;
	see_open(shared, estimate.sends);
	if (stale(choice, &estimate, shared->open, repeat) && may_renew(choice, gw_qp_now_ns(qp))) {
		choice->repeat = repeat;
		ask(e, qp, length, &estimate, choice);
		shared->latest = size % ERASURE_CHOICES;
	}
	if (choice->made)
		*params = choice->params;
}

void erasure_choose(struct gw_erasure *e, struct gw_qp *qp, uint64_t length, bool repeat)
{
	struct plan_params params;

	if (e->attr.code == GW_CODE_XOR) {
		uint32_t rows = rows_for(e, length, e->attr.k, e->attr.m);

		e->layout = (struct erasure_layout){
			.k = e->attr.k,
			.m = rows,
			.rows = rows,
			.depth = e->attr.depth ? e->attr.depth : DEPTH_LEAST,
			.code = GW_CODE_XOR,
		};
		return;
	}
	erasure_pick(e, qp, length, repeat, &params);
	e->layout = (struct erasure_layout){ .k = params.k, .depth = params.interleave };
	if (e->layout.depth < depth_least(e))
		e->layout.depth = depth_least(e);
	if (params.scheme != PLAN_MDS)
		return;
	e->layout.m = params.m;
	e->layout.rows = rows_for(e, length, params.k, params.m);
	if (e->attr.depth)
		e->layout.depth = e->attr.depth;
	/* Another length of the same class may fit less. */
	if (e->layout.m > e->layout.rows)
		e->layout.m = e->layout.rows;
}
