/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams that are as long as the receive they land in (GW_SEND_FILL): the sender does not know the size when it
 * starts, learns it with the grant, and announces it.
 */
#include "pair.h"

#include <errno.h>
#include <string.h>

#define PAYLOAD 256u

static const struct pair_attr small_packets = { .qp = { .payload = PAYLOAD } };

static struct gw_send *start(struct pair *pair, struct seen_send *seen)
{
	struct gw_send_attr attr = { .flags = GW_SEND_FILL,
				     .handler = &seen_send_handler,
				     .arg = seen };
	struct gw_send *stream;

	assert_int_equal(gw_stream_start(pair->qp[0], &attr, &stream), 0);
	return stream;
}

static void test_takes_the_size_of_the_receive(void **state)
{
	const uint64_t length = 10 * PAYLOAD + 7;
	struct seen_send sent = { 0 };
	struct pair pair;
	struct gw_send *stream;
	struct gw_recv *recv;

	pair_open(&pair, &small_packets);
	fill_pattern(pair.memory[0], length, 1);
	stream = start(&pair, &sent);
	/* Not "out of range": nobody knows the range yet. */
	assert_int_equal(gw_stream_put(stream, PAYLOAD, pair.memory[0], PAYLOAD, pair.mr[0]),
			 -EAGAIN);
	recv = pair_recv(&pair, 1, 0, length, NULL);
	pair_until(&pair, sent.granted);
	assert_int_equal(sent.capacity, length);
	assert_int_equal(gw_stream_put(stream, 11 * PAYLOAD, pair.memory[0], 1, pair.mr[0]),
			 -ERANGE);
	pair_until(&pair, pair_status(recv).flags & GW_RECV_ANNOUNCED);
	assert_int_equal(pair_status(recv).length, length);
	pair_put(&pair, 0, stream, 0, length, 0, 11);
	pair_until(&pair, pair_status(recv).flags & GW_RECV_FULL);
	assert_memory_equal(pair.memory[1], pair.memory[0], length);
	assert_int_equal(gw_recv_complete(recv), 0);
	assert_int_equal(gw_stream_end(stream), 0);
	pair_until(&pair, sent.done && gw_recv_test(recv));
	assert_int_equal(gw_send_close(stream), 0);
	assert_int_equal(gw_recv_close(recv), 0);
	pair_close(&pair);
}

static void test_misuse(void **state)
{
	struct gw_send_attr attr = { .flags = GW_SEND_FILL, .length = PAYLOAD };
	struct gw_send *send;
	struct pair pair;

	pair_open(&pair, &small_packets);
	assert_int_equal(gw_stream_start(pair.qp[0], &attr, &send), -EINVAL);
	attr.addr = pair.memory[0];
	attr.mr = pair.mr[0];
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EINVAL);
	attr.length = 0;
	assert_int_equal(gw_send_post(pair.qp[0], &attr, &send), -EINVAL);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_takes_the_size_of_the_receive),
		cmocka_unit_test(test_misuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
