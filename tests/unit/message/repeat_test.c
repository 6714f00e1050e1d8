/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said twice on a long path, so that a datagram lost does not cost a round trip, and not on a short one. */
#include "../reliability/duo.h"

#include <string.h>

#include "message/state.h"

#define LENGTH (64u * DUO_PAYLOAD)

static struct {
	unsigned grants, announcements, results; /* said, since the hooks were set */
	unsigned acks; /* datagrams of the sender that only acknowledge, since the hooks were set */
	unsigned lose_grants, lose_announcements, lose_results, lose_acks;
} plan;

static bool lose(struct duo *duo, int end, const struct control_message *message, const void *bytes)
{
	(void)duo;
	(void)bytes;
	switch ((enum control_type)message->header.type) {
	case CONTROL_GRANT:
		return plan.grants++ < plan.lose_grants;
	case CONTROL_ANNOUNCE:
		return plan.announcements++ < plan.lose_announcements;
	case CONTROL_REPORT:
		return message->report.result_count && plan.results++ < plan.lose_results;
	case CONTROL_CREDIT:
		return end == 0 && plan.acks++ < plan.lose_acks;
	default:
		return false;
	}
}

static void open_path(struct duo *duo, uint64_t rtt_ns)
{
	struct duo_attr attr = { .link = { .rate_bps = UINT64_C(10000000000),
					   .delay_ns = rtt_ns / 2 } };
	struct duo_transfer warm;

	duo_open(duo, &attr);
	for (int i = 0; i < 20; i++) {
		duo_start(duo, LENGTH, &warm);
		duo_finish(&warm, S);
	}
	memset(&plan, 0, sizeof(plan));
	duo->lose_control = lose;
}

/* From posting both ends to the sender knowing: a grant, the data and the result, one way each. */
static uint64_t took(struct duo *duo)
{
	struct duo_transfer transfer;
	uint64_t began = duo_now(duo);

	duo_start(duo, LENGTH, &transfer);
	duo_finish(&transfer, 5 * S);
	return transfer.sent_at - began;
}

static void said_twice_far_away(void **state)
{
	const uint64_t rtt = 40 * MS;
	struct duo duo;

	(void)state;
	for (int what = 0; what < 3; what++) {
		open_path(&duo, rtt);
		assert_in_range(took(&duo), 3 * rtt / 2, 3 * rtt / 2 + MS);
		memset(&plan, 0, sizeof(plan));
		plan.lose_grants = what == 0;
		plan.lose_announcements = what == 1;
		plan.lose_results = what == 2;
		assert_in_range(took(&duo), 3 * rtt / 2 + rtt / 8 - MS, 3 * rtt / 2 + rtt / 8 + MS);
		duo_close(&duo);
	}
}

/* Not thrice before an answer can have come. */
static void said_no_more_than_twice(void **state)
{
	struct duo duo;

	(void)state;
	open_path(&duo, 40 * MS);
	took(&duo);
	assert_int_equal(plan.grants, 2);
	assert_int_equal(plan.announcements, 2);
	/* Any report in between has it too, and the sender's scheme asks once. */
	assert_in_range(plan.results, 2, 4);
	duo_close(&duo);
}

/* The first acknowledgement is under way when the result comes again. If it is lost, the next one follows a later repeat. */
static void acknowledged_once(void **state)
{
	struct duo duo;

	(void)state;
	for (unsigned lost = 0; lost < 2; lost++) {
		open_path(&duo, 40 * MS);
		plan.lose_acks = lost;
		took(&duo);
		duo_run(&duo, 200 * MS);
		assert_int_equal(plan.acks, 1 + lost);
		assert_int_equal(duo.qp[1]->rx.results_owed, 0);
		duo_close(&duo);
	}
}

static void said_once_nearby(void **state)
{
	struct duo duo;

	(void)state;
	open_path(&duo, 4 * MS);
	took(&duo);
	assert_int_equal(plan.grants, 1);
	assert_int_equal(plan.announcements, 1);
	assert_int_equal(plan.results, 1);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(said_twice_far_away),
		cmocka_unit_test(said_no_more_than_twice),
		cmocka_unit_test(acknowledged_once),
		cmocka_unit_test(said_once_nearby),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
