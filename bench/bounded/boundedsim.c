/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boundedsim: bounded allreduces on a simulated network, in virtual time, beside exact ones.
 *
 *	boundedsim RANKS SIZE OPERATIONS RECOVERY [--loss P] [--burst N] [--late CHANCE:MEAN] [--compute T] [--deadline T] [--seed S]
 *		[--tracks N] [--rows N] [--rtt T] [--rate R] [--unbiased Z] [--tail T]
 *
 * RECOVERY is exact, count, zero, keep, hadamard or coded. Ranks compute, reduce, and compute again, as in training. Hosts hang on
 * one switch, at 10 Gbit/s and a round trip of 0.2 ms unless told. A packet is lost on its way with probability P, in bursts of N packets on the
 * mean. The last rank is a straggler: with a chance of CHANCE it computes longer in an iteration, by an exponentially distributed
 * time with that mean.
 *
 * Prints one JSON object: the time of the operations, from a rank's call to its end there, over all ranks; the same without
 * those of ranks that came late themselves; the part of rank 0's until it has the plan, and its stage 1, on the mean; what arrived; the error of the means against the exact ones, squared, over the variance of
 * what a rank gives; and the mean error over all operations, of the sixteenth of the data where it is largest, in standard errors.
 * With --unbiased it fails if that is more than Z, with --tail if the 99th percentile of the times is more than T.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/bounded_collective.h>

#include "lab/units.h"
#include "simulation/ranks.h"

#define LIMIT_NS UINT64_C(3600000000000)
/* Bursts end after this time also where few packets pass. */
#define BURST_MAX_NS UINT64_C(1000000)
/* Operations at the start that are not counted: deadlines adapt. */
#define WARMUP 8
/* Parts of the data whose mean error is watched by itself: an owner's share is never lost. */
#define PARTS 16

struct setting {
	uint64_t ranks, bytes, operations, seed, late_ns, compute_ns, tracks, rtt_ns, rate_bps,
		tail_ns, rows;
	double loss, burst, late, unbiased;
	bool exact;
	struct gw_bounded_attr bounded;
};

struct member {
	struct world_of *all;
	uint32_t rank;
	uint64_t done, post_ns;
	bool computing;
	/* when the next operation is posted */
	uint64_t due_ns;
	bool is_late;
	float *send, *recv;
};

struct world_of {
	const struct setting *setting;
	struct ranks ranks;
	struct rng rng;
	struct member *members;
	/* for each operation who is late, by how much */
	uint32_t *late_rank;
	uint64_t *late_ns;
	uint64_t count, finished;
	double *exact;
	/* times of operations in ns: all, and of ranks that were not late */
	double *times, *punctual;
	uint64_t time_count, punctual_count;
	uint64_t expected, arrived, late, cut, judged;
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

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct member *member = arg;
	struct world_of *all = member->all;
	struct gw_bounded_report report;
	double time = (double)(ranks_now(&all->ranks) - member->post_ns);

	if (result->status) {
		fprintf(stderr, "boundedsim: %s\n", strerror(-result->status));
		exit(1);
	}
	if (member->done >= WARMUP) {
		all->times[all->time_count++] = time;
		if (!member->is_late)
			all->punctual[all->punctual_count++] = time;
	}
	if (!member->rank && member->done >= WARMUP) {
		judge(all, member->recv);
		if (!gw_bounded_report(coll, &report)) {
			all->expected += report.expected;
			all->arrived += report.arrived;
			all->waited += (double)report.waited_ns;
			all->gathered += (double)report.gathered_ns;
			all->late += report.end == GW_BOUNDED_END_LATE;
			all->cut += report.end == GW_BOUNDED_END_DEADLINE;
		}
	}
	gw_coll_close(coll);
	member->done++;
	next(member);
}

static void post(struct member *member)
{
	struct world_of *all = member->all;
	struct gw_comm *comm = all->ranks.rank[member->rank].comm;
	struct gw_coll_attr attr = { .send = member->send,
				     .recv = member->recv,
				     .count = all->count,
				     .type = GW_FLOAT32,
				     .reduction = GW_MEAN,
				     .done = done,
				     .arg = member };
	struct gw_coll *coll;
	int error;

	member->computing = false;
	member->post_ns = ranks_now(&all->ranks);
	error = all->setting->exact
			? gw_allreduce(comm, &attr, &coll)
			: gw_bounded_allreduce(comm, &attr, &all->setting->bounded, &coll);
	if (error) {
		fprintf(stderr, "boundedsim: the operation is refused: %s\n", strerror(-error));
		exit(1);
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

static int read_recovery(const char *word, struct setting *out)
{
	static const struct {
		const char *word;
		enum gw_recovery recovery;
	} words[] = { { "count", GW_RECOVER_COUNT },
		      { "zero", GW_RECOVER_ZERO },
		      { "keep", GW_RECOVER_KEEP },
		      { "hadamard", GW_RECOVER_HADAMARD },
		      { "coded", GW_RECOVER_CODED } };

	out->exact = !strcmp(word, "exact");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		out->bounded.recovery = words[i].recovery;
		return 0;
	}
	return !out->exact;
}

/* "0.05:100ms" */
static int read_late(const char *text, struct setting *out)
{
	char chance[32];
	const char *colon = strchr(text, ':');

	if (!colon || (size_t)(colon - text) >= sizeof(chance))
		return 1;
	snprintf(chance, sizeof(chance), "%.*s", (int)(colon - text), text);
	return units_share(chance, &out->late) || units_time_ns(colon + 1, &out->late_ns);
}

static int read_setting(int argc, char **argv, struct setting *out)
{
	int bad = argc < 5 || argc % 2 == 0 || units_count(argv[1], 2, 1024, &out->ranks) ||
		  units_size_bytes(argv[2], &out->bytes) ||
		  units_count(argv[3], WARMUP + 1, 1000000, &out->operations) ||
		  read_recovery(argv[4], out);

	for (int i = 5; !bad && i < argc; i += 2) {
		const char *value = argv[i + 1];

		if (!strcmp(argv[i], "--loss"))
			bad = units_share(value, &out->loss);
		else if (!strcmp(argv[i], "--burst"))
			out->burst = strtod(value, NULL);
		else if (!strcmp(argv[i], "--late"))
			bad = read_late(value, out);
		else if (!strcmp(argv[i], "--compute"))
			bad = units_time_ns(value, &out->compute_ns);
		else if (!strcmp(argv[i], "--deadline"))
			bad = units_time_ns(value, &out->bounded.deadline_ns);
		else if (!strcmp(argv[i], "--unbiased"))
			out->unbiased = strtod(value, NULL);
		else if (!strcmp(argv[i], "--tracks"))
			bad = units_count(value, 1, 16, &out->tracks);
		else if (!strcmp(argv[i], "--rows"))
			bad = units_count(value, 0, 512, &out->rows);
		else if (!strcmp(argv[i], "--tail"))
			bad = units_time_ns(value, &out->tail_ns);
		else if (!strcmp(argv[i], "--rtt"))
			bad = units_time_ns(value, &out->rtt_ns);
		else if (!strcmp(argv[i], "--rate"))
			bad = units_rate_bps(value, &out->rate_bps);
		else if (!strcmp(argv[i], "--seed"))
			bad = units_count(value, 0, UINT32_MAX, &out->seed);
		else
			bad = 1;
	}
	return bad;
}

int main(int argc, char **argv)
{
	struct setting setting = { .seed = 1,
				   .burst = 1,
				   .compute_ns = 1000000,
				   .tracks = 4,
				   .rtt_ns = 200000,
				   .rate_bps = UINT64_C(10000000000) };
	struct world_of all = { .setting = &setting };
	double bias, tail_ns;

	if (read_setting(argc, argv, &setting)) {
		fprintf(stderr,
			"usage: boundedsim RANKS SIZE OPERATIONS RECOVERY [--loss P] [--burst N] [--late CHANCE:MEAN] [--compute T] "
			"[--deadline T] [--tracks N] [--rows N] [--rtt T] [--rate R] [--seed S] [--unbiased Z] [--tail T]\n");
		return 2;
	}
	setting.bounded.rows = (uint32_t)setting.rows;
	make(&all);
	run(&all);
	bias = show(&all, argv[4]);
	tail_ns = all.times[all.time_count * 99 / 100];
	release(&all);
	return (setting.unbiased > 0 && bias > setting.unbiased) ||
	       (setting.tail_ns && tail_ns > (double)setting.tail_ns);
}
