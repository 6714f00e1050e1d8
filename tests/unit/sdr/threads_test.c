/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several threads on one queue pair, as the benchmark published with SDR has it; a library that is asleep when it is called;
 * and one that is called in a loop.
 */
#include "duo.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, MESSAGES = 40, SIZE = 5000 };

static void *post_many(void *arg)
{
	struct duo *duo = arg;

	for (uint32_t i = 0; i < MESSAGES; i++)
		duo_sent(duo_send(duo, 0, SIZE, 0));
	return NULL;
}

static void test_many_senders(void **state)
{
	pthread_t threads[THREADS];
	struct duo duo;

	duo_open(&duo, NULL);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, post_many, &duo), 0);
	for (int i = 0; i < THREADS * MESSAGES; i++) {
		struct sdr_recv_handle *recv = duo_recv(&duo, 0, SIZE);
		uint8_t *bitmap;
		size_t chunks;

		assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
		duo_until(duo_chunks(bitmap, chunks) == chunks);
		assert_memory_equal(duo.memory[1], duo.memory[0], SIZE);
		assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	duo_close(&duo);
}

/* The service thread does not own the context while it sleeps: a call waits for nobody. */
static void test_calls_pass_the_sleeper(void **state)
{
	enum { CALLS = 100 };
	struct sdr_recv_handle *recv;
	unsigned slow = 0;
	double start;
	struct duo duo;

	duo_open(&duo, NULL);
	recv = duo_recv(&duo, 0, SIZE);
	for (int i = 0; i < CALLS; i++) {
		uint8_t *bitmap;
		size_t chunks;

		duo_nap();
		start = duo_now();
		assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
		slow += duo_now() - start > 0.005;
	}
	/* A busy machine may delay some. */
	if (slow > CALLS / 2)
		fail_msg("%u of %d calls took more than 5 ms", slow, CALLS);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

static double cpu_seconds(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* A program that polls in a loop makes progress itself: the service thread is neither woken by each call nor polls, too. */
static void test_polling_needs_no_service(void **state)
{
	struct sdr_recv_handle *recv;
	double limit, own, others;
	uint8_t *bitmap;
	struct duo duo;
	size_t chunks;

	duo_open(&duo, NULL);
	recv = duo_recv(&duo, 0, SIZE);
	own = -cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
	others = -cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (limit = duo_now() + 0.3; duo_now() < limit;)
		assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
	own += cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
	others += cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - own;
	if (others > own / 3)
		fail_msg("others took %.3f s of CPU time while polling took %.3f s", others, own);
	/* The service thread is back when the calls end. */
	duo_send(&duo, 0, SIZE, 0);
	duo_until(duo_chunks(bitmap, chunks) == chunks);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_senders),
		cmocka_unit_test(test_calls_pass_the_sleeper),
		cmocka_unit_test(test_polling_needs_no_service),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
