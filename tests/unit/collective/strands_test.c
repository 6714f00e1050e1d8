/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators whose operations several threads share. The ranks are threads of this process, too. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <godwit/collective.h>
#include <godwit/rendezvous.h>

#define RANKS  3
#define SECOND UINT64_C(1000000000)
/* More than three parts of 64 KiB, and no multiple of anything. */
#define ELEMENTS 150001

struct rank {
	uint32_t rank;
	uint16_t port;
	uint16_t threads;
	struct gw_comm *comm;
	/* what operations ended with */
	int status;
	char error[256];
	bool failed;
};

/* Asserts of other threads than the test's: cmocka's would not reach it. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "rank %u, line %d: not true: %s; %s\n", own->rank,         \
				__LINE__, #condition, gw_comm_error(own->comm));                   \
			own->failed = true;                                                        \
			return NULL;                                                               \
		}                                                                                  \
	} while (0)

static uint16_t free_port(void)
{
	static unsigned tried;

	for (;;) {
		struct gw_rendezvous_attr attr = { .service = "port" };
		struct gw_rendezvous_listener *listener;

		attr.port = (uint16_t)(20000 + ((unsigned)getpid() * 31 + tried++) % 12000);
		if (!gw_rendezvous_listen(&attr, &listener)) {
			gw_rendezvous_listener_close(listener);
			return attr.port;
		}
	}
}

static void run(uint16_t threads, void *(*fn)(void *), struct rank *ranks)
{
	uint16_t port = free_port();
	pthread_t thread[RANKS];

	for (uint32_t r = 0; r < RANKS; r++) {
		ranks[r] = (struct rank){ .rank = r, .port = port, .threads = threads };
		assert_int_equal(pthread_create(&thread[r], NULL, fn, &ranks[r]), 0);
	}
	for (uint32_t r = 0; r < RANKS; r++) {
		pthread_join(thread[r], NULL);
		assert_false(ranks[r].failed);
	}
}

static int open_comm(struct rank *own)
{
	struct gw_comm_attr attr = { .rank = own->rank,
				     .size = RANKS,
				     .root = "127.0.0.1",
				     .port = own->port,
				     .threads = own->threads };

	return gw_comm_open(&attr, &own->comm);
}

typedef int post_fn(struct gw_comm *, const struct gw_coll_attr *, struct gw_coll **);

/* The number that a rank gives at an element of all its data. */
static int32_t given(uint32_t rank, uint64_t element)
{
	return (int32_t)(rank * 1000003 + element);
}

static int32_t sum(uint64_t element)
{
	int32_t all = 0;

	for (uint32_t r = 0; r < RANKS; r++)
		all += given(r, element);
	return all;
}

/* What a rank gets at an element of its result. */
static int32_t expected(post_fn *post, uint32_t rank, uint64_t count, uint64_t element)
{
	uint32_t block = (uint32_t)(element / count);

	if (post == gw_broadcast)
		return given(1, element);
	if (post == gw_allgather)
		return given(block, element % count);
	if (post == gw_reduce_scatter)
		return sum(rank * count + element);
	if (post == gw_alltoall)
		return given(block, rank * count + element % count);
	return sum(element);
}

struct shape {
	post_fn *post;
	/* blocks that a rank gives, and that it gets */
	uint32_t send, recv;
};

static const struct shape shapes[] = {
	{ gw_broadcast, 1, 1 },	       { gw_allreduce, 1, 1 },		{ gw_allgather, 1, RANKS },
	{ gw_alltoall, RANKS, RANKS }, { gw_reduce_scatter, RANKS, 1 },
};

/* One operation, in place or not. Both buffers are as long as the larger of the two. */
static bool exact(struct rank *own, const struct shape *shape, uint64_t count, bool in_place,
		  enum gw_algorithm algorithm)
{
	uint64_t most = RANKS * count;
	int32_t *send = malloc(most * sizeof(*send)), *recv = malloc(most * sizeof(*recv));
	uint64_t at = shape->send < shape->recv && in_place ? own->rank * count : 0;
	uint64_t got = shape->send > shape->recv && in_place ? own->rank * count : 0;
	struct gw_coll_attr attr = { .send = (in_place ? recv : send) + at,
				     .recv = recv + got,
				     .count = count,
				     .type = GW_INT32,
				     .root = 1,
				     .algorithm = algorithm };
	struct gw_coll *coll;
	bool right = true;

	memset(recv, 0x55, most * sizeof(*recv));
	for (uint64_t i = 0; i < shape->send * count; i++)
		((int32_t *)(uintptr_t)attr.send)[i] = given(own->rank, i);
	right = !shape->post(own->comm, &attr, &coll) && !gw_coll_wait(coll, 60 * SECOND) &&
		!gw_coll_close(coll);
	for (uint64_t i = 0; right && i < shape->recv * count; i++)
		right = recv[got + i] == expected(shape->post, own->rank, count, i);
	free(send);
	free(recv);
	return right;
}

static void *all_shapes(void *arg)
{
	static const uint64_t counts[] = { 0, 1, 16384, 49152, ELEMENTS };
	struct rank *own = arg;

	CHECK(!open_comm(own));
	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
			CHECK(exact(own, &shapes[s], counts[c], false, GW_ALGORITHM_AUTO));
			CHECK(exact(own, &shapes[s], counts[c], true, GW_ALGORITHM_AUTO));
		}
		if (shapes[s].post != gw_alltoall)
			CHECK(exact(own, &shapes[s], ELEMENTS, true, GW_ALGORITHM_RING));
		CHECK(exact(own, &shapes[s], ELEMENTS, false, GW_ALGORITHM_DIRECT));
	}
	CHECK(exact(own, &shapes[0], ELEMENTS, false, GW_ALGORITHM_MULTICAST));
	CHECK(exact(own, &shapes[2], ELEMENTS, false, GW_ALGORITHM_MULTICAST));
	CHECK(exact(own, &shapes[2], ELEMENTS, true, GW_ALGORITHM_MULTICAST));
	CHECK(exact(own, &shapes[2], ELEMENTS, true, GW_ALGORITHM_DOUBLING));
	CHECK(!gw_comm_close(own->comm));
	return NULL;
}

static void test_every_operation_is_exact(void **state)
{
	struct rank ranks[RANKS];

	(void)state;
	run(3, all_shapes, ranks);
	run(1, all_shapes, ranks);
}

/* Several operations in flight, which end by a callback. */
static void count_end(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	int *ended = arg;

	*ended += result->status ? 1000 : 1;
	gw_coll_close(coll);
}

static void *many(void *arg)
{
	struct rank *own = arg;
	int32_t *data = calloc(20, ELEMENTS * sizeof(*data));
	int ended = 0;

	CHECK(!open_comm(own));
	for (int i = 0; i < 20; i++) {
		struct gw_coll_attr attr = { .send = data + i * ELEMENTS,
					     .recv = data + i * ELEMENTS,
					     .count = i % 3 ? ELEMENTS : 10,
					     .type = GW_INT32,
					     .done = count_end,
					     .arg = &ended };

		data[i * ELEMENTS] = i;
		CHECK(!gw_allreduce(own->comm, &attr, NULL));
	}
	while (ended < 20)
		CHECK(gw_comm_wait(own->comm, SECOND) >= 0);
	CHECK(ended == 20);
	for (int i = 0; i < 20; i++)
		CHECK(data[i * ELEMENTS] == i * RANKS);
	CHECK(!gw_comm_close(own->comm));
	free(data);
	return NULL;
}

static void test_several_in_flight(void **state)
{
	struct rank ranks[RANKS];

	(void)state;
	run(4, many, ranks);
}

/* Buffers that overlap, though the parts of no thread do. */
static void *overlaps(void *arg)
{
	struct rank *own = arg;
	int32_t *data = calloc(2 * ELEMENTS, sizeof(*data));
	struct gw_coll_attr attr = {
		.send = data, .recv = data + ELEMENTS / 5 * 3, .count = ELEMENTS, .type = GW_INT32
	};
	struct gw_coll *coll;

	CHECK(!open_comm(own));
	CHECK(gw_allreduce(own->comm, &attr, &coll) == -EINVAL);
	attr.send = NULL;
	CHECK(gw_allreduce(own->comm, &attr, &coll) == -EINVAL);
	CHECK(exact(own, &shapes[1], ELEMENTS, false, GW_ALGORITHM_AUTO));
	gw_comm_close(own->comm);
	free(data);
	return NULL;
}

static void test_buffers_may_not_overlap(void **state)
{
	struct rank ranks[RANKS];

	(void)state;
	run(1, overlaps, ranks);
	run(2, overlaps, ranks);
}

/* Ranks that know of the abort. */
static atomic_uint told;

/* Rank 2 aborts while the others wait for it in a large operation: they are told its reason, and all threads end. */
static void *one_aborts(void *arg)
{
	struct rank *own = arg;
	int32_t *data = calloc(ELEMENTS, sizeof(*data));
	struct gw_coll_attr attr = {
		.send = data, .recv = data, .count = ELEMENTS, .type = GW_INT32
	};
	struct gw_coll *coll;

	CHECK(!open_comm(own));
	CHECK(exact(own, &shapes[1], ELEMENTS, false, GW_ALGORITHM_AUTO));
	if (own->rank == 2) {
		/* Most often the others wait by then. */
		usleep(100000);
		CHECK(!gw_comm_abort(own->comm, "the loss is not a number"));
		for (int i = 0; i < 200 && atomic_load(&told) < 2; i++)
			gw_comm_wait(own->comm, SECOND / 10);
		CHECK(atomic_load(&told) == 2);
	} else {
		own->status = gw_allreduce(own->comm, &attr, &coll);
		if (!own->status) {
			own->status = gw_coll_wait(coll, 30 * SECOND);
			CHECK(gw_coll_test(coll, NULL) == 1);
		}
		atomic_fetch_add(&told, 1);
		snprintf(own->error, sizeof(own->error), "%s", gw_comm_error(own->comm));
	}
	gw_comm_close(own->comm);
	free(data);
	return NULL;
}

static void test_an_abort_reaches_all_threads(void **state)
{
	struct rank ranks[RANKS];

	(void)state;
	run(3, one_aborts, ranks);
	for (uint32_t r = 0; r < 2; r++) {
		assert_int_equal(ranks[r].status, -ECANCELED);
		assert_non_null(strstr(ranks[r].error, "rank 2 aborted: the loss is not a number"));
	}
}

static void test_bad_numbers_of_threads(void **state)
{
	struct gw_comm_attr attr = { .size = 1, .threads = GW_COMM_THREADS_MAX + 1 };
	struct gw_comm *comm;

	(void)state;
	assert_int_equal(gw_comm_open(&attr, &comm), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_operation_is_exact),
		cmocka_unit_test(test_several_in_flight),
		cmocka_unit_test(test_buffers_may_not_overlap),
		cmocka_unit_test(test_an_abort_reaches_all_threads),
		cmocka_unit_test(test_bad_numbers_of_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
