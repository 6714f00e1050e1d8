/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCEv2 headers: what lies between the UDP header and the payload.
 *
 *	UDP | BTH | RETH, ImmDt, DETH or AETH, as the opcode says | payload | pad | ICRC
 *
 * A data packet of ours is one UC WRITE ONLY WITH IMMEDIATE, control is UD SEND ONLY, multicast is
 * UD SEND ONLY WITH IMMEDIATE, and congestion notification is a CNP. The other opcodes named here
 * are recognised so that they can be counted, not served.
 *
 * Pure functions. The ICRC is neither checked nor made here: see wire/icrc.h.
 */
#ifndef WIRE_ROCE_H
#define WIRE_ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCE_PORT 4791

#define ROCE_BTH_SIZE  12
#define ROCE_RETH_SIZE 16
#define ROCE_IMM_SIZE  4
#define ROCE_DETH_SIZE 8
#define ROCE_AETH_SIZE 4
#define ROCE_ICRC_SIZE 4
/* A CNP carries this many reserved bytes, zero, where others have extension headers. */
#define ROCE_CNP_RESERVED_SIZE 16

/* The most that roce_encode() writes. */
#define ROCE_HEADERS_MAX (ROCE_BTH_SIZE + ROCE_RETH_SIZE + ROCE_IMM_SIZE)
/* What a data packet and a control datagram add to their (padded) payload inside UDP. */
#define ROCE_DATA_OVERHEAD    (ROCE_BTH_SIZE + ROCE_RETH_SIZE + ROCE_IMM_SIZE + ROCE_ICRC_SIZE)
#define ROCE_UD_HEADERS	      (ROCE_BTH_SIZE + ROCE_DETH_SIZE)
#define ROCE_CONTROL_OVERHEAD (ROCE_UD_HEADERS + ROCE_ICRC_SIZE)

#define ROCE_DEFAULT_PKEY 0xffff
#define ROCE_QPN_MASK	  0xffffffu
#define ROCE_PSN_MASK	  0xffffffu

enum roce_opcode {
	ROCE_OP_RC_ACKNOWLEDGE = 0x11,
	ROCE_OP_UC_SEND_FIRST = 0x20,
	ROCE_OP_UC_SEND_MIDDLE = 0x21,
	ROCE_OP_UC_SEND_LAST = 0x22,
	ROCE_OP_UC_SEND_LAST_WITH_IMM = 0x23,
	ROCE_OP_UC_SEND_ONLY = 0x24,
	ROCE_OP_UC_SEND_ONLY_WITH_IMM = 0x25,
	ROCE_OP_UC_WRITE_FIRST = 0x26,
	ROCE_OP_UC_WRITE_MIDDLE = 0x27,
	ROCE_OP_UC_WRITE_LAST = 0x28,
	ROCE_OP_UC_WRITE_LAST_WITH_IMM = 0x29,
	ROCE_OP_UC_WRITE_ONLY = 0x2a,
	ROCE_OP_UC_WRITE_ONLY_WITH_IMM = 0x2b,
	ROCE_OP_UD_SEND_ONLY = 0x64,
	ROCE_OP_UD_SEND_ONLY_WITH_IMM = 0x65,
	ROCE_OP_CNP = 0x81,
};

enum roce_kind {
	ROCE_OTHER, /* a well-formed BTH with an opcode that is not handled; the rest is payload */
	ROCE_UC_WRITE,
	ROCE_UC_WRITE_IMM,
	ROCE_UC_MULTI, /* first, middle or last of a multi-packet UC message, send or write */
	ROCE_UD_SEND,
	ROCE_UD_SEND_IMM,
	ROCE_ACK,
	ROCE_CNP,
};

/*
 * A packet taken apart. `payload` points into the datagram and excludes pad and ICRC. The extension
 * fields are meaningful where their has_ flag is set, and zero elsewhere.
 */
struct roce_packet {
	uint8_t opcode;
	/* 0 to 3 bytes after the payload, so that the ICRC is aligned */
	uint8_t pad;
	/* transport header version: 0, the only one there is */
	uint8_t version;
	enum roce_kind kind;
	bool solicited;
	bool migreq;
	bool fecn;
	bool becn;
	bool ack_request;
	bool has_reth;
	bool has_imm;
	bool has_deth;
	bool has_aeth;
	uint16_t pkey;
	/* 24 bits */
	uint32_t dest_qpn;
	/* 24 bits */
	uint32_t psn;
	struct {
		uint64_t va;
		uint32_t rkey;
		uint32_t length;
	} reth;
	uint32_t imm;
	struct {
		uint32_t qkey;
		/* 24 bits */
		uint32_t src_qpn;
	} deth;
	struct {
		uint8_t syndrome;
		/* 24 bits */
		uint32_t msn;
	} aeth;
	const uint8_t *payload;
	size_t payload_length;
};

/*
 * Takes a UDP payload apart. Reserved bits are ignored, as the specification asks of a receiver;
 * pad bytes are not looked at. Of the extension headers those are set that the packet has.
 *
 * -EMSGSIZE: too short for the headers of its opcode and the ICRC.
 * -EPROTO:   a transport header version other than 0.
 * -EBADMSG:  lengths that contradict each other: not a multiple of 4, more pad than payload, or the
 *            RETH of an ONLY write naming another length than the payload's.
 */
int roce_decode(const void *udp_payload, size_t length, struct roce_packet *out);

/*
 * Writes BTH and extension headers as p->opcode asks; the caller gathers payload, p->pad zero bytes
 * and the ICRC behind them. Returns the headers' length, at most ROCE_HEADERS_MAX, or 0 if `size`
 * is too small. p->kind and the has_ flags are not read: the opcode decides.
 */
size_t roce_encode(const struct roce_packet *p, void *headers, size_t size);

/*
 * Initialisers for the packets we send. They set MigReq, as NICs do and some expect, the default
 * P_Key and the pad. Bits beyond 24 of a QPN or PSN are dropped, so a caller may just count.
 */
void roce_uc_write_imm(struct roce_packet *p, uint32_t dest_qpn, uint32_t psn, uint64_t va,
		       uint32_t rkey, uint32_t imm, const void *payload, uint32_t payload_length);
/* The headers of roce_uc_write_imm() and roce_encode(), at once: of all packets most are such. */
void roce_encode_uc_write_imm(uint8_t headers[ROCE_HEADERS_MAX], uint32_t dest_qpn, uint32_t psn,
			      uint64_t va, uint32_t rkey, uint32_t imm, uint32_t payload_length);
void roce_ud_send(struct roce_packet *p, uint32_t dest_qpn, uint32_t psn, uint32_t qkey,
		  uint32_t src_qpn, const void *payload, uint32_t payload_length);
/* The headers of roce_ud_send() and roce_encode(), at once: control is a small message's whole journey. */
void roce_encode_ud_send(uint8_t headers[ROCE_UD_HEADERS], uint32_t dest_qpn, uint32_t psn,
			 uint32_t qkey, uint32_t src_qpn, uint32_t payload_length);
void roce_ud_send_imm(struct roce_packet *p, uint32_t dest_qpn, uint32_t psn, uint32_t qkey,
		      uint32_t src_qpn, uint32_t imm, const void *payload, uint32_t payload_length);
/* `dest_qpn` is the QP that sent the marked packets. */
void roce_cnp(struct roce_packet *p, uint32_t dest_qpn);

#endif
