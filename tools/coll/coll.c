/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `godwit coll`: times collective operations under any launcher, as nccl-tests does: one line a size, with algorithm and bus
 * bandwidth, and results that are checked.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/ranks.h"

#define NS_PER_S UINT64_C(1000000000)
/* Time that a size is measured for, and bounds of the number of operations, unless --iterations is given. */
#define MEASURE_NS	 1e9
#define ITERATIONS_LEAST 5
#define ITERATIONS_MOST	 1000

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int fail(struct bench *bench, int error)
{
	const char *why = bench->comm ? gw_comm_error(bench->comm) : gw_comm_error(NULL);

	if (interrupt_signal())
		return report_fail(&bench->job.report, -EINTR, "interrupted by SIG%s%s%s",
				   sigabbrev_np(interrupt_signal()), bench->waiting[0] ? ": " : "",
				   bench->waiting);
	return report_fail(&bench->job.report, error, "%s", why[0] ? why : strerror(-error));
}

static int wait_for(struct bench *bench, struct gw_coll *coll)
{
	int error;

	do {
		error = gw_coll_wait(coll, UINT64_MAX);
		if (!interrupt_signal())
			continue;
		if (error == -EINTR)
			gw_comm_explain(bench->comm, bench->waiting, sizeof(bench->waiting));
		gw_comm_abort(bench->comm, "it was interrupted");
	} while (error == -EINTR);
	if (bench->job.bounded && (!error || error == -EIO)) {
		bench->whole = coll_losses_add(&bench->losses, coll, error);
		error = 0;
	}
	gw_coll_close(coll);
	return error ? fail(bench, error) : 0;
}

static struct value_question question(const struct bench *bench)
{
	const struct coll_job *job = &bench->job;

	struct value_question q = { .operation = job->operation,
				    .reduction = job->reduction,
				    .type = job->type,
				    .rank = bench->rank,
				    .size = bench->size,
				    .root = job->root,
				    .count = bench->count };

	q.stride = value_stride(&q);
	return q;
}

static int post(struct bench *bench, struct gw_coll **out)
{
	static int (*const calls[])(struct gw_comm *, const struct gw_coll_attr *,
				    struct gw_coll **) = {
		gw_barrier,	   gw_broadcast, gw_allgather,
		gw_reduce_scatter, gw_allreduce, gw_alltoall,
	};
	const struct coll_job *job = &bench->job;
	const struct value_question q = question(bench);
	struct gw_coll_attr attr = { .send = coll_buffers_send(&bench->buffers, &q),
				     .recv = coll_buffers_recv(&bench->buffers, &q),
				     .count = bench->count,
				     .type = job->type,
				     .reduction = job->reduction,
				     .root = job->root,
				     .algorithm = job->algorithm };
	int error;

	if (!job->bounded)
		error = calls[job->operation](bench->comm, &attr, out);
	else if (job->operation == COLL_ALLREDUCE)
		error = gw_bounded_allreduce(bench->comm, &attr, &job->limits, out);
	else
		error = gw_bounded_reduce_scatter(bench->comm, &attr, &job->limits, out);
	if (error == -EINVAL && job->bounded)
		return report_usage(&bench->job.report,
				    "--type %s or --reduction %s cannot be bounded like this",
				    coll_type_name(job->type), coll_reduction_name(job->reduction));
	if (error == -EINVAL)
		return report_usage(&bench->job.report, "%s cannot be done by --algorithm %s%s",
				    coll_operation_name(job->operation),
				    coll_algorithm_name(job->algorithm),
				    job->comm.flags & GW_COMM_FIXED_ORDER ? " in fixed order" : "");
	return error ? fail(bench, error) : 0;
}

/* Does `count` operations, `in_flight` at a time, and returns the mean time of one in ns. */
static int run(struct bench *bench, uint64_t count, double *mean)
{
	struct gw_coll *open[64];
	uint64_t posted = 0, ended = 0, width = bench->job.in_flight;
	double start = now_ns(), last = start;
	int error = 0;

	assert(width > 0 && width <= sizeof(open) / sizeof(open[0]));
	while (!error && ended < count) {
		while (!error && posted < count && posted - ended < width) {
			error = post(bench, &open[posted % width]);
			posted += !error;
		}
		if (error)
			break;
		error = wait_for(bench, open[ended % width]);
		bench->times[ended++] = now_ns() - last;
		last = now_ns();
	}
	*mean = count ? (last - start) / (double)count : 0;
	return error;
}

static int barrier(struct bench *bench)
{
	struct gw_coll *coll;
	int error = gw_barrier(bench->comm, NULL, &coll);

	return error ? fail(bench, error) : wait_for(bench, coll);
}

/* Reduces some numbers over all ranks. */
static int combine(struct bench *bench, void *values, uint64_t count, enum gw_type type,
		   enum gw_reduction reduction)
{
	struct gw_coll_attr attr = {
		.send = values, .recv = values, .count = count, .type = type, .reduction = reduction
	};
	struct gw_coll *coll;
	int error = gw_allreduce(bench->comm, &attr, &coll);

	return error ? fail(bench, error) : wait_for(bench, coll);
}

/* The largest of each of some numbers over all ranks. */
static int agree(struct bench *bench, double *values, uint64_t count)
{
	return combine(bench, values, count, GW_FLOAT64, GW_MAX);
}

/* The report of a bounded reduce_scatter is of what arrived at its rank: that of all is printed. That of an allreduce is the same
 * at all ranks. */
static int combine_losses(struct bench *bench)
{
	struct coll_losses *losses = &bench->losses;
	uint64_t bytes[] = { losses->expected, losses->arrived };
	uint64_t most[] = { losses->late, losses->cut, losses->poor, losses->diverged };
	int error;

	if (!bench->job.bounded || bench->job.operation != COLL_REDUCE_SCATTER)
		return 0;
	error = combine(bench, bytes, 2, GW_UINT64, GW_SUM);
	if (!error)
		error = combine(bench, most, 4, GW_UINT64, GW_MAX);
	losses->expected = bytes[0];
	losses->arrived = bytes[1];
	losses->late = most[0];
	losses->cut = most[1];
	losses->poor = most[2];
	losses->diverged = most[3];
	return error;
}

/* Sets *wrong to the number of wrong elements at the rank that has most. */
static int check(struct bench *bench, double *wrong)
{
	const struct coll_job *job = &bench->job;
	const struct value_question q = question(bench);
	struct gw_coll *coll;
	bool look = true;
	double found[2];
	int error;

	coll_buffers_fill(&bench->buffers, &q);
	error = post(bench, &coll);
	if (!error)
		error = wait_for(bench, coll);
	if (error)
		return error;
	/* What is missing makes other numbers, and coefficients are rounded: the report tells of both. */
	if (job->bounded)
		look = bench->whole && job->limits.recovery != GW_RECOVER_HADAMARD;
	found[0] = look ? (double)coll_buffers_wrong(&bench->buffers, &q) : 0;
	found[1] = !look;
	error = agree(bench, found, 2);
	*wrong = found[0];
	bench->checked = found[1] == 0;
	return error;
}

/* Bytes of the larger buffer for each element of the count; 0 for a barrier. */
static uint64_t bytes_per_count(const struct bench *bench)
{
	const struct coll_job *job = &bench->job;
	uint64_t sends = value_send_count(job->operation, 1, bench->size);
	uint64_t receives = value_recv_count(job->operation, 1, bench->size);

	return gw_type_size(job->type) * (sends > receives ? sends : receives);
}

static int measure(struct bench *bench, uint64_t count)
{
	const struct coll_job *job = &bench->job;
	uint64_t iterations = job->iterations;
	double mean = 0, wrong = 0;
	int error;

	bench->count = count;
	error = job->no_check ? 0 : check(bench, &wrong);
	if (!error)
		error = run(bench, job->warmup ? job->warmup : !iterations, &mean);
	if (!error)
		error = agree(bench, &mean, 1);
	if (error)
		return error;
	if (!iterations) {
		double wanted = mean > 0 ? MEASURE_NS / mean : ITERATIONS_MOST;

		iterations = wanted < ITERATIONS_LEAST	? ITERATIONS_LEAST
			     : wanted > ITERATIONS_MOST ? ITERATIONS_MOST
							: (uint64_t)wanted;
	}
	bench->times = realloc(bench->times, (iterations + job->warmup + 1) * sizeof(double));
	error = barrier(bench);
	bench->losses = (struct coll_losses){ 0 };
	if (!error)
		error = run(bench, iterations, &mean);
	if (!error)
		error = combine_losses(bench);
	if (!error)
		error = agree(bench, &mean, 1);
	if (!error)
		bench_show(bench, count * bytes_per_count(bench), iterations, mean, wrong);
	return error;
}

/* Measures each size of the range once: those that hold the same number of elements are one, and after 0 comes one element. */
static int all_sizes(struct bench *bench)
{
	const struct coll_job *job = &bench->job;
	uint64_t unit = bytes_per_count(bench);
	int error = 0;

	bench->times = calloc(job->warmup + 2, sizeof(double));
	if (!bench->times || coll_buffers_open(&bench->buffers, job->to, job->in_place))
		return report_fail(&bench->job.report, -ENOMEM, "no memory for %llu bytes%s",
				   (unsigned long long)job->to, job->in_place ? "" : " twice");
	if (job->operation == COLL_BARRIER)
		return measure(bench, 0);
	for (uint64_t bytes = job->from; !error && bytes <= job->to;
	     bytes = bytes < unit ? unit : bytes * job->factor)
		error = measure(bench, bytes / unit);
	return error;
}

static int open_comm(int argc, char **argv, struct bench *bench)
{
	int error = coll_job_read(argc, argv, &bench->job);

	if (error)
		return error;
	interrupt_install();
	/* One operation follows another, and each makes progress for those before. */
	bench->job.comm.flags |= GW_COMM_SERVED;
	error = gw_comm_open(&bench->job.comm, &bench->comm);
	return error ? fail(bench, error) : 0;
}

static int coll_main(int argc, char **argv)
{
	static struct bench bench;
	struct report *report = &bench.job.report;
	int error = open_comm(argc, argv, &bench);

	if (error) {
		report->signal = interrupt_signal();
		report->json = report->json && ranks_may_speak(argc, argv);
		report->body = json_object();
		return report_finish(report);
	}
	bench.rank = gw_comm_rank(bench.comm);
	bench.size = gw_comm_size(bench.comm);
	bench.rows = json_array();
	if (bench.job.root >= bench.size)
		error = report_usage(report, "--root %u: there are ranks 0 to %u", bench.job.root,
				     bench.size - 1);
	if (!error) {
		bench_head(&bench);
		error = all_sizes(&bench);
	}
	report->signal = interrupt_signal();
	if (error && !gw_comm_status(bench.comm))
		gw_comm_abort(bench.comm, report->error);
	gw_comm_close(bench.comm);
	if (bench.wrong_in_all)
		report_fail(report, -EBADMSG, "some results are wrong");
	report->body =
		json_pack("{s:s s:I s:s s:s s:o}", "operation",
			  coll_operation_name(bench.job.operation), "ranks", (json_int_t)bench.size,
			  "type", coll_type_name(bench.job.type), "algorithm",
			  bench.job.bounded ? "bounded" : coll_algorithm_name(bench.job.algorithm),
			  "sizes", bench.rows);
	/* One rank speaks for all. */
	if (bench.rank)
		report->json = false;
	free(bench.times);
	coll_buffers_close(&bench.buffers);
	return report_finish(report);
}

const struct command command_coll = {
	.name = "coll",
	.summary = "time collective operations among the ranks of a job",
	.usage =
		"usage: godwit coll OPERATION [OPTION ...]\n"
		"\n"
		"Times barrier, broadcast, allgather, reduce_scatter, allreduce or alltoall among all ranks\n"
		"that a launcher started, and checks the results:\n"
		"\n"
		"  mpirun -n 4 godwit coll allreduce --size 4K..64M\n"
		"  torchrun --nproc-per-node 4 --no-python godwit coll allreduce\n"
		"  srun -n 4 godwit coll allreduce\n"
		"\n"
		"The letters -b, -e, -f, -n, -w, -c, -o, -d and -r of nccl-tests are understood.\n"
		"\n"
		"options:\n"
		"  --size S[..T]     bytes, or from S to T (default 4K..16M)\n"
		"  --factor N        each size is N times the one before (default 4)\n"
		"  --type T          float32 (default), float16, bfloat16, float64, int8, uint8, int32, ...\n"
		"  --reduction R     sum (default), mean, min, max\n"
		"  --algorithm A     auto (default), ring, doubling, tree, direct, multicast\n"
		"  --bounded R       on time, with what arrived: a missing number is left out of the mean (count),\n"
		"                    zero, the reducing rank's own (keep), spread out (hadamard), or repaired (coded)\n"
		"  --deadline T      of a bounded operation (default: by what earlier ones took)\n"
		"  --floor P         percent that must arrive\n"
		"  --repair          repair what is below the floor\n"
		"  --root N          rank that broadcasts (default 0)\n"
		"  --iterations N    operations to time (default: about a second)\n"
		"  --warmup N        operations before that (default 5)\n"
		"  --in-flight N     operations in flight at a time (default 1)\n"
		"  --in-place        one buffer for what is given and what is got\n"
		"  --fixed-order     add in the order of ranks: the same bits in every run\n"
		"  --no-check        do not check results\n"
		"  --segment S       cut messages into parts of S (default: by size)\n"
		"  --threads N       threads that share each operation (default 1)\n"
		"  --tracks N        operations that run side by side (default 4)\n"
		"  --fabric F        roce:ADDRESS, verbs:DEVICE (default: by the address of rank 0)\n"
		"  --congestion C    default, long-haul, swift, none\n"
		"  --rate R          cap of each channel: 1Gbit\n"
		"  --rank N          the rank of this process, in place of a launcher's environment,\n"
		"  --ranks N         of so many,\n"
		"  --root-host H     with rank 0 on host H,\n"
		"  --port P          where it waits on this TCP port (default 4796)\n"
		"  --secret-file F   refuse ranks that do not hold the secret in file F, and seal packets by it\n"
		"  --clear           do not seal packets although there is a secret\n"
		"  --meet T          how long ranks wait for each other (default 60s)\n"
		"  --timeout T       silence after which a rank is lost (default 10s)\n"
		"  --json            print one JSON object, from rank 0\n",
	.run = coll_main,
};
