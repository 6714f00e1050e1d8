/* SPDX-License-Identifier: BSD-3-Clause */
/* What queue pairs of one context have in common: a peer that makes one of them take much leaves enough for the others. */
#include "pair.h"

#include <errno.h>
#include <string.h>

#include "message/state.h"
#include "base/bytes.h"

#define STREAMS	 (PUTS_COMMON / GW_PUTS_MAX + 1)
#define PAYLOAD	 256u
#define ARENA	 (1u << 20)
#define RECEIVE	 (4u << 20)
#define RECEIVES 1024
#define SENDERS	 40

/* A queue pair of end 0 whose description the test may change before end 1 connects to it. */
static struct gw_qp *join(struct pair *pair, const struct gw_qp_attr *attr, uint32_t payload,
			  uint32_t window, int expected)
{
	struct gw_qp *qp[2];
	struct gw_qp_info info;

	for (int end = 0; end < 2; end++)
		assert_int_equal(gw_qp_create(pair->ctx[end], attr, &qp[end]), 0);
	assert_int_equal(gw_qp_info(qp[1], &info), 0);
	assert_int_equal(gw_qp_connect(qp[0], &info), 0);
	assert_int_equal(gw_qp_info(qp[0], &info), 0);
	if (payload) {
		info.bytes[10] = 0; /* packets of one size */
		put_be32(info.bytes + 12, payload);
		put_be32(info.bytes + 124, payload);
	}
	if (window)
		put_be32(info.bytes + 28, window);
	assert_int_equal(gw_qp_connect(qp[1], &info), expected);
	return qp[1];
}

static void open_contexts(struct pair *pair)
{
	struct pair_attr attr = {
		.context = { .bitmap_bytes = ARENA, .max_recvs = RECEIVES, .max_sends = RECEIVES }
	};

	pair_open_contexts(pair, &attr);
}

/* Packets of 4 bytes would take 300 times the memory. */
static void tiny_packets_are_refused(void **state)
{
	struct gw_qp_attr own = { .payload = 64 };
	struct pair pair;

	(void)state;
	open_contexts(&pair);
	join(&pair, NULL, 4, 0, -EMSGSIZE);
	assert_non_null(strstr(gw_context_error(pair.ctx[1]), "256"));
	join(&pair, NULL, 252, 0, -EMSGSIZE);
	join(&pair, NULL, 256, 0, 0);
	join(&pair, &own, 64, 0, 0);
	pair_close(&pair);
}

/* Posts receives until there is no memory for bitmaps; returns how many. */
static unsigned post_all(struct pair *pair, struct gw_qp *qp)
{
	struct gw_recv_attr attr = { .addr = pair->memory[1],
				     .length = RECEIVE,
				     .mr = pair->mr[1] };
	struct gw_recv *recv;
	unsigned posted = 0;
	int error;

	while (!(error = gw_recv_post(qp, &attr, &recv)))
		posted++;
	assert_int_equal(error, -ENOBUFS);
	return posted;
}

static void small_packets_take_half_of_the_bitmaps(void **state)
{
	struct gw_qp *greedy, *other;
	struct pair pair;

	(void)state;
	open_contexts(&pair);
	greedy = join(&pair, NULL, 256, 0, 0);
	other = join(&pair, NULL, 0, 0, 0);
	assert_true(post_all(&pair, greedy) > 16);
	assert_in_range(arena_used(&pair.ctx[1]->arena), ARENA / 4, ARENA / 2);
	assert_true(post_all(&pair, other) > 32);
	assert_in_range(arena_used(&pair.ctx[1]->arena), ARENA / 4 * 3, ARENA);
	pair_close(&pair);
}

/* A log of what was sent is as large as what the peer's credit lets be in flight asks for. */
static void large_credits_take_half_of_the_logs(void **state)
{
	struct gw_qp *qp;
	struct pair pair;

	(void)state;
	open_contexts(&pair);
	for (int i = 0; i < SENDERS; i++) {
		struct gw_send_attr attr = { .addr = pair.memory[1],
					     .length = 1,
					     .mr = pair.mr[1] };
		struct gw_send *send;

		qp = join(&pair, NULL, 0, UINT32_MAX, 0);
		assert_int_equal(gw_send_post(qp, &attr, &send), 0);
		qp->feedback.sequence += 1 << 20;
		assert_int_equal(feedback_start(qp), 0);
	}
	assert_in_range(arena_used(&pair.ctx[1]->arena), ARENA / 4, ARENA - 1);
	assert_true(arena_used(&pair.ctx[1]->arena) < ARENA);
	qp = join(&pair, NULL, 0, 0, 0);
	assert_true(post_all(&pair, qp) > 8);
	pair_close(&pair);
}

/* Puts of packets from the last to the first, each by itself, as repairs are; returns how many found room. */
static uint32_t put_all(struct pair *pair, struct gw_send *stream)
{
	uint32_t puts = 0;
	int error = 0;

	for (uint32_t i = PAIR_MEMORY / PAYLOAD; !error && i-- > 0;) {
		error = gw_stream_put(stream, (uint64_t)i * PAYLOAD,
				      pair->memory[0] + (size_t)i * PAYLOAD, PAYLOAD, pair->mr[0]);
		puts += !error;
	}
	assert_int_equal(error, -EAGAIN);
	return puts;
}

static void everybody_has_some_puts(void **state)
{
	struct pair_attr attr = {
		.qp = { .payload = PAYLOAD, .slots = 256, .peer_host = "127.0.0.1" }
	};
	struct gw_send *streams[STREAMS + 1];
	uint32_t puts = 0;
	struct pair pair;

	(void)state;
	pair_open_contexts(&pair, &attr);
	/* All but the last are of one queue pair. */
	for (unsigned i = 0; i <= STREAMS; i++) {
		struct seen_send seen = { 0 };

		for (int end = 0; end < 2 && (i == 0 || i == STREAMS); end++)
			assert_int_equal(gw_qp_create(pair.ctx[end], &attr.qp, &pair.qp[end]), 0);
		if (i == 0 || i == STREAMS)
			pair_connect(&pair);
		pair_recv(&pair, 1, 0, PAIR_MEMORY, NULL);
		streams[i] = pair_stream(&pair, 0, PAIR_MEMORY, &seen);
		pair_until(&pair, seen.granted);
	}
	for (unsigned i = 0; i < STREAMS; i++)
		puts += put_all(&pair, streams[i]);
	assert_int_equal(puts, PUTS_COMMON);
	assert_int_equal(put_all(&pair, streams[STREAMS]), PUTS_EACH);
	for (unsigned i = 0; i <= STREAMS; i++)
		gw_stream_abort(streams[i]);
	assert_int_equal(pool_used(&pair.ctx[0]->puts), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiny_packets_are_refused),
		cmocka_unit_test(small_packets_take_half_of_the_bitmaps),
		cmocka_unit_test(large_credits_take_half_of_the_logs),
		cmocka_unit_test(everybody_has_some_puts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
