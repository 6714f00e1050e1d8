/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ICRC against one computed a bit at a time from whole, unmasked IP packets, against a packet a
 * NIC sent, and against every promise of wire/icrc.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "wire/icrc.h"
#include "wire/roce.h"

enum {
	LENGTH_MAX = 65507,
	MORE_FRAGMENTS = 0x2000,
	DONT_FRAGMENT = 0x4000,
};

static uint8_t packet[LENGTH_MAX];

static struct sockaddr_in ipv4(const char *address, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
	return in;
}

static struct sockaddr_in6 ipv6(const char *address, uint16_t port)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	assert_int_equal(inet_pton(AF_INET6, address, &in6.sin6_addr), 1);
	return in6;
}

static struct icrc_flow flow4(const char *source, uint16_t source_port, const char *destination)
{
	struct sockaddr_in from = ipv4(source, source_port), to = ipv4(destination, ROCE_PORT);
	struct icrc_flow flow;

	assert_int_equal(icrc_flow_init((void *)&from, (void *)&to, &flow), 0);
	return flow;
}

static struct icrc_flow flow6(const char *source, uint16_t source_port, const char *destination)
{
	struct sockaddr_in6 from = ipv6(source, source_port), to = ipv6(destination, ROCE_PORT);
	struct icrc_flow flow;

	assert_int_equal(icrc_flow_init((void *)&from, (void *)&to, &flow), 0);
	return flow;
}

/* One byte through the shift register, low bit first. */
static uint32_t shift_in(uint32_t crc, uint8_t byte)
{
	for (int bit = 0; bit < 8; bit++) {
		uint32_t feedback = (crc ^ byte >> bit) & 1;

		crc >>= 1;
		if (feedback)
			crc ^= 0xedb88320;
	}
	return crc;
}

static uint32_t shift_in_all(uint32_t crc, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		crc = shift_in(crc, bytes[i]);
	return crc;
}

/* `ip` is an IP and UDP header with its changeable fields at whatever the network made of them. */
static void reference(uint8_t *ip, size_t ip_length, const uint8_t *udp_payload, size_t length,
		      uint8_t out[4])
{
	uint32_t crc = 0xffffffff;

	for (int i = 0; i < 8; i++)
		crc = shift_in(crc, 0xff);
	if (ip[0] >> 4 == 4) {
		ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
	} else {
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
	}
	ip[ip_length + 6] = ip[ip_length + 7] = 0xff;
	crc = shift_in_all(crc, ip, ip_length + 8);
	crc = shift_in_all(crc, udp_payload, 4);
	crc = shift_in(crc, 0xff);
	crc = ~shift_in_all(crc, udp_payload + 5, length - 9);
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(crc >> 8 * i);
}

static void put16(uint8_t *p, size_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

/* Between 10.0.0.1 port 50000 and 10.0.0.2, TOS, TTL and checksums random. */
static void reference4(uint16_t id, uint16_t fragment_word, const uint8_t *udp_payload,
		       size_t length, uint8_t out[4])
{
	uint8_t ip[28] = { 0x45, [9] = 17, [12] = 10, 0, 0, 1, 10, 0, 0, 2 };

	ip[1] = (uint8_t)random64();
	ip[8] = (uint8_t)random64();
	random_fill(ip + 10, 2);
	put16(ip + 2, 28 + length);
	put16(ip + 4, id);
	put16(ip + 6, fragment_word);
	put16(ip + 20, 50000);
	put16(ip + 22, 4791);
	put16(ip + 24, 8 + length);
	random_fill(ip + 26, 2);
	reference(ip, 20, udp_payload, length, out);
}

static struct icrc_flow usual_flow(void)
{
	return flow4("10.0.0.1", 50000, "10.0.0.2");
}

/* Writes the right ICRC, in as many pieces as chance has it, into the packet's last bytes. */
static void seal(struct icrc_flow *flow, size_t length, uint16_t id, bool dont_fragment)
{
	size_t covered = length - 4;
	size_t at = 12 + random_below((uint32_t)(covered < 70 ? covered - 11 : 59));
	uint32_t crc = icrc_begin(flow, length, id, dont_fragment, packet, at);

	while (at < covered) {
		size_t piece = random_below((uint32_t)(covered - at + 1));

		crc = icrc_update(crc, packet + at, piece);
		at += piece;
	}
	icrc_final(crc, packet + covered);
}

static void test_matches_bit_by_bit_ipv4(void **state)
{
	struct icrc_flow flow = usual_flow();

	for (int round = 0; round < 300; round++) {
		size_t length = 16 + random_below(round < 280 ? 1500 : LENGTH_MAX - 15);
		uint16_t id = (uint16_t)random64();
		bool dont_fragment = random64() & 1;
		uint8_t expected[4];

		random_fill(packet, length);
		reference4(id, dont_fragment ? DONT_FRAGMENT : 0, packet, length, expected);
		seal(&flow, length, id, dont_fragment);
		assert_memory_equal(packet + length - 4, expected, 4);
	}
}

static void test_matches_bit_by_bit_ipv6(void **state)
{
	struct icrc_flow flow = flow6("2001:db8::1", 50001, "2001:db8::2");

	for (int round = 0; round < 300; round++) {
		uint8_t ip[48] = { 0x60,     [6] = 17,	  [8] = 0x20, 0x01, 0x0d, 0xb8,
				   [23] = 1, [24] = 0x20, 0x01,	      0x0d, 0xb8, [39] = 2 };
		size_t length = 16 + random_below(1500);
		struct icrc_match match = { 9, true };
		uint8_t expected[4];

		ip[0] |= (uint8_t)random_below(16);
		random_fill(ip + 1, 3);
		ip[7] = (uint8_t)random64();
		put16(ip + 4, 8 + length);
		put16(ip + 40, 50001);
		put16(ip + 42, 4791);
		put16(ip + 44, 8 + length);
		random_fill(ip + 46, 2);
		random_fill(packet, length);
		reference(ip, 40, packet, length, expected);
		seal(&flow, length, (uint16_t)random64(), random64() & 1);
		assert_memory_equal(packet + length - 4, expected, 4);
		assert_int_equal(icrc_verify(&flow, packet, length, 0, ICRC_ANY_ID, &match),
				 ICRC_EXACT);
		assert_true(match.id == 0 && !match.dont_fragment);
		packet[random_below(4)] ^= 0x10;
		assert_int_equal(icrc_verify(&flow, packet, length, 0, ICRC_ANY_ID, &match),
				 ICRC_BAD);
	}
}

/* A CNP as a ConnectX-4 Lx sent it, from a published capture. MigReq is clear in it. */
static void test_packet_of_a_nic(void **state)
{
	static const uint8_t icrc[4] = { 0x82, 0xfd, 0x00, 0x2a };
	struct icrc_flow flow = flow4("10.0.17.1", 0, "10.0.18.1");
	struct icrc_match match;
	uint8_t made[4];
	struct roce_packet p;
	size_t headers;

	roce_cnp(&p, 0x118);
	p.migreq = false;
	headers = roce_encode(&p, packet, sizeof(packet));
	icrc_final(icrc_begin(&flow, 32, 0x718c, true, packet, headers), made);
	assert_memory_equal(made, icrc, 4);
	memcpy(packet + headers, icrc, 4);
	assert_int_equal(icrc_verify(&flow, packet, 32, 0, ICRC_ANY_ID, &match), ICRC_UP_TO_ID);
	assert_true(match.id == 0x718c && match.dont_fragment);
}

/* "godwit" written to va 0x0102030405060708; the ICRCs come from another CRC library. */
static void test_known_write(void **state)
{
	static const uint8_t expected4[4] = { 0x8b, 0x84, 0x66, 0x8a };
	static const uint8_t expected6[4] = { 0xdb, 0x67, 0x8b, 0x13 };
	struct icrc_flow v4 = flow4("192.0.2.1", 49152, "192.0.2.2");
	struct icrc_flow v6 = flow6("2001:db8::1", 49152, "2001:db8::2");
	uint8_t headers[ROCE_HEADERS_MAX], made[4];
	struct roce_packet p;

	roce_uc_write_imm(&p, 0x11, 0x123456, 0x0102030405060708, 0xa1b2c3d4, 0xcafef00d, "godwit",
			  6);
	assert_int_equal(roce_encode(&p, headers, sizeof(headers)), 32);
	icrc_final(icrc_update(icrc_begin(&v4, 44, 0, true, headers, 32), "godwit\0", 8), made);
	assert_memory_equal(made, expected4, 4);
	icrc_final(icrc_update(icrc_begin(&v6, 44, 0, true, headers, 32), "godwit\0", 8), made);
	assert_memory_equal(made, expected6, 4);
}

/* On a dual-stack socket an IPv4 peer has a mapped address, and the packet is IPv4. */
static void test_flow_families(void **state)
{
	struct sockaddr_in in = ipv4("10.0.0.1", 50000);
	struct sockaddr_in6 in6 = ipv6("2001:db8::1", 50000);
	struct sockaddr_in6 mapped = ipv6("::ffff:10.0.0.2", ROCE_PORT);
	struct sockaddr_in plain = ipv4("10.0.0.2", ROCE_PORT);
	struct sockaddr other = { .sa_family = AF_UNIX };
	struct icrc_flow expected, flow;

	assert_int_equal(icrc_flow_init((void *)&in, (void *)&plain, &expected), 0);
	assert_int_equal(icrc_flow_init((void *)&in, (void *)&mapped, &flow), 0);
	assert_memory_equal(&flow, &expected, sizeof(flow));
	assert_int_equal(icrc_flow_init((void *)&in, (void *)&in6, &flow), -EINVAL);
	assert_int_equal(icrc_flow_init((void *)&in6, (void *)&mapped, &flow), -EINVAL);
	assert_int_equal(icrc_flow_init(&other, (void *)&in, &flow), -EAFNOSUPPORT);
	assert_int_equal(icrc_flow_init((void *)&in, &other, &flow), -EAFNOSUPPORT);
}

static void test_congestion_byte_is_masked(void **state)
{
	struct icrc_flow flow = usual_flow();
	struct icrc_match match;

	random_fill(packet, 100);
	seal(&flow, 100, 0, true);
	for (unsigned value = 0; value < 256; value++) {
		packet[4] = (uint8_t)value;
		assert_int_equal(icrc_verify(&flow, packet, 100, 0, 0, &match), ICRC_EXACT);
	}
}

/* Every identification, with and without DF, is recovered exactly. */
static void test_recovers_every_id(void **state)
{
	struct icrc_flow flow = usual_flow();
	size_t length = 36 + 64;

	random_fill(packet, length);
	for (uint32_t id = 0; id <= 0xffff; id++) {
		for (int dont_fragment = 0; dont_fragment < 2; dont_fragment++) {
			uint32_t crc =
				icrc_begin(&flow, length, (uint16_t)id, dont_fragment, packet, 12);
			bool exact = id == 0 && dont_fragment;
			struct icrc_match match;

			icrc_final(icrc_update(crc, packet + 12, length - 16), packet + length - 4);
			assert_int_equal(icrc_verify(&flow, packet, length, 0, ICRC_ANY_ID, &match),
					 exact ? ICRC_EXACT : ICRC_UP_TO_ID);
			assert_int_equal(match.id, id);
			assert_int_equal(match.dont_fragment, dont_fragment);
		}
	}
}

/* Every length, so that every one of the tabled powers is used. */
static void test_recovers_at_every_length(void **state)
{
	struct icrc_flow flow = usual_flow();

	random_fill(packet, sizeof(packet));
	for (size_t length = 16; length <= LENGTH_MAX; length += length < 4200 ? 1 : 97) {
		uint16_t id = (uint16_t)random64(), guess = (uint16_t)random64();
		struct icrc_match match;

		seal(&flow, length, id, false);
		assert_int_equal(icrc_verify(&flow, packet, length, guess, ICRC_ANY_ID, &match),
				 ICRC_UP_TO_ID);
		assert_int_equal(match.id, id);
		assert_false(match.dont_fragment);
	}
	seal(&flow, LENGTH_MAX, 0x8001, true);
	assert_int_equal(
		icrc_verify(&flow, packet, LENGTH_MAX, 0, ICRC_ANY_ID, &(struct icrc_match){ 0 }),
		ICRC_UP_TO_ID);
}

static void test_guess(void **state)
{
	struct icrc_flow flow = usual_flow();
	struct icrc_match match;

	random_fill(packet, 100);
	seal(&flow, 100, 4711, true);
	assert_int_equal(icrc_verify(&flow, packet, 100, 4711, ICRC_ANY_ID, &match), ICRC_EXACT);
	assert_true(match.id == 4711 && match.dont_fragment);
	assert_int_equal(icrc_verify(&flow, packet, 100, 4710, ICRC_ANY_ID, &match), ICRC_UP_TO_ID);
	assert_true(match.id == 4711 && match.dont_fragment);
}

static void test_max_id(void **state)
{
	struct icrc_flow flow = usual_flow();
	struct icrc_match match = { 99, false };

	random_fill(packet, 100);
	for (uint16_t id = 0; id < 200; id++) {
		enum icrc_verdict within = id == 5 ? ICRC_EXACT : ICRC_UP_TO_ID;

		seal(&flow, 100, id, true);
		assert_int_equal(icrc_verify(&flow, packet, 100, 5, 63, &match),
				 id <= 63 ? within : ICRC_BAD);
		assert_int_equal(icrc_verify(&flow, packet, 100, 5, 0xffff, &match), within);
		seal(&flow, 100, id, false);
		match.id = 999;
		assert_int_equal(icrc_verify(&flow, packet, 100, 5, 63, &match), ICRC_BAD);
		assert_int_equal(icrc_verify(&flow, packet, 100, 5, 0xffff, &match), ICRC_BAD);
		/* Set only when it is not bad. */
		assert_int_equal(match.id, 999);
	}
}

/* Nothing but identification and DF may differ: not MF, not the reserved flag, not an offset. */
static void test_other_differences_are_bad(void **state)
{
	struct icrc_flow flow = usual_flow();
	struct icrc_match match;

	random_fill(packet, 100);
	for (int bit = 0; bit < 16; bit++) {
		reference4(3, (uint16_t)(1 << bit), packet, 100, packet + 96);
		assert_int_equal(icrc_verify(&flow, packet, 100, 0, ICRC_ANY_ID, &match),
				 1 << bit == DONT_FRAGMENT ? ICRC_UP_TO_ID : ICRC_BAD);
	}
	reference4(3, DONT_FRAGMENT | MORE_FRAGMENTS, packet, 100, packet + 96);
	assert_int_equal(icrc_verify(&flow, packet, 100, 0, ICRC_ANY_ID, &match), ICRC_BAD);
}

static void test_lengths_out_of_range(void **state)
{
	static uint8_t long_packet[65528];
	struct icrc_flow v4 = usual_flow(), v6 = flow6("2001:db8::1", 1, "2001:db8::2");
	struct icrc_match match;

	/* Often enough that chance would let some pass if their ICRC were looked at. */
	for (int round = 0; round < 1 << 18; round++) {
		random_fill(packet, 16);
		assert_int_equal(icrc_verify(&v4, packet, random_below(16), 0, ICRC_ANY_ID, &match),
				 ICRC_BAD);
	}
	assert_int_equal(icrc_verify(&v4, long_packet, 65508, 0, ICRC_ANY_ID, &match), ICRC_BAD);
	assert_int_equal(icrc_verify(&v6, long_packet, 65528, 0, ICRC_ANY_ID, &match), ICRC_BAD);
}

/* The table in wire/icrc.h: which flipped bits pass for another identification. */
static void test_single_bit_errors(void **state)
{
	static const struct {
		size_t length;
		unsigned mistaken;
	} promised[] = { { 36 + 64, 0 }, { 36 + 1024, 1 }, { 36 + 1436, 1 }, { 36 + 4096, 2 } };
	static const size_t known[] = { 173 * 8 + 3, 1834 * 8 + 6 };
	struct icrc_flow flow = usual_flow();
	struct icrc_match match;

	for (size_t i = 0; i < sizeof(promised) / sizeof(promised[0]); i++) {
		size_t length = promised[i].length;
		unsigned mistaken = 0;

		random_fill(packet, length);
		seal(&flow, length, 0, true);
		for (size_t bit = 0; bit < length * 8; bit++) {
			if (bit / 8 == 4)
				continue;
			packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_int_equal(icrc_verify(&flow, packet, length, 0, 63, &match),
					 ICRC_BAD);
			assert_int_equal(icrc_verify(&flow, packet, length, 0, 65535, &match),
					 ICRC_BAD);
			if (icrc_verify(&flow, packet, length, 0, ICRC_ANY_ID, &match) !=
			    ICRC_BAD) {
				assert_true(mistaken < 2 && bit == known[mistaken]);
				assert_false(match.dont_fragment);
				mistaken++;
			}
			packet[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		assert_int_equal(mistaken, promised[i].mistaken);
	}
}

/* 2^20 random ICRCs: 2^-15 of them, 32, should pass with ICRC_ANY_ID, and half as many with DF. */
static void test_random_corruption(void **state)
{
	struct icrc_flow flow = usual_flow();
	unsigned any = 0, with_df = 0, segments = 0;
	struct icrc_match match;

	random_fill(packet, 40);
	for (int round = 0; round < 1 << 20; round++) {
		random_fill(packet + 36, 4);
		if (icrc_verify(&flow, packet, 40, 0, ICRC_ANY_ID, &match) == ICRC_BAD)
			continue;
		any++;
		with_df += icrc_verify(&flow, packet, 40, 0, 65535, &match) != ICRC_BAD;
		segments += icrc_verify(&flow, packet, 40, 0, 63, &match) != ICRC_BAD;
	}
	assert_in_range(any, 15, 49);
	assert_in_range(with_df, 5, 28);
	assert_int_equal(segments, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matches_bit_by_bit_ipv4),
		cmocka_unit_test(test_matches_bit_by_bit_ipv6),
		cmocka_unit_test(test_packet_of_a_nic),
		cmocka_unit_test(test_known_write),
		cmocka_unit_test(test_flow_families),
		cmocka_unit_test(test_congestion_byte_is_masked),
		cmocka_unit_test(test_recovers_every_id),
		cmocka_unit_test(test_recovers_at_every_length),
		cmocka_unit_test(test_guess),
		cmocka_unit_test(test_max_id),
		cmocka_unit_test(test_other_differences_are_bad),
		cmocka_unit_test(test_lengths_out_of_range),
		cmocka_unit_test(test_single_bit_errors),
		cmocka_unit_test(test_random_corruption),
	};

	return cmocka_run_group_tests_name("wire-icrc", tests, NULL, NULL);
}
