/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a UDP payload: the RoCEv2 decoder must stay inside them, must show a view whose parts
 * add up to the whole, and must agree with the encoder. The ICRC check sees the same bytes.
 */
#include <assert.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "wire/icrc.h"
#include "wire/roce.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

static void touch(const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		sink ^= bytes[i];
}

static void agree(const struct roce_packet *a, const struct roce_packet *b)
{
	assert(a->opcode == b->opcode && a->pad == b->pad && a->version == b->version);
	assert(a->kind == b->kind && a->solicited == b->solicited && a->migreq == b->migreq);
	assert(a->fecn == b->fecn && a->becn == b->becn && a->ack_request == b->ack_request);
	assert(a->has_reth == b->has_reth && a->has_imm == b->has_imm);
	assert(a->has_deth == b->has_deth && a->has_aeth == b->has_aeth);
	assert(a->pkey == b->pkey && a->dest_qpn == b->dest_qpn && a->psn == b->psn);
	assert(a->reth.va == b->reth.va && a->reth.rkey == b->reth.rkey);
	assert(a->reth.length == b->reth.length && a->imm == b->imm);
	assert(a->deth.qkey == b->deth.qkey && a->deth.src_qpn == b->deth.src_qpn);
	assert(a->aeth.syndrome == b->aeth.syndrome && a->aeth.msn == b->aeth.msn);
	assert(a->payload_length == b->payload_length);
}

static void check_decoder(const uint8_t *data, size_t size)
{
	static uint8_t again[1 << 16];
	uint8_t headers[ROCE_HEADERS_MAX];
	struct roce_packet p, q;
	size_t length;

	if (roce_decode(data, size, &p))
		return;
	touch(p.payload, p.payload_length);
	length = roce_encode(&p, headers, sizeof(headers));
	assert(length > 0 && p.payload == data + length);
	assert(length + p.payload_length + p.pad + ROCE_ICRC_SIZE == size);
	if (size > sizeof(again))
		return;
	memcpy(again, headers, length);
	memcpy(again + length, data + length, size - length);
	assert(roce_decode(again, size, &q) == 0);
	agree(&p, &q);
}

static void check_icrc(const uint8_t *data, size_t size)
{
	struct sockaddr_in end = { .sin_family = AF_INET };
	struct icrc_match loose, strict;
	enum icrc_verdict verdict;
	struct icrc_flow flow;

	end.sin_port = htons(ROCE_PORT);
	end.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert(icrc_flow_init((void *)&end, (void *)&end, &flow) == 0);
	verdict = icrc_verify(&flow, data, size, 0, ICRC_ANY_ID, &loose);
	if (verdict != ICRC_BAD) {
		/* What was recovered must reproduce the ICRC. */
		uint32_t crc =
			icrc_begin(&flow, size, loose.id, loose.dont_fragment, data, size - 4);
		uint8_t made[4];

		icrc_final(crc, made);
		assert(memcmp(made, data + size - 4, 4) == 0);
	}
	if (icrc_verify(&flow, data, size, 0, 63, &strict) != ICRC_BAD)
		assert(verdict != ICRC_BAD && strict.id == loose.id && strict.dont_fragment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_decoder(data, size);
	check_icrc(data, size);
	return 0;
}
