/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that end without a goodbye are named to all others, soon; ranks that are busy or stopped are not. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "crew.h"

/* A death is told within this time; most of it is for a busy machine. */
#define SOON_NS (3000 * MS)

static void wait_for_a_loss(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];

	self->point = 1;
	CREW_UNTIL(mail, self->losses > 0 || *crew->stage == 1);
	self->point = 2;
	self->note = mail->ops->progress(mail, crew_now());
	CREW_UNTIL(mail, *crew->stage == 1);
}

static void start_all(struct crew *crew)
{
	for (uint32_t rank = 0; rank < crew->size; rank++)
		crew_start(crew, rank, wait_for_a_loss);
	for (uint32_t rank = 0; rank < crew->size; rank++)
		CREW_AWAIT(crew->members[rank].point == 1);
}

static void kill_one(uint32_t victim, int progress)
{
	struct crew crew;
	uint64_t killed;
	char text[64];

	crew_prepare(&crew, 6);
	start_all(&crew);
	killed = crew_now();
	kill(crew.members[victim].pid, SIGKILL);
	crew_join(&crew, victim, SIGKILL);
	snprintf(text, sizeof(text), "rank %u (process %d on 127.0.0.1) ended without a goodbye",
		 victim, crew.members[victim].pid);
	for (uint32_t rank = 0; rank < 6; rank++) {
		if (rank != victim)
			CREW_AWAIT(crew.members[rank].point == 2);
	}
	*crew.stage = 1;
	for (uint32_t rank = 0; rank < 6; rank++) {
		const struct member *member = &crew.members[rank];

		if (rank == victim)
			continue;
		crew_join(&crew, rank, 0);
		assert_int_equal(member->losses, 1);
		assert_int_equal(member->lost, victim);
		assert_string_equal(member->lost_why, text);
		assert_true(member->lost_ns - killed < SOON_NS);
		assert_int_equal(member->note, progress);
	}
	crew_free(&crew);
}

static void test_a_rank_that_is_killed_is_named_by_all(void **state)
{
	kill_one(3, 0);
}

static void test_rank_0_that_is_killed_is_named_by_all(void **state)
{
	kill_one(0, -ECONNRESET);
}

static void test_a_stopped_rank_is_not_lost(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 4);
	crew.peer_timeout_ns = 1000 * MS;
	start_all(&crew);
	kill(crew.members[2].pid, SIGSTOP);
	kill(crew.members[0].pid, SIGSTOP);
	crew_sleep_ms(4000);
	kill(crew.members[0].pid, SIGCONT);
	kill(crew.members[2].pid, SIGCONT);
	crew_sleep_ms(100);
	*crew.stage = 1;
	for (uint32_t rank = 0; rank < 4; rank++) {
		crew_join(&crew, rank, 0);
		assert_int_equal(crew.members[rank].losses, 0);
	}
	crew_free(&crew);
}

/* A letter that was posted before the end comes before the news of it. */
static void write_and_die(struct crew *crew, uint32_t rank, struct mail *mail)
{
	struct member *self = &crew->members[rank];

	self->point = 1;
	CREW_UNTIL(mail, *crew->stage == 1);
	if (rank == 1) {
		for (uint32_t i = 0; i < 10; i++)
			crew_send(mail, MAIL_ALL, i, 1000);
		raise(SIGKILL);
	}
	CREW_UNTIL(mail, self->losses > 0);
	self->note = (int)self->letters;
	self->point = 2;
	CREW_UNTIL(mail, *crew->stage == 2);
}

static void test_last_letters_come_before_the_loss(void **state)
{
	struct crew crew;

	crew_prepare(&crew, 4);
	for (uint32_t rank = 0; rank < 4; rank++)
		crew_start(&crew, rank, write_and_die);
	for (uint32_t rank = 0; rank < 4; rank++)
		CREW_AWAIT(crew.members[rank].point == 1);
	*crew.stage = 1;
	crew_join(&crew, 1, SIGKILL);
	for (uint32_t rank = 0; rank < 4; rank++)
		CREW_AWAIT(rank == 1 || crew.members[rank].point == 2);
	*crew.stage = 2;
	for (uint32_t rank = 0; rank < 4; rank++) {
		if (rank == 1)
			continue;
		crew_join(&crew, rank, 0);
		assert_int_equal(crew.members[rank].note, 10);
		assert_int_equal(crew.members[rank].lost, 1);
	}
	crew_free(&crew);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_rank_that_is_killed_is_named_by_all),
		cmocka_unit_test(test_rank_0_that_is_killed_is_named_by_all),
		cmocka_unit_test(test_a_stopped_rank_is_not_lost),
		cmocka_unit_test(test_last_letters_come_before_the_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
