/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boundedsim: bounded allreduces on a simulated network, in virtual time, beside exact ones.
 *
 *	boundedsim RANKS SIZE STEPS RECOVERY [--loss P] [--burst N] [--late CHANCE:TIME[:fixed]] [--compute T] [--deadline T]
 *		[--seed S] [--tracks N] [--buckets N] [--rows N] [--rtt T] [--rate R] [--unbiased Z] [--tail T] [--step T]
 *
 * RECOVERY is exact, count, zero, keep, hadamard or coded. Ranks compute, reduce, and compute again, as in training; SIZE bytes a
 * step, in one operation or in as many as --buckets says. Hosts hang on one switch, at 10 Gbit/s and a round trip of 0.2 ms
 * unless told. A packet is lost on its way with probability P, in bursts of N packets on the mean. The last rank is a straggler:
 * with a chance of CHANCE it computes longer in a step, by an exponentially distributed time with that mean, or by that time.
 *
 * Prints one JSON object: the time of a step's operations, from a rank's call to the end of all there, over all ranks; the same
 * without those of ranks that came late themselves; the time of a step of rank 0 on the mean, with its computing; the part of
 * rank 0's operations until it has the plan, and its stage 1, on the mean; what arrived; the error of the means against the
 * exact ones, squared, over the variance of what a rank gives; and the mean error over all steps, of the sixteenth of the data
 * where it is largest, in standard errors. With --unbiased it fails if that is more than Z, with --tail if the 99th percentile
 * of the times is more than T, with --step if a step takes rank 0 longer than T on the mean.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bounded/setting.h"
#include "simulation/ranks.h"

#define LIMIT_NS UINT64_C(3600000000000)
/* Bursts end after this time also where few packets pass. */
#define BURST_MAX_NS UINT64_C(1000000)
/* Parts of the data whose mean error is watched by itself: an owner's share is never lost. */
#define PARTS 16

struct member {
	struct world_of *all;
	uint32_t rank;
	/* steps that have ended; operations of this one that have not */
	uint64_t done, open, post_ns;
	bool computing;
	/* when the next operations are posted */
	uint64_t due_ns;
	bool is_late;
	float *send, *recv;
};

struct world_of {
	const struct setting *setting;
	struct ranks ranks;
	struct rng rng;
	struct member *members;
	/* for each step who is late, by how much */
	uint32_t *late_rank;
	uint64_t *late_ns;
	uint64_t count, finished;
	double *exact;
	/* times of the operations of a step in ns: all, and of ranks that were not late */
	double *times, *punctual;
	uint64_t time_count, punctual_count;
	uint64_t expected, arrived, late, cut, judged;
	/* when rank 0 had done the first steps, which are not counted, and all */
	uint64_t warm_ns, end_ns;
	/* sums over operations of rank 0, in ns: until the plan, stage 1 */
	double waited, gathered;
	/* sum of squared errors, and of errors and their squares by part, over operations */
	double squares, sums[PARTS], sum_squares[PARTS];
};

static double gauss(struct rng *rng)
{
	double u = rng_unit(rng), v = rng_unit(rng);

	return sqrt(-2 * log(u > 1e-300 ? u : 1e-300)) * cos(6.283185307179586 * v);
}

static void judge(struct world_of *all, const float *result)
{
	double errors[PARTS] = { 0 };

	all->judged++;
	for (uint64_t i = 0; i < all->count; i++) {
		double error = (double)result[i] - all->exact[i];

		all->squares += error * error / (double)all->count;
		errors[i * PARTS / all->count] += error * PARTS / (double)all->count;
	}
	for (int p = 0; p < PARTS; p++) {
		all->sums[p] += errors[p];
		all->sum_squares[p] += errors[p] * errors[p];
	}
}

static void next(struct member *member)
{
	const struct setting *setting = member->all->setting;

	if (member->done == setting->operations) {
		member->all->finished++;
		member->computing = false;
		return;
	}
	member->computing = true;
	member->is_late = member->all->late_rank[member->done] == member->rank;
	member->due_ns = ranks_now(&member->all->ranks) + setting->compute_ns +
			 (member->is_late ? member->all->late_ns[member->done] : 0);
}

static void note(struct world_of *all, const struct gw_coll *coll)
{
	struct gw_bounded_report report;
	double share = 1 / (double)all->setting->buckets;

	if (gw_bounded_report(coll, &report))
		return;
	all->expected += report.expected;
	all->arrived += report.arrived;
	all->waited += (double)report.waited_ns * share;
	all->gathered += (double)report.gathered_ns * share;
	all->late += report.end == GW_BOUNDED_END_LATE;
	all->cut += report.end == GW_BOUNDED_END_DEADLINE;
}

static void step_over(struct member *member)
{
	struct world_of *all = member->all;
	uint64_t now = ranks_now(&all->ranks);
	double time = (double)(now - member->post_ns);

	if (member->done >= WARMUP) {
		all->times[all->time_count++] = time;
		if (!member->is_late)
			all->punctual[all->punctual_count++] = time;
		if (!member->rank)
			judge(all, member->recv);
	}
	member->done++;
	if (!member->rank && member->done == WARMUP)
		all->warm_ns = now;
	if (!member->rank)
		all->end_ns = now;
	next(member);
}

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct member *member = arg;

	if (result->status) {
		fprintf(stderr, "boundedsim: %s\n", strerror(-result->status));
		exit(1);
	}
	if (!member->rank && member->done >= WARMUP)
		note(member->all, coll);
	gw_coll_close(coll);
	if (!--member->open)
		step_over(member);
}

static void post(struct member *member)
{
	struct world_of *all = member->all;
	struct gw_comm *comm = all->ranks.rank[member->rank].comm;
	uint64_t buckets = all->setting->buckets;

	member->computing = false;
	member->post_ns = ranks_now(&all->ranks);
	member->open = buckets;
	for (uint64_t b = 0; b < buckets; b++) {
		uint64_t from = all->count * b / buckets, to = all->count * (b + 1) / buckets;
		struct gw_coll_attr attr = { .send = member->send + from,
					     .recv = member->recv + from,
					     .count = to - from,
					     .type = GW_FLOAT32,
					     .reduction = GW_MEAN,
					     .done = done,
					     .arg = member };
		struct gw_coll *coll;
		int error =
			all->setting->exact
				? gw_allreduce(comm, &attr, &coll)
				: gw_bounded_allreduce(comm, &attr, &all->setting->bounded, &coll);

		if (error) {
			fprintf(stderr, "boundedsim: the operation is refused: %s\n",
				strerror(-error));
			exit(1);
		}
	}
	ranks_touch(&all->ranks, member->rank);
}

static void run(struct world_of *all)
{
	while (all->finished < all->ranks.size) {
		uint64_t due = LIMIT_NS, now = ranks_now(&all->ranks);

		for (uint32_t r = 0; r < all->ranks.size; r++) {
			struct member *member = &all->members[r];

			if (member->computing && member->due_ns <= now)
				post(member);
			else if (member->computing && member->due_ns < due)
				due = member->due_ns;
		}
		if (!ranks_step(&all->ranks, due) && ranks_now(&all->ranks) >= LIMIT_NS) {
			fprintf(stderr, "boundedsim: does not end\n");
			exit(1);
		}
	}
}

static void make(struct world_of *all)
{
	const struct setting *setting = all->setting;
	uint32_t size = (uint32_t)setting->ranks;
	/* Of the two links between any two hosts each loses half. */
	double loss = setting->loss / 2;
	struct ranks_attr attr = {
		.sim = { .seed = setting->seed, .payload = 4096, .start_ns = 1000000000 },
		.context = { .max_qps = 8192,
			     .max_sends = 65536,
			     .max_recvs = 65536,
			     .bitmap_bytes = UINT64_C(256) << 20 },
		.seed = setting->seed,
		.mail_ns = setting->rtt_ns,
		.rtt_ns = setting->rtt_ns,
		.comm = { .tracks = (uint32_t)setting->tracks,
			  .peer_timeout_ns = UINT64_C(60000000000) }
	};

	attr.shape.shape = size == 2 ? SIM_PAIR : SIM_STAR;
	attr.shape.hosts = size;
	attr.shape.edge =
		(struct link_attr){ .rate_bps = setting->rate_bps,
				    .delay_ns = setting->rtt_ns / 4,
				    .queue_bytes = (uint64_t)((double)setting->rate_bps / 8e9 *
							      (double)setting->rtt_ns) +
						   500000 };
	if (setting->burst > 1) {
		attr.shape.edge.burst_leave = 1 / setting->burst;
		attr.shape.edge.burst_enter = loss / (1 - loss) / setting->burst;
		attr.shape.edge.burst_loss = 1;
		attr.shape.edge.burst_max_ns = BURST_MAX_NS;
	} else {
		attr.shape.edge.loss = loss;
	}
	if (ranks_open(&all->ranks, &attr)) {
		fprintf(stderr, "boundedsim: the ranks cannot be opened\n");
		exit(1);
	}
	all->ranks.timed = true;
	rng_seed(&all->rng, setting->seed);
	all->count = setting->bytes / sizeof(float);
	all->exact = calloc(all->count, sizeof(double));
	all->members = calloc(size, sizeof(*all->members));
	all->times = calloc(setting->operations * size, sizeof(double));
	all->punctual = calloc(setting->operations * size, sizeof(double));
	all->late_rank = calloc(setting->operations, sizeof(uint32_t));
	all->late_ns = calloc(setting->operations, sizeof(uint64_t));
	for (uint64_t i = 0; i < setting->operations; i++) {
		all->late_rank[i] = rng_chance(&all->rng, setting->late) ? size - 1 : UINT32_MAX;
		all->late_ns[i] =
			(uint64_t)(-log(1 - rng_unit(&all->rng)) * (double)setting->late_ns);
		if (setting->late_fixed)
			all->late_ns[i] = setting->late_ns;
	}
	for (uint32_t r = 0; r < size; r++) {
		struct member *member = &all->members[r];

		*member = (struct member){ .all = all, .rank = r };
		member->send = calloc(all->count, sizeof(float));
		member->recv = calloc(all->count, sizeof(float));
		/* Ranks differ in their means too: a share that counts too much shows. */
		for (uint64_t i = 0; i < all->count; i++) {
			member->send[i] = (float)(gauss(&all->rng) + (double)r / size);
			all->exact[i] += (double)member->send[i] / size;
		}
		next(member);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void show_times(const char *name, double *times, uint64_t count)
{
	static const double shares[] = { 0.9,  0.8,  0.7,  0.6,	 0.5,	0.4,  0.3,   0.2,  0.1,
					 0.07, 0.05, 0.03, 0.02, 0.015, 0.01, 0.007, 0.005 };
	double sum = 0;

	qsort(times, count, sizeof(*times), by_value);
	for (uint64_t i = 0; i < count; i++)
		sum += times[i];
	printf("\"%s\": {\"mean\": %.4f, \"p50\": %.4f, \"p99\": %.4f, \"most\": %.4f, \"longer\": [",
	       name, sum / (double)count / 1e6, times[count / 2] / 1e6,
	       times[count * 99 / 100] / 1e6, times[count - 1] / 1e6);
	/* Pairs: the share of operations that take longer than a time. */
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		printf("%s[%g, %.4f]", i ? ", " : "", shares[i],
		       times[(uint64_t)((double)count * (1 - shares[i]))] / 1e6);
	printf("]}, ");
}

static double step_ns(const struct world_of *all)
{
	return (double)(all->end_ns - all->warm_ns) / (double)(all->setting->operations - WARMUP);
}

static double show(struct world_of *all, const char *recovery)
{
	const struct setting *setting = all->setting;
	double n = (double)all->judged, worst = 0;

	printf("{\"ranks\": %llu, \"bytes\": %llu, \"operations\": %llu, \"recovery\": \"%s\", \"loss\": %g, \"burst\": %g, "
	       "\"late\": %g, \"late_ms\": %g, \"compute_ms\": %g, \"tracks\": %llu, \"rtt_ms\": %g, \"rate_mbps\": %g, ",
	       (unsigned long long)setting->ranks, (unsigned long long)setting->bytes,
	       (unsigned long long)setting->operations - WARMUP, recovery, setting->loss,
	       setting->burst, setting->late, (double)setting->late_ns / 1e6,
	       (double)setting->compute_ns / 1e6, (unsigned long long)setting->tracks,
	       (double)setting->rtt_ns / 1e6, (double)setting->rate_bps / 1e6);
	show_times("times_ms", all->times, all->time_count);
	show_times("punctual_ms", all->punctual, all->punctual_count);
	for (int p = 0; p < PARTS && n > 1; p++) {
		double mean = all->sums[p] / n;
		double variance = (all->sum_squares[p] / n - mean * mean) * n / (n - 1);

		if (variance > 1e-18)
			worst = fmax(worst, fabs(mean) / sqrt(variance / n));
	}
	printf("\"buckets\": %llu, \"step_ms\": %.4f, ", (unsigned long long)setting->buckets,
	       step_ns(all) / 1e6);
	printf("\"waited_ms\": %.4f, \"gathered_ms\": %.4f, ", all->waited / n / 1e6,
	       all->gathered / n / 1e6);
	printf("\"arrived\": %.6f, \"late_operations\": %llu, \"cut_operations\": %llu, \"mse\": %.6g, \"bias_in_errors\": %.3f}\n",
	       all->expected ? (double)all->arrived / (double)all->expected : 1,
	       (unsigned long long)all->late, (unsigned long long)all->cut, all->squares / n,
	       worst);
	return worst;
}

static void release(struct world_of *all)
{
	for (uint32_t r = 0; r < all->ranks.size; r++) {
		free(all->members[r].send);
		free(all->members[r].recv);
	}
	ranks_close(&all->ranks);
	free(all->members);
	free(all->exact);
	free(all->times);
	free(all->punctual);
	free(all->late_rank);
	free(all->late_ns);
}

int main(int argc, char **argv)
{
	struct setting setting = { .seed = 1,
				   .burst = 1,
				   .compute_ns = 1000000,
				   .tracks = 4,
				   .buckets = 1,
				   .rtt_ns = 200000,
				   .rate_bps = UINT64_C(10000000000) };
	struct world_of all = { .setting = &setting };
	double bias, tail_ns, step;

	if (setting_read(argc, argv, &setting)) {
		fputs(setting_usage, stderr);
		return 2;
	}
	setting.bounded.rows = (uint32_t)setting.rows;
	make(&all);
	run(&all);
	bias = show(&all, argv[4]);
	tail_ns = all.times[all.time_count * 99 / 100];
	step = step_ns(&all);
	release(&all);
	return (setting.unbiased > 0 && bias > setting.unbiased) ||
	       (setting.tail_ns && tail_ns > (double)setting.tail_ns) ||
	       (setting.step_ns && step > (double)setting.step_ns);
}
