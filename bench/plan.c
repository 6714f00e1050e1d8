/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan: what a question to the planner costs: one scheme in closed form, and the choice among all. For 128 MiB over
 * 400 Gbit/s and 25 ms, over a range of losses; medians.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan/plan.h"

#define REPEATS 201
#define SIZE	(UINT64_C(128) << 20)

static const double losses[] = { 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1 };

#define LOSSES (sizeof(losses) / sizeof(losses[0]))

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_us(double *times)
{
	qsort(times, REPEATS, sizeof(times[0]), by_size);
	return times[REPEATS / 2] / 1e3;
}

static int measure(const struct plan_path *path, double *predict_us, double *choose_us)
{
	const struct plan_params params = { .scheme = PLAN_MDS, .k = 32, .m = 8 };
	double predict[REPEATS], choose[REPEATS];
	struct plan_result result;
	struct plan_choice choice;

	for (unsigned i = 0; i < REPEATS; i++) {
		double from = now_ns();
		int rc = plan_predict(&params, path, SIZE, 0, 0, &result);

		predict[i] = now_ns() - from;
		from = now_ns();
		rc |= plan_choose(path, SIZE, PLAN_P99, &choice);
		choose[i] = now_ns() - from;
		if (rc)
			return rc;
	}
	*predict_us = median_us(predict);
	*choose_us = median_us(choose);
	return 0;
}

int main(int argc, char **argv)
{
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;

	if (argc > 2 || (argc == 2 && !json)) {
		fputs("usage: plan [--json]\n", stderr);
		return 2;
	}
	if (json)
		putchar('[');
	for (unsigned i = 0; i < LOSSES; i++) {
		double predict_us, choose_us;
		struct plan_path path;

		plan_path_init(&path, 25000000, UINT64_C(400000000000), losses[i]);
		if (measure(&path, &predict_us, &choose_us)) {
			fputs("plan: no prediction\n", stderr);
			return 1;
		}
		if (json)
			printf("%s{\"loss\": %g, \"predict_us\": %.2f, \"choose_us\": %.2f}",
			       i ? ", " : "", losses[i], predict_us, choose_us);
		else
			printf("loss %-6g one scheme %6.1f us, the choice %7.1f us\n", losses[i],
			       predict_us, choose_us);
	}
	if (json)
		puts("]");
	return 0;
}
