/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between contexts of a service: moved by the threads alone, by a thread that polls in their place, and by a
 * sleeping thread that has to notice what another posted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <godwit/channel.h>
#include <godwit/service.h>

#define PATIENCE_S 30

enum { SIZE = 300000, ROUNDS = 40 };

struct end {
	struct gw_channel *channel;
	struct gw_mr *mr;
	uint8_t *memory;
	/* the end of the operation under way */
	sem_t ended;
	atomic_int status;
	atomic_uint ends;
};

struct pair {
	struct gw_service *service;
	struct end ends[2];
};

static void pair_open(struct pair *pair)
{
	const struct gw_context_attr loopback = { .fabric = "roce:127.0.0.1@0", .max_qps = 64 };
	struct gw_service_attr attr = { .context = &loopback, .threads = 2 };
	struct gw_channel_info info[2];

	assert_int_equal(gw_service_open(&attr, &pair->service), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct gw_context *ctx = gw_service_context(pair->service, i);
		struct end *end = &pair->ends[i];

		end->memory = calloc(1, SIZE);
		assert_non_null(end->memory);
		assert_int_equal(sem_init(&end->ended, 0, 0), 0);
		assert_int_equal(gw_service_enter(pair->service, i), 0);
		assert_int_equal(gw_mr_register(ctx, end->memory, SIZE, &end->mr), 0);
		assert_int_equal(gw_channel_create(ctx, NULL, &end->channel), 0);
		assert_int_equal(gw_channel_info(end->channel, &info[i]), 0);
		assert_int_equal(gw_service_leave(pair->service, i), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(gw_service_enter(pair->service, i), 0);
		assert_int_equal(gw_channel_connect(pair->ends[i].channel, &info[1 - i]), 0);
		assert_int_equal(gw_service_leave(pair->service, i), 0);
	}
}

static void pair_close(struct pair *pair)
{
	assert_int_equal(gw_service_close(pair->service), 0);
	for (unsigned i = 0; i < 2; i++)
		free(pair->ends[i].memory);
}

static void done(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct end *end = arg;

	gw_op_close(op);
	atomic_store(&end->status, result->status);
	atomic_fetch_add(&end->ends, 1);
	sem_post(&end->ended);
}

/* Posts a send at end 0, a receive at end 1; no progress is made here. */
static void post(struct pair *pair, unsigned i)
{
	struct end *end = &pair->ends[i];
	struct gw_op_attr attr = {
		.addr = end->memory, .length = SIZE, .mr = end->mr, .done = done, .arg = end
	};
	struct gw_op *op;

	assert_int_equal(gw_service_enter(pair->service, i), 0);
	assert_int_equal(i ? gw_channel_recv(end->channel, &attr, &op)
			   : gw_channel_send(end->channel, &attr, &op),
			 0);
	assert_int_equal(gw_service_leave(pair->service, i), 0);
}

static void await(struct end *end)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	while (sem_timedwait(&end->ended, &until)) {
		if (errno != EINTR)
			fail_msg("a message did not end in %d s", PATIENCE_S);
	}
	assert_int_equal(atomic_load(&end->status), 0);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The threads sleep when something is posted, and nobody else makes progress. A thread that does not notice would send when
 * its next timer is due, some milliseconds later: forty times. */
static void test_threads_move_messages(void **state)
{
	unsigned slow = 0;
	struct pair pair = { 0 };

	pair_open(&pair);
	for (unsigned round = 0; round < ROUNDS; round++) {
		double start;

		memset(pair.ends[0].memory, (int)round + 1, SIZE);
		nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
		start = now_s();
		post(&pair, 1);
		post(&pair, 0);
		await(&pair.ends[0]);
		await(&pair.ends[1]);
		slow += now_s() - start > 0.05;
		assert_memory_equal(pair.ends[0].memory, pair.ends[1].memory, SIZE);
	}
	/* A busy machine may delay some. */
	if (slow > ROUNDS / 2)
		fail_msg("%u of %d messages took more than 50 ms", slow, ROUNDS);
	pair_close(&pair);
}

/* One thread polls both contexts. Most turns are its own. */
static void test_caller_makes_progress(void **state)
{
	struct pair pair = { 0 };
	unsigned turns = 0;

	pair_open(&pair);
	for (unsigned round = 0; round < ROUNDS; round++) {
		double limit = now_s() + PATIENCE_S;

		memset(pair.ends[0].memory, (int)round + 1, SIZE);
		post(&pair, 1);
		post(&pair, 0);
		while (atomic_load(&pair.ends[0].ends) <= round ||
		       atomic_load(&pair.ends[1].ends) <= round) {
			int work[2] = { gw_service_progress(pair.service, 0),
					gw_service_progress(pair.service, 1) };

			assert_true(work[0] >= 0 || work[0] == -EBUSY);
			turns += (work[0] > 0) + (work[1] > 0);
			assert_true(now_s() < limit);
		}
		assert_int_equal(atomic_load(&pair.ends[0].status), 0);
		assert_memory_equal(pair.ends[0].memory, pair.ends[1].memory, SIZE);
	}
	assert_true(turns > ROUNDS);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_move_messages),
		cmocka_unit_test(test_caller_makes_progress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
