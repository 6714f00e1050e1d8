/* SPDX-License-Identifier: BSD-3-Clause */
/* Letters between ranks: all arrive, in order, whoever is slow; and goodbyes. Every rank is a process. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "crew.h"

enum { SIZE = 6, ROUNDS = 200 };

static void start_all(struct crew *crew, crew_fn *fn)
{
	for (uint32_t rank = 0; rank < crew->size; rank++)
		crew_start(crew, rank, fn);
}

static void join_all(struct crew *crew)
{
	for (uint32_t rank = 0; rank < crew->size; rank++) {
		crew_join(crew, rank, 0);
		assert_int_equal(crew->members[rank].rc, 0);
		assert_int_equal(crew->members[rank].wrong, 0);
		assert_int_equal(crew->members[rank].losses, 0);
	}
}

/* Posts a letter, and makes progress where there is no room. */
static void post(struct mail *mail, uint32_t to, uint32_t number, size_t length)
{
	int rc;

	CREW_UNTIL(mail, (rc = crew_send(mail, to, number, length)) != -ENOBUFS);
	if (rc)
		crew_complain(__FILE__, __LINE__, "send");
}

/* Numbers count within the letters from one rank to another: all that one rank posts go to everybody. */
static void write_to_everybody(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		if (i % 3 == 0) {
			post(mail, MAIL_ALL, i, 4 + i * 7 % (MAIL_MAX - 3));
			continue;
		}
		for (uint32_t to = 0; to < crew->size; to++) {
			if (to != rank)
				post(mail, to, i, i % 3 == 1 ? MAIL_MAX : 4);
		}
	}
	CREW_UNTIL(mail, self->letters == ROUNDS * (crew->size - 1));
	self->point = 1;
	/* nobody leaves while others wait */
	CREW_UNTIL(mail, *crew->stage == 1);
}

static void test_everybody_writes_to_everybody(void **state)
{
	struct crew crew;

	crew_prepare(&crew, SIZE);
	start_all(&crew, write_to_everybody);
	for (uint32_t rank = 0; rank < SIZE; rank++)
		CREW_AWAIT(crew.members[rank].point == 1);
	*crew.stage = 1;
	join_all(&crew);
	for (uint32_t rank = 0; rank < SIZE; rank++) {
		for (uint32_t from = 0; from < SIZE; from++)
			assert_int_equal(crew.members[rank].letters_from[from],
					 from == rank ? 0 : ROUNDS);
	}
	crew_free(&crew);
}

static void test_bad_letters(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];

	self->note += crew_send(mail, 1 - rank, 0, MAIL_MAX + 1) != -EMSGSIZE;
	self->note += crew_send(mail, rank, 0, 4) != -EINVAL;
	self->note += crew_send(mail, 2, 0, 4) != -EINVAL;
	/* an empty letter: the stream has number 0 */
	self->note += mail->ops->send(mail, 1 - rank, NULL, 0) != 0;
	CREW_UNTIL(mail, self->letters == 1);
}

static void test_letters_are_checked(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 2);
	start_all(&crew, test_bad_letters);
	join_all(&crew);
	assert_int_equal(crew.members[0].note, 0);
	assert_int_equal(crew.members[1].note, 0);
	crew_free(&crew);
}

/* What was posted right before close() arrives, from ranks and from rank 0. */
static void write_and_leave(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];

	if (rank == 1 || rank == 0) {
		for (uint32_t i = 0; i < 20; i++)
			post(mail, MAIL_ALL, i, 1000);
		return;
	}
	CREW_UNTIL(mail, self->letters == 40);
	crew_turn(mail);
}

static void test_letters_arrive_after_a_goodbye(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 4);
	start_all(&crew, write_and_leave);
	join_all(&crew);
	crew_free(&crew);
}

/* Rank 0 leaves first: no rank is lost, and the mail has ended. */
static void let_rank_0_leave(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];

	if (rank == 0)
		return;
	CREW_UNTIL(mail, crew_send(mail, 0, 0, 4) == -EPIPE);
	self->note = mail->ops->progress(mail, crew_now());
}

static void test_rank_0_leaves_first(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 4);
	start_all(&crew, let_rank_0_leave);
	join_all(&crew);
	for (uint32_t rank = 1; rank < 4; rank++)
		assert_int_equal(crew.members[rank].note, 0);
	crew_free(&crew);
}

/* Rank 2 does not read at all. Rank 1 writes to it until there is no room; 0 and 3 go on; and then all of it arrives. */
static void write_to_one_that_is_busy(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];
	uint32_t count = 0;

	switch (rank) {
	case 1:
		for (uint64_t end = crew_now() + 1000 * MS; crew_now() < end;) {
			if (crew_send(mail, 2, count, 1000) == 0)
				count++;
			else
				crew_turn(mail);
		}
		self->note = (int)count;
		self->point = 1;
		break;
	case 2:
		while (*crew->stage == 0)
			crew_sleep_ms(10);
		CREW_UNTIL(mail, self->letters == (uint32_t)crew->members[1].note);
		self->point = 1;
		break;
	default:
		CREW_UNTIL(mail, crew->members[1].point == 1);
		for (uint32_t i = 0; i < 1000; i++)
			post(mail, 3 - rank, i, 1000);
		CREW_UNTIL(mail, self->letters == 1000);
		self->point = 1;
	}
	CREW_UNTIL(mail, *crew->stage == 2);
}

static void test_one_that_does_not_read_holds_up_nobody_else(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 4);
	/* shorter than rank 2 does not read: silence is not judged by that */
	crew.peer_timeout_ns = 1000 * MS;
	start_all(&crew, write_to_one_that_is_busy);
	CREW_AWAIT(crew.members[0].point == 1 && crew.members[3].point == 1);
	crew_sleep_ms(3000);
	*crew.stage = 1;
	CREW_AWAIT(crew.members[2].point == 1);
	*crew.stage = 2;
	join_all(&crew);
	/* It was stopped by the limits of its own queue and of its custody, not by those of TCP. */
	assert_in_range(crew.members[1].note, 300, 700);
	crew_free(&crew);
}

/* Rank 0 does not read: the ranks write to it, and to each other, until there is no room. Nobody is lost. */
static void write_to_rank_0_that_is_busy(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];
	uint32_t count = 0;

	if (rank == 0) {
		while (*crew->stage == 0)
			crew_sleep_ms(10);
		CREW_UNTIL(mail, self->letters ==
					 (uint32_t)(crew->members[1].note + crew->members[2].note));
	} else {
		while (*crew->stage == 0) {
			if (crew_send(mail, MAIL_ALL, count, 500) == 0)
				self->note = (int)++count;
			else
				crew_turn(mail);
		}
		CREW_UNTIL(mail, self->letters == (uint32_t)crew->members[3 - rank].note);
	}
	self->point = 1;
	CREW_UNTIL(mail, *crew->stage == 2);
}

static void test_rank_0_does_not_read(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 3);
	crew.peer_timeout_ns = 1000 * MS;
	start_all(&crew, write_to_rank_0_that_is_busy);
	crew_sleep_ms(4000);
	*crew.stage = 1;
	for (uint32_t rank = 0; rank < 3; rank++)
		CREW_AWAIT(crew.members[rank].point == 1);
	*crew.stage = 2;
	join_all(&crew);
	crew_free(&crew);
}

static void gather(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];

	post(mail, MAIL_ALL, 0, 100);
	CREW_UNTIL(mail, self->letters == crew->size - 1);
	self->point = 1;
	CREW_UNTIL(mail, *crew->stage == 1);
}

/* As many as one machine of the tests can bear; GODWIT_TEST_RANKS asks for another number, up to 1024. */
static void test_many_ranks(void **state)
{
	const char *wanted = getenv("GODWIT_TEST_RANKS");
	uint64_t begin = crew_now();
	struct crew crew;

	crew_prepare(&crew, wanted ? (uint32_t)atoi(wanted) : 128);
	crew.meet_ns = 100000 * MS;
	start_all(&crew, gather);
	for (uint32_t rank = 0; rank < crew.size; rank++) {
		while (!crew.members[rank].open && crew_now() < begin + 100000 * MS)
			crew_sleep_ms(1);
		assert_int_equal(crew.members[rank].rc, 0);
	}
	print_message("%u ranks have met after %g s\n", crew.size,
		      (double)(crew_now() - begin) / 1e9);
	for (uint32_t rank = 0; rank < crew.size; rank++)
		CREW_AWAIT(crew.members[rank].point == 1);
	print_message("all have written to all after %g s\n", (double)(crew_now() - begin) / 1e9);
	*crew.stage = 1;
	join_all(&crew);
	crew_free(&crew);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everybody_writes_to_everybody),
		cmocka_unit_test(test_letters_are_checked),
		cmocka_unit_test(test_letters_arrive_after_a_goodbye),
		cmocka_unit_test(test_rank_0_leaves_first),
		cmocka_unit_test(test_one_that_does_not_read_holds_up_nobody_else),
		cmocka_unit_test(test_rank_0_does_not_read),
		cmocka_unit_test(test_many_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
