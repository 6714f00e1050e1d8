/* SPDX-License-Identifier: BSD-3-Clause */
/* Super-packets cut into packets: every header of every run must be what the sender's kernel would have made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lab/packet.h"

#define IPV4_TCP 40
#define SEGMENT	 100

static uint8_t data[4096];
static uint8_t whole[4096];

static void put16(uint8_t *p, unsigned value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static unsigned checksum(const uint8_t *p, size_t length, unsigned sum)
{
	for (size_t i = 0; i < length; i++)
		sum += i % 2 ? p[i] : (unsigned)p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void make_ipv4(unsigned length, uint8_t protocol, uint8_t tos)
{
	static const uint8_t addresses[8] = { 10, 200, 0, 1, 10, 200, 0, 3 };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	memset(data, 0, 60);
	data[0] = 0x45;
	data[1] = tos;
	put16(data + 2, length);
	put16(data + 4, 0xffff);
	data[8] = 64;
	data[9] = protocol;
	memcpy(data + 12, addresses, 8);
}

/* 250 bytes of TCP in three segments, with PSH and FIN. */
static struct packet make_tcp(uint8_t tos)
{
	struct virtio_net_hdr vnet = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				       .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
				       .gso_size = SEGMENT,
				       .csum_start = 20,
				       .csum_offset = 16 };
	struct packet packet;

	make_ipv4(IPV4_TCP + 250, 6, tos);
	put16(data + 24, 0xffff);
	put16(data + 26, 0xffc0);
	data[32] = 0x50;
	data[33] = 0x80 | 0x10 | 0x08 | 0x01;
	assert_int_equal(packet_parse(&vnet, data, IPV4_TCP + 250, &packet), 0);
	return packet;
}

/* As it would be on a wire. Returns its length. */
static unsigned finish(const struct packet_run *run)
{
	unsigned length = run->header_length + run->payload_length;

	memcpy(whole, run->header, run->header_length);
	memcpy(whole + run->header_length, run->payload, run->payload_length);
	packet_finish_checksum(&run->vnet, whole, length);
	return length;
}

static void assert_ipv4_sums(unsigned length, unsigned protocol)
{
	assert_int_equal(get16(whole + 2), length);
	assert_int_equal(checksum(whole, 20, 0), 0xffff);
	assert_int_equal(
		checksum(whole + 20, length - 20, checksum(whole + 12, 8, protocol + length - 20)),
		0xffff);
}

static void test_each_tcp_segment_is_a_packet(void **state)
{
	struct packet packet = make_tcp(0);
	static const unsigned lengths[3] = { 140, 140, 90 };

	(void)state;
	assert_int_equal(packet.segments, 3);
	for (unsigned i = 0; i < 3; i++) {
		struct packet_run run;

		assert_int_equal(packet_segment_bytes(&packet, i), lengths[i]);
		packet_build(&packet, i, 1, false, &run);
		assert_int_equal(run.vnet.gso_type, VIRTIO_NET_HDR_GSO_NONE);
		assert_int_equal(finish(&run), lengths[i]);
		assert_ipv4_sums(lengths[i], 6);
		/* Identification and sequence number both wrap. */
		assert_int_equal(get16(whole + 4), (0xffff + i) & 0xffff);
		assert_int_equal((uint32_t)get16(whole + 24) << 16 | get16(whole + 26),
				 (uint32_t)(0xffffffc0U + i * SEGMENT));
		assert_int_equal(whole[33] & 0x09, i == 2 ? 0x09 : 0);
		assert_int_equal(whole[33] & 0x80, i == 0 ? 0x80 : 0);
		assert_memory_equal(whole + IPV4_TCP, data + IPV4_TCP + i * SEGMENT,
				    lengths[i] - IPV4_TCP);
	}
}

static void test_a_run_stays_a_super_packet(void **state)
{
	struct packet packet = make_tcp(0), again;
	struct packet_run run;
	unsigned length;

	(void)state;
	packet_build(&packet, 1, 2, false, &run);
	assert_int_equal(run.vnet.gso_type, VIRTIO_NET_HDR_GSO_TCPV4);
	assert_int_equal(run.vnet.gso_size, SEGMENT);
	length = run.header_length + run.payload_length;
	assert_int_equal(length, IPV4_TCP + 150);
	memcpy(whole, run.header, run.header_length);
	memcpy(whole + run.header_length, run.payload, run.payload_length);
	assert_int_equal(packet_parse(&run.vnet, whole, length, &again), 0);
	assert_int_equal(again.segments, 2);
	/* The pseudo header alone is in the field. */
	assert_int_equal(get16(whole + 36), checksum(whole + 12, 8, 6 + length - 20));
	assert_int_equal(whole[33] & 0x09, 0x09);
}

static void test_udp_segments_have_their_own_length(void **state)
{
	struct virtio_net_hdr vnet = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				       .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
				       .gso_size = SEGMENT,
				       .csum_start = 20,
				       .csum_offset = 6 };
	struct packet packet;
	struct packet_run run;

	(void)state;
	make_ipv4(28 + 201, 17, 0);
	put16(data + 24, 8 + 201);
	assert_int_equal(packet_parse(&vnet, data, 28 + 201, &packet), 0);
	assert_int_equal(packet.segments, 3);
	packet_build(&packet, 2, 1, false, &run);
	assert_int_equal(finish(&run), 29);
	assert_int_equal(get16(whole + 24), 9);
	assert_ipv4_sums(29, 17);
	packet_build(&packet, 0, 2, false, &run);
	assert_int_equal(get16(run.header + 24), 8 + 200);
}

static void test_a_mark_keeps_the_checksum_right(void **state)
{
	struct virtio_net_hdr vnet = { 0 };
	struct packet packet;
	struct packet_run run;

	(void)state;
	make_ipv4(100, 17, 0xb8 | 2);
	put16(data + 10, 0xffff & ~checksum(data, 20, 0));
	assert_int_equal(packet_parse(&vnet, data, 100, &packet), 0);
	assert_true(packet_is_ecn_capable(&packet));
	packet_build(&packet, 0, 1, false, &run);
	assert_memory_equal(run.header, data, 20);
	packet_build(&packet, 0, 1, true, &run);
	assert_int_equal(run.header[1], 0xb8 | 3);
	assert_int_equal(checksum(run.header, 20, 0), 0xffff);
	assert_int_equal(get16(run.header + 4), 0xffff);
	packet = make_tcp(1);
	packet_build(&packet, 0, 3, true, &run);
	assert_int_equal(run.header[1], 3);
	packet = make_tcp(0);
	assert_false(packet_is_ecn_capable(&packet));
}

static void make_ipv6(uint8_t next, const uint8_t destination[16])
{
	memset(data, 0, 200);
	data[0] = 0x60;
	data[1] = 0x25; /* ECT(0), and a bit of the flow label */
	put16(data + 4, 60);
	data[6] = next;
	memcpy(data + 24, destination, 16);
}

static void test_ipv6(void **state)
{
	static const uint8_t second[16] = { 0xfd, 0, 2, 0, [15] = 2 };
	static const uint8_t group[16] = { 0xff, 2, [15] = 1 };
	struct virtio_net_hdr vnet = { 0 };
	struct packet packet;
	struct packet_run run;

	(void)state;
	make_ipv6(17, second);
	assert_int_equal(packet_parse(&vnet, data, 100, &packet), 0);
	assert_int_equal(packet_destination(&packet, 2), 1);
	assert_int_equal(packet_destination(&packet, 1), PACKET_TO_NOBODY);
	assert_true(packet_is_ecn_capable(&packet));
	packet_build(&packet, 0, 1, true, &run);
	assert_int_equal(run.header[1], 0x35);
	make_ipv6(17, group);
	assert_int_equal(packet_destination(&packet, 2), PACKET_TO_ALL);
	/* A listener report behind a hop-by-hop header, and a router solicitation. */
	make_ipv6(0, group);
	data[40] = 58;
	data[48] = 143;
	assert_int_equal(packet_destination(&packet, 2), PACKET_HOUSEKEEPING);
	make_ipv6(58, group);
	data[40] = 133;
	assert_int_equal(packet_destination(&packet, 2), PACKET_HOUSEKEEPING);
	data[40] = 128; /* a ping is none */
	assert_int_equal(packet_destination(&packet, 2), PACKET_TO_ALL);
}

static void test_flows(void **state)
{
	static const uint8_t second[16] = { 0xfd, 0, 2, 0, [15] = 2 };
	struct virtio_net_hdr vnet = { 0 };
	struct packet packet = make_tcp(0);

	(void)state;
	put16(data + 20, 443);
	put16(data + 22, 0);
	assert_int_equal(packet_flow(&packet), 0x10000 | 443);
	/* The way back of a connection that is tried again from another port is another flow. */
	for (uint32_t port = 1; port < 65536; port++) {
		put16(data + 22, (uint16_t)port);
		assert_int_not_equal(packet_flow(&packet), 0x10000 | 443);
		assert_in_range(packet_flow(&packet), 0x10000, 0x1ffff);
	}
	make_ipv4(100, 17, 0);
	put16(data + 20, 4791);
	assert_int_equal(packet_parse(&vnet, data, 100, &packet), 0);
	assert_int_equal(packet_flow(&packet), 4791);
	data[9] = 1; /* a ping */
	assert_int_equal(packet_flow(&packet), -1);
	make_ipv6(17, second);
	put16(data + 40, 65535);
	assert_int_equal(packet_parse(&vnet, data, 100, &packet), 0);
	assert_int_equal(packet_flow(&packet), 65535);
	make_ipv4(21, 17, 0);
	assert_int_equal(packet_parse(&vnet, data, 21, &packet), 0);
	assert_int_equal(packet_flow(&packet), -1);
}

static void test_ipv4_destinations(void **state)
{
	static const struct {
		uint8_t address[4];
		int destination;
	} cases[] = {
		{ { 10, 200, 0, 1 }, 0 },
		{ { 10, 200, 0, 4 }, 3 },
		{ { 10, 200, 0, 5 }, PACKET_TO_NOBODY },
		{ { 10, 200, 0, 0 }, PACKET_TO_NOBODY },
		{ { 10, 200, 1, 1 }, PACKET_TO_NOBODY },
		{ { 10, 200, 0, 255 }, PACKET_TO_ALL },
		{ { 255, 255, 255, 255 }, PACKET_TO_ALL },
		{ { 239, 1, 2, 3 }, PACKET_TO_ALL },
	};
	struct virtio_net_hdr vnet = { 0 };
	struct packet packet;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make_ipv4(100, 17, 0);
		memcpy(data + 16, cases[i].address, 4);
		assert_int_equal(packet_parse(&vnet, data, 100, &packet), 0);
		assert_int_equal(packet_destination(&packet, 4), cases[i].destination);
	}
	data[9] = 2;
	assert_int_equal(packet_destination(&packet, 4), PACKET_HOUSEKEEPING);
}

static void test_what_is_no_packet_is_refused(void **state)
{
	struct virtio_net_hdr vnet = { 0 };
	struct packet packet;

	(void)state;
	make_ipv4(100, 17, 0);
	assert_int_not_equal(packet_parse(&vnet, data, 19, &packet), 0);
	data[0] = 0x44;
	assert_int_not_equal(packet_parse(&vnet, data, 100, &packet), 0);
	data[0] = 0x4f;
	assert_int_not_equal(packet_parse(&vnet, data, 59, &packet), 0);
	data[0] = 0x60;
	assert_int_not_equal(packet_parse(&vnet, data, 39, &packet), 0);
	data[0] = 0x50;
	assert_int_not_equal(packet_parse(&vnet, data, 100, &packet), 0);
	packet = make_tcp(0);
	vnet = packet.vnet;
	vnet.csum_start = 300;
	assert_int_not_equal(packet_parse(&vnet, data, IPV4_TCP + 250, &packet), 0);
	vnet.csum_start = 20;
	vnet.gso_size = 0;
	assert_int_not_equal(packet_parse(&vnet, data, IPV4_TCP + 250, &packet), 0);
	vnet.gso_size = SEGMENT;
	assert_int_not_equal(packet_parse(&vnet, data, IPV4_TCP, &packet), 0);
	data[32] = 0xf0;
	assert_int_not_equal(packet_parse(&vnet, data, IPV4_TCP + 10, &packet), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_tcp_segment_is_a_packet),
		cmocka_unit_test(test_a_run_stays_a_super_packet),
		cmocka_unit_test(test_udp_segments_have_their_own_length),
		cmocka_unit_test(test_a_mark_keeps_the_checksum_right),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_flows),
		cmocka_unit_test(test_ipv4_destinations),
		cmocka_unit_test(test_what_is_no_packet_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
