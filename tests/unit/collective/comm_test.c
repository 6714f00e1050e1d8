/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of real processes over loopback: what callers see of operations, splits and attributes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <godwit/collective.h>

#include "collective/multicast.h"
#include "job.h"

static void one_sum(struct job *job)
{
	uint64_t total = 0;

	CHECK(gw_comm_rank(job->comm) == job->rank && gw_comm_size(job->comm) == job->size);
	CHECK(job_sum(job->comm, job->rank + 1, &total) == 0);
	CHECK(total == (uint64_t)job->size * (job->size + 1) / 2);
}

static void any_number_of_ranks(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 8, 13 };

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		job_run(sizes[i], sizes[i], one_sum);
}

/* Many operations in flight, waited for from the last to the first. */
static void in_flight(struct job *job)
{
	enum { COUNT = 40, LENGTH = 30000 };
	static uint32_t values[COUNT][LENGTH];
	struct gw_coll *colls[COUNT];

	for (int i = 0; i < COUNT; i++) {
		struct gw_coll_attr attr = { .send = values[i],
					     .recv = values[i],
					     .count = LENGTH,
					     .type = GW_UINT32,
					     .algorithm = i % 2 ? GW_ALGORITHM_RING
								: GW_ALGORITHM_DOUBLING };

		for (int k = 0; k < LENGTH; k++)
			values[i][k] = (uint32_t)(i * k) + job->rank;
		CHECK(gw_allreduce(job->comm, &attr, &colls[i]) == 0);
	}
	for (int i = COUNT; i-- > 0;) {
		CHECK(gw_coll_wait(colls[i], 30 * SECOND) == 0);
		CHECK(gw_coll_close(colls[i]) == 0);
		for (int k = 0; k < LENGTH; k++)
			CHECK(values[i][k] ==
			      (uint32_t)(i * k) * job->size + job->size * (job->size - 1) / 2);
	}
}

static void many_in_flight(void **state)
{
	(void)state;
	job_run(4, 4, in_flight);
}

/* Broadcasts from every rank and allgathers, several in flight, by packets that the network copies. The first operation finds
 * out whether that works; those that leave the choice to the library follow it. */
static void multicasts(struct job *job)
{
	enum { LENGTH = 300000, COUNT = 12 };
	static uint8_t given[COUNT][LENGTH], got[COUNT][LENGTH * 4];
	struct gw_coll *colls[COUNT];

	for (uint32_t i = 0; i < COUNT; i++) {
		bool gathers = i % 3 == 2;
		struct gw_coll_attr attr = { .send = given[i],
					     .recv = got[i],
					     .count = LENGTH - i,
					     .type = GW_UINT8,
					     .root = i % job->size,
					     .algorithm = i == 6 ? GW_ALGORITHM_AUTO
								 : GW_ALGORITHM_MULTICAST };

		for (uint32_t k = 0; k < LENGTH; k++)
			given[i][k] = (uint8_t)(k * 7 + k / 253 + i + 50 * job->rank);
		CHECK((gathers ? gw_allgather : gw_broadcast)(job->comm, &attr, &colls[i]) == 0);
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		uint32_t first = i % 3 == 2 ? 0 : i % job->size;
		uint32_t blocks = i % 3 == 2 ? job->size : 1, length = LENGTH - i;

		CHECK(gw_coll_wait(colls[i], 30 * SECOND) == 0);
		gw_coll_close(colls[i]);
		for (uint32_t b = 0; b < blocks; b++)
			for (uint32_t k = 0; k < length; k++)
				CHECK(got[i][b * length + k] ==
				      (uint8_t)(k * 7 + k / 253 + i + 50 * (first + b)));
	}
	CHECK(job->comm->multicast->state == MULTICAST_WORKS);
	CHECK(job->comm->multicast->ended == COUNT);
	/* Each rank sent three broadcasts and four blocks at most, each packet once. */
	CHECK(job->comm->multicast->sent_data <=
	      7 * (uint64_t)(LENGTH / job->comm->multicast->payload + 1));
}

static void multicast_over_loopback(void **state)
{
	(void)state;
	job_run(4, 4, multicasts);
}

/* Even and odd ranks, in reverse order; rank 4 of 5 belongs to nobody; then each group splits again. */
static void splits(struct job *job)
{
	struct gw_comm *half, *pair;
	uint32_t color = job->rank == 4 ? GW_COMM_NONE : job->rank % 2;
	uint64_t total = 0;

	CHECK(gw_comm_split(job->comm, color, 100 - job->rank, &half) == 0);
	CHECK((half == NULL) == (job->rank == 4));
	if (half) {
		CHECK(gw_comm_size(half) == 2);
		CHECK(gw_comm_rank(half) == (job->rank < 2));
		CHECK(job_sum(half, job->rank, &total) == 0);
		CHECK(total == (job->rank % 2 ? 4 : 2));
		CHECK(gw_comm_split(half, 7, 0, &pair) == 0);
		CHECK(gw_comm_rank(pair) == gw_comm_rank(half));
		CHECK(job_sum(pair, 1, &total) == 0 && total == 2);
		CHECK(gw_comm_close(job->comm) == -EBUSY);
		CHECK(gw_comm_close(pair) == 0);
		CHECK(gw_comm_close(half) == 0);
	}
	CHECK(job_sum(job->comm, 1, &total) == 0 && total == 5);
}

/* What is asked for is done so. Otherwise large operations are, once one has asked: broadcasts from four ranks on, and allgathers where
 * many ranks are near. */
static void multicast_where_it_is_faster(void **state)
{
	static const struct {
		enum operation operation;
		uint32_t size;
		uint64_t bytes;
		bool near, wanted;
	} cases[] = {
		{ OPERATION_BROADCAST, 4, 256 << 10, false, true },
		{ OPERATION_BROADCAST, 4, (256 << 10) - 4, true, false },
		{ OPERATION_BROADCAST, 3, 1 << 20, true, false },
		{ OPERATION_ALLGATHER, 16, 256 << 10, true, true },
		{ OPERATION_ALLGATHER, 16, 256 << 10, false, false },
		{ OPERATION_ALLGATHER, 15, 1 << 20, true, false },
		{ OPERATION_ALLREDUCE, 64, 1 << 20, true, false },
	};
	struct multicast_group group = { .state = MULTICAST_WORKS };
	struct gw_comm comm = { .multicast = &group };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct task task = { .operation = cases[i].operation,
				     .size = cases[i].size,
				     .unit = 4,
				     .elements = cases[i].bytes / 4,
				     .near = cases[i].near };

		comm.multicast = &group;
		assert_int_equal(multicast_wanted(&comm, &task), cases[i].wanted);
		comm.multicast = NULL;
		assert_false(multicast_wanted(&comm, &task));
		task.algorithm = GW_ALGORITHM_MULTICAST;
		assert_int_equal(multicast_wanted(&comm, &task),
				 task.operation != OPERATION_ALLREDUCE);
	}
}

static void communicators_split(void **state)
{
	(void)state;
	job_run(5, 5, splits);
}

/* The caller's string is not read after the call. */
static void names_controllers(struct job *job)
{
	struct gw_comm_attr attr = job_attr(job);
	char name[16] = "swift";
	uint64_t total;

	attr.congestion = name;
	CHECK(gw_comm_open(&attr, &job->comm) == 0);
	memset(name, 'x', sizeof(name) - 1);
	CHECK(job_sum(job->comm, 1, &total) == 0);
	CHECK(total == job->size);
	gw_comm_close(job->comm);
	attr.port++;
	job->comm = NULL;
	CHECK(gw_comm_open(&attr, &job->comm) == -EINVAL);
	CHECK(strstr(gw_comm_error(NULL), "\"xxxxxxxxxxxxxxx\": there is none"));
	job->comm = NULL;
}

static void controllers_are_named(void **state)
{
	(void)state;
	job_run_unopened(2, 2, NULL, names_controllers);
}

/* Each is connected to all. */
static void many_splits(struct job *job)
{
	enum { COUNT = 10 };
	struct gw_comm *subs[COUNT];

	for (int i = 0; i < COUNT; i++) {
		uint32_t sent[4] = { 0, 1, 2, 3 }, got[4] = { 0 };
		struct gw_coll_attr attr = {
			.send = sent, .recv = got, .count = 1, .type = GW_UINT32
		};
		struct gw_coll *coll;

		CHECK(gw_comm_split(job->comm, 0, job->rank, &subs[i]) == 0);
		CHECK(gw_alltoall(subs[i], &attr, &coll) == 0);
		CHECK(gw_coll_wait(coll, 30 * SECOND) == 0);
		for (int k = 0; k < 4; k++)
			CHECK(got[k] == job->rank);
	}
	for (int i = 0; i < COUNT; i++)
		CHECK(gw_comm_close(subs[i]) == 0);
}

static void many_communicators_at_once(void **state)
{
	(void)state;
	job_run(4, 4, many_splits);
}

static void split_there(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct job *job = arg;
	struct gw_comm *sub;

	CHECK(result->status == 0);
	CHECK(gw_comm_split(job->comm, 0, 0, &sub) == -EBUSY);
	gw_coll_close(coll);
	job->size = 0;
}

static void splits_in_a_callback(struct job *job)
{
	uint32_t value = 1;
	struct gw_coll_attr attr = { .send = &value,
				     .recv = &value,
				     .count = 1,
				     .type = GW_UINT32,
				     .done = split_there,
				     .arg = job };
	uint64_t total;

	CHECK(gw_allreduce(job->comm, &attr, NULL) == 0);
	while (job->size)
		CHECK(gw_comm_wait(job->comm, SECOND) >= 0);
	/* Nothing of it is left that others would wait for. */
	CHECK(job_sum(job->comm, 1, &total) == 0);
	CHECK(total == 3);
}

static void no_split_in_a_callback(void **state)
{
	(void)state;
	job_run(3, 3, splits_in_a_callback);
}

static void next_posted(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct job *job = arg;

	CHECK(result->status == 0);
	gw_coll_close(coll);
	job->size = 0;
}

static float sums[100];

static void post_next(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct job *job = arg;
	struct gw_coll_attr attr = { .send = sums,
				     .recv = sums,
				     .count = 100,
				     .type = GW_FLOAT32,
				     .done = next_posted,
				     .arg = job };

	CHECK(result->status == 0);
	CHECK(gw_allreduce(job->comm, &attr, NULL) == 0);
	gw_coll_close(coll);
}

/* The last operation before ranks agree on rates is empty, and posts the next one: at rank 0, whose track is idle, while it is posted. */
static void empty_before_an_agreement(struct job *job)
{
	static uint8_t values[4 << 20];
	struct gw_coll_attr nothing = { .type = GW_FLOAT32, .done = post_next, .arg = job };
	uint32_t size = job->size;

	sums[99] = (float)job->rank + 1;
	for (int i = 0; i < 5; i++) {
		struct gw_coll_attr attr = { .send = values,
					     .recv = values,
					     .count = i == 1 ? sizeof(values) : 8,
					     .type = GW_UINT8 };
		struct gw_coll *coll;

		CHECK(gw_broadcast(job->comm, &attr, &coll) == 0);
		if (job->rank == 0)
			CHECK(gw_coll_wait(coll, 30 * SECOND) == 0);
	}
	CHECK(gw_allreduce(job->comm, &nothing, NULL) == 0);
	while (job->size && gw_comm_status(job->comm) == 0)
		CHECK(gw_comm_wait(job->comm, SECOND) >= 0);
	CHECK(gw_comm_status(job->comm) == 0);
	CHECK(sums[99] == (float)(size * (size + 1) / 2));
}

static void an_empty_operation_keeps_its_number(void **state)
{
	(void)state;
	job_run(2, 2, empty_before_an_agreement);
}

/* Rank 1 was opened with other attributes. */
static void other_tracks(struct job *job)
{
	struct gw_comm_attr attr = job_attr(job);

	attr.tracks = job->rank == 1 ? 2 : 0;
	attr.threads = job->rank == 1 ? 3 : 0;
	CHECK(gw_comm_open(&attr, &job->comm) == -EPROTO);
	job->comm = NULL;
	CHECK(strstr(gw_comm_error(NULL), "was opened with tracks 2, threads 3") &&
	      strstr(gw_comm_error(NULL), "rank 0 with tracks 4, threads 1"));
}

static void ranks_need_the_same_attributes(void **state)
{
	(void)state;
	job_run_unopened(2, 2, NULL, other_tracks);
}

static void bad_calls(struct job *job)
{
	uint32_t values[4] = { 0 };
	struct gw_coll_attr good = {
		.send = values, .recv = values, .count = 4, .type = GW_UINT32
	};
	struct gw_coll_attr attr;
	struct gw_coll *coll;
	struct gw_comm *other;

	CHECK(gw_allreduce(NULL, &good, &coll) == -EINVAL);
	CHECK(gw_allreduce(job->comm, NULL, &coll) == -EINVAL);
	attr = good;
	attr.type = (enum gw_type)99;
	CHECK(gw_allreduce(job->comm, &attr, &coll) == -EINVAL);
	attr = good;
	attr.root = 2;
	CHECK(gw_broadcast(job->comm, &attr, &coll) == -EINVAL);
	attr = good;
	attr.algorithm = GW_ALGORITHM_TREE;
	CHECK(gw_allreduce(job->comm, &attr, &coll) == -EINVAL);
	attr = good;
	attr.recv = values + 1;
	attr.count = 3;
	CHECK(gw_allreduce(job->comm, &attr, &coll) == -EINVAL);
	attr = good;
	attr.send = NULL;
	CHECK(gw_allreduce(job->comm, &attr, &coll) == -EINVAL);
	attr = good;
	attr.count = UINT64_MAX / 2;
	CHECK(gw_allgather(job->comm, &attr, &coll) == -EINVAL);
	attr = good;
	attr.reserved[2] = 1;
	CHECK(gw_allreduce(job->comm, &attr, &coll) == -EINVAL);
	CHECK(gw_comm_split(job->comm, 0, 0, NULL) == -EINVAL);
	CHECK(gw_comm_open(&(struct gw_comm_attr){ .size = 2, .rank = 2 }, &other) == -EINVAL);
	CHECK(!strcmp(gw_comm_error(NULL), "rank 2: at most 1"));
	CHECK(gw_comm_open(&(struct gw_comm_attr){ .size = 5000 }, &other) == -EINVAL);
	CHECK(!strcmp(gw_comm_error(NULL), "number of ranks 5000: at most 4096"));
	CHECK(gw_comm_open(&(struct gw_comm_attr){ .size = 2, .flags = 8 }, &other) == -EINVAL);
	CHECK(strstr(gw_comm_error(NULL), "a flag of the communicator"));
	CHECK(gw_comm_status(job->comm) == 0);
}

static void bad_calls_are_refused(void **state)
{
	(void)state;
	job_run(2, 2, bad_calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_of_ranks),
		cmocka_unit_test(many_in_flight),
		cmocka_unit_test(multicast_over_loopback),
		cmocka_unit_test(multicast_where_it_is_faster),
		cmocka_unit_test(communicators_split),
		cmocka_unit_test(many_communicators_at_once),
		cmocka_unit_test(no_split_in_a_callback),
		cmocka_unit_test(an_empty_operation_keeps_its_number),
		cmocka_unit_test(controllers_are_named),
		cmocka_unit_test(ranks_need_the_same_attributes),
		cmocka_unit_test(bad_calls_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
