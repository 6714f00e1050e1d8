/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sealed packets. The input is taken as a packet from the network, which is never good: nobody guesses a tag. Then it is
 * the data of an honest packet, which is opened as it was sealed, once, and not at all when a byte of it is changed.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/roce/seal.h"

#define LENGTH_MAX  2048u
#define BTH_MUTABLE 4
#define CHANGES	    8

static struct seal *seal[2];

static void open_ends(void)
{
	static const struct fabric_seal keys[2] = { { { 1 }, { 2 } }, { { 2 }, { 1 } } };
	static const struct seal_names names[2] = { { 1, 2, 3, 4 }, { 3, 4, 1, 2 } };

	for (int end = 0; end < 2; end++)
		if (seal_open(&keys[end], &seal[end]) || seal_connect(seal[end], &names[end]))
			abort();
}

static enum seal_verdict check(enum seal_kind kind, uint8_t *bytes, size_t length,
			       struct roce_packet *packet)
{
	uint8_t lane = 0;

	if (roce_decode(bytes, length, packet))
		return SEAL_FORGED;
	return seal_check(seal[1], kind, bytes, length, packet, &lane);
}

static size_t make(enum seal_kind kind, uint32_t lane, const uint8_t *plain, size_t length,
		   uint8_t *bytes)
{
	static uint8_t out[LENGTH_MAX + SEAL_EXTRA];
	struct roce_packet packet;
	uint8_t end[ROCE_ICRC_SIZE];
	size_t at;

	if (kind == SEAL_DATA)
		roce_uc_write_imm(&packet, 3, 0, 0, 9, 7, out, (uint32_t)length + SEAL_EXTRA);
	else
		roce_ud_send(&packet, 3, 0, 4, 1, out, (uint32_t)length + SEAL_EXTRA);
	at = roce_encode(&packet, bytes, LENGTH_MAX);
	if (!seal_packet(seal[0], kind, lane, bytes, at, plain, length, out, end))
		abort();
	memcpy(bytes + at, out, length + SEAL_EXTRA);
	at += length + SEAL_EXTRA;
	memset(bytes + at, 0, packet.pad);
	memcpy(bytes + at + packet.pad, end, sizeof(end));
	return at + packet.pad + sizeof(end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[2 * LENGTH_MAX], copy[2 * LENGTH_MAX];
	struct roce_packet packet;
	enum seal_kind kind;
	size_t length, pad;

	if (!seal[0])
		open_ends();
	if (size < 2 * CHANGES + 1 || size > LENGTH_MAX / 2)
		return 0;
	kind = data[0] & 1 ? SEAL_CONTROL : SEAL_DATA;
	memcpy(bytes, data + 1, size - 1);
	assert(check(kind, bytes, size - 1, &packet) != SEAL_GOOD);
	length = make(kind, data[0] >> 1 & 7, data, size, bytes);
	pad = -size & 3;
	for (int i = 0; i < CHANGES; i++) {
		size_t at = (data[2 * i + 1] * (size_t)256 + data[2 * i + 2]) % length;

		memcpy(copy, bytes, length);
		copy[at] ^= (uint8_t)(1u << i);
		if (at != BTH_MUTABLE &&
		    (at < length - ROCE_ICRC_SIZE - pad || at >= length - ROCE_ICRC_SIZE))
			assert(check(kind, copy, length, &packet) != SEAL_GOOD);
	}
	memcpy(copy, bytes, length);
	assert(check(kind, copy, length, &packet) == SEAL_GOOD);
	assert(packet.payload_length == size && !memcmp(packet.payload, data, size));
	assert(check(kind, bytes, length, &packet) == SEAL_REPLAYED);
	return 0;
}
