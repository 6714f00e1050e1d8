/* SPDX-License-Identifier: BSD-3-Clause */
/* What a layer above queue pairs stands on: grants with tags that it may look at, a timer, streams that it can give up,
 * and results that arrive however many there are. */
#include "../reliability/duo.h"

#include <errno.h>
#include <string.h>

#include "message/state.h"

#define MANY 200u
#define WRAP 12u

static const struct link_attr wire = { .rate_bps = 100000000, .delay_ns = 500 * US };

struct above {
	struct gw_qp_handler handler;
	unsigned granted, timers;
	uint64_t timer_at;
	struct duo *duo;
};

static void granted(struct gw_qp *qp, void *arg, uint64_t now)
{
	struct above *above = arg;
	struct gw_grant grant;

	(void)now;
	above->granted += !gw_qp_next_grant(qp, &grant);
}

static void timer(struct gw_qp *qp, void *arg, uint64_t now)
{
	struct above *above = arg;

	(void)qp;
	(void)now;
	above->timers++;
	above->timer_at = duo_now(above->duo);
}

static void open_above(struct duo *duo, struct above *above, uint64_t seed)
{
	struct duo_attr attr = { .link = wire, .qp = { .slots = 256 }, .seed = seed };

	duo_open(duo, &attr);
	*above = (struct above){ .handler = { .granted = granted, .timer = timer }, .duo = duo };
	duo->qp[0]->handler = &above->handler;
	duo->qp[0]->arg = above;
}

static struct gw_recv *tagged(struct duo *duo, uint64_t length, uint32_t tag)
{
	struct gw_recv_attr attr = {
		.addr = duo->memory[1], .length = length, .mr = duo->mr[1], .tag = tag
	};
	struct gw_recv *recv;

	assert_int_equal(gw_recv_post(duo->qp[1], &attr, &recv), 0);
	world_touch(&duo->world, 1);
	return recv;
}

static void tags_are_told(void **state)
{
	struct gw_grant grant = { .tag = 77 };
	struct above above;
	struct duo duo;

	(void)state;
	open_above(&duo, &above, 0);
	assert_int_equal(gw_qp_next_grant(duo.qp[0], &grant), -EAGAIN);
	assert_int_equal(gw_qp_next_grant(NULL, &grant), -EINVAL);
	assert_int_equal(gw_qp_next_grant(duo.qp[0], NULL), -EINVAL);
	assert_int_equal(grant.tag, 77);
	for (uint32_t i = 0; i < 3; i++)
		tagged(&duo, 1000 + i, 0xfffffffeu + i);
	duo_run(&duo, 100 * MS);
	assert_true(above.granted >= 1);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(gw_qp_next_grant(duo.qp[0], &grant), 0);
		assert_int_equal(grant.tag, 0xfffffffeu + i);
		assert_int_equal(grant.capacity, 1000 + i);
		duo_stream(&duo, 1000 + i); /* takes it, also before the next turn */
	}
	assert_int_equal(gw_qp_next_grant(duo.qp[0], &grant), -EAGAIN);
	duo_close(&duo);
}

static void timer_of_a_queue_pair(void **state)
{
	struct above above;
	struct duo duo;
	uint64_t start;

	(void)state;
	open_above(&duo, &above, 0);
	start = duo_now(&duo);
	assert_int_equal(gw_qp_timer(NULL, 1), -EINVAL);
	assert_int_equal(gw_qp_timer(duo.qp[0], start + 10 * MS), 0);
	assert_int_equal(gw_qp_timer(duo.qp[0], start + 20 * MS), 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 19 * MS);
	assert_int_equal(above.timers, 0);
	duo_run(&duo, 100 * MS);
	assert_int_equal(above.timers, 1);
	assert_int_equal(above.timer_at, start + 20 * MS);
	assert_int_equal(gw_qp_timer(duo.qp[0], duo_now(&duo) + 10 * MS), 0);
	assert_int_equal(gw_qp_timer(duo.qp[0], 0), 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 100 * MS);
	assert_int_equal(above.timers, 1);
	duo_close(&duo);
}

static void streams_can_be_given_up(void **state)
{
	struct gw_send *stream;
	struct above above;
	struct duo duo;
	uint64_t sent;

	(void)state;
	open_above(&duo, &above, 0);
	tagged(&duo, 200 * DUO_PAYLOAD, 0);
	duo_run(&duo, 10 * MS);
	stream = duo_stream(&duo, 200 * DUO_PAYLOAD);
	duo_run(&duo, MS);
	duo_put(&duo, stream, 200);
	duo_put(&duo, stream, 200);
	gw_progress(duo.ctx[0]);
	sent = duo_counter(&duo, 0, "sent_packets");
	assert_in_range(sent, 1, 399);
	assert_int_equal(gw_stream_abort(stream), 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 100 * MS);
	assert_int_equal(duo_counter(&duo, 0, "sent_packets"), sent);
	assert_int_equal(gw_send_test(stream), 1);
	assert_int_equal(gw_stream_abort(stream), -EALREADY);
	assert_int_equal(gw_stream_put(stream, 0, duo.memory[0], DUO_PAYLOAD, duo.mr[0]),
			 -EALREADY);
	assert_int_equal(gw_send_close(stream), 0);
	duo_close(&duo);
}

static void result(struct gw_send *send, void *arg, const struct gw_result *outcome, uint64_t now)
{
	(void)send;
	(void)outcome;
	(void)now;
	++*(unsigned *)arg;
}

static bool lose_some_reports(struct duo *duo, int end, const struct control_message *message,
			      const void *bytes)
{
	unsigned *left = duo->arg;

	(void)bytes;
	return end == 1 && message->header.type == CONTROL_REPORT && *left && (*left)--;
}

static void results_of(uint32_t many, unsigned lost);

/* More of them than a datagram holds, behind one whose receive stays open. */
static void results_behind_an_open_one(void **state)
{
	(void)state;
	results_of(MANY, 0);
}

/* However few or many, and whichever datagram is lost. */
static void lost_results_are_told_again(void **state)
{
	(void)state;
	for (uint32_t many = 2; many < 60; many++)
		results_of(many, 3);
}

static void post_empty(struct duo *duo, const struct gw_send_handler *handler, unsigned *results)
{
	struct gw_send_attr attr = { .handler = handler, .arg = results };
	struct gw_send *send;

	assert_int_equal(gw_send_post(duo->qp[0], &attr, &send), 0);
	world_touch(&duo->world, 0);
}

static void results_of(uint32_t many, unsigned lost)
{
	static const struct gw_send_handler handler = { .result = result };
	struct gw_recv *recvs[MANY];
	struct above above;
	unsigned results = 0;
	struct duo duo;

	open_above(&duo, &above, many);
	/* Past the end of the numbers, where they began close to it. */
	for (uint32_t i = 0; i < WRAP; i++) {
		recvs[0] = tagged(&duo, 8, i);
		post_empty(&duo, NULL, NULL);
		duo_run(&duo, 20 * MS);
		assert_int_equal(gw_recv_complete(recvs[0]), 0);
		world_touch(&duo.world, 1);
		duo_run(&duo, 20 * MS);
	}
	for (uint32_t i = 0; i < many; i++)
		recvs[i] = tagged(&duo, 8, i);
	for (uint32_t i = 0; i < many; i++)
		post_empty(&duo, &handler, &results);
	duo_run(&duo, 100 * MS);
	duo.arg = &lost;
	duo.lose_control = lose_some_reports;
	for (uint32_t i = 1; i < many; i++)
		assert_int_equal(gw_recv_complete(recvs[i]), 0);
	world_touch(&duo.world, 1);
	duo_run(&duo, 5 * S);
	assert_int_equal(results, many - 1);
	duo_close(&duo);
}

/* A receiver that has what it wants and leaves: its last words say so. */
static void results_come_with_the_close(void **state)
{
	static const struct gw_send_handler handler = { .result = result };
	struct gw_send_attr attr = { .handler = &handler };
	struct gw_recv *recv;
	struct above above;
	unsigned results = 0;
	struct gw_send *send;
	struct duo duo;

	(void)state;
	open_above(&duo, &above, 0);
	recv = tagged(&duo, 8, 0);
	attr.arg = &results;
	assert_int_equal(gw_send_post(duo.qp[0], &attr, &send), 0);
	world_touch(&duo.world, 0);
	duo_run(&duo, 100 * MS);
	assert_int_equal(gw_recv_complete(recv), 0);
	assert_int_equal(gw_qp_close(duo.qp[1]), 0);
	duo.qp[1] = NULL;
	world_touch(&duo.world, 1);
	duo_run(&duo, 100 * MS);
	assert_int_equal(results, 1);
	assert_int_equal(gw_qp_status(duo.qp[0]), -ECONNRESET);
	duo_close(&duo);
}

/* Every queue pair takes in the grants of its peer's slots, however many the others hold. */
static void every_peer_has_its_share(void **state)
{
	enum { QPS = 300, EACH = 64 };
	struct sim_attr sim = { .payload = DUO_PAYLOAD };
	struct sim_shape_attr shape = { .shape = SIM_PAIR, .hosts = 2, .edge = wire };
	struct sim_host_attr host = { 0 };
	struct gw_context_attr ctx = { .max_qps = QPS, .max_recvs = QPS * EACH };
	struct gw_qp_attr attr = { .slots = EACH };
	static struct gw_qp *qp[2][QPS];
	static uint8_t memory[64];
	struct world world;
	struct gw_mr *mr;
	uint64_t until;

	(void)state;
	assert_int_equal(world_open(&world, &sim, &shape, &host, &ctx), 0);
	assert_int_equal(gw_mr_register(world.hosts[1].ctx, memory, sizeof(memory), &mr), 0);
	for (uint32_t i = 0; i < QPS; i++)
		assert_int_equal(world_connect(&world, 0, 1, &attr, &attr, &qp[0][i], &qp[1][i]),
				 0);
	for (uint32_t i = 0; i < QPS * EACH; i++) {
		struct gw_recv_attr recv_attr = { .addr = memory,
						  .length = sizeof(memory),
						  .mr = mr };
		struct gw_recv *recv;

		assert_int_equal(gw_recv_post(qp[1][i / EACH], &recv_attr, &recv), 0);
	}
	world_touch(&world, 1);
	until = sim_now_ns(world.sim) + 5 * S;
	while (world_step(&world, until))
		;
	for (uint32_t i = 0; i < QPS; i++)
		assert_int_equal(qp[0][i]->tx.grants_seen - qp[0][i]->tx.matched, EACH);
	world_close(&world);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(tags_are_told),
		cmocka_unit_test(timer_of_a_queue_pair),
		cmocka_unit_test(streams_can_be_given_up),
		cmocka_unit_test(results_behind_an_open_one),
		cmocka_unit_test(lost_results_are_told_again),
		cmocka_unit_test(results_come_with_the_close),
		cmocka_unit_test(every_peer_has_its_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
