/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every scheme relies on beneath it: a message lands in its own receive, memory is not read after its send has
 * ended, and a slot rests before it is used again.
 */
#include "duo.h"

#include <string.h>

#define DELAY_NS (2 * MS)
#define REST_NS	 (500 * MS)
#define MESSAGES 64u

/* ---- grants ---------------------------------------------------------------------------------------------------- */

static unsigned grants_said, grants_lost;

static bool lose_first_grants(struct duo *duo, int end, const struct control_message *message,
			      const void *bytes)
{
	(void)duo;
	(void)end;
	(void)bytes;
	if (message->header.type != CONTROL_GRANT)
		return false;
	return ++grants_said <= grants_lost;
}

static void count_end(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	(void)now;
	assert_int_equal(result->status, 0);
	++*(unsigned *)arg;
}

/* More grants than one datagram holds, of which the first datagrams are lost and later ones are not. */
static void grants_after_a_gap(unsigned lost)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS } };
	struct gw_send *send;
	struct gw_recv *recv;
	unsigned ended = 0;
	struct duo duo;

	duo_open(&duo, &attr);
	duo.lose_control = lose_first_grants;
	grants_said = 0;
	grants_lost = lost;
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct gw_transfer_attr transfer = { .addr = duo.memory[1] + i * DUO_PAYLOAD,
						     .length = DUO_PAYLOAD,
						     .mr = duo.mr[1],
						     .done = count_end,
						     .arg = &ended };

		assert_int_equal(
			gw_transfer_recv(duo.qp[1], &gw_selective_repeat, &transfer, &recv), 0);
		transfer.addr = duo.memory[0] + i * DUO_PAYLOAD;
		transfer.mr = duo.mr[0];
		assert_int_equal(
			gw_transfer_send(duo.qp[0], &gw_selective_repeat, &transfer, &send), 0);
	}
	world_touch(&duo.world, 0);
	world_touch(&duo.world, 1);
	duo_until(&duo, 5 * S, ended == 2 * MESSAGES);
	assert_true(grants_said >= 2);
	assert_memory_equal(duo.memory[0], duo.memory[1], (size_t)MESSAGES * DUO_PAYLOAD);
	duo_close(&duo);
}

static void grants_in_place(void **state)
{
	(void)state;
	for (unsigned lost = 0; lost < 4; lost++)
		grants_after_a_gap(lost);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void scribble(struct gw_send *send, void *arg, int status, uint64_t now)
{
	struct duo *duo = arg;

	(void)send;
	(void)now;
	assert_int_equal(status, 0);
	memset(duo->memory[0], 0x5a, duo->memory_bytes);
}

/* A NIC reads later than it is told to. Whoever is told that a send has ended writes there at once. */
static void ended_send_is_not_read(void **state)
{
	static const struct gw_send_handler handler = { .done = scribble };
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS },
				 .host = { .nic = true, .read_ns = MS },
				 .memory_bytes = 40 * DUO_PAYLOAD };
	static uint8_t before[40 * DUO_PAYLOAD];
	struct gw_recv_attr recv_attr = { .length = sizeof(before) };
	struct gw_send_attr send_attr = { .length = sizeof(before), .handler = &handler };
	struct gw_send *send;
	struct gw_recv *recv;
	struct duo duo;

	(void)state;
	duo_open(&duo, &attr);
	memcpy(before, duo.memory[0], sizeof(before));
	recv_attr.addr = duo.memory[1];
	recv_attr.mr = duo.mr[1];
	send_attr.addr = duo.memory[0];
	send_attr.mr = duo.mr[0];
	send_attr.arg = &duo;
	assert_int_equal(gw_recv_post(duo.qp[1], &recv_attr, &recv), 0);
	assert_int_equal(gw_send_post(duo.qp[0], &send_attr, &send), 0);
	world_touch(&duo.world, 0);
	world_touch(&duo.world, 1);
	duo_run(&duo, 100 * MS);
	assert_int_equal(gw_send_test(send), 1);
	assert_int_equal(duo_counter(&duo, 1, "landed_packets"), 40);
	assert_memory_equal(duo.memory[1], before, sizeof(before));
	assert_int_equal(duo.memory[0][0], 0x5a);
	duo_close(&duo);
}

/* ---- rest ------------------------------------------------------------------------------------------------------ */

static void rests_from(uint64_t start_ns)
{
	struct duo_attr attr = { .link = { .delay_ns = DELAY_NS },
				 .qp = { .slots = 1, .packet_lifetime_ns = REST_NS },
				 .start_ns = start_ns };
	struct duo_transfer transfer;
	uint64_t ended;
	struct duo duo;

	duo_open(&duo, &attr);
	duo_start(&duo, DUO_PAYLOAD, &transfer);
	duo_finish(&transfer, S);
	ended = transfer.sent_at;
	duo_start(&duo, DUO_PAYLOAD, &transfer);
	duo_finish(&transfer, 2 * S);
	assert_in_range(transfer.received_at - ended, REST_NS, REST_NS + 10 * DELAY_NS);
	duo_close(&duo);
}

static void slot_rests(void **state)
{
	(void)state;
	rests_from(S);
}

/* A slot counts its rest in 32 bits of 2^16 ns, which wrap every 2^48 ns: before its rest, in it, and behind it. */
static void slot_rests_when_time_wraps(void **state)
{
	const uint64_t wrap = UINT64_C(1) << 48;

	(void)state;
	for (uint64_t before = 0; before < 3 * REST_NS; before += REST_NS / 8) {
		rests_from(wrap - before);
		rests_from(wrap / 2 - before);
	}
	rests_from(wrap + wrap / 2);
	rests_from(5 * wrap - REST_NS / 2);
}

/* Nothing is posted for days: the rest is over all the same. */
static void a_long_rest_is_over(void **state)
{
	static const uint64_t hours[] = { 1, 38, 40, 60, 77, 79, 100 };

	(void)state;
	for (size_t i = 0; i < sizeof(hours) / sizeof(hours[0]); i++) {
		struct duo_attr attr = { .link = { .delay_ns = DELAY_NS },
					 .qp = { .slots = 1, .packet_lifetime_ns = REST_NS } };
		struct duo_transfer transfer;
		uint64_t start;
		struct duo duo;

		duo_open(&duo, &attr);
		duo_start(&duo, DUO_PAYLOAD, &transfer);
		duo_finish(&transfer, S);
		duo_run(&duo, hours[i] * 3600 * S);
		start = duo_now(&duo);
		duo_start(&duo, DUO_PAYLOAD, &transfer);
		duo_finish(&transfer, 2 * S);
		assert_in_range(transfer.received_at - start, DELAY_NS, 10 * DELAY_NS);
		duo_close(&duo);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(grants_in_place),     cmocka_unit_test(ended_send_is_not_read),
		cmocka_unit_test(slot_rests),	       cmocka_unit_test(slot_rests_when_time_wraps),
		cmocka_unit_test(a_long_rest_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
