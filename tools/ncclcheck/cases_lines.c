/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's low-latency protocols: the GPU does not wait for test(), it polls the memory. LL puts a flag of 4 bytes behind every 4
 * bytes of data; LL128 puts one of 8 bytes behind every 120. A flag that is there before its data hands stale data to the
 * application, and no error ever shows. A thread plays the GPU here: it looks at all lines again and again while messages
 * land. Loss and reordering on the path make the difference: run this between two hosts of `godwit lab`, too.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "case.h"

/* As in NCCL: steps of a connection's ring. */
#define STEPS	   8
#define STEP_BYTES ((size_t)256 << 10)
#define ROUNDS	   160
#define WORDS	   16 /* of a line of LL128, the flag included */

struct poller {
	struct worker *w;
	const struct area *area;
	bool wide;
	/* rounds that may be polled, and rounds that were seen whole */
	_Atomic uint32_t posted, seen;
};

/* Lines in the message of this round: a word of LL, 128 bytes of LL128. Most are short. */
static size_t lines_of(uint32_t round, bool wide)
{
	size_t most = STEP_BYTES / (wide ? WORDS * 8 : 8);
	struct rng rng;

	rng_seed(&rng, round);
	return 1 + rng_below(&rng, round % 4 ? most / 16 : most);
}

/* Data of one word. In LL it has 32 bits, and the flag is above them. */
static uint64_t word_of(uint32_t round, size_t index)
{
	return (round + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ index * UINT64_C(0xff51afd7ed558ccd);
}

static void write_lines(uint8_t *data, uint32_t round, bool wide)
{
	uint64_t *word = (uint64_t *)data;

	for (size_t line = 0; line < lines_of(round, wide); line++) {
		if (!wide) {
			*word++ = (word_of(round, line) & UINT32_MAX) | (uint64_t)(round + 1) << 32;
			continue;
		}
		for (size_t i = 0; i < WORDS - 1; i++)
			*word++ = word_of(round, line * WORDS + i);
		*word++ = round + 1;
	}
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* True if the line's flag is there; then its data has to be there, too. */
static bool line_ready(const struct poller *p, const uint64_t *words, uint32_t round, size_t line)
{
	uint64_t word;

	if (!p->wide) {
		word = load(&words[line]);
		if (word >> 32 != round + 1)
			return false;
		if ((word & UINT32_MAX) != (word_of(round, line) & UINT32_MAX))
			worker_fail(p->w,
				    "the flag of word %zu of message %u was there before its data",
				    line, round);
		return true;
	}
	if (load(&words[line * WORDS + WORDS - 1]) != round + 1)
		return false;
	for (size_t i = 0; i < WORDS - 1; i++) {
		if (load(&words[line * WORDS + i]) != word_of(round, line * WORDS + i))
			worker_fail(p->w,
				    "the flag of line %zu of message %u was there before its data",
				    line, round);
	}
	return true;
}

static void *poll_lines(void *arg)
{
	struct poller *p = arg;
	size_t most = STEP_BYTES / (p->wide ? WORDS * 8 : 8);
	uint8_t *ready = calloc(most, 1);

	for (uint32_t round = 0; ready && round < ROUNDS; round++) {
		const uint64_t *words =
			(const uint64_t *)(p->area->data + (round % STEPS) * STEP_BYTES);
		size_t count = lines_of(round, p->wide), left = count;

		while (atomic_load(&p->posted) <= round)
			sched_yield();
		memset(ready, 0, count);
		while (left) {
			for (size_t line = 0; line < count; line++) {
				if (!ready[line] && line_ready(p, words, round, line)) {
					ready[line] = 1;
					left--;
				}
			}
			if (left) {
				worker_alive(p->w);
				sched_yield();
			}
		}
		atomic_store(&p->seen, round + 1);
	}
	free(ready);
	return NULL;
}

static void receive_lines(struct worker *w, const struct pair *pair, const struct area *area,
			  bool wide)
{
	struct poller poller = { .w = w, .area = area, .wide = wide };
	void *request[STEPS] = { NULL };
	uint32_t ended = 0, posted = 0;
	pthread_t thread;

	if (pthread_create(&thread, NULL, poll_lines, &poller))
		worker_fail(w, "no thread");
	while (ended < ROUNDS) {
		int done = 0;

		/* A step is posted again when the "GPU" has read it and its request has ended. */
		if (posted < ROUNDS && posted < ended + STEPS &&
		    posted < atomic_load(&poller.seen) + STEPS) {
			request[posted % STEPS] = NULL;
			worker_check(w, "irecv",
				     net_irecv(&w->net, pair->receiver,
					       area->data + (posted % STEPS) * STEP_BYTES,
					       STEP_BYTES, area->receiver_handle,
					       &request[posted % STEPS]));
			if (request[posted % STEPS])
				atomic_store(&poller.posted, ++posted);
		}
		if (ended < posted) {
			worker_check(w, "test",
				     net_test(&w->net, request[ended % STEPS], &done, NULL));
			ended += done != 0;
		}
		if (!done) {
			worker_alive(w);
			sched_yield();
		}
	}
	pthread_join(thread, NULL);
	if (atomic_load(&poller.seen) != ROUNDS)
		worker_fail(w, "no memory");
}

static void send_lines(struct worker *w, const struct pair *pair, const struct area *area,
		       bool wide)
{
	void *request[STEPS] = { NULL };

	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint8_t *data = area->data + (round % STEPS) * STEP_BYTES;

		if (round >= STEPS)
			worker_wait(w, request[round % STEPS]);
		write_lines(data, round, wide);
		request[round % STEPS] = worker_send(w, pair->sender, data,
						     lines_of(round, wide) * (wide ? WORDS * 8 : 8),
						     area->sender_handle);
	}
	for (uint32_t round = ROUNDS - STEPS; round < ROUNDS; round++)
		worker_wait(w, request[round % STEPS]);
}

static void run_lines(struct worker *w, bool wide)
{
	struct pair pair;
	struct area area;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, wide ? "lines of LL128, polled while they land"
			    : "lines of LL, polled while they land");
	area_open(w, &pair, STEPS * STEP_BYTES, &area);
	if (w->rank == 0)
		receive_lines(w, &pair, &area, wide);
	else
		send_lines(w, &pair, &area, wide);
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
}

static void run_ll(struct worker *w)
{
	run_lines(w, false);
}

static void run_ll128(struct worker *w)
{
	run_lines(w, true);
}

const struct check_case cases_lines[] = {
	{ "ll", "flags of LL never arrive before their data", 2, 0, 30, run_ll },
	{ "ll128", "flags of LL128 never arrive before their data", 2, CASE_ONCE, 30, run_ll128 },
	{ 0 },
};
