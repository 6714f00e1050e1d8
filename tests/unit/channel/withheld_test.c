/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small messages into large receives, as NCCL has them: on a short path the receives soon post nothing for a large message, so that
 * none has to be given back, and the next large message waits for a round trip at most. On a long path they go on posting.
 */
#include <string.h>

#include "base/rng.h"
#include "two.h"

#define SMALL	 1000u
#define LARGE	 300000u
#define NEAR_NS	 (50 * US)
#define FAR_NS	 (5 * MS)
#define MESSAGES 40
/* Small messages after which nothing is posted, and receives that are posted by then. */
#define FIRST 16
#define SEEDS 150
#define DRAWN 300

struct job {
	struct two two;
	struct act send[MESSAGES], recv[MESSAGES];
};

static void job_open(struct job *job, uint64_t delay_ns)
{
	struct two_attr attr = { .link = { .rate_bps = 10000000000, .delay_ns = delay_ns } };

	memset(job, 0, sizeof(*job));
	two_open(&job->two, &attr);
}

static uint64_t skips(struct job *job)
{
	struct gw_channel_stats stats;

	assert_int_equal(gw_channel_stats(job->two.channel[0], &stats), 0);
	return stats.skips;
}

/* One message of each length in `bytes`, one after the other; each receive is posted `lead_ns` before its send. */
static uint64_t one(struct job *job, uint64_t bytes, uint64_t lead_ns)
{
	uint64_t begin;

	act_recv(&job->two, 1, LARGE, &job->recv[0]);
	two_run(&job->two, lead_ns);
	begin = two_now(&job->two);
	act_send(&job->two, 0, bytes, bytes, &job->send[0]);
	two_until(&job->two, S, job->recv[0].ended && job->send[0].ended);
	begin = job->recv[0].at - begin;
	act_check(&job->send[0], 0);
	act_check_bytes(&job->recv[0], bytes, bytes);
	return begin;
}

static void small_ones_cost_no_grants(void **state)
{
	uint64_t before, took_ns;
	struct job job;

	(void)state;
	job_open(&job, NEAR_NS);
	for (int i = 0; i < FIRST; i++)
		one(&job, SMALL, NEAR_NS);
	before = skips(&job);
	assert_true(before > 0);
	for (int i = 0; i < MESSAGES; i++)
		one(&job, SMALL, NEAR_NS);
	assert_int_equal(skips(&job), before);
	/* A question there, a grant back, the message: and the next one finds its receive posted. */
	took_ns = one(&job, LARGE, NEAR_NS);
	print_message("the first large one: %.0f us\n", (double)took_ns / (double)US);
	assert_true(took_ns < 10 * NEAR_NS + LARGE);
	took_ns = one(&job, LARGE, 4 * NEAR_NS);
	print_message("the second: %.0f us\n", (double)took_ns / (double)US);
	assert_true(took_ns < 2 * NEAR_NS + LARGE);
	two_close(&job.two);
}

/* The question comes before the receive: that is granted when it is posted, whatever was small meanwhile. */
static void asked_before_it_is_posted(void **state)
{
	struct job job;
	uint64_t begin;

	(void)state;
	job_open(&job, NEAR_NS);
	for (int i = 0; i < FIRST; i++)
		one(&job, SMALL, NEAR_NS);
	for (int i = 0; i < MESSAGES; i++)
		act_send(&job.two, 0, i == MESSAGES - 1 ? LARGE : SMALL, (uint64_t)i, &job.send[i]);
	two_run(&job.two, 20 * NEAR_NS);
	begin = two_now(&job.two);
	for (int i = 0; i < MESSAGES; i++)
		act_recv(&job.two, 1, LARGE, &job.recv[i]);
	for (int i = 0; i < MESSAGES; i++) {
		two_until(&job.two, S, job.recv[i].ended && job.send[i].ended);
		act_check(&job.send[i], 0);
		act_check_bytes(&job.recv[i], i == MESSAGES - 1 ? LARGE : SMALL, (uint64_t)i);
	}
	assert_true(two_now(&job.two) - begin < 20 * NEAR_NS + LARGE);
	two_close(&job.two);
}

/* A large message whose bytes come after many small ones behind it does not lose its turn, nor do others. */
static void in_any_order(void **state)
{
	struct job job;
	uint64_t begin;

	(void)state;
	job_open(&job, NEAR_NS);
	for (int i = 0; i < FIRST; i++)
		one(&job, SMALL, NEAR_NS);
	for (int i = 0; i < MESSAGES; i++)
		act_recv(&job.two, 1, LARGE, &job.recv[i]);
	begin = two_now(&job.two);
	for (int i = 0; i < MESSAGES; i++)
		act_send(&job.two, 0, i % 10 == 1 || i % 10 == 2 ? LARGE : SMALL, (uint64_t)i,
			 &job.send[i]);
	for (int i = 0; i < MESSAGES; i++) {
		two_until(&job.two, S, job.recv[i].ended && job.send[i].ended);
		act_check(&job.send[i], 0);
		act_check_bytes(&job.recv[i], i % 10 == 1 || i % 10 == 2 ? LARGE : SMALL,
				(uint64_t)i);
	}
	assert_true(two_now(&job.two) - begin < 40 * NEAR_NS + MESSAGES / 5 * LARGE);
	two_close(&job.two);
}

/* Runs of small and large messages of any length, receives before and after their sends, paths with and without losses. */
static void random_run(uint64_t seed)
{
	struct rng rng = { 0 };
	struct two_attr attr = { .link = { .rate_bps = 10000000000 }, .seed = seed };
	uint64_t length[DRAWN], sum = 0, begin, took_ns;
	unsigned sent = 0, received = 0, done = 0, left = 0;
	struct job job;
	bool large = false;

	rng_seed(&rng, seed);
	attr.link.delay_ns = US + rng_below(&rng, 400 * US);
	attr.link.loss = seed % 2 ? 0 : (double)rng_below(&rng, 30) / 1000;
	memset(&job, 0, sizeof(job));
	two_open(&job.two, &attr);
	begin = two_now(&job.two);
	for (unsigned i = 0; i < DRAWN; i++, left--) {
		if (!left) {
			left = 1 + (unsigned)rng_below(&rng, 30);
			large = !large;
		}
		length[i] = large ? 1 + rng_below(&rng, LARGE) : rng_below(&rng, SMALL);
		sum += length[i];
	}
	while (done < DRAWN) {
		uint64_t next = rng_below(&rng, 3);

		if (next == 0 && sent < DRAWN && sent - done < MESSAGES / 2) {
			act_send(&job.two, 0, length[sent], sent, &job.send[sent % MESSAGES]);
			sent++;
		} else if (next == 1 && received < DRAWN && received - done < MESSAGES / 2) {
			act_recv(&job.two, 1, LARGE, &job.recv[received % MESSAGES]);
			received++;
		} else if (done < sent && done < received) {
			struct act *send = &job.send[done % MESSAGES],
				   *recv = &job.recv[done % MESSAGES];

			two_until(&job.two, 2 * S, recv->ended && send->ended);
			act_check(send, 0);
			act_check_bytes(recv, length[done], done);
			done++;
		}
	}
	took_ns = two_now(&job.two) - begin;
	/* A question's timer is 100 ms. */
	if (attr.link.loss == 0 && took_ns > DRAWN / 2 * attr.link.delay_ns + 2 * sum + 50 * MS) {
		print_error("seed %llu: %.1f ms\n", (unsigned long long)seed,
			    (double)took_ns / (double)MS);
		fail();
	}
	two_close(&job.two);
}

static void at_random(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		random_run(seed);
}

static void receives_on_a_long_path_are_posted(void **state)
{
	struct job job;
	uint64_t before;

	(void)state;
	job_open(&job, FAR_NS);
	for (int i = 0; i < FIRST; i++)
		one(&job, SMALL, 2 * FAR_NS);
	before = skips(&job);
	for (int i = 0; i < MESSAGES; i++)
		one(&job, SMALL, 2 * FAR_NS);
	assert_true(skips(&job) >= before + MESSAGES);
	two_close(&job.two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_ones_cost_no_grants),
		cmocka_unit_test(asked_before_it_is_posted),
		cmocka_unit_test(in_any_order),
		cmocka_unit_test(at_random),
		cmocka_unit_test(receives_on_a_long_path_are_posted),
	};

	return cmocka_run_group_tests_name("channel-withheld", tests, NULL, NULL);
}
