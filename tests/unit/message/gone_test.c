/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that close or fall silent, and what gw_progress() and gw_wait() answer when they cannot do their work. */
#include "pair.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>

static const struct pair_attr plain = { .qp = { .payload = 512, .slots = 2 } };

static void after_the_peer_closed(void **state)
{
	struct gw_send_attr send_attr = { .length = 100 };
	struct gw_recv_attr recv_attr = { .length = 100 };
	struct gw_send *send;
	struct gw_recv *recv;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	assert_int_equal(gw_qp_status(pair.qp[0]), 0);
	assert_int_equal(gw_qp_close(pair.qp[1]), 0);
	pair_until(&pair, pair.gone[0]);
	assert_int_equal(pair.gone_status[0], -ECONNRESET);
	assert_int_equal(gw_qp_status(pair.qp[0]), -ECONNRESET);
	send_attr.addr = recv_attr.addr = pair.memory[0];
	send_attr.mr = recv_attr.mr = pair.mr[0];
	assert_int_equal(gw_send_post(pair.qp[0], &send_attr, &send), -ECONNRESET);
	assert_int_equal(gw_recv_post(pair.qp[0], &recv_attr, &recv), -ECONNRESET);
	pair_idle(&pair, 5);
	assert_int_equal(pair.gone[0], 1);
	assert_int_equal(gw_qp_close(pair.qp[0]), 0);
	pair_close(&pair);
}

static void silent_peer(void **state)
{
	static const struct pair_attr attr = { .qp = { .peer_timeout_ns = 60000000 } };
	struct seen_recv received = { 0 };
	struct seen_send sent = { 0 };
	struct gw_send_attr send_attr = { 0 };
	struct gw_send *send;
	struct pair pair;
	uint64_t start, limit;

	(void)state;
	pair_open(&pair, &attr);
	/* Nothing is open: silence is no offence. */
	start = gw_now_ns(pair.ctx[0]);
	while (gw_now_ns(pair.ctx[0]) < start + 3 * attr.qp.peer_timeout_ns)
		gw_wait(pair.ctx[0], 1000000);
	assert_int_equal(pair.gone[0], 0);
	start = gw_now_ns(pair.ctx[0]);
	pair_recv(&pair, 0, 0, 100, &received);
	pair_send(&pair, 0, 0, 100, &sent);
	limit = pair_deadline(&pair);
	while (!pair.gone[0]) {
		pair_late(&pair, limit, "the peer is given up", __FILE__, __LINE__);
		gw_wait(pair.ctx[0], 1000000);
	}
	assert_true(gw_now_ns(pair.ctx[0]) - start >= attr.qp.peer_timeout_ns);
	while (!received.released || !sent.done)
		gw_wait(pair.ctx[0], 1000000);
	assert_int_equal(pair.gone_status[0], -ETIMEDOUT);
	assert_int_equal(received.status, -ETIMEDOUT);
	assert_int_equal(sent.status, -ETIMEDOUT);
	assert_int_equal(gw_stream_start(pair.qp[0], &send_attr, &send), -ETIMEDOUT);
	assert_int_equal(counter(pair.ctx[0], "peers_gone"), 1);
	assert_int_equal(pair.gone[0], 1);
	pair_close(&pair);
}

static void call_back(struct gw_send *send, void *arg, uint64_t now)
{
	struct pair *pair = arg;

	assert_int_equal(gw_progress(pair->ctx[0]), -EBUSY);
	assert_int_equal(gw_wait(pair->ctx[0], 0), -EBUSY);
	assert_int_equal(gw_context_close(pair->ctx[0]), -EBUSY);
	assert_int_equal(gw_send_close(send), 0);
	pair->gone[0] = 1;
}

static void progress_inside_progress(void **state)
{
	static const struct gw_send_handler handler = { .timer = call_back };
	struct gw_send_attr attr = { .handler = &handler };
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	attr.arg = &pair;
	assert_int_equal(gw_stream_start(pair.qp[0], &attr, &send), 0);
	assert_int_equal(gw_send_timer(send, 1), 0);
	pair_until(&pair, pair.gone[0]);
	pair_close(&pair);
}

static void nothing(int signal_number)
{
	(void)signal_number;
}

static void interrupted(void **state)
{
	const struct sigaction action = { .sa_handler = nothing };
	struct itimerval often = { { 0, 20000 }, { 0, 20000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct pair pair;
	uint64_t start;

	(void)state;
	pair_open_contexts(&pair, &plain);
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	start = gw_now_ns(pair.ctx[0]);
	assert_int_equal(gw_wait(pair.ctx[0], 1000000), 0);
	assert_true(gw_now_ns(pair.ctx[0]) - start >= 1000000);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	assert_int_equal(gw_wait(pair.ctx[0], UINT64_MAX), -EINTR);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	pair_close(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_the_peer_closed),
		cmocka_unit_test(silent_peer),
		cmocka_unit_test(progress_inside_progress),
		cmocka_unit_test(interrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
