/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-shot sends: that bytes arrive where they belong, that the bitmap says so without a call, and that a completed
 * receive is its owner's.
 */
#include "duo.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *bitmap_of(struct sdr_recv_handle *recv, size_t *chunks)
{
	uint8_t *bitmap;

	assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, chunks), SDR_SUCCESS);
	return bitmap;
}

/* Sizes around packets and chunks, each into a receive of just that size and into one that is larger. */
static void test_sizes(void **state)
{
	static const uint32_t sizes[] = { 1,	511,  512,   513,   4095,  4096,
					  4097, 8191, 12289, 65536, 99999, 1u << 20 };
	struct duo duo;

	duo_open(&duo, NULL);
	for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t size = sizes[i / 2], room = i % 2 && size < 1u << 20 ? size + 5000 : size;
		size_t chunks, full = (size + DUO_CHUNK - 1) / DUO_CHUNK;
		struct sdr_recv_handle *recv;
		uint64_t pieces;
		uint8_t *bitmap;
		uint32_t imm;

		memset(duo.memory[1], 0xee, DUO_MEMORY);
		recv = duo_recv(&duo, 64, room);
		bitmap = bitmap_of(recv, &chunks);
		assert_int_equal(chunks, (room + DUO_CHUNK - 1) / DUO_CHUNK);
		assert_int_equal(duo_chunks(bitmap, chunks), 0);
		duo_sent(duo_send(&duo, i, size, 0));
		duo_until(duo_chunks(bitmap, full) == full);
		assert_int_equal(duo_chunks(bitmap, chunks), full);
		assert_memory_equal(duo.memory[1] + 64, duo.memory[0] + i, size);
		assert_int_equal(duo.memory[1][63], 0xee);
		assert_int_equal(duo.memory[1][64 + size], 0xee);
		assert_int_equal(sdr_recv_imm_get(recv, &imm), SDR_SUCCESS);
		assert_int_equal(imm, 0xabcd0000 + size);
		assert_int_equal(sdr_recv_bitmap_chunk_expand(recv, (uint32_t)full - 1, &pieces),
				 SDR_SUCCESS);
		size -= ((uint32_t)full - 1) * DUO_CHUNK;
		assert_int_equal(pieces, (1u << ((size + DUO_MTU - 1) / DUO_MTU)) - 1);
		assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	}
	duo_close(&duo);
}

/* A send that starts at chunk 2: what is before stays as it was, and zero in the bitmap. */
static void test_offset(void **state)
{
	struct sdr_recv_handle *recv;
	struct duo duo;
	size_t chunks;
	uint8_t *bitmap;

	duo_open(&duo, NULL);
	recv = duo_recv(&duo, 0, 6 * DUO_CHUNK);
	bitmap = bitmap_of(recv, &chunks);
	duo_sent(duo_send(&duo, 100, 2 * DUO_CHUNK + 9, 2));
	duo_until(duo_chunk(bitmap, 4));
	duo_until(duo_chunks(bitmap, chunks) == 3);
	assert_false(duo_chunk(bitmap, 0) || duo_chunk(bitmap, 1) || duo_chunk(bitmap, 5));
	assert_memory_equal(duo.memory[1] + 2 * DUO_CHUNK, duo.memory[0] + 100, 2 * DUO_CHUNK + 9);
	assert_int_equal(duo.memory[1][2 * DUO_CHUNK - 1], 0xee);
	assert_int_equal(duo.memory[1][4 * DUO_CHUNK + 9], 0xee);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

/* More messages than places, sent before their receives are posted: the i-th meets the i-th. */
static void test_order(void **state)
{
	enum { MESSAGES = 100, WINDOW = 4, SIZE = 3000 };
	struct sdr_send_handle *sends[MESSAGES];
	struct sdr_recv_handle *recvs[MESSAGES];
	struct duo duo;

	duo_open(&duo, NULL);
	for (uint32_t i = 0; i < MESSAGES + WINDOW; i++) {
		if (i < MESSAGES) {
			sends[i] = duo_send(&duo, i * 7, SIZE, 0);
			recvs[i] = duo_recv(&duo, i * SIZE, SIZE);
		}
		if (i >= WINDOW) {
			size_t chunks;
			uint8_t *bitmap = bitmap_of(recvs[i - WINDOW], &chunks);

			duo_until(duo_chunk(bitmap, 0));
			duo_sent(sends[i - WINDOW]);
			assert_memory_equal(duo.memory[1] + (i - WINDOW) * SIZE,
					    duo.memory[0] + (i - WINDOW) * 7, SIZE);
			assert_int_equal(sdr_recv_complete(recvs[i - WINDOW]), SDR_SUCCESS);
		}
	}
	duo_close(&duo);
}

/* Completed before anything came: what is sent afterwards lands in the next receive and nowhere else. */
static void test_complete_early(void **state)
{
	struct sdr_recv_handle *recv;
	size_t chunks;
	uint8_t *bitmap;
	struct duo duo;

	duo_open(&duo, NULL);
	recv = duo_recv(&duo, 0, DUO_CHUNK);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	recv = duo_recv(&duo, 2 * DUO_CHUNK, DUO_CHUNK);
	bitmap = bitmap_of(recv, &chunks);
	duo_sent(duo_send(&duo, 0, DUO_CHUNK, 0));
	duo_sent(duo_send(&duo, 5, DUO_CHUNK, 0));
	duo_until(duo_chunk(bitmap, 0));
	assert_memory_equal(duo.memory[1] + 2 * DUO_CHUNK, duo.memory[0] + 5, DUO_CHUNK);
	for (uint32_t i = 0; i < DUO_CHUNK; i++)
		assert_int_equal(duo.memory[1][i], 0xee);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

static void test_rate_limit(void **state)
{
	struct sdr_qp_attr attr = duo_qp_attr;
	struct sdr_recv_handle *recv;
	double start, seconds;
	struct duo duo;
	size_t chunks;
	uint8_t *bitmap;

	attr.rate_limit = 16000; /* 2 MB/s: 400 kB take 0.2 s, less what the bucket holds */
	duo_open(&duo, &attr);
	recv = duo_recv(&duo, 0, 400000);
	bitmap = bitmap_of(recv, &chunks);
	start = duo_now();
	duo_sent(duo_send(&duo, 0, 400000, 0));
	duo_until(duo_chunks(bitmap, chunks) == chunks);
	seconds = duo_now() - start;
	if (seconds < 0.18)
		fail_msg("400 kB at 2 MB/s took %.3f s", seconds);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

/* Whoever polls learns that nobody is left to send. */
static void test_peer_gone(void **state)
{
	struct sdr_recv_handle *recv;
	struct sdr_send_handle *send;
	struct sdr_send_wr wr = { .length = 100 };
	struct duo duo;
	size_t chunks;
	uint8_t *bitmap;
	uint32_t imm;

	duo_open(&duo, NULL);
	recv = duo_recv(&duo, 0, DUO_CHUNK);
	assert_int_equal(sdr_qp_destroy(duo.qp[0]), SDR_SUCCESS);
	duo.qp[0] = NULL;
	duo_until(sdr_recv_bitmap_get(recv, &bitmap, &chunks) == SDR_ERROR);
	assert_int_equal(sdr_recv_imm_get(recv, &imm), SDR_ERROR);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	wr.lkey = duo.key[1];
	wr.local_addr = (uintptr_t)duo.memory[1];
	assert_int_equal(sdr_send_post(duo.qp[1], &wr, &send), SDR_ERROR);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),	   cmocka_unit_test(test_offset),
		cmocka_unit_test(test_order),	   cmocka_unit_test(test_complete_early),
		cmocka_unit_test(test_rate_limit), cmocka_unit_test(test_peer_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
