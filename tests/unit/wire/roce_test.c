/* SPDX-License-Identifier: BSD-3-Clause */
/* RoCEv2 headers against byte arrays written by hand, and the decoder against every opcode. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "wire/roce.h"

/* UC WRITE ONLY WITH IMMEDIATE: solicited clear, MigReq set, pad 2, payload "godwit". */
static const uint8_t write_imm[] = {
	0x2b, 0x60, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x00, 0xab, 0xcd, 0xef, /* BTH */
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,				/* RETH: va */
	0xa1, 0xb2, 0xc3, 0xd4, 0x00, 0x00, 0x00, 0x06,				/* rkey, length */
	0xca, 0xfe, 0xf0, 0x0d,							/* ImmDt */
	'g',  'o',  'd',  'w',	'i',  't',  0x00, 0x00,				/* payload, pad */
	0x11, 0x22, 0x33, 0x44,							/* ICRC */
};

static const uint8_t ud_send_imm[] = {
	0x65, 0x40, 0xff, 0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x07, /* BTH */
	0x0e, 0xef, 0xac, 0xed, 0x00, 0x65, 0x43, 0x21,				/* DETH */
	0x00, 0x00, 0x00, 0x2a,							/* ImmDt */
	0xde, 0xad, 0xbe, 0xef,							/* payload */
	0x00, 0x00, 0x00, 0x00,							/* ICRC */
};

static const uint8_t cnp[] = {
	0x81, 0x40, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, /* BTH */
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,				/* reserved */
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,				/* reserved */
	0x00, 0x00, 0x00, 0x00,							/* ICRC */
};

static void test_sizes(void **state)
{
	assert_int_equal(ROCE_DATA_OVERHEAD, 36);
	assert_int_equal(ROCE_CONTROL_OVERHEAD, 24);
	assert_int_equal(ROCE_HEADERS_MAX, 32);
}

static void test_write_imm_bytes(void **state)
{
	uint8_t headers[ROCE_HEADERS_MAX];
	struct roce_packet p;

	roce_uc_write_imm(&p, 0x123456, 0xabcdef, 0x0102030405060708, 0xa1b2c3d4, 0xcafef00d,
			  "godwit", 6);
	assert_int_equal(p.kind, ROCE_UC_WRITE_IMM);
	assert_true(p.has_reth && p.has_imm && !p.has_deth && !p.has_aeth);
	assert_int_equal(roce_encode(&p, headers, sizeof(headers)), 32);
	assert_memory_equal(headers, write_imm, 32);
	memset(headers, 0xee, sizeof(headers));
	roce_encode_uc_write_imm(headers, 0xff123456, 0x55abcdef, 0x0102030405060708, 0xa1b2c3d4,
				 0xcafef00d, 6);
	assert_memory_equal(headers, write_imm, 32);

	memset(&p, 0xee, sizeof(p));
	assert_int_equal(roce_decode(write_imm, sizeof(write_imm), &p), 0);
	assert_int_equal(p.kind, ROCE_UC_WRITE_IMM);
	assert_int_equal(p.opcode, ROCE_OP_UC_WRITE_ONLY_WITH_IMM);
	assert_true(p.migreq && p.has_reth && p.has_imm);
	assert_false(p.solicited || p.fecn || p.becn || p.ack_request || p.has_deth || p.has_aeth);
	assert_int_equal(p.pad, 2);
	assert_int_equal(p.version, 0);
	assert_int_equal(p.pkey, 0xffff);
	assert_int_equal(p.dest_qpn, 0x123456);
	assert_int_equal(p.psn, 0xabcdef);
	assert_true(p.reth.va == 0x0102030405060708);
	assert_int_equal(p.reth.rkey, 0xa1b2c3d4);
	assert_int_equal(p.reth.length, 6);
	assert_int_equal(p.imm, 0xcafef00d);
	assert_ptr_equal(p.payload, write_imm + 32);
	assert_int_equal(p.payload_length, 6);
}

static void test_ud_bytes(void **state)
{
	uint8_t headers[ROCE_HEADERS_MAX];
	struct roce_packet p;

	roce_ud_send_imm(&p, 1, 7, 0x0eefaced, 0x654321, 42, ud_send_imm + 24, 4);
	assert_true(p.has_deth && p.has_imm && !p.has_reth);
	assert_int_equal(p.kind, ROCE_UD_SEND_IMM);
	assert_int_equal(roce_encode(&p, headers, sizeof(headers)), 24);
	assert_memory_equal(headers, ud_send_imm, 24);

	assert_int_equal(roce_decode(ud_send_imm, sizeof(ud_send_imm), &p), 0);
	assert_int_equal(p.kind, ROCE_UD_SEND_IMM);
	assert_int_equal(p.deth.qkey, 0x0eefaced);
	assert_int_equal(p.deth.src_qpn, 0x654321);
	assert_int_equal(p.imm, 42);
	assert_ptr_equal(p.payload, ud_send_imm + 24);
	assert_int_equal(p.payload_length, 4);

	roce_ud_send(&p, 1, 7, 0x0eefaced, 0x654321, NULL, 0);
	assert_true(p.has_deth && !p.has_imm);
	assert_int_equal(p.kind, ROCE_UD_SEND);
	assert_int_equal(roce_encode(&p, headers, sizeof(headers)), 20);
	assert_int_equal(headers[0], ROCE_OP_UD_SEND_ONLY);
	assert_memory_equal(headers + 1, ud_send_imm + 1, 19);

	for (uint32_t length = 0; length < 5; length++) {
		uint8_t at_once[ROCE_UD_HEADERS];

		roce_ud_send(&p, 0xff000001, 0x55000007, 0x0eefaced, 0x77654321, NULL, length);
		assert_int_equal(roce_encode(&p, headers, sizeof(headers)), sizeof(at_once));
		memset(at_once, 0xee, sizeof(at_once));
		roce_encode_ud_send(at_once, 0xff000001, 0x55000007, 0x0eefaced, 0x77654321,
				    length);
		assert_memory_equal(at_once, headers, sizeof(at_once));
	}
}

static void test_cnp_bytes(void **state)
{
	uint8_t headers[ROCE_HEADERS_MAX];
	struct roce_packet p;

	memset(headers, 0xee, sizeof(headers));
	roce_cnp(&p, 0x118);
	assert_int_equal(roce_encode(&p, headers, sizeof(headers)), 28);
	assert_memory_equal(headers, cnp, 28);
	memset(&p, 0xee, sizeof(p));
	assert_int_equal(roce_decode(cnp, sizeof(cnp), &p), 0);
	assert_int_equal(p.kind, ROCE_CNP);
	assert_true(p.becn && !p.fecn);
	assert_int_equal(p.dest_qpn, 0x118);
	assert_int_equal(p.payload_length, 0);
}

static void test_ack_and_bth_bits(void **state)
{
	static const uint8_t ack[] = {
		0x11, 0x80, 0x12, 0x34, 0x80, 0x00, 0x00, 0x02, 0x80, 0x00,
		0x00, 0x03, 0x5f, 0x0a, 0x0b, 0x0c, 0x00, 0x00, 0x00, 0x00,
	};
	uint8_t headers[ROCE_HEADERS_MAX];
	struct roce_packet p;

	assert_int_equal(roce_decode(ack, sizeof(ack), &p), 0);
	assert_int_equal(p.kind, ROCE_ACK);
	assert_true(p.solicited && p.fecn && p.ack_request && p.has_aeth);
	assert_false(p.migreq || p.becn);
	assert_int_equal(p.pkey, 0x1234);
	assert_int_equal(p.aeth.syndrome, 0x5f);
	assert_int_equal(p.aeth.msn, 0x0a0b0c);
	assert_int_equal(roce_encode(&p, headers, sizeof(headers)), 16);
	assert_memory_equal(headers, ack, 16);
}

/* What the table in roce.c must say, written out a second time. */
static enum roce_kind expected_kind(unsigned opcode, size_t *headers)
{
	*headers = 12;
	switch (opcode) {
	case 0x11:
		*headers = 16;
		return ROCE_ACK;
	case 0x20:
	case 0x21:
	case 0x22:
	case 0x27:
	case 0x28:
		return ROCE_UC_MULTI;
	case 0x23:
	case 0x29:
		*headers = 16;
		return ROCE_UC_MULTI;
	case 0x26:
		*headers = 28;
		return ROCE_UC_MULTI;
	case 0x2a:
		*headers = 28;
		return ROCE_UC_WRITE;
	case 0x2b:
		*headers = 32;
		return ROCE_UC_WRITE_IMM;
	case 0x64:
		*headers = 20;
		return ROCE_UD_SEND;
	case 0x65:
		*headers = 24;
		return ROCE_UD_SEND_IMM;
	case 0x81:
		*headers = 28;
		return ROCE_CNP;
	default:
		return ROCE_OTHER;
	}
}

/* Every opcode at every length up to 80 bytes, with random contents. */
static void test_every_opcode(void **state)
{
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		size_t headers;
		enum roce_kind kind = expected_kind(opcode, &headers);

		for (size_t length = 0; length <= 80; length++) {
			uint8_t datagram[80], again[ROCE_HEADERS_MAX];
			bool only = kind == ROCE_UC_WRITE || kind == ROCE_UC_WRITE_IMM;
			uint8_t pad = (uint8_t)random_below(4);
			struct roce_packet p;
			int error;

			random_fill(datagram, sizeof(datagram));
			datagram[0] = (uint8_t)opcode;
			datagram[1] = (uint8_t)((datagram[1] & 0xc0) | pad << 4);
			/* Reserved bits, which a round trip does not keep. */
			datagram[4] &= 0xc0;
			datagram[8] &= 0x80;
			if (kind == ROCE_UD_SEND || kind == ROCE_UD_SEND_IMM)
				datagram[16] = 0;
			if (kind == ROCE_CNP)
				memset(datagram + 12, 0, 16);
			if (only) {
				datagram[24] = datagram[25] = datagram[26] = 0;
				datagram[27] = (uint8_t)(length - headers - 4 - pad);
			}
			error = roce_decode(datagram, length, &p);
			if (length < headers + 4) {
				assert_int_equal(error, -EMSGSIZE);
				continue;
			}
			if (length % 4 != 0 || length - headers - 4 < pad) {
				assert_int_equal(error, -EBADMSG);
				continue;
			}
			assert_int_equal(error, 0);
			assert_int_equal(p.opcode, opcode);
			assert_int_equal(p.kind, kind);
			assert_int_equal(p.pad, pad);
			assert_ptr_equal(p.payload, datagram + headers);
			assert_int_equal(p.payload_length, length - headers - 4 - pad);
			assert_int_equal(roce_encode(&p, again, sizeof(again)), headers);
			assert_memory_equal(again, datagram, headers);
			if (only) {
				datagram[27]++;
				assert_int_equal(roce_decode(datagram, length, &p), -EBADMSG);
				datagram[27]--;
				datagram[24] = 1;
				assert_int_equal(roce_decode(datagram, length, &p), -EBADMSG);
			}
		}
	}
}

/* The length of a whole message is larger than its first packet: no check there. */
static void test_first_keeps_long_reth(void **state)
{
	uint8_t datagram[12 + 16 + 64 + 4] = { 0x26 };
	struct roce_packet p;

	datagram[24] = 1;
	assert_int_equal(roce_decode(datagram, sizeof(datagram), &p), 0);
	assert_true(p.has_reth);
	assert_int_equal(p.reth.length, 0x01000000);
}

static void test_version(void **state)
{
	uint8_t datagram[sizeof(write_imm)];
	struct roce_packet p = { .psn = 77 };

	for (uint8_t version = 1; version < 16; version++) {
		memcpy(datagram, write_imm, sizeof(datagram));
		datagram[1] |= version;
		assert_int_equal(roce_decode(datagram, sizeof(datagram), &p), -EPROTO);
	}
	/* Set only on success. */
	assert_int_equal(p.psn, 77);
}

static void test_reserved_bits_are_ignored(void **state)
{
	uint8_t datagram[sizeof(write_imm)];
	struct roce_packet p;

	memcpy(datagram, write_imm, sizeof(datagram));
	datagram[4] |= 0x3f;
	datagram[8] |= 0x7f;
	assert_int_equal(roce_decode(datagram, sizeof(datagram), &p), 0);
	assert_false(p.fecn || p.becn || p.ack_request);
}

static void test_encode_bounds(void **state)
{
	uint8_t headers[ROCE_HEADERS_MAX + 1];
	struct roce_packet p;

	roce_uc_write_imm(&p, 1, 2, 3, 4, 5, NULL, 0);
	for (size_t size = 0; size < 32; size++) {
		memset(headers, 0xee, sizeof(headers));
		assert_int_equal(roce_encode(&p, headers, size), 0);
		for (size_t i = 0; i < sizeof(headers); i++)
			assert_int_equal(headers[i], 0xee);
	}
	assert_int_equal(roce_encode(&p, headers, 32), 32);
	assert_int_equal(headers[32], 0xee);
}

/* Initialisers take counters that run past 24 bits, and pad every length to a multiple of 4. */
static void test_initialisers_mask_and_pad(void **state)
{
	struct roce_packet p;

	for (uint32_t length = 0; length < 16; length++) {
		roce_uc_write_imm(&p, 0xff123456, 0x01000005, 0, 0, 0, NULL, length);
		assert_int_equal(p.dest_qpn, 0x123456);
		assert_int_equal(p.psn, 5);
		assert_int_equal(p.reth.length, length);
		assert_true(p.pad < 4 && (length + p.pad) % 4 == 0);
		roce_ud_send(&p, 0xff123456, 0x01000005, 0, 0xff000009, NULL, length);
		assert_int_equal(p.deth.src_qpn, 9);
		assert_true(p.pad < 4 && (length + p.pad) % 4 == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_write_imm_bytes),
		cmocka_unit_test(test_ud_bytes),
		cmocka_unit_test(test_cnp_bytes),
		cmocka_unit_test(test_ack_and_bth_bits),
		cmocka_unit_test(test_every_opcode),
		cmocka_unit_test(test_first_keeps_long_reth),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_reserved_bits_are_ignored),
		cmocka_unit_test(test_encode_bounds),
		cmocka_unit_test(test_initialisers_mask_and_pad),
	};

	return cmocka_run_group_tests_name("wire-roce", tests, NULL, NULL);
}
