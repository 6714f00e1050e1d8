/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One table says which headers follow the BTH of an opcode; encoder and decoder both walk it, so
 * they cannot disagree. The order on the wire is fixed: RETH, DETH or AETH first (no packet has two
 * of them), then the immediate, then a CNP's reserved bytes.
 */
#include "wire/roce.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

enum {
	HAS_RETH = 1,
	HAS_DETH = 2,
	HAS_AETH = 4,
	HAS_IMM = 8,
	HAS_RESERVED = 16,
};

enum {
	BTH_SOLICITED = 0x80,
	BTH_MIGREQ = 0x40,
	BTH_PAD_SHIFT = 4,
	BTH_PAD_MASK = 0x3,
	BTH_VERSION_MASK = 0xf,
	BTH_FECN = 0x80,
	BTH_BECN = 0x40,
	BTH_ACK_REQUEST = 0x80,
};

struct shape {
	enum roce_kind kind;
	unsigned headers;
};

static struct shape shape_of(uint8_t opcode)
{
	switch (opcode) {
	case ROCE_OP_RC_ACKNOWLEDGE:
		return (struct shape){ ROCE_ACK, HAS_AETH };
	case ROCE_OP_UC_WRITE_FIRST:
		return (struct shape){ ROCE_UC_MULTI, HAS_RETH };
	case ROCE_OP_UC_SEND_FIRST:
	case ROCE_OP_UC_SEND_MIDDLE:
	case ROCE_OP_UC_SEND_LAST:
	case ROCE_OP_UC_WRITE_MIDDLE:
	case ROCE_OP_UC_WRITE_LAST:
		return (struct shape){ ROCE_UC_MULTI, 0 };
	case ROCE_OP_UC_SEND_LAST_WITH_IMM:
	case ROCE_OP_UC_WRITE_LAST_WITH_IMM:
		return (struct shape){ ROCE_UC_MULTI, HAS_IMM };
	case ROCE_OP_UC_WRITE_ONLY:
		return (struct shape){ ROCE_UC_WRITE, HAS_RETH };
	case ROCE_OP_UC_WRITE_ONLY_WITH_IMM:
		return (struct shape){ ROCE_UC_WRITE_IMM, HAS_RETH | HAS_IMM };
	case ROCE_OP_UD_SEND_ONLY:
		return (struct shape){ ROCE_UD_SEND, HAS_DETH };
	case ROCE_OP_UD_SEND_ONLY_WITH_IMM:
		return (struct shape){ ROCE_UD_SEND_IMM, HAS_DETH | HAS_IMM };
	case ROCE_OP_CNP:
		return (struct shape){ ROCE_CNP, HAS_RESERVED };
	default:
		return (struct shape){ ROCE_OTHER, 0 };
	}
}

static size_t headers_size(unsigned headers)
{
	size_t size = ROCE_BTH_SIZE;

	if (headers & HAS_RETH)
		size += ROCE_RETH_SIZE;
	if (headers & HAS_DETH)
		size += ROCE_DETH_SIZE;
	if (headers & HAS_AETH)
		size += ROCE_AETH_SIZE;
	if (headers & HAS_IMM)
		size += ROCE_IMM_SIZE;
	if (headers & HAS_RESERVED)
		size += ROCE_CNP_RESERVED_SIZE;
	return size;
}

static void decode_bth(const uint8_t *b, struct roce_packet *p)
{
	p->opcode = b[0];
	p->solicited = b[1] & BTH_SOLICITED;
	p->migreq = b[1] & BTH_MIGREQ;
	p->pad = b[1] >> BTH_PAD_SHIFT & BTH_PAD_MASK;
	p->version = b[1] & BTH_VERSION_MASK;
	p->pkey = get_be16(b + 2);
	p->fecn = b[4] & BTH_FECN;
	p->becn = b[4] & BTH_BECN;
	p->dest_qpn = get_be24(b + 5);
	p->ack_request = b[8] & BTH_ACK_REQUEST;
	p->psn = get_be24(b + 9);
}

static const uint8_t *decode_extensions(const uint8_t *b, unsigned headers, struct roce_packet *p)
{
	p->has_reth = headers & HAS_RETH;
	p->has_deth = headers & HAS_DETH;
	p->has_aeth = headers & HAS_AETH;
	p->has_imm = headers & HAS_IMM;
	if (headers & HAS_RETH) {
		p->reth.va = get_be64(b);
		p->reth.rkey = get_be32(b + 8);
		p->reth.length = get_be32(b + 12);
		b += ROCE_RETH_SIZE;
	}
	if (headers & HAS_DETH) {
		p->deth.qkey = get_be32(b);
		p->deth.src_qpn = get_be24(b + 5);
		b += ROCE_DETH_SIZE;
	}
	if (headers & HAS_AETH) {
		p->aeth.syndrome = b[0];
		p->aeth.msn = get_be24(b + 1);
		b += ROCE_AETH_SIZE;
	}
	if (headers & HAS_IMM) {
		p->imm = get_be32(b);
		b += ROCE_IMM_SIZE;
	}
	if (headers & HAS_RESERVED)
		b += ROCE_CNP_RESERVED_SIZE;
	return b;
}

int roce_decode(const void *udp_payload, size_t length, struct roce_packet *out)
{
	const uint8_t *b = udp_payload;
	struct roce_packet p; /* not cleared: that takes longer than the rest */
	struct shape shape;
	size_t overhead, padded;

	if (length < ROCE_BTH_SIZE + ROCE_ICRC_SIZE)
		return -EMSGSIZE;
	decode_bth(b, &p);
	if (p.version != 0)
		return -EPROTO;

	shape = shape_of(p.opcode);
	p.kind = shape.kind;
	overhead = headers_size(shape.headers) + ROCE_ICRC_SIZE;
	if (length < overhead)
		return -EMSGSIZE;
	padded = length - overhead;
	/* All headers are multiples of 4, and the pad makes the payload one. */
	if (padded % 4 != 0 || p.pad > padded)
		return -EBADMSG;
	p.payload = decode_extensions(b + ROCE_BTH_SIZE, shape.headers, &p);
	p.payload_length = padded - p.pad;

	if ((p.kind == ROCE_UC_WRITE || p.kind == ROCE_UC_WRITE_IMM) &&
	    p.reth.length != p.payload_length)
		return -EBADMSG;
	*out = p;
	return 0;
}

static void encode_bth(const struct roce_packet *p, uint8_t *b)
{
	b[0] = p->opcode;
	b[1] = (uint8_t)((p->solicited ? BTH_SOLICITED : 0) | (p->migreq ? BTH_MIGREQ : 0) |
			 (p->pad & BTH_PAD_MASK) << BTH_PAD_SHIFT |
			 (p->version & BTH_VERSION_MASK));
	put_be16(b + 2, p->pkey);
	b[4] = (uint8_t)((p->fecn ? BTH_FECN : 0) | (p->becn ? BTH_BECN : 0));
	put_be24(b + 5, p->dest_qpn);
	b[8] = p->ack_request ? BTH_ACK_REQUEST : 0;
	put_be24(b + 9, p->psn);
}

size_t roce_encode(const struct roce_packet *p, void *headers, size_t size)
{
	unsigned wanted = shape_of(p->opcode).headers;
	size_t length = headers_size(wanted);
	uint8_t *b = headers;

	if (size < length)
		return 0;
	encode_bth(p, b);
	b += ROCE_BTH_SIZE;
	if (wanted & HAS_RETH) {
		put_be64(b, p->reth.va);
		put_be32(b + 8, p->reth.rkey);
		put_be32(b + 12, p->reth.length);
		b += ROCE_RETH_SIZE;
	}
	if (wanted & HAS_DETH) {
		put_be32(b, p->deth.qkey);
		b[4] = 0;
		put_be24(b + 5, p->deth.src_qpn);
		b += ROCE_DETH_SIZE;
	}
	if (wanted & HAS_AETH) {
		b[0] = p->aeth.syndrome;
		put_be24(b + 1, p->aeth.msn);
		b += ROCE_AETH_SIZE;
	}
	if (wanted & HAS_IMM)
		put_be32(b, p->imm);
	if (wanted & HAS_RESERVED)
		memset(b, 0, ROCE_CNP_RESERVED_SIZE);
	return length;
}

static void initialise(struct roce_packet *p, uint8_t opcode, uint32_t dest_qpn, uint32_t psn,
		       const void *payload, uint32_t payload_length)
{
	struct shape shape = shape_of(opcode);

	*p = (struct roce_packet){
		.opcode = opcode,
		.kind = shape.kind,
		.pad = -payload_length & 3,
		.migreq = true,
		.has_reth = shape.headers & HAS_RETH,
		.has_imm = shape.headers & HAS_IMM,
		.has_deth = shape.headers & HAS_DETH,
		.pkey = ROCE_DEFAULT_PKEY,
		.dest_qpn = dest_qpn & ROCE_QPN_MASK,
		.psn = psn & ROCE_PSN_MASK,
		.payload = payload,
		.payload_length = payload_length,
	};
}

void roce_uc_write_imm(struct roce_packet *p, uint32_t dest_qpn, uint32_t psn, uint64_t va,
		       uint32_t rkey, uint32_t imm, const void *payload, uint32_t payload_length)
{
	initialise(p, ROCE_OP_UC_WRITE_ONLY_WITH_IMM, dest_qpn, psn, payload, payload_length);
	p->reth.va = va;
	p->reth.rkey = rkey;
	p->reth.length = payload_length;
	p->imm = imm;
}

/* The BTH as initialise() and encode_bth() make it. */
static void encode_usual_bth(uint8_t *b, uint8_t opcode, uint32_t dest_qpn, uint32_t psn,
			     uint32_t payload_length)
{
	b[0] = opcode;
	b[1] = (uint8_t)(BTH_MIGREQ | (-payload_length & BTH_PAD_MASK) << BTH_PAD_SHIFT);
	put_be16(b + 2, ROCE_DEFAULT_PKEY);
	put_be32(b + 4, dest_qpn & ROCE_QPN_MASK);
	put_be32(b + 8, psn & ROCE_PSN_MASK);
}

void roce_encode_uc_write_imm(uint8_t headers[ROCE_HEADERS_MAX], uint32_t dest_qpn, uint32_t psn,
			      uint64_t va, uint32_t rkey, uint32_t imm, uint32_t payload_length)
{
	uint8_t *reth = headers + ROCE_BTH_SIZE;

	encode_usual_bth(headers, ROCE_OP_UC_WRITE_ONLY_WITH_IMM, dest_qpn, psn, payload_length);
	put_be64(reth, va);
	put_be32(reth + 8, rkey);
	put_be32(reth + 12, payload_length);
	put_be32(reth + ROCE_RETH_SIZE, imm);
}

void roce_ud_send(struct roce_packet *p, uint32_t dest_qpn, uint32_t psn, uint32_t qkey,
		  uint32_t src_qpn, const void *payload, uint32_t payload_length)
{
	initialise(p, ROCE_OP_UD_SEND_ONLY, dest_qpn, psn, payload, payload_length);
	p->deth.qkey = qkey;
	p->deth.src_qpn = src_qpn & ROCE_QPN_MASK;
}

void roce_encode_ud_send(uint8_t headers[ROCE_UD_HEADERS], uint32_t dest_qpn, uint32_t psn,
			 uint32_t qkey, uint32_t src_qpn, uint32_t payload_length)
{
	uint8_t *deth = headers + ROCE_BTH_SIZE;

	encode_usual_bth(headers, ROCE_OP_UD_SEND_ONLY, dest_qpn, psn, payload_length);
	put_be32(deth, qkey);
	put_be32(deth + 4, src_qpn & ROCE_QPN_MASK);
}

void roce_ud_send_imm(struct roce_packet *p, uint32_t dest_qpn, uint32_t psn, uint32_t qkey,
		      uint32_t src_qpn, uint32_t imm, const void *payload, uint32_t payload_length)
{
	roce_ud_send(p, dest_qpn, psn, qkey, src_qpn, payload, payload_length);
	p->opcode = ROCE_OP_UD_SEND_ONLY_WITH_IMM;
	p->kind = ROCE_UD_SEND_IMM;
	p->has_imm = true;
	p->imm = imm;
}

void roce_cnp(struct roce_packet *p, uint32_t dest_qpn)
{
	initialise(p, ROCE_OP_CNP, dest_qpn, 0, NULL, 0);
	p->becn = true;
}
