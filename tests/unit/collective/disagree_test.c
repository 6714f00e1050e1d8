/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of real processes over loopback that do not call the same operations. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <godwit/bounded_collective.h>

#include "job.h"

/* Rank 1 gives another count. */
static void disagreeing(struct job *job)
{
	static uint32_t values[9000];
	struct gw_coll_attr attr = { .send = values,
				     .recv = values,
				     .count = job->rank == 1 ? 8000 : 9000,
				     .type = GW_UINT32,
				     .algorithm = GW_ALGORITHM_RING };
	struct gw_coll *coll;

	CHECK(gw_allreduce(job->comm, &attr, &coll) == 0);
	CHECK(gw_coll_wait(coll, 30 * SECOND) == -EPROTO);
	CHECK(strstr(gw_comm_error(job->comm), "do all ranks call the same"));
}

/* The root of a broadcast gives less than the others expect. */
static void giving_less(struct job *job)
{
	static uint8_t values[200];
	struct gw_coll_attr attr = { .send = values,
				     .recv = job->rank ? values : NULL,
				     .count = job->rank ? 200 : 100,
				     .type = GW_UINT8 };
	struct gw_coll *coll;
	int error;

	CHECK(gw_broadcast(job->comm, &attr, &coll) == 0);
	error = gw_coll_wait(coll, 30 * SECOND);
	CHECK(job->rank == 0 || error == -EPROTO);
	error = job_sum_until_it_fails(job->comm);
	CHECK(error == -EPROTO);
	CHECK(strstr(gw_comm_error(job->comm), "sent 100 bytes where"));
}

/* Rank 1 calls something else of the same length: values of each are not to be had as those of the other. Some ranks may have ended the
 * operation before they hear of it. */
struct difference {
	int (*call)(struct gw_comm *, const struct gw_coll_attr *, struct gw_coll **);
	int (*other)(struct gw_comm *, const struct gw_coll_attr *, struct gw_coll **);
	enum gw_type type;
	enum gw_reduction reduction;
	const char *told;
};

static const uint64_t counts[] = { 1, 1000, 30000 };

static const struct difference differences[] = {
	{ gw_allreduce, gw_broadcast, GW_INT32, GW_SUM, "called broadcast where" },
	{ gw_allreduce, gw_allreduce, GW_FLOAT32, GW_SUM, "with another size, type, reduction" },
	{ gw_allreduce, gw_allreduce, GW_INT32, GW_MAX, "with another size, type, reduction" },
	{ gw_allgather, gw_alltoall, GW_INT32, GW_SUM, "called al" },
	{ gw_allgather, gw_reduce_scatter, GW_INT32, GW_SUM, "called reduce_scatter where" },
};
static const struct difference *difference;
static uint64_t difference_count;

static void calling_another(struct job *job)
{
	static int32_t sent[60000], got[60000];
	struct gw_coll_attr attr = {
		.send = sent, .recv = got, .count = difference_count, .type = GW_INT32
	};
	bool odd = job->rank == 1;
	struct gw_coll *coll;
	uint64_t total;
	int error;

	if (odd) {
		attr.type = difference->type;
		attr.reduction = difference->reduction;
	}
	CHECK((odd ? difference->other : difference->call)(job->comm, &attr, &coll) == 0);
	error = gw_coll_wait(coll, 20 * SECOND);
	for (int i = 0; !error && i < 8; i++)
		error = job_sum(job->comm, 1, &total);
	CHECK(error == -EPROTO);
	CHECK(strstr(gw_comm_error(job->comm), difference->told) ||
	      strstr(gw_comm_error(job->comm), "called allreduce where") ||
	      strstr(gw_comm_error(job->comm), "called allgather where"));
}

/* Rank 1 is done, and closes. */
static void closing_instead(struct job *job)
{
	uint64_t total;

	CHECK(job_sum(job->comm, 1, &total) == 0);
	if (job->rank == 1)
		return;
	job_sum_until_it_fails(job->comm);
	CHECK(strstr(gw_comm_error(job->comm), "gw_comm_close()") ||
	      strstr(gw_comm_error(job->comm), "has closed"));
}

static void other_operations_are_told(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(differences) / sizeof(differences[0]); i++) {
		for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			difference = &differences[i];
			difference_count = counts[c];
			job_run(2, 2, calling_another);
		}
	}
}

static void the_end_in_place_of_an_operation_is_told(void **state)
{
	(void)state;
	job_run(2, 2, closing_instead);
}

static void other_lengths_are_told(void **state)
{
	(void)state;
	job_run(3, 3, disagreeing);
	job_run(2, 2, giving_less);
}

/* Rank 1 calls a bounded operation, of whose plan the message of rank 0 has the length. */
static void calling_bounded(struct job *job)
{
	static uint8_t values[40];
	static float numbers[1000];
	struct gw_coll_attr exact = {
		.send = values, .recv = values, .count = sizeof(values), .type = GW_UINT8
	};
	struct gw_coll_attr bounded = {
		.send = numbers, .recv = numbers, .count = 1000, .type = GW_FLOAT32
	};
	struct gw_coll *coll;

	if (job->rank == 0)
		CHECK(gw_broadcast(job->comm, &exact, &coll) == 0);
	else
		CHECK(gw_bounded_allreduce(job->comm, &bounded, NULL, &coll) == 0);
	gw_coll_wait(coll, 20 * SECOND);
	CHECK(job_sum_until_it_fails(job->comm) == -EPROTO);
	CHECK(strstr(gw_comm_error(job->comm), "bounded allreduce"));
}

static void bounded_operations_are_told_too(void **state)
{
	(void)state;
	job_run(2, 2, calling_bounded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_operations_are_told),
		cmocka_unit_test(the_end_in_place_of_an_operation_is_told),
		cmocka_unit_test(other_lengths_are_told),
		cmocka_unit_test(bounded_operations_are_told_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
