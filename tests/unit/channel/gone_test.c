/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a channel: by its user, by its peer, by silence, in a callback; and the switch that stops it. */
#include "two.h"

#include <errno.h>
#include <string.h>

#include "link/link.h"

#define LARGE 400000u

static const struct link_attr wire = { .rate_bps = 100000000, .delay_ns = 500 * US };

struct crowd {
	struct two two;
	struct act sends[3], recvs[3];
};

/* Small and large ones, with and without their match. */
static void open_crowd(struct crowd *crowd, uint64_t peer_timeout_ns)
{
	struct two_attr attr = { .link = wire };
	struct two *two = &crowd->two;

	memset(crowd, 0, sizeof(*crowd));
	attr.channel[0].peer_timeout_ns = attr.channel[1].peer_timeout_ns = peer_timeout_ns;
	two_open(two, &attr);
	act_recv(two, 1, LARGE, &crowd->recvs[0]);
	act_send(two, 0, LARGE, 1, &crowd->sends[0]);
	act_send(two, 0, LARGE, 2, &crowd->sends[1]);
	act_send(two, 0, 10, 3, &crowd->sends[2]);
	act_recv(two, 0, 10, &crowd->recvs[1]);
	act_recv(two, 0, LARGE, &crowd->recvs[2]);
	two_run(two, 5 * MS);
}

static void check_crowd(struct crowd *crowd, int end, int status)
{
	for (int i = 0; i < 3; i++) {
		if (end == 0)
			act_check(&crowd->sends[i], status);
		if (crowd->recvs[i].end == end)
			act_check(&crowd->recvs[i], status);
	}
}

static void free_crowd(struct crowd *crowd, int end)
{
	for (int i = 0; i < 3; i++) {
		if (end == 0)
			act_free(&crowd->sends[i]);
		if (crowd->recvs[i].end == end)
			act_free(&crowd->recvs[i]);
	}
}

static void peer_closes(void **state)
{
	struct crowd crowd;
	struct two *two = &crowd.two;
	char text[512];

	(void)state;
	open_crowd(&crowd, 0);
	assert_int_equal(gw_channel_close(two->channel[1]), 0);
	two->channel[1] = NULL;
	world_touch(&two->world, 1);
	two_until(two, S, two->gone[0]);
	two_run(two, S);
	assert_int_equal(two->gone[0], 1);
	assert_int_equal(two->gone_status[0], -ECONNRESET);
	assert_int_equal(gw_channel_status(two->channel[0]), -ECONNRESET);
	assert_true(gw_channel_explain(two->channel[0], text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "closed the channel"));
	assert_non_null(strstr(text, "3 sends, 2 receives"));
	assert_non_null(strstr(text, "bytes not confirmed"));
	assert_int_equal(
		gw_channel_send(two->channel[0], &(struct gw_op_attr){ 0 }, &crowd.sends[0].op),
		-ECONNRESET);
	check_crowd(&crowd, 0, -ECONNRESET);
	free_crowd(&crowd, 1);
	two_close(two);
}

static void count_line(void *arg, enum gw_log_level level, const char *line)
{
	(void)level;
	(void)line;
	++*(int *)arg;
}

/* Who wants to tell of the end itself finds no warning of it beside its own. */
static void end_is_quiet(void **state)
{
	for (int quiet = 0; quiet < 2; quiet++) {
		struct two_attr attr = { .link = wire };
		struct act send = { 0 };
		struct two two;
		int lines = 0;

		(void)state;
		attr.channel[0].flags = quiet ? GW_CHANNEL_QUIET : 0;
		two_open(&two, &attr);
		act_send(&two, 0, LARGE, 1, &send);
		two_run(&two, MS);
		gw_log_set(GW_LOG_WARN, count_line, &lines);
		assert_int_equal(gw_channel_close(two.channel[1]), 0);
		two.channel[1] = NULL;
		world_touch(&two.world, 1);
		two_until(&two, S, two.gone[0]);
		gw_log_set(GW_LOG_ERROR, NULL, NULL);
		act_check(&send, -ECONNRESET);
		assert_int_equal(lines, !quiet);
		two_close(&two);
	}
}

static void peer_dies(void **state)
{
	struct crowd crowd;
	struct two *two = &crowd.two;
	uint64_t start;

	(void)state;
	open_crowd(&crowd, 2 * S);
	start = two_now(two);
	for (int i = 0; i < 3; i++)
		if (crowd.recvs[i].end == 1)
			crowd.recvs[i].mr = NULL; /* it goes with its context */
	world_kill(&two->world, 1);
	two_until(two, 10 * S, two->gone[0]);
	assert_in_range(two_now(two) - start, 1900 * MS, 4 * S);
	assert_int_equal(two->gone_status[0], -ETIMEDOUT);
	check_crowd(&crowd, 0, -ETIMEDOUT);
	free_crowd(&crowd, 1);
	two_close(two);
}

/* Of a message that was under way, the receiver is told how much is there. */
static void landed_is_counted(void **state)
{
	struct two_attr attr = { .link = wire };
	struct act send = { 0 }, recv = { 0 };
	uint64_t there = 0;
	struct two two;

	(void)state;
	attr.channel[1].peer_timeout_ns = S;
	two_open(&two, &attr);
	act_recv(&two, 1, LARGE, &recv);
	act_send(&two, 0, LARGE, 1, &send);
	two_run(&two, 10 * MS);
	send.mr = NULL; /* it goes with its context */
	world_kill(&two.world, 0);
	two_until(&two, 5 * S, recv.ended);
	/* The first packets are smaller than others. */
	for (uint64_t at = 0; at + TWO_FLOOR <= LARGE; at += TWO_FLOOR)
		there += memcmp(recv.addr + at, send.addr + at, TWO_FLOOR) ? 0 : TWO_FLOOR;
	assert_in_range(there, LARGE / 4, LARGE - LARGE / 4);
	assert_int_equal(recv.result.moved, there);
	act_check(&recv, -ETIMEDOUT);
	act_free(&send);
	two_close(&two);
}

/* An idle channel notices, too. */
static void peer_dies_in_silence(void **state)
{
	struct two_attr attr = { .link = wire };
	struct two two;

	(void)state;
	attr.channel[0].peer_timeout_ns = S;
	two_open(&two, &attr);
	two_run(&two, 5 * S);
	assert_int_equal(two.gone[0], 0);
	world_kill(&two.world, 1);
	two_until(&two, 5 * S, two.gone[0]);
	two_close(&two);
}

static void outage_is_survived(void **state)
{
	struct crowd crowd;
	struct two *two = &crowd.two;

	(void)state;
	open_crowd(&crowd, 0);
	for (int i = 0; i < 2; i++)
		sim_link(two->world.sim, (uint32_t)i)->down = true;
	two_run(two, 4 * S);
	for (int i = 0; i < 2; i++)
		sim_link(two->world.sim, (uint32_t)i)->down = false;
	two_until(two, 5 * S, crowd.recvs[0].ended && crowd.sends[0].ended);
	act_check(&crowd.sends[0], 0);
	act_check_bytes(&crowd.recvs[0], LARGE, 1);
	assert_int_equal(two->gone[0] + two->gone[1], 0);
	assert_int_equal(gw_channel_close(two->channel[0]), 0);
	two->channel[0] = NULL;
	for (int i = 1; i < 3; i++) {
		assert_int_equal(crowd.sends[i].ended, 0);
		act_free(&crowd.sends[i]);
		act_free(&crowd.recvs[i]);
	}
	two_close(two);
}

/* The memory is the caller's when close returns, whatever was going on. */
static void closed_in_the_middle(void **state)
{
	struct crowd crowd;

	(void)state;
	open_crowd(&crowd, 0);
	for (int end = 0; end < 2; end++) {
		assert_int_equal(gw_channel_close(crowd.two.channel[end]), 0);
		crowd.two.channel[end] = NULL;
		free_crowd(&crowd, end);
	}
	two_run(&crowd.two, S);
	for (int i = 0; i < 3; i++)
		assert_int_equal(crowd.sends[i].ended + crowd.recvs[i].ended, 0);
	two_close(&crowd.two);
}

static void context_closes_it(void **state)
{
	struct crowd crowd;

	(void)state;
	open_crowd(&crowd, 0);
	for (int end = 0; end < 2; end++) {
		gw_context_close(crowd.two.world.hosts[end].ctx);
		crowd.two.world.hosts[end].ctx = NULL;
		crowd.two.channel[end] = NULL;
		free_crowd(&crowd, end);
	}
	two_close(&crowd.two);
}

/* A receiver that closes as soon as it has everything says so with its last packets, of which some are lost. Its peer's sends end
 * well, small and large ones. */
static void closed_when_all_has_arrived(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct act send = { 0 }, recv = { 0 };
		struct two_attr attr = {
			.link = { .rate_bps = UINT64_C(1000000000), .delay_ns = MS }, .seed = seed
		};
		struct two two;

		two_open(&two, &attr);
		act_recv(&two, 1, 1 << 20, &recv);
		act_send(&two, 0, seed % 2 ? 100 : 100000, seed, &send);
		two_until(&two, S, recv.ended);
		sim_link(two.world.sim, 1)->attr.loss = seed < 2 ? 0 : 0.1;
		assert_int_equal(gw_channel_close(two.channel[1]), 0);
		two.channel[1] = NULL;
		world_touch(&two.world, 1);
		two_until(&two, 60 * S, send.ended);
		assert_int_equal(recv.result.status, 0);
		act_check(&send, 0);
		act_free(&recv);
		two_close(&two);
	}
}

static void close_now(struct act *act)
{
	assert_int_equal(gw_channel_close(act->two->channel[act->end]), 0);
	act->two->channel[act->end] = NULL;
}

static void closed_in_a_callback(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct crowd crowd;

		open_crowd(&crowd, S);
		if (i == 0)
			crowd.recvs[0].then = close_now;
		else if (i == 1)
			crowd.sends[1].then = close_now;
		else
			crowd.two.close_when_gone = true;
		two_until(&crowd.two, 3 * S, crowd.recvs[0].ended);
		if (i == 2) {
			gw_channel_close(crowd.two.channel[0]);
			crowd.two.channel[0] = NULL;
		} else if (i == 1) {
			gw_op_cancel(crowd.sends[1].op);
			world_touch(&crowd.two.world, 0);
		}
		two_until(&crowd.two, 3 * S,
			  !crowd.two.channel[0] || crowd.two.gone[0] || crowd.two.gone[1]);
		two_run(&crowd.two, 3 * S);
		free_crowd(&crowd, 0);
		free_crowd(&crowd, 1);
		two_close(&crowd.two);
	}
}

/* Nothing leaves while the rate is 0, also not for longer than silence is borne; then it goes on. */
static void kill_switch(void **state)
{
	struct two_attr attr = { .link = wire };
	struct act sends[4] = { 0 }, recvs[4] = { 0 };
	struct two two;
	uint64_t before;
	char text[512];

	(void)state;
	attr.channel[0].peer_timeout_ns = attr.channel[1].peer_timeout_ns = S;
	two_open(&two, &attr);
	for (int i = 0; i < 2; i++) {
		act_recv(&two, 1, LARGE, &recvs[i]);
		act_send(&two, 0, i ? 10 : LARGE, (uint64_t)i, &sends[i]);
	}
	two_run(&two, 3 * MS);
	assert_int_equal(gw_channel_set_rate(two.channel[0], 0), 0);
	two_run(&two, 10 * MS);
	before = two_counter(&two, 0, "sent_packets");
	for (int i = 2; i < 4; i++) {
		act_recv(&two, 1, LARGE, &recvs[i]);
		act_send(&two, 0, i % 2 ? 10 : LARGE, (uint64_t)i, &sends[i]);
	}
	two_run(&two, 5 * S);
	assert_int_equal(two_counter(&two, 0, "sent_packets"), before);
	assert_false(sends[0].ended);
	gw_channel_explain(two.channel[0], text, sizeof(text));
	assert_non_null(strstr(text, "the rate is set to 0"));
	assert_int_equal(gw_channel_set_rate(two.channel[0], GW_RATE_UNLIMITED), 0);
	world_touch(&two.world, 0);
	for (int i = 0; i < 4; i++) {
		two_until(&two, S, sends[i].ended && recvs[i].ended);
		act_check(&sends[i], 0);
		act_check_bytes(&recvs[i], i % 2 ? 10 : LARGE, (uint64_t)i);
	}
	two_close(&two);
}

static void rate_cap(void **state)
{
	struct two_attr attr = { .link = wire };
	struct act send = { 0 }, recv = { 0 };
	struct two two;
	uint64_t start;

	(void)state;
	attr.channel[0].rate_bps = 8000000; /* a byte in a microsecond */
	two_open(&two, &attr);
	act_recv(&two, 1, LARGE, &recv);
	two_run(&two, 20 * MS);
	start = two_now(&two);
	act_send(&two, 0, LARGE, 1, &send);
	two_until(&two, 2 * S, send.ended && recv.ended);
	assert_in_range(recv.at - start, LARGE * US * 98 / 100, LARGE * US * 103 / 100);
	act_check(&send, 0);
	act_check_bytes(&recv, LARGE, 1);
	two_close(&two);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(peer_closes),
		cmocka_unit_test(end_is_quiet),
		cmocka_unit_test(peer_dies),
		cmocka_unit_test(landed_is_counted),
		cmocka_unit_test(peer_dies_in_silence),
		cmocka_unit_test(outage_is_survived),
		cmocka_unit_test(closed_in_the_middle),
		cmocka_unit_test(closed_when_all_has_arrived),
		cmocka_unit_test(context_closes_it),
		cmocka_unit_test(closed_in_a_callback),
		cmocka_unit_test(kill_switch),
		cmocka_unit_test(rate_cap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
