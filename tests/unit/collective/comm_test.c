/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of real processes over loopback: what callers see of splits, deaths, aborts, disagreement and the end. A
 * process that finds something wrong says what and exits with 1.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <godwit/collective.h>
#include <godwit/rendezvous.h>

#include "collective/multicast.h"
#include "job.h"

#define SECOND	  UINT64_C(1000000000)
#define RANKS_MAX 16

struct job {
	uint32_t rank;
	uint32_t size;
	uint16_t port;
	struct gw_comm *comm;
};

typedef void job_fn(struct job *job);

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static void sleep_ms(unsigned ms)
{
	struct timespec time = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

/* A port that was free a moment ago, and that no connection gets meanwhile: below those that the system gives to them. */
static uint16_t free_port(void)
{
	struct gw_rendezvous_attr attr = { .service = "port" };
	struct gw_rendezvous_listener *listener;
	static uint16_t tried;

	for (;;) {
		attr.port = (uint16_t)(20000 + ((unsigned)getpid() * 31 + tried++) % 12000);
		if (gw_rendezvous_listen(&attr, &listener) == 0) {
			gw_rendezvous_listener_close(listener);
			return attr.port;
		}
	}
}

static void open_comm(struct job *job)
{
	struct gw_comm_attr attr = { .rank = job->rank,
				     .size = job->size,
				     .root = "127.0.0.1",
				     .port = job->port,
				     .peer_timeout_ns = 5 * SECOND };

	CHECK(gw_comm_open(&attr, &job->comm) == 0);
}

/* Runs a function in a process for each rank. `dies`: the rank that is to end by SIGKILL; size: none. */
static void run(uint32_t size, uint32_t dies, job_fn *fn)
{
	struct job job = { .size = size, .port = free_port() };
	pid_t pids[RANKS_MAX];

	fflush(NULL);
	for (uint32_t r = 0; r < size; r++) {
		pids[r] = fork();
		assert_true(pids[r] >= 0);
		if (pids[r] == 0) {
			job.rank = r;
			alarm(60);
			open_comm(&job);
			fn(&job);
			if (job.comm)
				gw_comm_close(job.comm);
			_exit(0);
		}
	}
	for (uint32_t r = 0; r < size; r++) {
		int status;

		assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
		if (r == dies)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		else
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static int sum(struct gw_comm *comm, uint64_t mine, uint64_t *out)
{
	struct gw_coll_attr attr = { .send = &mine, .recv = out, .count = 1, .type = GW_UINT64 };
	struct gw_coll *coll;
	int error = gw_allreduce(comm, &attr, &coll);

	if (error)
		return error;
	error = gw_coll_wait(coll, 30 * SECOND);
	gw_coll_close(coll);
	return error;
}

static void one_sum(struct job *job)
{
	uint64_t total = 0;

	CHECK(gw_comm_rank(job->comm) == job->rank && gw_comm_size(job->comm) == job->size);
	CHECK(sum(job->comm, job->rank + 1, &total) == 0);
	CHECK(total == (uint64_t)job->size * (job->size + 1) / 2);
}

static void any_number_of_ranks(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 8, 13 };

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		run(sizes[i], sizes[i], one_sum);
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
	run(4, 4, in_flight);
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
	run(4, 4, multicasts);
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
		CHECK(sum(half, job->rank, &total) == 0);
		CHECK(total == (job->rank % 2 ? 4 : 2));
		CHECK(gw_comm_split(half, 7, 0, &pair) == 0);
		CHECK(gw_comm_rank(pair) == gw_comm_rank(half));
		CHECK(sum(pair, 1, &total) == 0 && total == 2);
		CHECK(gw_comm_close(job->comm) == -EBUSY);
		CHECK(gw_comm_close(pair) == 0);
		CHECK(gw_comm_close(half) == 0);
	}
	CHECK(sum(job->comm, 1, &total) == 0 && total == 5);
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
	run(5, 5, splits);
}

/* Rank 2 is killed while all are at work. The others learn its name soon. */
static void killed(struct job *job)
{
	uint64_t total, start;
	int error = 0;

	for (int i = 0; i < 20; i++)
		CHECK(sum(job->comm, 1, &total) == 0);
	if (job->rank == 2) {
		sleep_ms(200);
		kill(getpid(), SIGKILL);
	}
	start = clock_ns();
	while (!error)
		error = sum(job->comm, 1, &total);
	CHECK(error == -ECONNRESET || error == -ETIMEDOUT);
	CHECK(error == gw_comm_status(job->comm));
	CHECK(strstr(gw_comm_error(job->comm), "rank 2"));
	CHECK(clock_ns() - start < 3 * SECOND);
	CHECK(sum(job->comm, 1, &total) == error);
}

static void a_death_is_named(void **state)
{
	(void)state;
	run(4, 2, killed);
}

static void root_killed(struct job *job)
{
	uint64_t total;
	int error = 0;

	if (job->rank == 0)
		kill(getpid(), SIGKILL);
	while (!error)
		error = sum(job->comm, 1, &total);
	CHECK(strstr(gw_comm_error(job->comm), "rank 0"));
}

static void the_death_of_rank_0_is_named(void **state)
{
	(void)state;
	run(4, 0, root_killed);
}

static void aborted(struct job *job)
{
	uint64_t total;
	int error = 0;

	if (job->rank == 1)
		CHECK(gw_comm_abort(job->comm, "the loss is not a number") == 0);
	while (!error)
		error = sum(job->comm, 1, &total);
	CHECK(error == -ECANCELED);
	CHECK(!strcmp(gw_comm_error(job->comm), "rank 1 aborted: the loss is not a number"));
}

static void an_abort_reaches_all(void **state)
{
	(void)state;
	run(4, 4, aborted);
}

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
	uint64_t total;
	int error;

	CHECK(gw_broadcast(job->comm, &attr, &coll) == 0);
	error = gw_coll_wait(coll, 30 * SECOND);
	CHECK(job->rank == 0 || error == -EPROTO);
	while (!error)
		error = sum(job->comm, 1, &total);
	CHECK(error == -EPROTO);
	CHECK(strstr(gw_comm_error(job->comm), "sent 100 bytes where"));
}

static void ranks_that_disagree_are_told(void **state)
{
	(void)state;
	run(3, 3, disagreeing);
	run(2, 2, giving_less);
}

/* One rank comes to the end two seconds later than the others, who wait for it. */
static void late_end(struct job *job)
{
	uint64_t total;

	CHECK(sum(job->comm, 1, &total) == 0);
	if (job->rank == 1)
		sleep_ms(2000);
	CHECK(sum(job->comm, 1, &total) == 0);
	if (job->rank == 2)
		sleep_ms(1500);
}

static void the_end_waits(void **state)
{
	(void)state;
	run(3, 3, late_end);
}

/* A rank computes for longer than the timeout between two operations: it is not dead. */
static void computing(struct job *job)
{
	uint64_t total;

	CHECK(sum(job->comm, 1, &total) == 0);
	if (job->rank == 1)
		sleep_ms(7000);
	CHECK(sum(job->comm, 1, &total) == 0);
}

static void a_rank_that_computes_lives(void **state)
{
	(void)state;
	run(3, 3, computing);
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
	CHECK(gw_comm_open(&(struct gw_comm_attr){ .size = 5000 }, &other) == -EINVAL);
	CHECK(gw_comm_status(job->comm) == 0);
}

static void bad_calls_are_refused(void **state)
{
	(void)state;
	run(2, 2, bad_calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_of_ranks),
		cmocka_unit_test(many_in_flight),
		cmocka_unit_test(multicast_over_loopback),
		cmocka_unit_test(multicast_where_it_is_faster),
		cmocka_unit_test(communicators_split),
		cmocka_unit_test(a_death_is_named),
		cmocka_unit_test(the_death_of_rank_0_is_named),
		cmocka_unit_test(an_abort_reaches_all),
		cmocka_unit_test(ranks_that_disagree_are_told),
		cmocka_unit_test(the_end_waits),
		cmocka_unit_test(a_rank_that_computes_lives),
		cmocka_unit_test(bad_calls_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
