/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lost packets. Control: each kind of datagram that matters is lost some times, and what it said gets through all the
 * same; while it does not, nothing goes on that must not. Data: Selective Repeat over a lossy, duplicating, reordering
 * fabric delivers every byte.
 */
#include "pair.h"

#include <errno.h>
#include <string.h>

#include "message/state.h"

#define PAYLOAD 512u
#define LENGTH	(7 * PAYLOAD + 9)

static const struct pair_attr plain = { .qp = { .payload = PAYLOAD, .slots = 2 } };

/* Loses so many datagrams of a kind, or of any kind. */
struct thief {
	uint8_t type; /* 0: any */
	unsigned left;
	unsigned taken;
};

static bool let_through(void *arg, const struct control_message *message)
{
	struct thief *thief = arg;

	if ((thief->type && message->header.type != thief->type) || !thief->left)
		return true;
	thief->left--;
	thief->taken++;
	return false;
}

/* A message, whole, and its result at the sender. */
static void carry(struct pair *pair, uint64_t seed)
{
	struct seen_send sent = { 0 };
	struct gw_recv *recv;
	struct gw_send *send;

	fill_pattern(pair->memory[0], LENGTH, seed);
	memset(pair->memory[1], 0, LENGTH);
	recv = pair_recv(pair, 1, 0, LENGTH, NULL);
	send = pair_stream(pair, 0, LENGTH, &sent);
	pair_until(pair, sent.granted);
	pair_put(pair, 0, send, 0, LENGTH, 0, 8);
	pair_until(pair, pair_status(recv).flags & GW_RECV_FULL);
	assert_memory_equal(pair->memory[1], pair->memory[0], LENGTH);
	assert_int_equal(gw_recv_complete(recv), 0);
	pair_until(pair, sent.results && gw_recv_test(recv) == 1);
	assert_int_equal(sent.missing, 0);
	assert_int_equal(gw_stream_end(send), 0);
	assert_int_equal(gw_recv_close(recv), 0);
	assert_int_equal(gw_send_close(send), 0);
}

static void lose(int end, uint8_t type, unsigned number, const char *repeats)
{
	struct thief thief = { .type = type, .left = number };
	struct pair pair;

	pair_open(&pair, &plain);
	pair_filter_control(&pair, end, let_through, &thief);
	for (uint64_t i = 0; i < 6; i++)
		carry(&pair, i);
	/* Acknowledgements mostly ride with something else. */
	if (type != CONTROL_CREDIT)
		assert_int_equal(thief.taken, number);
	if (repeats)
		assert_true(counter(pair.ctx[end], repeats) > 0);
	pair_until(&pair, pair.ctx[0]->sends.used == 0 && pair.ctx[1]->recvs.used == 0);
	pair_close(&pair);
}

static void lost_grants(void **state)
{
	(void)state;
	lose(1, CONTROL_GRANT, 3, "grant_repeats");
}

static void lost_announcements(void **state)
{
	(void)state;
	lose(0, CONTROL_ANNOUNCE, 3, "announce_repeats");
}

static void lost_results(void **state)
{
	(void)state;
	lose(1, CONTROL_REPORT, 3, "result_repeats");
}

/*
 * The receiver repeats a result by itself. The sender's probes, which are answered with a report too, do not reach it here:
 * they would hide a result that is told only once.
 */
static void lost_results_without_probes(void **state)
{
	struct thief probes = { .type = CONTROL_PROBE, .left = 1u << 30 };
	struct thief reports = { .type = CONTROL_REPORT, .left = 3 };
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	pair_filter_control(&pair, 0, let_through, &probes);
	pair_filter_control(&pair, 1, let_through, &reports);
	carry(&pair, 1);
	assert_int_equal(reports.taken, 3);
	pair_close(&pair);
}

static void lost_acknowledgements(void **state)
{
	(void)state;
	lose(0, CONTROL_CREDIT, 3, NULL);
	lose(1, CONTROL_CREDIT, 3, NULL);
}

static void lost_control_of_any_kind(void **state)
{
	(void)state;
	lose(0, 0, 4, NULL);
	lose(1, 0, 4, NULL);
}

/* A slot is used again only when the sender has acknowledged the result of the message before. */
static void slots_wait_for_the_result(void **state)
{
	struct thief thief = { .type = CONTROL_REPORT, .left = 1u << 30 };
	struct gw_recv *recvs[3];
	struct seen_send sent[3] = { { 0 } };
	struct gw_send *sends[3];
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	pair_filter_control(&pair, 1, let_through, &thief);
	for (unsigned i = 0; i < 3; i++) {
		recvs[i] = pair_recv(&pair, 1, i * LENGTH, LENGTH, NULL);
		sends[i] = pair_stream(&pair, 0, LENGTH, &sent[i]);
	}
	pair_until(&pair, sent[0].granted && sent[1].granted);
	for (unsigned i = 0; i < 2; i++) {
		pair_put(&pair, 0, sends[i], 0, LENGTH, 0, 8);
		pair_until(&pair, pair_status(recvs[i]).flags & GW_RECV_FULL);
		assert_int_equal(gw_recv_complete(recvs[i]), 0);
	}
	pair_until(&pair, gw_recv_test(recvs[0]) == 1 && gw_recv_test(recvs[1]) == 1);
	pair_idle(&pair, 30);
	assert_int_equal(sent[2].granted, 0);
	assert_int_equal(pair.qp[1]->rx.placed, recvs[2]->msn);
	pair_filter_control(&pair, 1, NULL, NULL);
	pair_until(&pair, sent[2].granted);
	assert_true(sent[0].results && sent[1].results);
	pair_close(&pair);
}

/* A slot rests for a packet's lifetime where one was asked for. */
static void slots_rest(void **state)
{
	static const struct pair_attr attr = {
		.qp = { .payload = PAYLOAD, .slots = 1, .packet_lifetime_ns = 30000000 }
	};
	uint64_t start;
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	carry(&pair, 1);
	start = gw_now_ns(pair.ctx[0]);
	for (uint64_t i = 0; i < 3; i++)
		carry(&pair, i);
	assert_true(gw_now_ns(pair.ctx[0]) - start >= 2 * attr.qp.packet_lifetime_ns);
	pair_close(&pair);
}

struct ended {
	unsigned calls;
	struct gw_transfer_result result;
};

static void transfer_done(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	struct ended *ended = arg;

	ended->calls++;
	ended->result = *result;
}

/* Both ways at once, several messages each, every packet at the mercy of the faults. */
static void try_transfers(const struct gw_faults *faults, uint32_t payload, uint64_t length)
{
	enum { MESSAGES = 3 };
	const struct pair_attr attr = { .qp = { .payload = payload, .slots = 2 },
					.faults = faults };
	struct ended sent[2][MESSAGES] = { { { 0 } } }, received[2][MESSAGES] = { { { 0 } } };
	const uint64_t half = PAIR_MEMORY / 2;
	struct gw_recv *recvs[2][MESSAGES];
	struct gw_send *sends[2][MESSAGES];
	struct pair pair;

	assert_true(length * MESSAGES <= half);
	pair_open(&pair, &attr);
	for (int end = 0; end < 2; end++)
		fill_pattern(pair.memory[end], length * MESSAGES, faults->seed + (uint64_t)end);
	for (unsigned i = 0; i < MESSAGES; i++)
		for (int end = 0; end < 2; end++) {
			struct gw_transfer_attr from = { .addr = pair.memory[end] + i * length,
							 .length = length,
							 .mr = pair.mr[end],
							 .flags = GW_SEND_IMM,
							 .imm = i,
							 .done = transfer_done,
							 .arg = &sent[end][i] };
			struct gw_transfer_attr to = { .addr = pair.memory[end] + half + i * length,
						       .length = length,
						       .mr = pair.mr[end],
						       .done = transfer_done,
						       .arg = &received[end][i] };

			assert_int_equal(gw_transfer_recv(pair.qp[end], &gw_selective_repeat, &to,
							  &recvs[end][i]),
					 0);
			assert_int_equal(gw_transfer_send(pair.qp[end], &gw_selective_repeat, &from,
							  &sends[end][i]),
					 0);
		}
	for (unsigned i = 0; i < MESSAGES; i++)
		for (int end = 0; end < 2; end++) {
			uint32_t imm;

			pair_until(&pair, sent[end][i].calls && received[end][i].calls);
			assert_int_equal(sent[end][i].calls, 1);
			assert_int_equal(received[end][i].calls, 1);
			assert_int_equal(sent[end][i].result.status, 0);
			assert_int_equal(received[end][i].result.status, 0);
			assert_int_equal(received[end][i].result.length, length);
			assert_int_equal(gw_recv_imm(recvs[end][i], &imm), 0);
			assert_int_equal(imm, i);
			assert_int_equal(gw_recv_close(recvs[end][i]), 0);
			assert_int_equal(gw_send_close(sends[end][i]), 0);
		}
	for (int end = 0; end < 2; end++)
		assert_memory_equal(pair.memory[end] + half, pair.memory[!end], length * MESSAGES);
	for (int end = 0; end < 2 && faults->drop > 0; end++) {
		assert_true(counter(pair.ctx[end], "fault_dropped_packets") > 0);
		assert_true(counter(pair.ctx[end], "retransmitted_packets") > 0);
	}
	pair_close(&pair);
}

static void transfers_under_faults(void **state)
{
	static const struct gw_faults faults[] = {
		{ .seed = 1 },
		{ .drop = 0.1, .duplicate = 0.05, .reorder = 0.1, .seed = 2 },
		{ .drop = 0.1, .duplicate = 0.05, .reorder = 0.1, .seed = 3 },
		{ .drop = 0.3, .duplicate = 0.3, .reorder = 0.3, .seed = 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		try_transfers(&faults[i], 1024, 100001);
		try_transfers(&faults[i], 252, 50000);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_grants),
		cmocka_unit_test(lost_announcements),
		cmocka_unit_test(lost_results),
		cmocka_unit_test(lost_results_without_probes),
		cmocka_unit_test(lost_acknowledgements),
		cmocka_unit_test(lost_control_of_any_kind),
		cmocka_unit_test(slots_wait_for_the_result),
		cmocka_unit_test(slots_rest),
		cmocka_unit_test(transfers_under_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
