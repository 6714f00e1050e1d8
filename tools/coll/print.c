/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of `godwit coll`, in the columns of nccl-tests, and its rows of JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "tools/output.h"

/* Percentiles need so many operations. */
#define PERCENTILE_LEAST 20

void bench_head(const struct bench *bench)
{
	const struct coll_job *job = &bench->job;
	bool reduces = job->operation == COLL_ALLREDUCE || job->operation == COLL_REDUCE_SCATTER;

	if (bench->rank || job->report.json)
		return;
	printf("# %s, %u ranks, %s%s%s, algorithm %s, %llu in flight; godwit %s\n",
	       coll_operation_name(job->operation), bench->size, coll_type_name(job->type),
	       reduces ? ", " : "", reduces ? coll_reduction_name(job->reduction) : "",
	       job->bounded ? "bounded" : coll_algorithm_name(job->algorithm),
	       (unsigned long long)job->in_flight, gw_version());
	printf("#%11s %12s %12s %12s %9s %9s %7s%s\n", "size", "count", "time", "p99", "algbw",
	       "busbw", "wrong", job->bounded ? "    arrived   late    cut" : "");
	printf("#%11s %12s %12s %12s %9s %9s %7s%s\n", "(bytes)", "(elements)", "(us)", "(us)",
	       "(GB/s)", "(GB/s)", "", job->bounded ? "        (%)  (ops)  (ops)" : "");
	output_flush();
}

/* How many bytes a link carries for one that the caller sees, as nccl-tests define it. */
static double bus_factor(enum coll_operation operation, uint32_t size)
{
	double others = (double)(size - 1) / size;

	switch (operation) {
	case COLL_ALLREDUCE:
		return 2 * others;
	case COLL_ALLGATHER:
	case COLL_REDUCE_SCATTER:
	case COLL_ALLTOALL:
		return others;
	default:
		return 1;
	}
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void bench_show(struct bench *bench, uint64_t bytes, uint64_t iterations, double mean, double wrong)
{
	const struct coll_job *job = &bench->job;
	double algorithm = (double)bytes / mean,
	       bus = algorithm * bus_factor(job->operation, bench->size);
	bool known = bench->checked || wrong > 0;
	char p99_text[32] = "-";
	double p50, p99;
	json_t *row;

	if (bench->rank)
		return;
	qsort(bench->times, iterations, sizeof(*bench->times), by_time);
	p50 = bench->times[iterations / 2];
	p99 = bench->times[(iterations * 99) / 100];
	if (iterations >= PERCENTILE_LEAST)
		snprintf(p99_text, sizeof(p99_text), "%.1f", p99 / 1e3);
	bench->wrong_in_all += (uint64_t)wrong;
	if (!job->report.json) {
		printf("%12llu %12llu %12.1f %12s %9.3f %9.3f %7s", (unsigned long long)bytes,
		       (unsigned long long)bench->count, mean / 1e3, p99_text, algorithm, bus,
		       !known	   ? "-"
		       : wrong > 0 ? "WRONG"
				   : "0");
		if (job->bounded)
			printf(" %10.4f %6llu %6llu", 100 * coll_losses_arrived(&bench->losses),
			       (unsigned long long)bench->losses.late,
			       (unsigned long long)bench->losses.cut);
		printf("\n");
		output_flush();
		return;
	}
	row = json_pack("{s:I s:I s:I s:f s:f s:f s:f}", "bytes", (json_int_t)bytes, "count",
			(json_int_t)bench->count, "iterations", (json_int_t)iterations, "time_us",
			mean / 1e3, "p50_us", p50 / 1e3, "algorithm_gbytes_per_s", algorithm,
			"bus_gbytes_per_s", bus);
	if (iterations >= PERCENTILE_LEAST)
		json_object_set_new(row, "p99_us", json_real(p99 / 1e3));
	if (known)
		json_object_set_new(row, "wrong", json_integer((json_int_t)wrong));
	if (job->bounded)
		json_object_set_new(row, "bounded", coll_losses_json(&bench->losses));
	json_array_append_new(bench->rows, row);
}
