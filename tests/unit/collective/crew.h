/* SPDX-License-Identifier: BSD-3-Clause */
/* crew.h: real processes, one for each rank, that meet over a hub and tell the test what they saw through shared memory. */
#ifndef TESTS_CREW_H
#define TESTS_CREW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "collective/hub.h"

#define MS	   UINT64_C(1000000)
#define CREW_RANKS 1024

/* What one process saw. */
struct member {
	pid_t pid;
	/* of hub_open() */
	int rc;
	char why[HUB_WHY];
	/* hub_open() has returned; the test's function has come to a point of its own */
	volatile bool open;
	volatile uint32_t point;
	/* letters from each of the first ranks, and in all */
	volatile uint32_t letters_from[16];
	volatile uint32_t letters;
	/* letters out of order, or with other bytes than were sent */
	volatile uint32_t wrong;
	/* ranks that were told to be lost, the last of them, and why */
	volatile uint32_t losses;
	volatile uint32_t lost;
	char lost_why[HUB_WHY];
	/* when that was told */
	uint64_t lost_ns;
	/* ranks that said goodbye, and the last of them */
	volatile uint32_t leavings;
	volatile uint32_t left;
	/* round-trip time that the mail tells */
	volatile uint64_t rtt_ns;
	/* whatever the test's function notes */
	volatile int note;
};

struct crew {
	uint16_t port;
	uint32_t size;
	uint64_t meet_ns;
	uint64_t peer_timeout_ns;
	const char *secret_file;
	/* shared by all processes; one more than ranks, for strangers */
	struct member *members;
	/* shared: tells the processes to go on */
	volatile uint32_t *stage;
};

/* What a process does between hub_open() and close(). */
typedef void crew_fn(struct crew *crew, uint32_t rank, struct mail *mail);

uint64_t crew_now(void);
void crew_sleep_ms(unsigned ms);

void crew_prepare(struct crew *crew, uint32_t size);
void crew_free(struct crew *crew);

/* Starts the process of a rank. With `fn` null it closes at once. */
void crew_start(struct crew *crew, uint32_t rank, crew_fn *fn);
/* The same for a process that says it is another rank, of another size, or has another secret; it is noted at `slot`. */
void crew_start_as(struct crew *crew, uint32_t slot, uint32_t rank, uint32_t size,
		   const char *secret_file, crew_fn *fn);

/* Waits for a process to end; fails unless it does so by itself with status 0, or with this signal. */
void crew_join(struct crew *crew, uint32_t slot, int signal);

/* In a process: makes progress until the condition or for 20 s, which fails. */
#define CREW_UNTIL(mail, condition)                                                                \
	do {                                                                                       \
		uint64_t until_ = crew_now() + 20000 * MS;                                         \
		while (!(condition)) {                                                             \
			crew_turn(mail);                                                           \
			if (crew_now() > until_) {                                                 \
				crew_complain(__FILE__, __LINE__, #condition);                     \
				break;                                                             \
			}                                                                          \
		}                                                                                  \
	} while (0)
/* In the test: waits for a condition on shared memory. */
#define CREW_AWAIT(condition)                                                                      \
	do {                                                                                       \
		uint64_t until_ = crew_now() + 20000 * MS;                                         \
		while (!(condition) && crew_now() < until_)                                        \
			crew_sleep_ms(2);                                                          \
		assert_true(condition);                                                            \
	} while (0)

/* In a process: sleeps a little on the mail's descriptor, then makes progress. Returns what progress did. */
int crew_turn(struct mail *mail);
void crew_complain(const char *file, int line, const char *condition);

/* In a process: posts a numbered letter, which the receiver checks. Returns what send does. */
int crew_send(struct mail *mail, uint32_t to, uint32_t number, size_t length);

#endif
