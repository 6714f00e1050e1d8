/* SPDX-License-Identifier: BSD-3-Clause */
/* What schemes say to each other and when they may not: control.h and scheme.h. */
#include "pair.h"

#include <errno.h>

#define PAYLOAD 512u

/* Sixty-four packets a message at most; few of anything. */
static const struct pair_attr small = {
	.context = { .max_sends = 3, .max_recvs = 3 },
	.qp = { .payload = PAYLOAD,
		.slots = 2,
		.slot_bits = 10,
		.packet_bits = 6,
		.user_bits = 16 },
};

/* What a scheme says, and how much of it. */
static void scheme_control(void **state)
{
	struct gw_run runs[GW_NACK_RUNS_MAX + 1];
	struct gw_nack nack = { .below = 64, .runs = runs };
	uint8_t text[GW_CONTROL_MAX + 1];
	struct seen_recv received = { 0 };
	struct gw_recv_status status;
	struct seen_send sent = { 0 };
	struct gw_recv *recv;
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &small);
	fill_pattern(text, sizeof(text), 9);
	send = pair_stream(&pair, 0, 64 * PAYLOAD, &sent);
	assert_int_equal(gw_send_control(send, text, 1), -EAGAIN);
	recv = pair_recv(&pair, 1, 0, 64 * PAYLOAD, &received);
	assert_int_equal(gw_recv_rebuilt(recv, 0), -EAGAIN);
	pair_until(&pair, sent.granted && received.announced);
	assert_int_equal(gw_recv_rebuilt(NULL, 0), -EINVAL);
	assert_int_equal(gw_recv_rebuilt(recv, 64), -ERANGE);
	assert_int_equal(gw_recv_rebuilt(recv, 63), 0);
	assert_int_equal(gw_recv_rebuilt(recv, 63), -EALREADY);
	assert_int_equal(gw_recv_status(recv, &status), 0);
	assert_int_equal(status.landed, 1);
	assert_int_equal(status.highest, 64);
	assert_ptr_equal(gw_send_qp(send), pair.qp[0]);
	assert_ptr_equal(gw_recv_qp(recv), pair.qp[1]);
	assert_int_equal(gw_send_control(NULL, text, 1), -EINVAL);
	assert_int_equal(gw_send_control(send, NULL, 1), -EINVAL);
	assert_int_equal(gw_send_control(send, text, GW_CONTROL_MAX + 1), -EMSGSIZE);
	assert_int_equal(gw_recv_control(NULL, text, 1), -EINVAL);
	assert_int_equal(gw_recv_control(recv, NULL, 1), -EINVAL);
	assert_int_equal(gw_recv_control(recv, text, GW_CONTROL_MAX + 1), -EMSGSIZE);
	assert_int_equal(gw_send_control(send, text, GW_CONTROL_MAX), 0);
	assert_int_equal(gw_recv_control(recv, text, GW_CONTROL_MAX - 1), 0);
	pair_until(&pair, received.controls && sent.controls);
	assert_int_equal(received.control_length, GW_CONTROL_MAX);
	assert_memory_equal(received.control, text, GW_CONTROL_MAX);
	assert_int_equal(sent.control_length, GW_CONTROL_MAX - 1);
	assert_memory_equal(sent.control, text, GW_CONTROL_MAX - 1);

	for (uint32_t i = 0; i <= GW_NACK_RUNS_MAX; i++)
		runs[i] = (struct gw_run){ i, 1 };
	nack.count = GW_NACK_RUNS_MAX + 1;
	assert_int_equal(gw_recv_nack(recv, &nack), -EINVAL);
	nack.count = 10;
	assert_int_equal(gw_recv_nack(NULL, &nack), -EINVAL);
	assert_int_equal(gw_recv_nack(recv, NULL), -EINVAL);
	nack.reserved = 1;
	assert_int_equal(gw_recv_nack(recv, &nack), -EINVAL);
	nack.reserved = 0;
	nack.runs = NULL;
	assert_int_equal(gw_recv_nack(recv, &nack), -EINVAL);
	nack.runs = runs;
	runs[5].count = 2; /* overlaps the next */
	assert_int_equal(gw_recv_nack(recv, &nack), -EINVAL);
	runs[5].count = 0;
	assert_int_equal(gw_recv_nack(recv, &nack), -EINVAL);
	runs[5].count = 1;
	assert_int_equal(gw_recv_nack(recv, &nack), 0);
	pair_until(&pair, sent.nacks);

	assert_int_equal(gw_send_timer(send, gw_qp_now_ns(pair.qp[0])), 0);
	assert_int_equal(gw_recv_timer(recv, gw_qp_now_ns(pair.qp[1]) + 1000000), 0);
	pair_until(&pair, sent.timers && received.timers);
	assert_int_equal(gw_send_timer(send, gw_qp_now_ns(pair.qp[0]) + 5000000), 0);
	assert_int_equal(gw_send_timer(send, 0), 0);
	pair_idle(&pair, 10);
	assert_int_equal(sent.timers, 1);
	assert_int_equal(received.timers, 1);
	pair_close(&pair);
}

static void on_transfer(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	*(struct gw_transfer_result *)arg = *result;
}

static void bad_transfers(void **state)
{
	const struct gw_scheme *scheme = &gw_selective_repeat;
	struct gw_transfer_result failed = { .status = 1 };
	struct gw_transfer_attr good = { .length = 100 }, attr;
	struct gw_recv *recv;
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &small);
	good.addr = pair.memory[0];
	good.mr = pair.mr[0];
	assert_int_equal(gw_transfer_send(NULL, scheme, &good, &send), -EINVAL);
	assert_int_equal(gw_transfer_send(pair.qp[0], NULL, &good, &send), -EINVAL);
	assert_int_equal(gw_transfer_send(pair.qp[0], scheme, NULL, &send), -EINVAL);
	assert_int_equal(gw_transfer_send(pair.qp[0], scheme, &good, NULL), -EINVAL);
	assert_int_equal(gw_transfer_recv(NULL, scheme, &good, &recv), -EINVAL);
	assert_int_equal(gw_transfer_recv(pair.qp[0], NULL, &good, &recv), -EINVAL);
	assert_int_equal(gw_transfer_recv(pair.qp[0], scheme, NULL, &recv), -EINVAL);
	assert_int_equal(gw_transfer_recv(pair.qp[0], scheme, &good, NULL), -EINVAL);
	attr = good;
	attr.options = &good; /* it has none */
	assert_int_equal(gw_transfer_send(pair.qp[0], scheme, &attr, &send), -EINVAL);
	assert_int_equal(gw_transfer_recv(pair.qp[0], scheme, &attr, &recv), -EINVAL);
	for (unsigned i = 0; i < 3; i++) {
		attr = good;
		attr.reserved[i] = 1;
		assert_int_equal(gw_transfer_send(pair.qp[0], scheme, &attr, &send), -EINVAL);
		assert_int_equal(gw_transfer_recv(pair.qp[0], scheme, &attr, &recv), -EINVAL);
	}
	attr = good;
	attr.reserved32 = 1;
	assert_int_equal(gw_transfer_send(pair.qp[0], scheme, &attr, &send), -EINVAL);
	assert_int_equal(gw_transfer_recv(pair.qp[0], scheme, &attr, &recv), -EINVAL);
	attr = good;
	attr.tag = 1;
	assert_int_equal(gw_transfer_send(pair.qp[0], scheme, &attr, &send), -EINVAL);
	attr = good;
	attr.flags = GW_SEND_IMM;
	assert_int_equal(gw_transfer_recv(pair.qp[0], scheme, &attr, &recv), -EINVAL);
	attr = good;
	attr.addr = NULL;
	assert_int_equal(gw_transfer_send(pair.qp[0], scheme, &attr, &send), -EINVAL);
	attr = good;
	attr.length = 64 * PAYLOAD + 1;
	assert_int_equal(gw_transfer_send(pair.qp[0], scheme, &attr, &send), -EMSGSIZE);
	assert_int_equal(gw_transfer_recv(pair.qp[0], scheme, &attr, &recv), -EMSGSIZE);
	attr = good;
	attr.mr = pair.mr[1];
	assert_int_equal(gw_transfer_recv(pair.qp[0], scheme, &attr, &recv), -EFAULT);
	/* A send's memory is looked at when it is put: the transfer ends with it. */
	attr.done = on_transfer;
	attr.arg = &failed;
	assert_int_equal(gw_transfer_send(pair.qp[0], scheme, &attr, &send), 0);
	pair_recv(&pair, 1, 0, 100, NULL);
	pair_until(&pair, failed.status != 1);
	assert_int_equal(failed.status, -EFAULT);
	pair_close(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(scheme_control),
		cmocka_unit_test(bad_transfers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
