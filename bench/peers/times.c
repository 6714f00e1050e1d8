/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of times that is sorted at the end; see times.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ends.h"
#include "times.h"

#define P99_MIN 100

void times_open(struct times *times, uint64_t wanted, uint64_t seconds_ns)
{
	*times = (struct times){ calloc(wanted, sizeof(*times->ns)),
				 wanted,
				 0,
				 1 + wanted / 10,
				 0,
				 now_ns() + seconds_ns };
	if (!times->ns)
		die("times", ENOMEM);
}

bool times_next(struct times *times)
{
	times->begin_ns = now_ns();
	return times->count < times->wanted && (times->begin_ns < times->limit_ns || !times->count);
}

void times_end(struct times *times)
{
	if (times->warm_up)
		times->warm_up--;
	else
		times->ns[times->count++] = now_ns() - times->begin_ns;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double rank_us(const struct times *times, double share)
{
	uint64_t rank = (uint64_t)(share * (double)times->count + 0.999999);

	return (double)times->ns[rank ? rank - 1 : 0] / 1e3;
}

void times_print(struct times *times)
{
	double sum = 0;

	qsort(times->ns, times->count, sizeof(*times->ns), compare);
	for (uint64_t i = 0; i < times->count; i++)
		sum += (double)times->ns[i];
	printf(", \"message_time\": {\"samples\": %lu, \"mean_us\": %.3f, \"min_us\": %.3f, "
	       "\"median_us\": %.3f",
	       times->count, sum / (double)times->count / 1e3, rank_us(times, 0),
	       rank_us(times, 0.5));
	if (times->count >= P99_MIN)
		printf(", \"p99_us\": %.3f", rank_us(times, 0.99));
	printf(", \"max_us\": %.3f}", rank_us(times, 1));
	free(times->ns);
}
