/* SPDX-License-Identifier: BSD-3-Clause */
/* One line a case; case_run() makes a loop of it. */
#include "cases.h"

#include <stdio.h>
#include <string.h>

#define LONG   .cc = "long-haul"
#define ALONE  LONG, .own = 1, .from_ns = 2 * S, .to_ns = 12 * S
#define BESIDE LONG, .others_at_ns = 2 * S, .from_ns = 20 * S, .to_ns = 40 * S
#define SHORT  .cc = "swift", .rtt_ns = MS / 5
#define AT_10G .rate_bps = 10 * GBIT, .packet_bytes = 4096
#define EIGHT  LONG, .own = 8, .apart_ns = S / 2, .from_ns = 10 * S, .to_ns = 30 * S
#define TWO    LONG, .own = 2, .apart_ns = 2 * S, .from_ns = 8 * S, .to_ns = 20 * S

#define LOSSY ALONE, .rate_bps = 300 * MBIT, .rtt_ns = 10 * MS
#define LOSSY_SHORT                                                                                \
	.cc = "swift", .rtt_ns = MS / 2, .own = 1, .rate_bps = 300 * MBIT, .from_ns = S,           \
	.to_ns = 5 * S, .buffer = 10
#define JITTER ALONE, .rate_bps = 300 * MBIT, .rtt_ns = 40 * MS

const struct loop_case cases[] = {
	{ .name = "alone", ALONE },
	{ .name = "alone-loss-1e-4", ALONE, .loss = 1e-4 },
	{ .name = "alone-loss-1e-3", ALONE, .loss = 1e-3 },
	{ .name = "alone-loss-1e-2", ALONE, .loss = 1e-2 },
	{ .name = "alone-loss-5e-2", ALONE, .loss = 5e-2 },
	{ .name = "lossy-0.1", LOSSY, .loss = 0.1 },
	{ .name = "lossy-0.2", LOSSY, .loss = 0.2 },
	{ .name = "lossy-0.3", LOSSY, .loss = 0.3 },
	{ .name = "lossy-0.5", LOSSY, .loss = 0.5 },
	{ .name = "lossy-shallow", LOSSY, .loss = 0.3, .buffer = 0.05 },
	{ .name = "lossy-swift-0.1", LOSSY_SHORT, .loss = 0.1 },
	{ .name = "lossy-swift-0.3", LOSSY_SHORT, .loss = 0.3 },
	{ .name = "lossy-own-2", TWO, .rate_bps = 300 * MBIT, .rtt_ns = 10 * MS, .loss = 0.3 },
	{ .name = "jitter-half", JITTER, .jitter_ns = 20 * MS, .loss = 5e-3 },
	{ .name = "jitter-twice", JITTER, .jitter_ns = 80 * MS, .loss = 5e-3 },
	{ .name = "jitter-own-2", TWO, .jitter_ns = 10 * MS },
	{ .name = "jitter-swift", LOSSY_SHORT, .jitter_ns = MS, .loss = 5e-3 },
	{ .name = "alone-bursts-1e-4", ALONE, .loss = 1e-4, .bursts = true },
	{ .name = "alone-bursts-1e-3", ALONE, .loss = 1e-3, .bursts = true },
	{ .name = "alone-bursts-1e-2", ALONE, .loss = 1e-2, .bursts = true },
	{ .name = "alone-noise", ALONE, .noise_ns = MS },
	{ .name = "alone-marks", ALONE, .mark = 0.1 },
	{ .name = "alone-shallow-0.2", ALONE, .buffer = 0.2 },
	{ .name = "alone-shallow-0.02", ALONE, .buffer = 0.02 },
	{ .name = "alone-deep", ALONE, .buffer = 4 },
	{ .name = "alone-100M", ALONE, .rate_bps = 100 * MBIT },
	{ .name = "alone-10G", ALONE, AT_10G },
	{ .name = "alone-10G-loss-1e-2", ALONE, AT_10G, .loss = 1e-2 },
	{ .name = "alone-5ms", ALONE, .rtt_ns = 5 * MS },
	{ .name = "alone-100ms",
	  LONG,
	  .own = 1,
	  .rtt_ns = 100 * MS,
	  .from_ns = 4 * S,
	  .to_ns = 20 * S },
	{ .name = "alone-500ms",
	  LONG,
	  .own = 1,
	  .rate_bps = 100 * MBIT,
	  .rtt_ns = 500 * MS,
	  .from_ns = 20 * S,
	  .to_ns = 60 * S },
	{ .name = "alone-on-off", ALONE, .on_ns = 500 * MS, .off_ns = 300 * MS },
	{ .name = "own-2", TWO },
	{ .name = "own-8", EIGHT },
	{ .name = "own-8-loss-1e-3", EIGHT, .loss = 1e-3 },
	{ .name = "own-8-marks", EIGHT, .mark = 0.1 },
	{ .name = "own-2-10G", TWO, AT_10G },
	{ .name = "step",
	  LONG,
	  .own = 1,
	  .step_at_ns = { 4 * S, 8 * S },
	  .step_bps = { 200 * MBIT, GBIT },
	  .from_ns = 10 * S,
	  .to_ns = 12 * S },
	{ .name = "cubic", BESIDE, .own = 1, .cubic = 1 },
	{ .name = "cubic-first",
	  LONG,
	  .own = 1,
	  .apart_ns = 5 * S,
	  .cubic = 1,
	  .from_ns = 25 * S,
	  .to_ns = 45 * S },
	{ .name = "cubic-4", BESIDE, .own = 1, .cubic = 4 },
	{ .name = "cubic-8-of-ours", BESIDE, .own = 8, .cubic = 1 },
	{ .name = "cubic-deep", BESIDE, .own = 1, .buffer = 4, .cubic = 1 },
	{ .name = "cubic-100M", BESIDE, .own = 1, .rate_bps = 100 * MBIT, .cubic = 1 },
	{ .name = "bbr", BESIDE, .own = 1, .bbr = 1 },
	{ .name = "bbr-4", BESIDE, .own = 1, .bbr = 4 },
	{ .name = "bbr-8-of-ours", BESIDE, .own = 8, .bbr = 1 },
	{ .name = "bbr-loss-1e-3", BESIDE, .own = 1, .loss = 1e-3, .bbr = 1 },
	{ .name = "tcp-cubic-alone", LONG, .cubic = 1, .from_ns = 2 * S, .to_ns = 32 * S },
	{ .name = "tcp-bbr-alone", LONG, .bbr = 1, .from_ns = 2 * S, .to_ns = 12 * S },
	{ .name = "tcp-cubic-bbr", LONG, .cubic = 1, .bbr = 1, .from_ns = 20 * S, .to_ns = 40 * S },
	{ .name = "swift", SHORT, .own = 1, .from_ns = S / 5, .to_ns = S, .buffer = 10 },
	{ .name = "swift-loss-1e-3",
	  SHORT,
	  .own = 1,
	  .loss = 1e-3,
	  .from_ns = S / 5,
	  .to_ns = S,
	  .buffer = 10 },
	{ .name = "swift-10G", SHORT, .own = 1, AT_10G, .from_ns = S / 5, .to_ns = S, .buffer = 4 },
	{ .name = "swift-10G-loss-1e-3",
	  SHORT,
	  .own = 1,
	  AT_10G,
	  .loss = 1e-3,
	  .from_ns = S / 5,
	  .to_ns = S,
	  .buffer = 4 },
	{ .name = "swift-8", SHORT, .own = 8, .from_ns = S / 2, .to_ns = 2 * S, .buffer = 10 },
	{ .name = "swift-20-sub-packet",
	  SHORT,
	  .own = 20,
	  .rate_bps = 100 * MBIT,
	  .from_ns = S,
	  .to_ns = 5 * S,
	  .buffer = 100 },
	{ .name = "swift-marks",
	  SHORT,
	  .own = 2,
	  .mark = 0.5,
	  .from_ns = S / 2,
	  .to_ns = 2 * S,
	  .buffer = 10 },
};
const unsigned case_count = sizeof(cases) / sizeof(cases[0]);

const struct loop_case *case_find(const char *name)
{
	for (unsigned i = 0; i < case_count; i++)
		if (!strcmp(cases[i].name, name))
			return &cases[i];
	return NULL;
}

static uint64_t rate_of(const struct loop_case *one)
{
	return one->rate_bps ? one->rate_bps : GBIT;
}

static uint64_t rtt_of(const struct loop_case *one)
{
	return one->rtt_ns ? one->rtt_ns : 25 * MS;
}

static void set_link(const struct loop_case *one, struct link_attr *link)
{
	double bdp = (double)rate_of(one) / 8e9 * (double)rtt_of(one);

	*link = (struct link_attr){
		.rate_bps = rate_of(one),
		.delay_ns = rtt_of(one) / 2,
		.queue_bytes = (uint64_t)((one->buffer > 0 ? one->buffer : 1) * bdp),
		.ecn_bytes = (uint64_t)(one->mark * bdp),
	};
	if (one->bursts) {
		link->burst_leave = 1.0 / 8;
		link->burst_enter = one->loss / (1 - one->loss) * link->burst_leave;
		link->burst_loss = 1;
	} else {
		link->loss = one->loss;
	}
}

void case_run(const struct loop_case *one, const char *cc, uint64_t seed, bool trace,
	      struct loop_result *out)
{
	struct loop_attr attr = {
		.noise_ns = one->noise_ns,
		.jitter_ns = one->jitter_ns,
		.seed = seed,
		.from_ns = one->from_ns,
		.to_ns = one->to_ns,
		.flows = one->own + one->cubic + one->bbr,
		.trace = trace,
		.trace_ns = rtt_of(one) < 2 * MS ? MS : 100 * MS,
	};

	struct rng rng;

	rng_seed(&rng, seed);
	set_link(one, &attr.link);
	for (unsigned i = 0; i < LOOP_STEPS; i++) {
		attr.steps[i].at_ns = one->step_at_ns[i];
		attr.steps[i].rate_bps = one->step_bps[i];
	}
	for (unsigned i = 0; i < attr.flows; i++) {
		struct loop_flow *flow = &attr.flow[i];

		if (i < one->own) {
			/* Where only one of ours runs, "apart" is how much later it comes than the others. */
			*flow = (struct loop_flow){
				.kind = LOOP_CC,
				.ops = cc_find(cc ? cc : one->cc),
				.start_ns = one->own == 1 ? one->apart_ns : i * one->apart_ns,
				.packet_bytes = one->packet_bytes,
				.on_ns = one->on_ns,
				.off_ns = one->off_ns,
			};
		} else {
			flow->kind = i < one->own + one->cubic ? LOOP_CUBIC : LOOP_BBR;
			flow->start_ns = one->others_at_ns + (i - one->own) * 100 * MS;
		}
		flow->start_ns += i * MS / 7 + rng_below(&rng, rtt_of(one));
	}
	loop_run(&attr, out);
}

static double mean_share(const struct loop_case *one, const struct loop_result *result,
			 unsigned from, unsigned to)
{
	double sum = 0;

	for (unsigned i = from; i < to; i++)
		sum += result->share[i];
	return from == to ? 0 : sum / (to - from) * (one->own + one->cubic + one->bbr);
}

double case_own(const struct loop_case *one, const struct loop_result *result)
{
	return mean_share(one, result, 0, one->own);
}

double case_others(const struct loop_case *one, const struct loop_result *result)
{
	return mean_share(one, result, one->own, one->own + one->cubic + one->bbr);
}

void case_header(void)
{
	printf("%-20s %6s %6s %7s %7s %7s %7s %9s %6s %6s\n", "case", "used %", "Jain", "queue",
	       "p95", "most ms", "loss %", "no room %", "own", "others");
}

void case_print(const struct loop_case *one, const struct loop_result *r)
{
	printf("%-20s %6.1f %6.3f %7.2f %7.2f %7.2f %7.3f %9.3f %6.2f %6.2f\n", one->name,
	       100 * r->utilisation, r->jain, r->queue_median_ns / 1e6, r->queue_p95_ns / 1e6,
	       r->queue_max_ns / 1e6, 100 * r->loss, 100 * r->overflow, case_own(one, r),
	       case_others(one, r));
}
