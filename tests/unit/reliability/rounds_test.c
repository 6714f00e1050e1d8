/* SPDX-License-Identifier: BSD-3-Clause */
/* The stretches of a message in which holes were named: each with its clock, never with a gap between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reliability/rounds.h"

#define ANSWER_NS 1000u

static void stretches_have_their_own_clocks(void **state)
{
	struct rounds rounds = { 0 };

	(void)state;
	rounds_extend(&rounds, 10);
	assert_int_equal(rounds_end(&rounds), 10);
	rounds_add(&rounds, 20, 1, 5000, 100);
	rounds_add(&rounds, 30, 2, 5099, 100); /* soon enough to join */
	rounds_add(&rounds, 40, 3, 5200, 100);
	rounds_extend(&rounds, 50);
	assert_int_equal(rounds.count, 2);
	assert_int_equal(round_start(&rounds, 0), 10);
	assert_int_equal(round_start(&rounds, 1), 30);
	assert_int_equal(rounds_end(&rounds), 50);
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 0), 6000);
	assert_int_equal(round_ends(&rounds, 1, ANSWER_NS, 0), 6200);
	rounds_renew(&rounds, 0, 4, 6000);
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 0), 7000);
	assert_int_equal(round_ends(&rounds, 1, ANSWER_NS, 0), 6200);
}

static void answers(void **state)
{
	struct rounds rounds = { 0 };

	(void)state;
	rounds_add(&rounds, 20, UINT32_MAX, 5000, 0);
	rounds_add(&rounds, 30, 1, 5200, 0);
	assert_int_equal(rounds_took(&rounds, UINT32_MAX, 5900, 7), 900);
	assert_int_equal(rounds_took(&rounds, 5, 5900, 7), 7);
	/* Of the first round alone, though its number is larger: they wrap. */
	rounds_answered(&rounds, UINT32_MAX, 77, 5900, ANSWER_NS);
	assert_int_equal(rounds.list[0].position, 77);
	assert_int_equal(rounds.list[1].position, ROUND_UNANSWERED);
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 0), 6400);
	/* A later answer says nothing about what was answered before; one that came at once does not hurry. */
	rounds_answered(&rounds, 1, 99, 5210, ANSWER_NS);
	assert_int_equal(rounds.list[0].position, 77);
	assert_int_equal(rounds.list[1].position, 99);
	assert_int_equal(round_ends(&rounds, 1, ANSWER_NS, 0), 6200);
}

static void backing_off(void **state)
{
	struct rounds rounds = { 0 };

	(void)state;
	rounds_add(&rounds, 20, 1, 0, 0);
	rounds.tries[0] = 3;
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 0), 8 * ANSWER_NS);
	rounds.tries[0] = 200;
	assert_int_equal(round_ends(&rounds, 0, 500000000, 0), 1000000000);
	rounds_cheer(&rounds);
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 0), 2 * ANSWER_NS);
}

/* While packets come a clock does not start, for eight times as long. */
static void flowing(void **state)
{
	struct rounds rounds = { 0 };

	(void)state;
	rounds_add(&rounds, 20, 1, 1000, 0);
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 5000), 6000);
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 8500), 9000);
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 20000), 9000);
	rounds.tries[0] = 4;
	assert_int_equal(round_ends(&rounds, 0, ANSWER_NS, 20000), 17000);
}

static void the_nearest_become_one(void **state)
{
	struct rounds rounds = { 0 };

	(void)state;
	for (uint32_t i = 0; i < ROUNDS; i++)
		rounds_add(&rounds, 10 * (i + 1), i + 1, i == 5 ? 401 : 100 * i, 0);
	assert_int_equal(rounds.count, ROUNDS);
	rounds_answered(&rounds, 5, 1000, 500, ANSWER_NS);
	rounds.list[4].since_ns = 400;
	rounds_add(&rounds, 90, 9, 900, 0);
	assert_int_equal(rounds.count, ROUNDS);
	/* Those that ended at 50 and 60: the later clock, and not answered until both are. */
	assert_int_equal(rounds.list[4].below, 60);
	assert_int_equal(rounds.list[4].since_ns, 401);
	assert_int_equal(rounds.list[4].number, 6);
	assert_int_equal(rounds.list[4].position, ROUND_UNANSWERED);
	assert_int_equal(rounds.list[5].below, 70);
	assert_int_equal(rounds_end(&rounds), 90);
}

static void removal_leaves_no_gap(void **state)
{
	struct rounds rounds = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		rounds_add(&rounds, 10 * (i + 1), i + 1, 100 * i, 0);
	rounds_remove(&rounds, 1);
	assert_int_equal(rounds.list[0].below, 20);
	assert_int_equal(rounds.list[1].below, 30);
	rounds_remove(&rounds, 0);
	assert_int_equal(rounds.from, 20);
	rounds_remove(&rounds, 0);
	assert_int_equal(rounds.from, 30);
	assert_int_equal(rounds_end(&rounds), 30);
}

/* A stretch that took in one whose clock was set ahead: no answer took less than nothing. */
static void answer_before_its_clock(void **state)
{
	struct rounds rounds = { .count = 1 };

	(void)state;
	rounds.list[0] = (struct round){
		.since_ns = 5000, .position = ROUND_UNANSWERED, .below = 10, .number = 7
	};
	assert_int_equal(rounds_took(&rounds, 7, 4000, 123), 123);
	assert_int_equal(rounds_took(&rounds, 7, 5600, 123), 600);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(answer_before_its_clock),
		cmocka_unit_test(stretches_have_their_own_clocks),
		cmocka_unit_test(answers),
		cmocka_unit_test(backing_off),
		cmocka_unit_test(flowing),
		cmocka_unit_test(the_nearest_become_one),
		cmocka_unit_test(removal_leaves_no_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
