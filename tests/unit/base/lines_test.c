/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy in lines puts every byte where memcpy() does; and a reader never sees the end of a line before the rest of it. */
#include "base_test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/lines.h"
#include "base/rng.h"

#define ROOM   4096
#define COPIES 20000
#define LINES  64

static void test_same_as_memcpy(void **state)
{
	static _Alignas(LINE_BYTES) uint8_t from[ROOM], to[ROOM], wanted[ROOM];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 21);
	for (int i = 0; i < 20000; i++) {
		size_t length = rng_below(&rng, 700), at = rng_below(&rng, 300),
		       source = rng_below(&rng, 300);

		for (size_t j = 0; j < length; j++)
			from[source + j] = (uint8_t)rng_u64(&rng);
		memcpy(to, wanted, sizeof(to));
		memcpy(wanted + at, from + source, length);
		lines_copy(to + at, from + source, length);
		assert_memory_equal(to, wanted, ROOM);
	}
}

struct shared {
	_Alignas(LINE_BYTES) uint64_t word[LINES][LINE_BYTES / 8];
	_Atomic bool stop;
	/* lines whose last word was newer than another one */
	_Atomic unsigned torn;
};

/* Looks at the lines as the GPU does: the flag first, then the data. */
static void *reader(void *arg)
{
	struct shared *shared = arg;

	while (!atomic_load(&shared->stop)) {
		for (unsigned line = 0; line < LINES; line++) {
			uint64_t flag = __atomic_load_n(&shared->word[line][15], __ATOMIC_ACQUIRE);

			for (unsigned i = 0; i < 15; i++) {
				if (__atomic_load_n(&shared->word[line][i], __ATOMIC_ACQUIRE) <
				    flag)
					atomic_fetch_add(&shared->torn, 1);
			}
		}
	}
	return NULL;
}

static void test_flag_last(void **state)
{
	static struct shared shared;
	static uint64_t from[LINES * LINE_BYTES / 8];
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, reader, &shared), 0);
	for (uint64_t copy = 1; copy <= COPIES; copy++) {
		for (unsigned i = 0; i < LINES * 16; i++)
			from[i] = copy;
		lines_copy((uint8_t *)shared.word, (const uint8_t *)from, sizeof(from));
	}
	atomic_store(&shared.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&shared.torn), 0);
}

static uint8_t *page;
static size_t first_store;

/* The page was read-only: this is the first store to it. */
static void on_store(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	first_store = (size_t)((uint8_t *)info->si_addr - page);
	mprotect(page, ROOM, PROT_READ | PROT_WRITE);
}

static void test_data_first(void **state)
{
	struct sigaction action = { .sa_sigaction = on_store, .sa_flags = SA_SIGINFO }, before;
	static const uint8_t from[LINE_BYTES] = { 1 };

	(void)state;
	page = mmap(NULL, ROOM, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	first_store = ROOM;
	sigaction(SIGSEGV, &action, &before);
	lines_copy(page, from, sizeof(from));
	sigaction(SIGSEGV, &before, NULL);
	assert_in_range(first_store, 0, LINE_BYTES - LINE_FLAG - 1);
	munmap(page, ROOM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_as_memcpy),
		cmocka_unit_test(test_flag_last),
		cmocka_unit_test(test_data_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
