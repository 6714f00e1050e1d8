/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss detection: the stretches of a message in which holes were named, each with its clock, never with a gap between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reliability/loss_detection.h"

#define ANSWER_NS 1000u

/* Holes in what is new below `below` are named at `now` in `round`; 0: there are none. */
static void name_new(struct loss_detection *loss, uint32_t below, uint32_t round, uint64_t now)
{
	struct loss_range range;

	loss_time(loss, now, ANSWER_NS);
	assert_true(loss_next(loss, below, &range));
	assert_int_equal(range.stretch, STRETCHES);
	assert_int_equal(range.below, below);
	loss_named(loss, &range, round);
}

/* A stretch is due and is named again; 0: it has no holes any more. */
static void name_again(struct loss_detection *loss, uint32_t index, uint32_t round)
{
	struct loss_range range;

	assert_true(loss_next(loss, 0, &range));
	assert_int_equal(range.stretch, index);
	assert_int_equal(range.from, loss_start(loss, index));
	assert_int_equal(range.below, loss->list[index].below);
	loss_named(loss, &range, round);
}

static void none_is_due(const struct loss_detection *loss)
{
	struct loss_range range;

	assert_false(loss_next(loss, loss_end(loss), &range));
}

/* The clock of the stretch that ends its wait first. */
static void next_clock_is(const struct loss_detection *loss, uint64_t expected)
{
	uint64_t at, position;

	loss_wait(loss, &at, &position);
	assert_int_equal(at, expected);
}

static void stretches_have_their_own_clocks(void **state)
{
	struct loss_detection loss = { 0 };

	(void)state;
	next_clock_is(&loss, 0);
	name_new(&loss, 10, 0, 4000);
	assert_int_equal(loss_end(&loss), 10);
	name_new(&loss, 20, 1, 5000);
	/* Soon enough to join: within an eighth of an answer. */
	name_new(&loss, 30, 2, 5099);
	name_new(&loss, 40, 3, 5200);
	name_new(&loss, 50, 0, 5300);
	assert_int_equal(loss.count, 2);
	assert_int_equal(loss_start(&loss, 0), 10);
	assert_int_equal(loss_start(&loss, 1), 30);
	assert_int_equal(loss_end(&loss), 50);
	next_clock_is(&loss, 6000);
	loss_time(&loss, 6000, ANSWER_NS);
	loss_overdue(&loss);
	name_again(&loss, 0, 4);
	none_is_due(&loss);
	next_clock_is(&loss, 6200);
	loss_time(&loss, 6200, ANSWER_NS);
	loss_overdue(&loss);
	name_again(&loss, 1, 5);
	none_is_due(&loss);
	/* Each has waited once in vain and waits twice as long. */
	next_clock_is(&loss, 8000);
}

static void answers(void **state)
{
	struct loss_detection loss = { 0 };
	uint64_t at, position;

	(void)state;
	name_new(&loss, 20, UINT32_MAX, 5000);
	name_new(&loss, 30, 1, 5200);
	loss_wait(&loss, &at, &position);
	assert_int_equal(position, UINT64_MAX);
	/* Of the first round alone, though its number is larger: they wrap. */
	loss_time(&loss, 5900, ANSWER_NS);
	loss_answered(&loss, UINT32_MAX, 77);
	assert_int_equal(loss.took_ns, 900);
	assert_int_equal(loss.list[0].position, 77);
	assert_int_equal(loss.list[1].position, LOSS_UNANSWERED);
	/* An answer's time is 1012 now, an eighth more than this one took. */
	next_clock_is(&loss, 5200 + 1012);
	/* A later answer says nothing about what was answered before; one that came at once does not hurry. */
	loss_time(&loss, 5210, ANSWER_NS);
	loss_answered(&loss, 1, 99);
	assert_int_equal(loss.list[0].position, 77);
	assert_int_equal(loss.list[1].position, 99);
	assert_int_equal(loss.took_ns, 10);
	assert_int_equal(loss.list[1].since_ns, 5700);
	loss_wait(&loss, &at, &position);
	assert_int_equal(at, 6200);
	assert_int_equal(position, 77);
	/* The first pass passes where the first one was answered: its repeats were lost. */
	loss_passed(&loss, 76);
	none_is_due(&loss);
	loss_passed(&loss, 77);
	name_again(&loss, 0, 2);
	none_is_due(&loss);
	assert_int_equal(loss.list[0].position, LOSS_UNANSWERED);
	assert_int_equal(loss.tries[0], 0);
}

/* The sender asks: what it answered and what was asked for long ago is named again, what may be under way is not. */
static void the_sender_asks(void **state)
{
	struct loss_detection loss = { 0 };

	(void)state;
	name_new(&loss, 10, 1, 1000);
	name_new(&loss, 20, 2, 1500);
	name_new(&loss, 30, 3, 2500);
	loss_time(&loss, 2500, ANSWER_NS);
	loss_tail(&loss, 1, false);
	assert_true(loss.tail);
	name_again(&loss, 0, 4);
	name_again(&loss, 1, 5);
	none_is_due(&loss);
	loss_tail(&loss, 0, true);
	name_again(&loss, 0, 6);
	name_again(&loss, 1, 0);
	name_again(&loss, 1, 7);
	none_is_due(&loss);
	assert_int_equal(loss.list[0].below, 20);
	assert_int_equal(loss.list[1].below, 30);
}

static void backing_off(void **state)
{
	struct loss_detection loss = { 0 };

	(void)state;
	name_new(&loss, 20, 1, 0);
	for (uint32_t i = 0; i < 3; i++) {
		loss_time(&loss, 0, 0);
		loss_overdue(&loss);
		name_again(&loss, 0, i + 2);
	}
	loss_time(&loss, 0, ANSWER_NS);
	next_clock_is(&loss, 8 * ANSWER_NS);
	loss.tries[0] = 200;
	loss_time(&loss, 0, 500000000);
	next_clock_is(&loss, 1000000000);
	loss_landed(&loss);
	loss_time(&loss, 0, ANSWER_NS);
	next_clock_is(&loss, 2 * ANSWER_NS);
	/* The sender's question proves that it is there. */
	loss_tail(&loss, 4, false);
	name_again(&loss, 0, 9);
	next_clock_is(&loss, ANSWER_NS);
}

/* While packets come a clock does not start, for eight times as long. */
static void flowing(void **state)
{
	struct loss_detection loss = { 0 };

	(void)state;
	name_new(&loss, 20, 1, 1000);
	loss_time(&loss, 5000, ANSWER_NS);
	loss_passed(&loss, 30);
	next_clock_is(&loss, 6000);
	loss_time(&loss, 5500, ANSWER_NS);
	/* It has not moved. */
	loss_passed(&loss, 30);
	next_clock_is(&loss, 6000);
	loss.flowed_ns = 8500;
	next_clock_is(&loss, 9000);
	loss.flowed_ns = 20000;
	next_clock_is(&loss, 9000);
	loss.tries[0] = 4;
	next_clock_is(&loss, 17000);
}

static void the_nearest_become_one(void **state)
{
	struct loss_detection loss = { 0 };

	(void)state;
	for (uint32_t i = 0; i < STRETCHES; i++)
		name_new(&loss, 10 * (i + 1), i + 1, i == 5 ? 40001 : 10000 * i);
	assert_int_equal(loss.count, STRETCHES - 1);
	name_new(&loss, 90, 9, 90000);
	assert_int_equal(loss.count, STRETCHES);
	loss_time(&loss, 90000, ANSWER_NS);
	loss_answered(&loss, 4, 1000);
	loss.list[4].since_ns = 39000;
	loss.list[3].since_ns = 38000;
	name_new(&loss, 100, 10, 100000);
	assert_int_equal(loss.count, STRETCHES);
	/* Those that ended at 40 and 60: the later clock, and not answered until both are. */
	assert_int_equal(loss.list[3].below, 60);
	assert_int_equal(loss.list[3].since_ns, 39000);
	assert_int_equal(loss.list[3].round, 6);
	assert_int_equal(loss.list[3].position, LOSS_UNANSWERED);
	assert_int_equal(loss.list[4].below, 70);
	assert_int_equal(loss_end(&loss), 100);
}

/* The first of two was named again, in a later round than the second and after a clock ran out: the answer to the second's round is
 * none for both, and the wait is that of the one that waited less often in vain. */
static void one_of_both_was_named_later(void **state)
{
	struct loss_detection loss = { 0 };
	uint32_t below = 10;

	(void)state;
	name_new(&loss, below, 1, 1000);
	for (uint32_t i = 1; i < STRETCHES; i++)
		name_new(&loss, below += 10, 1 + i, 1000 + 200 * i);
	assert_int_equal(loss.count, STRETCHES);
	/* The first is overdue, and is named again when the second was named too. */
	loss_time(&loss, 2000, ANSWER_NS);
	loss_overdue(&loss);
	name_again(&loss, 0, 20);
	loss.list[1].since_ns = 1999;
	loss.tries[1] = 3;
	assert_int_equal(loss.tries[0], 1);
	name_new(&loss, below += 10, 21, 4000);
	assert_int_equal(loss.count, STRETCHES);
	assert_int_equal(loss.list[0].below, 20);
	assert_int_equal(loss.list[0].since_ns, 2000);
	assert_int_equal(loss.list[0].round, 20);
	assert_int_equal(loss.tries[0], 1);
	loss_answered(&loss, 2, 100);
	assert_int_equal(loss.list[0].position, LOSS_UNANSWERED);
	loss_answered(&loss, 20, 100);
	assert_int_equal(loss.list[0].position, 100);
}

static void removal_leaves_no_gap(void **state)
{
	struct loss_detection loss = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		name_new(&loss, 10 * (i + 1), i + 1, 1000 * i);
	loss_named(&loss, &(struct loss_range){ .stretch = 1 }, 0);
	assert_int_equal(loss.list[0].below, 20);
	assert_int_equal(loss.list[1].below, 30);
	loss_named(&loss, &(struct loss_range){ .stretch = 0 }, 0);
	assert_int_equal(loss.from, 20);
	loss_named(&loss, &(struct loss_range){ .stretch = 0 }, 0);
	assert_int_equal(loss.from, 30);
	assert_int_equal(loss_end(&loss), 30);
}

/* A stretch that took in one whose clock was set ahead: no answer took less than nothing. */
static void answer_before_its_clock(void **state)
{
	struct loss_detection loss = { .count = 1, .took_ns = 123 };

	(void)state;
	loss.list[0] = (struct stretch){
		.since_ns = 5000, .position = LOSS_UNANSWERED, .below = 10, .round = 7
	};
	loss_time(&loss, 4000, ANSWER_NS);
	loss_answered(&loss, 7, 50);
	assert_int_equal(loss.took_ns, 123);
}

/* An answer that comes twice, or late once more, took as long as it did the first time. */
static void an_answer_is_measured_once(void **state)
{
	struct loss_detection loss = { 0 };

	(void)state;
	name_new(&loss, 10, 1, 5000);
	loss_time(&loss, 5700, ANSWER_NS);
	loss_answered(&loss, 1, 50);
	assert_int_equal(loss.took_ns, 700);
	loss_time(&loss, 20000, ANSWER_NS);
	loss_answered(&loss, 1, 50);
	assert_int_equal(loss.took_ns, 700);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(answer_before_its_clock),
		cmocka_unit_test(an_answer_is_measured_once),
		cmocka_unit_test(stretches_have_their_own_clocks),
		cmocka_unit_test(answers),
		cmocka_unit_test(the_sender_asks),
		cmocka_unit_test(backing_off),
		cmocka_unit_test(flowing),
		cmocka_unit_test(the_nearest_become_one),
		cmocka_unit_test(one_of_both_was_named_later),
		cmocka_unit_test(removal_leaves_no_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
