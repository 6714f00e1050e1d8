/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that serves a communicator, and another that wakes it. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include <godwit/collective.h>

#define SECOND UINT64_C(1000000000)
#define WAKES  200

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static struct gw_comm *open_alone(void)
{
	struct gw_comm_attr attr = { .size = 1 };
	struct gw_comm *comm;

	assert_int_equal(gw_comm_open(&attr, &comm), 0);
	return comm;
}

static void *wake_later(void *comm)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	assert_int_equal(gw_comm_wake(comm), 0);
	return NULL;
}

static void test_wake_ends_a_sleep(void **state)
{
	struct gw_comm *comm = open_alone();
	uint64_t start = clock_ns();
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wake_later, comm), 0);
	assert_int_equal(gw_comm_serve(comm, 20 * SECOND), 0);
	assert_true(clock_ns() - start < 10 * SECOND);
	pthread_join(thread, NULL);
	gw_comm_close(comm);
}

static void test_a_wake_is_kept_once(void **state)
{
	struct gw_comm *comm = open_alone();

	(void)state;
	assert_int_equal(gw_comm_wake(comm), 0);
	assert_int_equal(gw_comm_wake(comm), 0);
	assert_int_equal(gw_comm_serve(comm, 20 * SECOND), 0);
	assert_int_equal(gw_comm_serve(comm, SECOND / 100), -ETIMEDOUT);
	assert_int_equal(gw_comm_serve(NULL, 0), -EINVAL);
	assert_int_equal(gw_comm_wake(NULL), -EINVAL);
	gw_comm_close(comm);
}

struct queue {
	struct gw_comm *comm;
	pthread_mutex_t lock;
	unsigned waiting;
};

static void *fill(void *arg)
{
	struct queue *queue = arg;

	for (int i = 0; i < WAKES; i++) {
		pthread_mutex_lock(&queue->lock);
		queue->waiting++;
		pthread_mutex_unlock(&queue->lock);
		gw_comm_wake(queue->comm);
	}
	return NULL;
}

/* What two threads have put into a queue before a wake is found after it. */
static void test_no_wake_is_lost(void **state)
{
	struct queue queue = { .comm = open_alone(), .lock = PTHREAD_MUTEX_INITIALIZER };
	unsigned taken = 0;
	pthread_t threads[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fill, &queue), 0);
	while (taken < 2 * WAKES) {
		assert_int_equal(gw_comm_serve(queue.comm, 20 * SECOND), 0);
		pthread_mutex_lock(&queue.lock);
		taken += queue.waiting;
		queue.waiting = 0;
		pthread_mutex_unlock(&queue.lock);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	gw_comm_close(queue.comm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wake_ends_a_sleep),
		cmocka_unit_test(test_a_wake_is_kept_once),
		cmocka_unit_test(test_no_wake_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
