/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program asks for packets of 4096 bytes where the interface has an MTU of 1500: packets are smaller, and the program
 * still sees chunks and pieces as it asked for them. In a network namespace of its own, for the MTU's sake.
 */
#include "duo.h"

#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK 16384u
#define PIECE 4096u

static const struct sdr_qp_attr large = {
	.bitmap_chunk_size_log_bytes = 14,
	.max_in_flight_log_bytes = 20,
	.max_log_num_msgs = 2,
	.mtu = SDR_MTU_4096,
	.send_enable = 1,
	.recv_enable = 1,
};

static int set_loopback(void)
{
	struct ifreq request = { .ifr_mtu = 1500 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), error;

	strcpy(request.ifr_name, "lo");
	error = fd < 0 || ioctl(fd, SIOCSIFMTU, &request);
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	error = error || ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return error;
}

static uint64_t pieces_of(struct sdr_recv_handle *recv, uint32_t chunk)
{
	uint64_t pieces;

	assert_int_equal(sdr_recv_bitmap_chunk_expand(recv, chunk, &pieces), SDR_SUCCESS);
	return pieces;
}

static void test_pieces_of_several_packets(void **state)
{
	struct sdr_send_start_wr start = { .opcode = SDR_WR_WRITE };
	struct sdr_send_continue_wr wr = { .length = PIECE + 1024, .remote_offset = 1 };
	struct sdr_send_handle *send;
	struct sdr_recv_handle *recv;
	uint8_t *bitmap;
	struct duo duo;
	size_t chunks;
	int result;

	duo_open(&duo, &large);
	recv = duo_recv(&duo, 0, 2 * CHUNK);
	assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
	assert_int_equal(chunks, 2);
	assert_int_equal(sdr_streaming_send_start(duo.qp[0], &start, &send), SDR_SUCCESS);
	wr.lkey = duo.key[0];
	wr.local_addr = (uintptr_t)duo.memory[0];
	/* A piece and one packet of the next, which is not whole by that. */
	duo_until((result = sdr_streaming_send_continue(send, &wr)) != SDR_RETRY);
	assert_int_equal(result, SDR_SUCCESS);
	duo_until(pieces_of(recv, 1) == 1);
	wr.length = CHUNK;
	duo_until((result = sdr_streaming_send_continue(send, &wr)) != SDR_RETRY);
	duo_until(duo_chunk(bitmap, 1));
	assert_int_equal(pieces_of(recv, 1), 15);
	assert_int_equal(pieces_of(recv, 0), 0);
	assert_false(duo_chunk(bitmap, 0));
	assert_memory_equal(duo.memory[1] + CHUNK, duo.memory[0], CHUNK);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	assert_int_equal(sdr_streaming_send_end(send), SDR_SUCCESS);
	duo_sent(send);
	duo_close(&duo);
}

static void test_whole_message(void **state)
{
	struct sdr_recv_handle *recv;
	uint8_t *bitmap;
	struct duo duo;
	size_t chunks;

	duo_open(&duo, &large);
	recv = duo_recv(&duo, 0, 100001);
	assert_int_equal(sdr_recv_bitmap_get(recv, &bitmap, &chunks), SDR_SUCCESS);
	duo_sent(duo_send(&duo, 0, 100001, 0));
	duo_until(duo_chunks(bitmap, chunks) == chunks);
	assert_memory_equal(duo.memory[1], duo.memory[0], 100001);
	assert_int_equal(pieces_of(recv, 6), 1);
	assert_int_equal(sdr_recv_complete(recv), SDR_SUCCESS);
	duo_close(&duo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_of_several_packets),
		cmocka_unit_test(test_whole_message),
	};

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) || set_loopback()) {
		puts("SKIP: namespaces: no network namespace with a smaller MTU");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
