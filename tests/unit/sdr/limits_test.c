/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes that the interface allows and that are no round numbers: logarithms rounded up, chunks of many packets or of less
 * than one, and more messages than the published split of the immediate has numbers for. */
#include "duo.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *bitmap_of(struct sdr_recv_handle *recv, size_t *chunks)
{
	uint8_t *bitmap;

	assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, chunks), SDR_SUCCESS);
	return bitmap;
}

/* 3 messages of 320 KiB, as a program computes the logarithms: 4 messages, 1 MiB. All are open at once. */
static void test_rounded_up(void **state)
{
	enum { MESSAGES = 3, SIZE = 320 << 10 };
	struct sdr_qp_attr attr = duo_qp_attr;
	struct sdr_send_handle *sends[MESSAGES];
	struct sdr_recv_handle *recvs[MESSAGES], *recv;
	struct sdr_recv_wr wr = { .max_length = (1u << 20) + 1 };
	struct duo duo;

	attr.max_log_num_msgs = 2;
	duo_open(&duo, &attr);
	for (uint32_t i = 0; i < MESSAGES; i++)
		recvs[i] = duo_recv(&duo, i * SIZE, SIZE);
	for (uint32_t i = 0; i < MESSAGES; i++)
		sends[i] = duo_send(&duo, 7 + i * SIZE, SIZE, 0);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		size_t chunks;
		uint8_t *bitmap = bitmap_of(recvs[i], &chunks);

		duo_until(duo_chunks(bitmap, chunks) == SIZE / DUO_CHUNK);
		duo_sent(sends[i]);
	}
	assert_memory_equal(duo.memory[1], duo.memory[0] + 7, MESSAGES * SIZE);
	wr.lkey = duo.key[1];
	wr.address = (uintptr_t)duo.memory[1];
	assert_int_equal(sdr_recv_post(duo.qp[1], &wr, &recv), SDR_ERROR);
	for (uint32_t i = 0; i < MESSAGES; i++)
		assert_int_equal(sdr_recv_complete(recvs[i]), SDR_SUCCESS);
	duo_close(&duo);
}

/* Sends 3 chunks and a part of one from chunk 2 on, and checks bytes, bitmap and what is around. */
static struct sdr_recv_handle *send_chunks(struct duo *duo, uint32_t chunk)
{
	struct sdr_recv_handle *recv = duo_recv(duo, 0, 7 * chunk);
	uint32_t length = 3 * chunk + 5;
	size_t chunks;
	uint8_t *bitmap = bitmap_of(recv, &chunks);

	assert_int_equal(chunks, 7);
	duo_sent(duo_send(duo, 9, length, 2));
	duo_until(duo_chunk(bitmap, 5));
	duo_until(duo_chunks(bitmap, chunks) == 4);
	assert_false(duo_chunk(bitmap, 0) || duo_chunk(bitmap, 1) || duo_chunk(bitmap, 6));
	assert_memory_equal(duo->memory[1] + 2 * chunk, duo->memory[0] + 9, length);
	assert_int_equal(duo->memory[1][2 * chunk - 1], 0xee);
	assert_int_equal(duo->memory[1][2 * chunk + length], 0xee);
	return recv;
}

/* 256 packets in a chunk: too many to expand, and no other difference. */
static void test_large_chunks(void **state)
{
	struct sdr_qp_attr attr = duo_qp_attr;
	struct sdr_recv_handle *recv;
	struct duo duo;
	uint64_t pieces;

	attr.bitmap_chunk_size_log_bytes = 17;
	duo_open(&duo, &attr);
	recv = send_chunks(&duo, 1u << 17);
	assert_int_equal(sdr_recv_bitmap_chunk_expand(recv, 2, &pieces), SDR_ERROR);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

/* 64 packets are not too many. */
static void test_full_expansion(void **state)
{
	struct sdr_qp_attr attr = duo_qp_attr;
	struct sdr_recv_handle *recv;
	struct duo duo;
	uint64_t pieces;

	attr.bitmap_chunk_size_log_bytes = 15;
	duo_open(&duo, &attr);
	recv = send_chunks(&duo, 1u << 15);
	assert_int_equal(sdr_recv_bitmap_chunk_expand(recv, 2, &pieces), SDR_SUCCESS);
	assert_int_equal(pieces, UINT64_MAX);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

/* An mtu of 16 chunks: packets are chunks, so that any chunk can be the start of a send. */
static void test_small_chunks(void **state)
{
	struct sdr_qp_attr attr = duo_qp_attr;
	struct sdr_recv_handle *recv;
	struct duo duo;
	uint64_t pieces;

	attr.bitmap_chunk_size_log_bytes = 8;
	attr.mtu = SDR_MTU_4096;
	duo_open(&duo, &attr);
	recv = send_chunks(&duo, 1u << 8);
	assert_int_equal(sdr_recv_bitmap_chunk_expand(recv, 2, &pieces), SDR_SUCCESS);
	assert_int_equal(pieces, 1);
	assert_int_equal(sdr_recv_bitmap_chunk_expand(recv, 1, &pieces), SDR_SUCCESS);
	assert_int_equal(pieces, 0);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

/* A chunk larger than all messages: each has one byte, which its announced length fills. */
static void test_one_chunk(void **state)
{
	struct sdr_qp_attr attr = duo_qp_attr;
	struct sdr_recv_handle *recv;
	struct duo duo;
	uint8_t *bitmap;
	size_t chunks;

	attr.bitmap_chunk_size_log_bytes = 24;
	duo_open(&duo, &attr);
	recv = duo_recv(&duo, 0, 1u << 20);
	bitmap = bitmap_of(recv, &chunks);
	assert_int_equal(chunks, 1);
	duo_sent(duo_send(&duo, 0, 100000, 0));
	duo_until(duo_chunk(bitmap, 0));
	assert_memory_equal(duo.memory[1], duo.memory[0], 100000);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

/* All arrive before the first receive is completed, so that each needs a number of its own. */
static void test_many_messages(void **state)
{
	enum { MESSAGES = 4096, SIZE = 1000 };
	struct sdr_qp_attr attr = duo_qp_attr;
	static struct sdr_send_handle *sends[MESSAGES];
	static struct sdr_recv_handle *recvs[MESSAGES];
	struct sdr_recv_wr wr = { .max_length = SIZE };
	struct sdr_recv_handle *recv;
	struct duo duo;

	attr.max_log_num_msgs = 12;
	duo_open(&duo, &attr);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		recvs[i] = duo_recv(&duo, i * SIZE, SIZE);
		sends[i] = duo_send(&duo, i * SIZE, SIZE, 0);
	}
	wr.lkey = duo.key[1];
	wr.address = (uintptr_t)duo.memory[1];
	assert_int_equal(sdr_recv_post(duo.qp[1], &wr, &recv), SDR_RETRY);
	for (uint32_t i = MESSAGES; i-- > 0;) {
		size_t chunks;
		uint8_t *bitmap = bitmap_of(recvs[i], &chunks);

		duo_until(duo_chunk(bitmap, 0));
	}
	assert_memory_equal(duo.memory[1], duo.memory[0], MESSAGES * SIZE);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		duo_sent(sends[i]);
		assert_int_equal(sdr_recv_complete(recvs[i]), SDR_SUCCESS);
	}
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rounded_up),     cmocka_unit_test(test_large_chunks),
		cmocka_unit_test(test_full_expansion), cmocka_unit_test(test_small_chunks),
		cmocka_unit_test(test_one_chunk),      cmocka_unit_test(test_many_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
