/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streaming sends: chunks in any order, again and again. Here is also what the interface is for: a loop that looks at
 * the bitmap and has the missing chunks sent again, over packets of which a part is lost on purpose.
 */
#include "duo.h"

#include <stdlib.h>
#include <string.h>

static struct sdr_send_handle *start(struct duo *duo, enum sdr_wr_opcode opcode)
{
	struct sdr_send_start_wr wr = { .opcode = opcode, .imm_value = 77 };
	struct sdr_send_handle *send;

	assert_int_equal(sdr_streaming_send_start(duo->qp[0], &wr, &send), SDR_SUCCESS);
	return send;
}

static int put(struct duo *duo, struct sdr_send_handle *send, uint32_t chunk, uint32_t length)
{
	struct sdr_send_continue_wr wr = { .length = length,
					   .local_addr =
						   (uintptr_t)duo->memory[0] + chunk * DUO_CHUNK,
					   .lkey = duo->key[0],
					   .remote_offset = chunk };
	int result;

	duo_until((result = sdr_streaming_send_continue(send, &wr)) != SDR_RETRY);
	return result;
}

static void test_any_order(void **state)
{
	enum { CHUNKS = 7, TAIL = 1000 };
	struct sdr_send_handle *send;
	struct sdr_recv_handle *recv;
	struct sdr_send_continue_wr early = { .length = DUO_CHUNK, .remote_offset = 1 };
	int completed = 1;
	uint8_t *bitmap;
	struct duo duo;
	size_t chunks;
	uint32_t imm;

	duo_open(&duo, NULL);
	send = start(&duo, SDR_WR_WRITE_WITH_IMM);
	early.lkey = duo.key[0];
	early.local_addr = (uintptr_t)duo.memory[0];
	assert_int_equal(sdr_streaming_send_continue(send, &early), SDR_RETRY);
	recv = duo_recv(&duo, 0, CHUNKS * DUO_CHUNK + TAIL);
	assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
	for (uint32_t i = CHUNKS; i-- > 0;) {
		assert_int_equal(put(&duo, send, i, DUO_CHUNK), SDR_SUCCESS);
		duo_until(duo_chunk(bitmap, i));
		assert_int_equal(duo_chunks(bitmap, chunks), CHUNKS - i);
	}
	assert_int_equal(put(&duo, send, CHUNKS, TAIL), SDR_SUCCESS);
	duo_until(duo_chunk(bitmap, CHUNKS));
	duo_until(sdr_recv_imm_get(recv, &imm) == SDR_SUCCESS);
	assert_int_equal(imm, 77);
	assert_memory_equal(duo.memory[1], duo.memory[0], CHUNKS * DUO_CHUNK + TAIL);
	/* Past the receive, and an end inside a packet. */
	assert_int_equal(put(&duo, send, CHUNKS, TAIL + 1), SDR_ERROR);
	assert_int_equal(put(&duo, send, CHUNKS + 1, 1), SDR_ERROR);
	assert_int_equal(put(&duo, send, UINT32_MAX, 1), SDR_ERROR);
	assert_int_equal(put(&duo, send, 0, DUO_MTU + 1), SDR_ERROR);
	assert_int_equal(sdr_send_poll(send, &completed, NULL), SDR_SUCCESS);
	assert_int_equal(completed, 0); /* it is open until it is ended */
	assert_int_equal(sdr_streaming_send_end(send), SDR_SUCCESS);
	duo_sent(send);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

/* Part of a chunk: the pieces tell. */
static void test_pieces(void **state)
{
	struct sdr_send_handle *send;
	struct sdr_recv_handle *recv;
	uint8_t *bitmap;
	uint64_t pieces;
	struct duo duo;
	size_t chunks;
	uint32_t imm;

	duo_open(&duo, NULL);
	send = start(&duo, SDR_WR_WRITE);
	recv = duo_recv(&duo, 0, 2 * DUO_CHUNK);
	assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
	assert_int_equal(put(&duo, send, 1, 3 * DUO_MTU), SDR_SUCCESS);
	duo_until(sdr_recv_bitmap_chunk_expand(recv, 1, &pieces) == SDR_SUCCESS && pieces == 7);
	assert_int_equal(sdr_recv_bitmap_chunk_expand(recv, 0, &pieces), SDR_SUCCESS);
	assert_int_equal(pieces, 0);
	assert_int_equal(duo_chunks(bitmap, chunks), 0);
	duo_until(sdr_recv_imm_get(recv, &imm) == SDR_ERROR); /* it has none */
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	assert_int_equal(sdr_streaming_send_end(send), SDR_SUCCESS);
	duo_sent(send);
	duo_close(&duo);
}

/* Repair in software, over one packet in twenty lost. */
static void test_repair(void **state)
{
	enum { CHUNKS = 100 };
	struct sdr_send_handle *send;
	struct sdr_recv_handle *recv;
	unsigned rounds = 0, lost = 0;
	uint8_t *bitmap;
	struct duo duo;
	size_t chunks;
	double pause;

	setenv("SDR_DROP", "0.05", 1);
	setenv("SDR_SEED", "3", 1);
	duo_open(&duo, NULL);
	send = start(&duo, SDR_WR_WRITE);
	recv = duo_recv(&duo, 0, CHUNKS * DUO_CHUNK);
	assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
	assert_int_equal(put(&duo, send, 0, CHUNKS * DUO_CHUNK), SDR_SUCCESS);
	while (duo_chunks(bitmap, chunks) < CHUNKS) {
		for (pause = duo_now() + 0.02; duo_now() < pause;)
			duo_nap();
		for (uint32_t i = 0; i < CHUNKS; i++)
			if (!duo_chunk(bitmap, i)) {
				assert_int_equal(put(&duo, send, i, DUO_CHUNK), SDR_SUCCESS);
				lost++;
			}
		assert_true(rounds++ < 100);
	}
	assert_true(lost > 0); /* or nothing was tried */
	assert_memory_equal(duo.memory[1], duo.memory[0], CHUNKS * DUO_CHUNK);
	assert_int_equal(sdr_streaming_send_end(send), SDR_SUCCESS);
	duo_sent(send);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
	unsetenv("SDR_DROP");
	unsetenv("SDR_SEED");
}

/* An announcement may be lost and come after all packets. Only then is a last, short chunk known to be whole. */
static void test_late_announcement(void **state)
{
	enum { MESSAGES = 1000, SIZE = 3000, PIECES = 0x3f };
	unsigned late = 0;
	struct duo duo;

	setenv("SDR_DROP", "0.05", 1);
	duo_open(&duo, NULL);
	for (int i = 0; i < MESSAGES && !late; i++) {
		struct sdr_recv_handle *recv = duo_recv(&duo, 0, SIZE);
		double limit = duo_now() + 0.03;
		uint64_t pieces = 0;
		uint8_t *bitmap;
		size_t chunks;

		assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
		duo_sent(duo_send(&duo, 0, SIZE, 0));
		while (pieces != PIECES && duo_now() < limit)
			assert_int_equal(sdr_recv_bitmap_chunk_expand(recv, 0, &pieces),
					 SDR_SUCCESS);
		if (pieces == PIECES) {
			late += !duo_chunk(bitmap, 0);
			duo_until(duo_chunk(bitmap, 0));
		}
		assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	}
	assert_true(late > 0); /* or nothing was tried */
	duo_close(&duo);
	unsetenv("SDR_DROP");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_order),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_repair),
		cmocka_unit_test(test_late_announcement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
