/* SPDX-License-Identifier: BSD-3-Clause */
/* Every -errno that message.h and control.h promise for sends and receives. */
#include "pair.h"

#include <errno.h>
#include <string.h>

#include "message/state.h"

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

static struct gw_send_attr sending(const struct pair *pair, uint64_t length)
{
	return (struct gw_send_attr){ .addr = pair->memory[0],
				      .length = length,
				      .mr = pair->mr[0] };
}

static struct gw_recv_attr receiving(const struct pair *pair, uint64_t length)
{
	return (struct gw_recv_attr){ .addr = pair->memory[1],
				      .length = length,
				      .mr = pair->mr[1] };
}

static void bad_sends(void **state)
{
	struct gw_send_attr good, attr;
	struct gw_send *const untouched = (struct gw_send *)&good;
	struct gw_send *send = untouched;
	struct pair pair;

	(void)state;
	pair_open(&pair, &small);
	good = sending(&pair, 100);
	assert_int_equal(gw_send_post(NULL, &good, &send), -EINVAL);
	assert_int_equal(gw_send_post(pair.qp[0], NULL, &send), -EINVAL);
	assert_int_equal(gw_send_post(pair.qp[0], &good, NULL), -EINVAL);
	attr = good;
	attr.flags = 2;
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EINVAL);
	for (unsigned i = 0; i < 3; i++) {
		attr = good;
		attr.reserved8[i] = 1;
		assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EINVAL);
	}
	attr = good;
	attr.reserved32 = 1;
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EINVAL);
	for (unsigned i = 0; i < 4; i++) {
		attr = good;
		attr.reserved[i] = 1;
		assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EINVAL);
		attr.addr = NULL;
		attr.mr = NULL;
		assert_int_equal(gw_stream_start(pair.qp[0], &attr, &send), -EINVAL);
	}
	/* Memory: before, after, across the end, of another context. */
	attr = good;
	attr.addr = pair.memory[0] - 1;
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EFAULT);
	attr.addr = pair.memory[0] + PAIR_MEMORY;
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EFAULT);
	attr.addr = pair.memory[0] + PAIR_MEMORY - 99;
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EFAULT);
	attr = good;
	attr.mr = pair.mr[1];
	attr.addr = pair.memory[1];
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EFAULT);
	attr = sending(&pair, 64 * PAYLOAD + 1);
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EMSGSIZE);
	attr.addr = NULL;
	attr.mr = NULL;
	assert_int_equal(gw_stream_start(pair.qp[0], &attr, &send), -EMSGSIZE);
	/* A stream names memory in its puts. */
	assert_int_equal(gw_stream_start(pair.qp[0], &good, &send), -EINVAL);
	assert_ptr_equal(send, untouched);
	for (int i = 0; i < 3; i++)
		assert_int_equal(gw_send_post(pair.qp[0], &good, &send), 0);
	send = untouched;
	assert_int_equal(gw_send_post(pair.qp[0], &good, &send), -ENOBUFS);
	good.addr = NULL;
	good.mr = NULL;
	assert_int_equal(gw_stream_start(pair.qp[0], &good, &send), -ENOBUFS);
	assert_ptr_equal(send, untouched);
	pair_close(&pair);
}

static void bad_puts(void **state)
{
	const uint64_t length = 10 * PAYLOAD + 7;
	struct seen_send sent = { 0 };
	struct gw_send *stream, *once;
	struct pair pair;
	uint8_t *from;

	(void)state;
	pair_open(&pair, &small);
	from = pair.memory[0];
	stream = pair_stream(&pair, 0, length, &sent);
	once = pair_send(&pair, 0, 0, 100, NULL);
	assert_int_equal(gw_stream_put(NULL, 0, from, PAYLOAD, pair.mr[0]), -EINVAL);
	assert_int_equal(gw_stream_put(stream, 0, from, PAYLOAD, pair.mr[0]), -EAGAIN);
	assert_int_equal(gw_stream_put(once, 0, from, PAYLOAD, pair.mr[0]), -EINVAL);
	assert_int_equal(gw_stream_end(once), -EINVAL);
	assert_int_equal(gw_stream_end(NULL), -EINVAL);
	pair_recv(&pair, 1, 0, length, NULL);
	pair_until(&pair, sent.granted);
	assert_int_equal(gw_stream_put(stream, 1, from, PAYLOAD, pair.mr[0]), -ERANGE);
	assert_int_equal(gw_stream_put(stream, 4, from, PAYLOAD, pair.mr[0]), -ERANGE);
	assert_int_equal(gw_stream_put(stream, 0, from, PAYLOAD - 1, pair.mr[0]), -ERANGE);
	assert_int_equal(gw_stream_put(stream, 0, from, length + 1, pair.mr[0]), -ERANGE);
	assert_int_equal(gw_stream_put(stream, 10 * PAYLOAD, from, 8, pair.mr[0]), -ERANGE);
	assert_int_equal(gw_stream_put(stream, 10 * PAYLOAD, from, 6, pair.mr[0]), -ERANGE);
	assert_int_equal(gw_stream_put(stream, 11 * PAYLOAD, from, PAYLOAD, pair.mr[0]), -ERANGE);
	assert_int_equal(gw_stream_put(stream, UINT64_MAX - PAYLOAD + 1, from, PAYLOAD, pair.mr[0]),
			 -ERANGE);
	assert_int_equal(gw_stream_put(stream, PAYLOAD, from, UINT64_MAX - PAYLOAD + 1, pair.mr[0]),
			 -ERANGE);
	assert_int_equal(gw_stream_put(stream, 0, from - 1, PAYLOAD, pair.mr[0]), -EFAULT);
	assert_int_equal(
		gw_stream_put(stream, 0, from + PAIR_MEMORY - PAYLOAD + 1, PAYLOAD, pair.mr[0]),
		-EFAULT);
	assert_int_equal(gw_stream_put(stream, 0, pair.memory[1], PAYLOAD, pair.mr[1]), -EFAULT);
	assert_int_equal(counter(pair.ctx[0], "sent_packets"), 0);
	/* Full: nothing is handed on without progress. */
	for (unsigned i = 0; i < GW_PUTS_MAX; i++)
		assert_int_equal(gw_stream_put(stream, 0, from, PAYLOAD, pair.mr[0]), 0);
	assert_int_equal(gw_stream_put(stream, 0, from, PAYLOAD, pair.mr[0]), -EAGAIN);
	sent.drained = 0;
	pair_until(&pair, sent.drained);
	assert_int_equal(gw_stream_put(stream, 10 * PAYLOAD, from, 7, pair.mr[0]), 0);
	assert_int_equal(gw_stream_put(stream, 0, from, 0, pair.mr[0]), 0);
	assert_int_equal(gw_stream_end(stream), 0);
	assert_int_equal(gw_stream_end(stream), -EALREADY);
	assert_int_equal(gw_stream_put(stream, 0, from, PAYLOAD, pair.mr[0]), -EALREADY);
	pair_until(&pair, sent.done);
	assert_int_equal(gw_stream_end(stream), -EALREADY);
	assert_int_equal(gw_stream_put(stream, 0, from, PAYLOAD, pair.mr[0]), -EALREADY);
	assert_int_equal(gw_send_timer(stream, 1), -EALREADY);
	assert_int_equal(gw_send_control(stream, from, 1), -EALREADY);
	pair_close(&pair);
}

static void stale_sends(void **state)
{
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &small);
	send = pair_stream(&pair, 0, 100, NULL);
	assert_int_equal(gw_send_test(send), 0);
	assert_int_equal(gw_send_close(send), 0);
	assert_int_equal(gw_send_close(send), -ESTALE);
	assert_int_equal(gw_send_test(send), -ESTALE);
	assert_int_equal(gw_stream_put(send, 0, pair.memory[0], 100, pair.mr[0]), -ESTALE);
	assert_int_equal(gw_stream_end(send), -ESTALE);
	assert_int_equal(gw_send_timer(send, 1), -ESTALE);
	assert_int_equal(gw_send_control(send, "x", 1), -ESTALE);
	assert_null(gw_send_state(send));
	assert_null(gw_send_qp(send));
	assert_int_equal(gw_send_test(NULL), -EINVAL);
	assert_int_equal(gw_send_close(NULL), -EINVAL);
	assert_int_equal(gw_send_timer(NULL, 1), -EINVAL);
	assert_null(gw_send_state(NULL));
	assert_null(gw_send_qp(NULL));
	pair_close(&pair);
}

static void bad_receives(void **state)
{
	struct gw_recv_attr good, attr;
	struct gw_recv *recv, *untouched = (struct gw_recv *)&good;
	struct pair pair;

	(void)state;
	pair_open(&pair, &small);
	good = receiving(&pair, 100);
	recv = untouched;
	assert_int_equal(gw_recv_post(NULL, &good, &recv), -EINVAL);
	assert_int_equal(gw_recv_post(pair.qp[1], NULL, &recv), -EINVAL);
	assert_int_equal(gw_recv_post(pair.qp[1], &good, NULL), -EINVAL);
	attr = good;
	attr.mr = NULL;
	assert_int_equal(gw_recv_post(pair.qp[1], &attr, &recv), -EINVAL);
	for (unsigned i = 0; i < 3; i++) {
		attr = good;
		attr.reserved[i] = 1;
		assert_int_equal(gw_recv_post(pair.qp[1], &attr, &recv), -EINVAL);
	}
	attr = good;
	attr.flags = 4;
	assert_int_equal(gw_recv_post(pair.qp[1], &attr, &recv), -EINVAL);
	attr = good;
	attr.addr = pair.memory[1] - 1;
	assert_int_equal(gw_recv_post(pair.qp[1], &attr, &recv), -EFAULT);
	attr.addr = pair.memory[1] + PAIR_MEMORY - 99;
	assert_int_equal(gw_recv_post(pair.qp[1], &attr, &recv), -EFAULT);
	attr.addr = pair.memory[1];
	attr.length = UINT64_MAX;
	assert_int_equal(gw_recv_post(pair.qp[1], &attr, &recv), -EFAULT);
	attr = receiving(&pair, 64 * PAYLOAD + 1);
	assert_int_equal(gw_recv_post(pair.qp[1], &attr, &recv), -EMSGSIZE);
	assert_ptr_equal(recv, untouched);
	for (int i = 0; i < 3; i++)
		assert_int_equal(gw_recv_post(pair.qp[1], &good, &recv), 0);
	recv = untouched;
	assert_int_equal(gw_recv_post(pair.qp[1], &good, &recv), -ENOBUFS);
	assert_ptr_equal(recv, untouched);
	pair_close(&pair);
}

static void no_bitmap_memory(void **state)
{
	static const struct pair_attr attr = { .context = { .bitmap_bytes = 4096 },
					       .qp = { .payload = 4, .chunk_packets = 1 } };
	struct gw_recv_attr recv_attr;
	struct gw_send_attr send_attr;
	struct gw_recv *recv;
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &attr);
	recv_attr = receiving(&pair, 4 * 100000);
	assert_int_equal(gw_recv_post(pair.qp[1], &recv_attr, &recv), -ENOBUFS);
	recv_attr.length = 4000;
	assert_int_equal(gw_recv_post(pair.qp[1], &recv_attr, &recv), 0);
	send_attr = sending(&pair, 100);
	assert_int_equal(gw_send_post(pair.qp[0], &send_attr, &send), -ENOBUFS);
	pair_close(&pair);
}

static void receives_out_of_turn(void **state)
{
	struct gw_nack nack = { .below = 1 };
	struct gw_recv_status status;
	const uint64_t *words;
	struct gw_recv *recv, *waiting;
	struct gw_run run;
	uint64_t packets;
	uint32_t value;
	struct pair pair;

	(void)state;
	pair_open(&pair, &small);
	recv = pair_recv(&pair, 1, 0, 100, NULL);
	pair_recv(&pair, 1, 0, 100, NULL);
	waiting = pair_recv(&pair, 1, 0, 100, NULL);
	assert_int_equal(gw_recv_test(recv), 0);
	assert_int_equal(gw_recv_close(recv), -EBUSY);
	pair_until(&pair, pair.qp[1]->rx.grants_acked == recv->msn + 2);
	assert_int_equal(gw_recv_control(waiting, "x", 1), -EAGAIN);
	assert_int_equal(gw_recv_status(NULL, &status), -EINVAL);
	assert_int_equal(gw_recv_status(recv, NULL), -EINVAL);
	assert_int_equal(gw_recv_bitmap(NULL, &words, &value), -EINVAL);
	assert_int_equal(gw_recv_bitmap(recv, NULL, &value), -EINVAL);
	assert_int_equal(gw_recv_bitmap(recv, &words, NULL), -EINVAL);
	assert_int_equal(gw_recv_expand(NULL, 0, &packets), -EINVAL);
	assert_int_equal(gw_recv_expand(recv, 0, NULL), -EINVAL);
	assert_int_equal(gw_recv_expand(recv, 1, &packets), -ERANGE);
	assert_int_equal(gw_recv_next_hole(NULL, 0, 1, &run), -EINVAL);
	assert_int_equal(gw_recv_next_hole(recv, 0, 1, NULL), -EINVAL);
	assert_int_equal(gw_recv_imm(NULL, &value), -EINVAL);
	assert_int_equal(gw_recv_imm(recv, NULL), -EINVAL);
	assert_int_equal(gw_recv_imm(recv, &value), -EAGAIN);
	assert_int_equal(gw_recv_test(NULL), -EINVAL);
	assert_int_equal(gw_recv_complete(NULL), -EINVAL);
	assert_int_equal(gw_recv_close(NULL), -EINVAL);
	assert_int_equal(gw_recv_timer(NULL, 1), -EINVAL);
	assert_null(gw_recv_state(NULL));
	assert_null(gw_recv_qp(NULL));

	assert_int_equal(gw_recv_complete(recv), 0);
	assert_int_equal(gw_recv_complete(recv), -EALREADY);
	assert_int_equal(gw_recv_nack(recv, &nack), -EALREADY);
	assert_int_equal(gw_recv_control(recv, "x", 1), -EALREADY);
	assert_int_equal(gw_recv_timer(recv, 1), -EALREADY);
	pair_until(&pair, gw_recv_test(recv) == 1);
	assert_int_equal(gw_recv_complete(recv), -EALREADY);
	assert_int_equal(gw_recv_close(recv), 0);
	assert_int_equal(gw_recv_close(recv), -ESTALE);
	assert_int_equal(gw_recv_status(recv, &status), -ESTALE);
	assert_int_equal(gw_recv_bitmap(recv, &words, &value), -ESTALE);
	assert_int_equal(gw_recv_expand(recv, 0, &packets), -ESTALE);
	assert_int_equal(gw_recv_next_hole(recv, 0, 1, &run), -ESTALE);
	assert_int_equal(gw_recv_imm(recv, &value), -ESTALE);
	assert_int_equal(gw_recv_test(recv), -ESTALE);
	assert_int_equal(gw_recv_complete(recv), -ESTALE);
	assert_int_equal(gw_recv_timer(recv, 1), -ESTALE);
	assert_int_equal(gw_recv_nack(recv, &nack), -ESTALE);
	assert_int_equal(gw_recv_control(recv, "x", 1), -ESTALE);
	assert_null(gw_recv_state(recv));
	assert_null(gw_recv_qp(recv));
	pair_close(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_sends),	    cmocka_unit_test(bad_puts),
		cmocka_unit_test(stale_sends),	    cmocka_unit_test(bad_receives),
		cmocka_unit_test(no_bitmap_memory), cmocka_unit_test(receives_out_of_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
