/* SPDX-License-Identifier: BSD-3-Clause */
/* Every -errno of what comes before and around messages: contexts, memory, queue pairs, connecting. */
#include "pair.h"

#include <errno.h>
#include <string.h>

#include "message/state.h"

static const struct pair_attr plain = { .qp = { .payload = 512, .slots = 2 } };

static void contexts(void **state)
{
	static const struct gw_faults bad_faults[] = {
		{ .drop = -0.1 }, { .drop = 1.1 }, { .duplicate = 2 }, { .reorder = -1 }
	};
	struct gw_context_attr good = { .fabric = "roce:127.0.0.1@0" }, attr;
	struct gw_context *ctx = NULL;

	(void)state;
	assert_int_equal(gw_context_open(NULL, &ctx), -EINVAL);
	assert_int_equal(gw_context_open(&good, NULL), -EINVAL);
	attr = good;
	attr.fabric = NULL;
	assert_int_equal(gw_context_open(&attr, &ctx), -EINVAL);
	attr = good;
	attr.flags = 1u << 31;
	assert_int_equal(gw_context_open(&attr, &ctx), -EINVAL);
	attr = good;
	attr.lanes = 9;
	assert_int_equal(gw_context_open(&attr, &ctx), -EINVAL);
	attr = good;
	attr.traffic_class = 1; /* ECN's bits are not the caller's */
	assert_int_equal(gw_context_open(&attr, &ctx), -EINVAL);
	attr = good;
	attr.reserved8[2] = 1;
	assert_int_equal(gw_context_open(&attr, &ctx), -EINVAL);
	for (unsigned i = 0; i < 7; i++) {
		attr = good;
		attr.reserved[i] = 1;
		assert_int_equal(gw_context_open(&attr, &ctx), -EINVAL);
	}
	for (unsigned i = 0; i < 4; i++) {
		attr = good;
		attr.faults = &bad_faults[i];
		assert_int_equal(gw_context_open(&attr, &ctx), -EINVAL);
	}
	attr = good;
	attr.max_sends = UINT32_MAX;
	assert_int_equal(gw_context_open(&attr, &ctx), -EINVAL);
	assert_null(ctx);
	assert_int_equal(gw_context_close(NULL), -EINVAL);
	assert_int_equal(gw_progress(NULL), -EINVAL);
	assert_int_equal(gw_wait(NULL, 0), -EINVAL);
	assert_int_equal(gw_now_ns(NULL), 0);
	assert_non_null(strstr(gw_context_error(NULL), "reserved attribute"));
	assert_string_equal(gw_version(), GODWIT_VERSION);
	assert_int_equal(gw_context_open(&good, &ctx), 0);
	assert_string_equal(gw_context_error(ctx), "");
	assert_int_equal(gw_context_close(ctx), 0);
}

static void counters(void **state)
{
	uint64_t value = 99;
	struct pair pair;

	(void)state;
	pair_open_contexts(&pair, &plain);
	assert_null(gw_counter_name(gw_counter_count()));
	assert_null(gw_counter_name(UINT32_MAX));
	assert_int_equal(gw_counter_find("no_such_counter"), -ENOENT);
	assert_int_equal(gw_counter_find(NULL), -ENOENT);
	assert_int_equal(gw_counter_read(NULL, 0, &value), -EINVAL);
	assert_int_equal(gw_counter_read(pair.ctx[0], 0, NULL), -EINVAL);
	assert_int_equal(gw_counter_read(pair.ctx[0], gw_counter_count(), &value), -EINVAL);
	assert_int_equal(value, 99);
	for (unsigned i = 0; i < gw_counter_count(); i++) {
		assert_non_null(gw_counter_name(i));
		assert_int_equal(gw_counter_find(gw_counter_name(i)), i);
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(gw_counter_name(i), gw_counter_name(j));
		assert_int_equal(gw_counter_read(pair.ctx[0], i, &value), 0);
		assert_int_equal(value, 0);
	}
	pair_close(&pair);
}

static void memory(void **state)
{
	struct gw_mr *mr = NULL;
	struct gw_recv *recv;
	uint8_t bytes[100];
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	assert_int_equal(gw_mr_register(NULL, bytes, 100, &mr), -EINVAL);
	assert_int_equal(gw_mr_register(pair.ctx[0], NULL, 100, &mr), -EINVAL);
	assert_int_equal(gw_mr_register(pair.ctx[0], bytes, 0, &mr), -EINVAL);
	assert_int_equal(gw_mr_register(pair.ctx[0], bytes, SIZE_MAX, &mr), -EINVAL);
	assert_int_equal(gw_mr_register(pair.ctx[0], bytes, 100, NULL), -EINVAL);
	assert_null(mr);
	assert_int_equal(gw_mr_deregister(NULL), -EINVAL);
	assert_int_equal(gw_mr_register(pair.ctx[0], bytes, 100, &mr), 0);
	assert_int_equal(gw_mr_deregister(mr), 0);
	assert_int_equal(gw_mr_deregister(mr), -ESTALE);

	assert_int_equal(gw_mr_register_dmabuf(NULL, 0, 0, 100, bytes, &mr), -EINVAL);
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], -1, 0, 100, bytes, &mr), -EINVAL);
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], 0, UINT64_MAX, 100, bytes, &mr),
			 -EINVAL);
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], 0, 0, 0, bytes, &mr), -EINVAL);
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], 0, 0, SIZE_MAX, bytes, &mr), -EINVAL);
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], 0, 0, 100, NULL, &mr), -EINVAL);
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], 0, 0, 100, bytes, NULL), -EINVAL);
	/* On sockets the processor copies. */
	assert_int_equal(gw_mr_register_dmabuf(pair.ctx[0], 0, 0, 100, bytes, &mr), -ENOTSUP);
	assert_non_null(strstr(gw_context_error(pair.ctx[0]), "the processor copies"));

	/* A receive holds its memory until it is released. */
	recv = pair_recv(&pair, 1, 0, 4000, NULL);
	assert_int_equal(gw_mr_deregister(pair.mr[1]), -EBUSY);
	assert_int_equal(gw_recv_complete(recv), 0);
	assert_int_equal(gw_mr_deregister(pair.mr[1]), -EBUSY);
	pair_until(&pair, gw_recv_test(recv) == 1);
	assert_int_equal(gw_mr_deregister(pair.mr[1]), 0);
	pair_close(&pair);
}

/* A send holds its memory from post to end, also while it waits for its grant. */
static void memory_of_sends(void **state)
{
	struct seen_send sent = { 0 };
	struct gw_send *send;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	send = pair_send(&pair, 0, 0, 4000, &sent);
	assert_int_equal(gw_mr_deregister(pair.mr[0]), -EBUSY);
	pair_recv(&pair, 1, 0, 4000, NULL);
	pair_until(&pair, sent.done);
	assert_int_equal(gw_send_close(send), 0);
	assert_int_equal(pair.mr[0]->users, 0);

	send = pair_stream(&pair, 0, 4000, &sent);
	pair_recv(&pair, 1, 0, 4000, NULL);
	sent.granted = 0;
	pair_until(&pair, sent.granted);
	assert_int_equal(gw_stream_put(send, 0, pair.memory[0], 512, pair.mr[0]), 0);
	assert_int_equal(gw_mr_deregister(pair.mr[0]), -EBUSY);
	assert_int_equal(gw_send_close(send), 0);

	send = pair_send(&pair, 0, 0, 4000, NULL);
	assert_int_equal(gw_mr_deregister(pair.mr[0]), -EBUSY);
	assert_int_equal(gw_send_close(send), 0);
	assert_int_equal(gw_mr_deregister(pair.mr[0]), 0);
	pair_close(&pair);
}

static void bad_queue_pairs(void **state)
{
	static const struct gw_qp_attr bad[] = {
		{ .payload = 1022 },
		{ .payload = 1u << 20 },
		{ .chunk_packets = 3 },
		{ .chunk_packets = 128 },
		{ .slots = 3 },
		{ .slots = 2048 },
		{ .slot_bits = 10 },
		{ .slot_bits = 10, .packet_bits = 18, .user_bits = 5 },
		{ .slot_bits = 17, .packet_bits = 10, .user_bits = 5 },
		{ .slot_bits = 0, .packet_bits = 32, .user_bits = 0 },
		{ .slot_bits = 16, .packet_bits = 0, .user_bits = 16 },
		{ .slot_bits = 4, .packet_bits = 10, .user_bits = 18 },
		{ .slot_bits = 2, .packet_bits = 26, .user_bits = 4, .slots = 8 },
		{ .payload_shift = 11 },
		{ .payload_divides = 6 },
		{ .payload = 1024, .payload_divides = 1000 },
		{ .reserved = { 1 } },
		{ .peer_host =
			  "an address that is longer than any address can be written, zone included" },
	};
	struct pair_attr attr = { .context = { .max_qps = 2 } };
	struct gw_qp_info info;
	struct gw_qp *qp = NULL;
	struct pair pair;

	(void)state;
	pair_open_contexts(&pair, &attr);
	assert_int_equal(gw_qp_create(NULL, NULL, &qp), -EINVAL);
	assert_int_equal(gw_qp_create(pair.ctx[0], NULL, NULL), -EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(gw_qp_create(pair.ctx[0], &bad[i], &qp), -EINVAL);
	assert_null(qp);
	for (int i = 0; i < 2; i++)
		assert_int_equal(gw_qp_create(pair.ctx[0], NULL, &qp), 0);
	pair.qp[0] = qp;
	assert_int_equal(gw_qp_create(pair.ctx[0], NULL, &qp), -ENOBUFS);
	assert_ptr_equal(qp, pair.qp[0]);
	assert_int_equal(gw_qp_info(NULL, &info), -EINVAL);
	assert_int_equal(gw_qp_info(qp, NULL), -EINVAL);
	assert_int_equal(gw_qp_close(NULL), -EINVAL);
	assert_int_equal(gw_qp_status(NULL), -EINVAL);
	assert_int_equal(gw_qp_info(qp, &info), 0);
	assert_int_equal(gw_qp_close(qp), 0);
	assert_int_equal(gw_qp_close(qp), -ESTALE);
	assert_int_equal(gw_qp_status(qp), -ESTALE);
	assert_int_equal(gw_qp_info(qp, &info), -ESTALE);
	assert_int_equal(gw_qp_connect(qp, &info), -ESTALE);
	assert_int_equal(gw_qp_now_ns(qp), 0);
	pair_close(&pair);
}

static void before_connect(void **state)
{
	struct gw_send_attr send_attr = { .length = 100 };
	struct gw_recv_attr recv_attr = { .length = 100 };
	struct gw_estimate estimate;
	struct gw_send *send;
	struct gw_recv *recv;
	struct pair pair;

	(void)state;
	pair_open_contexts(&pair, &plain);
	assert_int_equal(gw_qp_create(pair.ctx[0], NULL, &pair.qp[0]), 0);
	send_attr.addr = recv_attr.addr = pair.memory[0];
	send_attr.mr = recv_attr.mr = pair.mr[0];
	assert_int_equal(gw_qp_status(pair.qp[0]), -ENOTCONN);
	assert_int_equal(gw_send_post(pair.qp[0], &send_attr, &send), -ENOTCONN);
	assert_int_equal(gw_stream_start(pair.qp[0], &send_attr, &send), -ENOTCONN);
	assert_int_equal(gw_recv_post(pair.qp[0], &recv_attr, &recv), -ENOTCONN);
	assert_int_equal(gw_qp_estimate(pair.qp[0], &estimate), 0);
	assert_int_equal(estimate.rtt_ns, 0);
	assert_int_equal(gw_qp_estimate(NULL, &estimate), -EINVAL);
	assert_int_equal(gw_qp_estimate(pair.qp[0], NULL), -EINVAL);
	assert_int_equal(gw_qp_patience_ns(pair.qp[0]), 50000000);
	pair_close(&pair);
}

static int try_connect(struct pair *pair, const struct gw_qp_attr *attr,
		       const struct gw_qp_info *info)
{
	struct gw_qp *qp;
	int error;

	assert_int_equal(gw_qp_create(pair->ctx[0], attr, &qp), 0);
	error = gw_qp_connect(qp, info);
	assert_int_equal(gw_qp_status(qp), error ? -ENOTCONN : 0);
	assert_int_equal(gw_qp_close(qp), 0);
	return error;
}

static void connecting(void **state)
{
	static const struct gw_qp_attr other_split = { .slot_bits = 8,
						       .packet_bits = 20,
						       .user_bits = 4 };
	static const struct pair_attr ipv6 = { .address = "::1" };
	struct gw_qp_info good, info;
	struct pair pair, six;

	(void)state;
	pair_open(&pair, &plain);
	assert_int_equal(gw_qp_info(pair.qp[1], &good), 0);
	assert_int_equal(gw_qp_connect(pair.qp[0], &good), -EISCONN);
	assert_int_equal(gw_qp_connect(NULL, &good), -EINVAL);
	assert_int_equal(gw_qp_connect(pair.qp[0], NULL), -EINVAL);
	assert_int_equal(try_connect(&pair, NULL, &good), 0);
	assert_int_equal(try_connect(&pair, &other_split, &good), -EMSGSIZE);

	memset(&info, 0, sizeof(info));
	assert_int_equal(try_connect(&pair, NULL, &info), -EINVAL);
	fill_pattern(info.bytes, sizeof(info.bytes), 1);
	assert_int_equal(try_connect(&pair, NULL, &info), -EINVAL);
	info = good;
	info.bytes[4] = 3; /* newer, but speaks ours */
	assert_int_equal(try_connect(&pair, NULL, &info), 0);
	info.bytes[5] = 3;
	assert_int_equal(try_connect(&pair, NULL, &info), -EPROTONOSUPPORT);
	info = good;
	info.bytes[4] = 0;
	assert_int_equal(try_connect(&pair, NULL, &info), -EPROTONOSUPPORT);
	info = good;
	info.bytes[44] = 65; /* an address longer than there is room for */
	assert_int_equal(try_connect(&pair, NULL, &info), -EINVAL);
	info = good;
	info.bytes[48] = 99; /* a kind of end that is not known */
	assert_int_equal(try_connect(&pair, NULL, &info), -EPROTONOSUPPORT);
	info = good;
	memcpy(info.bytes + 12, "\0\0\0\2", 4); /* a payload that is no multiple of 4 */
	assert_int_equal(try_connect(&pair, NULL, &info), -EINVAL);
	info = good;
	memcpy(info.bytes + 124, "\0\0\0\2", 4); /* likewise, the smallest */
	assert_int_equal(try_connect(&pair, NULL, &info), -EINVAL);
	info = good;
	memcpy(info.bytes + 124, "\0\1\0\0", 4); /* larger than the largest */
	assert_int_equal(try_connect(&pair, NULL, &info), -EINVAL);
	info = good;
	memcpy(info.bytes + 124, "\0\0\0\374", 4); /* too small for control */
	assert_int_equal(try_connect(&pair, NULL, &info), -EINVAL);
	info = good;
	memcpy(info.bytes + 16, "\0\0\0\3", 4); /* slots that are no power of two */
	assert_int_equal(try_connect(&pair, NULL, &info), -EINVAL);

	pair_open(&six, &ipv6);
	assert_int_equal(gw_qp_info(six.qp[0], &info), 0);
	assert_int_equal(try_connect(&pair, NULL, &info), -ENETUNREACH);
	assert_int_equal(try_connect(&six, NULL, &good), -ENETUNREACH);
	pair_close(&six);
	pair_close(&pair);
}

/* Whatever single bit of a description is wrong: refused or taken, never a crash. */
static void descriptions_with_a_flipped_bit(void **state)
{
	struct gw_qp_info good, info;
	struct pair pair;

	(void)state;
	pair_open(&pair, &plain);
	assert_int_equal(gw_qp_info(pair.qp[1], &good), 0);
	for (unsigned bit = 0; bit < 8 * sizeof(good.bytes); bit++) {
		int error;

		info = good;
		info.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		error = try_connect(&pair, NULL, &info);
		assert_true(error == 0 || error == -EINVAL || error == -EPROTONOSUPPORT ||
			    error == -EPERM || error == -EMSGSIZE || error == -ENETUNREACH);
		if (bit < 32)
			assert_int_equal(error, -EINVAL);
	}
	for (int end = 0; end < 2; end++) {
		/* The closes of all those went to queue pairs that do not know them. */
		pair_idle(&pair, 1);
		pair.ctx[end]->counters[COUNT_DROP_TOKEN] = 0;
		pair.ctx[end]->fabric->counters[FABRIC_DROP_QKEY] = 0;
		pair.ctx[end]->counters[COUNT_DROP_CLAIM] = 0;
	}
	pair_close(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(contexts),
		cmocka_unit_test(counters),
		cmocka_unit_test(memory),
		cmocka_unit_test(memory_of_sends),
		cmocka_unit_test(bad_queue_pairs),
		cmocka_unit_test(before_connect),
		cmocka_unit_test(connecting),
		cmocka_unit_test(descriptions_with_a_flipped_bit),
	};

	gw_log_set(GW_LOG_ERROR, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
