/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of libgodwit-sdr in one process. See duo.h. */
#include "duo.h"

#include <stdlib.h>
#include <time.h>

const struct sdr_qp_attr duo_qp_attr = {
	.bitmap_chunk_size_log_bytes = 12,
	.max_in_flight_log_bytes = 20,
	.max_log_num_msgs = 3,
	.mtu = SDR_MTU_512,
	.send_enable = 1,
	.recv_enable = 1,
};

void duo_open_end(struct duo *duo, int i, const struct sdr_qp_attr *attr, uint8_t info[DUO_INFO])
{
	struct sdr_qp_attr qp_attr = attr ? *attr : duo_qp_attr;
	struct sdr_dev_attr dev_attr = { .num_channels = 1, .log_max_qps = 4 };
	size_t size;

	duo->ctx[i] = sdr_context_create(DUO_DEVICE, &dev_attr);
	assert_non_null(duo->ctx[i]);
	duo->memory[i] = malloc(DUO_MEMORY);
	assert_non_null(duo->memory[i]);
	for (uint32_t at = 0; at < DUO_MEMORY; at++)
		duo->memory[i][at] = i ? 0xee : (uint8_t)(at * 2654435761u >> 24);
	duo->mr[i] = sdr_mr_reg(duo->ctx[i], duo->memory[i], DUO_MEMORY, SDR_ACCESS_REMOTE_WRITE);
	assert_non_null(duo->mr[i]);
	assert_int_equal(sdr_mr_lkey_get(duo->mr[i], &duo->key[i]), SDR_SUCCESS);
	duo->qp[i] = sdr_qp_create(duo->ctx[i], &qp_attr);
	assert_non_null(duo->qp[i]);
	assert_int_equal(sdr_qp_info_size_get(duo->qp[i], &size), SDR_SUCCESS);
	assert_true(size <= DUO_INFO);
	assert_int_equal(sdr_qp_info_get(duo->qp[i], info), SDR_SUCCESS);
}

void duo_open(struct duo *duo, const struct sdr_qp_attr *attr)
{
	uint8_t info[2][DUO_INFO];

	for (int i = 0; i < 2; i++)
		duo_open_end(duo, i, attr, info[i]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(sdr_qp_connect(duo->qp[i], info[!i]), SDR_SUCCESS);
}

void duo_close(struct duo *duo)
{
	for (int i = 0; i < 2; i++) {
		if (duo->qp[i])
			assert_int_equal(sdr_qp_destroy(duo->qp[i]), SDR_SUCCESS);
		assert_int_equal(sdr_mr_dereg(duo->mr[i]), SDR_SUCCESS);
		assert_int_equal(sdr_context_destroy(duo->ctx[i]), SDR_SUCCESS);
		free(duo->memory[i]);
	}
}

struct sdr_recv_handle *duo_recv(struct duo *duo, uint32_t offset, uint32_t length)
{
	struct sdr_recv_wr wr = { .max_length = length,
				  .lkey = duo->key[1],
				  .address = (uintptr_t)duo->memory[1] + offset };
	struct sdr_recv_handle *recv;

	assert_int_equal(sdr_recv_post(duo->qp[1], &wr, &recv), SDR_SUCCESS);
	return recv;
}

struct sdr_send_handle *duo_send(struct duo *duo, uint32_t offset, uint32_t length,
				 uint32_t remote_chunks)
{
	struct sdr_send_wr wr = { .opcode = SDR_WR_WRITE_WITH_IMM,
				  .imm_value = 0xabcd0000 + length,
				  .length = length,
				  .lkey = duo->key[0],
				  .local_addr = (uintptr_t)duo->memory[0] + offset,
				  .remote_offset = remote_chunks };
	struct sdr_send_handle *send;
	int result;

	duo_until((result = sdr_send_post(duo->qp[0], &wr, &send)) != SDR_RETRY);
	assert_int_equal(result, SDR_SUCCESS);
	return send;
}

void duo_sent(struct sdr_send_handle *send)
{
	int completed = 0;

	duo_until(sdr_send_poll(send, &completed, NULL) != SDR_SUCCESS || completed);
	assert_int_equal(completed, 1);
}

bool duo_chunk(const uint8_t *bitmap, size_t chunk)
{
	return __atomic_load_n(&bitmap[chunk], __ATOMIC_ACQUIRE) == 1;
}

size_t duo_chunks(const uint8_t *bitmap, size_t chunks)
{
	size_t count = 0;

	for (size_t i = 0; i < chunks; i++)
		count += duo_chunk(bitmap, i);
	return count;
}

double duo_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void duo_nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}
