/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program can get wrong, and the code that it gets for it. */
#include "duo.h"

#include <stdlib.h>
#include <string.h>

static void test_context(void **state)
{
	struct sdr_dev_attr attr = { .num_channels = 1, .log_max_qps = 15 };
	char name[300];

	assert_null(sdr_context_create(DUO_DEVICE, NULL));
	assert_null(sdr_context_create(DUO_DEVICE, &attr));
	attr.log_max_qps = 2;
	assert_null(sdr_context_create("roce:no-such-thing", &attr));
	assert_null(sdr_context_create("no-such-thing", &attr));
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_null(sdr_context_create(name, &attr));
	setenv("SDR_FABRIC", "roce:no-such-thing", 1);
	assert_null(sdr_context_create(DUO_DEVICE, &attr)); /* the environment goes first */
	unsetenv("SDR_FABRIC");
	setenv("SDR_DROP", "lots", 1);
	assert_null(sdr_context_create(DUO_DEVICE, &attr));
	unsetenv("SDR_DROP");
	assert_int_equal(sdr_context_destroy(NULL), SDR_ERROR);
}

/* A bare address is one of this host's; knobs that turn nothing are no error. */
static void test_device_names(void **state)
{
	struct sdr_dev_attr attr = { .num_channels = 64, .log_max_qps = 2 };
	struct sdr_context *ctx;

	setenv("SDR_QP_NUM_GENERATIONS", "4", 1);
	ctx = sdr_context_create("127.0.0.1@0", &attr);
	unsetenv("SDR_QP_NUM_GENERATIONS");
	assert_non_null(ctx);
	assert_int_equal(sdr_context_destroy(ctx), SDR_SUCCESS);
	setenv("SDR_FABRIC", DUO_DEVICE, 1);
	ctx = sdr_context_create("mlx5_0", &attr);
	unsetenv("SDR_FABRIC");
	assert_non_null(ctx);
	assert_int_equal(sdr_context_destroy(ctx), SDR_SUCCESS);
}

static void test_qp(void **state)
{
	struct sdr_qp_attr bad[6], other = duo_qp_attr;
	uint8_t info[256] = { 0 };
	struct sdr_qp *qp;
	struct duo duo;
	size_t size;

	duo_open(&duo, NULL);
	for (int i = 0; i < 6; i++)
		bad[i] = duo_qp_attr;
	bad[0].bitmap_chunk_size_log_bytes = 5;
	bad[1].bitmap_chunk_size_log_bytes = 32;
	bad[2].max_log_num_msgs = 17;
	bad[3].mtu = SDR_MTU_4096 + 1;
	bad[4].max_in_flight_log_bytes = 64;
	bad[5].send_enable = bad[5].recv_enable = 0;
	for (int i = 0; i < 6; i++)
		assert_null(sdr_qp_create(duo.ctx[0], &bad[i]));
	assert_null(sdr_qp_create(duo.ctx[0], NULL));
	assert_null(sdr_qp_create(NULL, &other));
	assert_int_equal(sdr_qp_destroy(NULL), SDR_ERROR);
	assert_int_equal(sdr_qp_info_size_get(NULL, &size), SDR_ERROR);
	assert_int_equal(sdr_qp_info_get(duo.qp[0], NULL), SDR_ERROR);

	other.bitmap_chunk_size_log_bytes = 13;
	qp = sdr_qp_create(duo.ctx[0], &other);
	assert_non_null(qp);
	assert_int_equal(sdr_qp_connect(qp, info), SDR_ERROR);
	assert_int_equal(sdr_qp_connect(qp, NULL), SDR_ERROR);
	assert_int_equal(sdr_qp_info_get(duo.qp[1], info), SDR_SUCCESS);
	assert_int_equal(sdr_qp_connect(qp, info), SDR_ERROR); /* other chunks */
	info[4] = 13;
	info[40] ^= 1;
	info[16] ^= 1;
	assert_int_equal(sdr_qp_connect(qp, info), SDR_ERROR); /* changed on its way */
	assert_int_equal(sdr_qp_info_get(qp, info), SDR_SUCCESS);
	info[4] = 12;
	assert_int_equal(sdr_qp_connect(duo.qp[0], info), SDR_ERROR); /* connected before */
	assert_int_equal(sdr_qp_destroy(qp), SDR_SUCCESS);
	duo_close(&duo);
}

static void test_recv(void **state)
{
	struct sdr_recv_handle *recv, *more[8];
	struct sdr_recv_wr wr = { .max_length = 100 };
	struct duo duo;
	uint8_t *bitmap;
	uint64_t pieces;
	uint32_t imm;
	size_t size;

	duo_open(&duo, NULL);
	wr.address = (uintptr_t)duo.memory[1];
	wr.lkey = duo.key[1] + 1;
	assert_int_equal(sdr_recv_post(duo.qp[1], &wr, &recv), SDR_ERROR);
	wr.lkey = UINT32_MAX;
	assert_int_equal(sdr_recv_post(duo.qp[1], &wr, &recv), SDR_ERROR);
	wr.lkey = duo.key[1];
	wr.address += DUO_MEMORY - 99;
	assert_int_equal(sdr_recv_post(duo.qp[1], &wr, &recv), SDR_ERROR);
	wr.address = (uintptr_t)duo.memory[1];
	wr.max_length = (1u << 20) + 1;
	assert_int_equal(sdr_recv_post(duo.qp[1], &wr, &recv), SDR_ERROR);
	assert_int_equal(sdr_recv_post(NULL, &wr, &recv), SDR_ERROR);
	assert_int_equal(sdr_recv_post(duo.qp[1], NULL, &recv), SDR_ERROR);

	for (int i = 0; i < 8; i++)
		more[i] = duo_recv(&duo, 0, 100);
	wr.max_length = 100;
	assert_int_equal(sdr_recv_post(duo.qp[1], &wr, &recv), SDR_RETRY);
	assert_int_equal(sdr_recv_imm_get(more[0], &imm), SDR_RETRY);
	assert_int_equal(sdr_recv_imm_get(more[0], NULL), SDR_ERROR);
	assert_int_equal(sdr_recv_bitmap_get(more[0], &bitmap, NULL), SDR_ERROR);
	assert_int_equal(sdr_recv_bitmap_get(more[0], &bitmap, &size), SDR_SUCCESS);
	assert_int_equal(size, 1);
	assert_int_equal(sdr_recv_bitmap_chunk_expand(more[0], 1, &pieces), SDR_ERROR);
	assert_int_equal(sdr_mr_dereg(duo.mr[1]), SDR_ERROR); /* in use */
	for (int i = 0; i < 8; i++)
		assert_int_equal(sdr_recv_complete(more[i]), SDR_SUCCESS);
	assert_int_equal(sdr_recv_complete(more[0]), SDR_ERROR);
	assert_int_equal(sdr_recv_imm_get(more[0], &imm), SDR_ERROR);
	assert_int_equal(sdr_recv_bitmap_get(more[0], &bitmap, &size), SDR_ERROR);
	assert_int_equal(sdr_recv_complete(NULL), SDR_ERROR);
	duo_close(&duo);
}

static void test_send(void **state)
{
	struct sdr_send_wr wr = { .length = 100 };
	struct sdr_send_start_wr start = { .opcode = SDR_WR_WRITE_WITH_IMM + 1 };
	struct sdr_send_continue_wr go_on = { .length = 100 };
	struct sdr_send_handle *send, *more[8];
	struct sdr_recv_handle *recv;
	int completed;
	struct duo duo;

	duo_open(&duo, NULL);
	wr.local_addr = (uintptr_t)duo.memory[0];
	wr.lkey = duo.key[0] + 1;
	assert_int_equal(sdr_send_post(duo.qp[0], &wr, &send), SDR_ERROR);
	wr.lkey = duo.key[0];
	wr.opcode = SDR_WR_WRITE_WITH_IMM + 1;
	assert_int_equal(sdr_send_post(duo.qp[0], &wr, &send), SDR_ERROR);
	wr.opcode = SDR_WR_WRITE;
	wr.remote_offset = 256; /* a message has 256 chunks */
	assert_int_equal(sdr_send_post(duo.qp[0], &wr, &send), SDR_ERROR);
	wr.remote_offset = UINT64_MAX;
	assert_int_equal(sdr_send_post(duo.qp[0], &wr, &send), SDR_ERROR);
	wr.remote_offset = 0;
	wr.local_addr += DUO_MEMORY;
	assert_int_equal(sdr_send_post(duo.qp[0], &wr, &send), SDR_ERROR);
	assert_int_equal(sdr_streaming_send_start(duo.qp[0], &start, &send), SDR_ERROR);
	assert_int_equal(sdr_send_post(duo.qp[0], NULL, &send), SDR_ERROR);
	assert_int_equal(sdr_send_poll(NULL, &completed, NULL), SDR_ERROR);

	/* One whose receive is too small says so at the end. */
	recv = duo_recv(&duo, 0, 99);
	more[0] = duo_send(&duo, 0, 100, 0);
	duo_until(sdr_send_poll(more[0], &completed, NULL) == SDR_ERROR);
	assert_int_equal(completed, 1);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);

	for (int i = 0; i < 8; i++)
		more[i] = duo_send(&duo, 0, 100, i == 3);
	wr.local_addr = (uintptr_t)duo.memory[0];
	assert_int_equal(sdr_send_post(duo.qp[0], &wr, &send), SDR_RETRY);
	assert_int_equal(sdr_mr_dereg(duo.mr[0]), SDR_ERROR);
	go_on.lkey = duo.key[0];
	assert_int_equal(sdr_streaming_send_continue(more[0], &go_on), SDR_ERROR);
	assert_int_equal(sdr_streaming_send_end(more[0]), SDR_ERROR);
	for (int i = 0; i < 8; i++) {
		recv = duo_recv(&duo, 0, DUO_CHUNK + 100);
		duo_sent(more[i]);
		assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	}
	assert_int_equal(sdr_send_poll(more[7], &completed, NULL), SDR_ERROR); /* told before */
	/* Open when the queue pair goes. */
	duo_send(&duo, 0, 100, 0);
	duo_send(&duo, 0, 100, 1);
	duo_recv(&duo, 0, 50);
	duo_close(&duo);
}

static void test_directions(void **state)
{
	struct sdr_qp_attr attr = duo_qp_attr;
	struct sdr_recv_wr recv_wr = { .max_length = 100 };
	struct sdr_send_wr send_wr = { .length = 100 };
	struct sdr_send_start_wr start = { 0 };
	struct sdr_recv_handle *recv;
	struct sdr_send_handle *send;
	struct sdr_qp *qp;
	struct duo duo;

	duo_open(&duo, NULL);
	attr.recv_enable = 0;
	qp = sdr_qp_create(duo.ctx[0], &attr);
	recv_wr.lkey = send_wr.lkey = duo.key[0];
	recv_wr.address = send_wr.local_addr = (uintptr_t)duo.memory[0];
	assert_int_equal(sdr_recv_post(qp, &recv_wr, &recv), SDR_ERROR);
	assert_int_equal(sdr_send_post(qp, &send_wr, &send), SDR_ERROR); /* not connected */
	assert_int_equal(sdr_qp_destroy(qp), SDR_SUCCESS);
	attr.recv_enable = 1;
	attr.send_enable = 0;
	qp = sdr_qp_create(duo.ctx[0], &attr);
	assert_int_equal(sdr_send_post(qp, &send_wr, &send), SDR_ERROR);
	assert_int_equal(sdr_streaming_send_start(qp, &start, &send), SDR_ERROR);
	duo_close(&duo); /* with a queue pair that nobody destroyed */
}

static void test_memory(void **state)
{
	struct sdr_recv_wr wr = { .max_length = 1 };
	struct sdr_recv_handle *recv;
	struct sdr_mr *mr[100];
	uint32_t key, again;
	uint8_t bytes[8];
	struct duo duo;

	duo_open(&duo, NULL);
	assert_null(sdr_mr_reg(NULL, bytes, 8, SDR_ACCESS_REMOTE_WRITE));
	assert_null(sdr_mr_reg(duo.ctx[1], bytes, 8, (enum sdr_access_flags)1));
	for (int i = 0; i < 100; i++) {
		mr[i] = sdr_mr_reg(duo.ctx[1], bytes, 8, SDR_ACCESS_REMOTE_WRITE);
		assert_non_null(mr[i]);
	}
	assert_int_equal(sdr_mr_lkey_get(mr[50], &key), SDR_SUCCESS);
	assert_int_equal(sdr_mr_rkey_get(mr[50], &again), SDR_SUCCESS);
	assert_int_equal(key, again);
	assert_int_equal(sdr_mr_dereg(mr[50]), SDR_SUCCESS);
	assert_int_equal(sdr_mr_dereg(mr[50]), SDR_ERROR);
	mr[50] = sdr_mr_reg(duo.ctx[1], bytes, 8, SDR_ACCESS_REMOTE_WRITE);
	/* The old key does not name the new region. */
	wr.lkey = key;
	wr.address = (uintptr_t)bytes;
	assert_int_equal(sdr_recv_post(duo.qp[1], &wr, &recv), SDR_ERROR);
	assert_int_equal(sdr_mr_lkey_get(mr[50], &again), SDR_SUCCESS);
	assert_int_not_equal(key, again);
	for (int i = 0; i < 100; i++)
		assert_int_equal(sdr_mr_dereg(mr[i]), SDR_SUCCESS);
	assert_int_equal(sdr_mr_dereg(NULL), SDR_ERROR);
	assert_int_equal(sdr_mr_lkey_get(NULL, &key), SDR_ERROR);
	assert_int_equal(sdr_mr_rkey_get(duo.mr[1], NULL), SDR_ERROR);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_context), cmocka_unit_test(test_device_names),
		cmocka_unit_test(test_qp),	cmocka_unit_test(test_recv),
		cmocka_unit_test(test_send),	cmocka_unit_test(test_directions),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
