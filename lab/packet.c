/* SPDX-License-Identifier: BSD-3-Clause */
/* packet.c: parses and writes headers. Offsets are those of RFC 791, 8200, 9293 and 768. */
#include "packet.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define TCP_HEADER  20
#define UDP_HEADER  8

#define PROTOCOL_HOP_BY_HOP 0
#define PROTOCOL_IGMP	    2
#define PROTOCOL_TCP	    6
#define PROTOCOL_UDP	    17
#define PROTOCOL_ICMPV6	    58
/* Of the destination port in the number of a flow. */
#define FLOW_FACTOR 40503U

#define TCP_FIN 0x01
#define TCP_PSH 0x08
#define TCP_CWR 0x80

/* The ECN field in the IPv4 TOS byte. */
#define ECN_MASK 0x03

static uint32_t read16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static void write16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static uint32_t read32(const uint8_t *p)
{
	return read16(p) << 16 | read16(p + 2);
}

/* Returns the sum of the Internet checksum, not yet inverted. */
static uint32_t sum16(const uint8_t *p, uint32_t length, uint64_t sum)
{
	for (; length > 1; length -= 2, p += 2)
		sum += read16(p);
	if (length)
		sum += (uint32_t)p[0] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)sum;
}

static int parse_segmented(struct packet *packet)
{
	const struct virtio_net_hdr *vnet = &packet->vnet;
	uint32_t transport = vnet->csum_start, header;
	bool udp = vnet->gso_type == VIRTIO_NET_HDR_GSO_UDP_L4;

	if (!udp && vnet->gso_type != VIRTIO_NET_HDR_GSO_TCPV4 &&
	    vnet->gso_type != VIRTIO_NET_HDR_GSO_TCPV6)
		return -EINVAL;
	if (!(vnet->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || transport < packet->header_length ||
	    vnet->gso_size == 0 || transport + TCP_HEADER > packet->length)
		return -EINVAL;
	header = transport + UDP_HEADER;
	if (!udp)
		header = transport + (uint32_t)(packet->data[transport + 12] >> 4) * 4;
	if (header > packet->length || header > PACKET_HEADER_MAX ||
	    (!udp && header < transport + TCP_HEADER))
		return -EINVAL;
	packet->tcp = !udp;
	packet->transport = (uint16_t)transport;
	packet->header_length = (uint16_t)header;
	packet->segment_size = vnet->gso_size;
	packet->segments =
		(uint16_t)((packet->length - header + vnet->gso_size - 1) / vnet->gso_size);
	return packet->segments ? 0 : -EINVAL;
}

int packet_parse(const struct virtio_net_hdr *vnet, const uint8_t *data, uint32_t length,
		 struct packet *out)
{
	struct packet packet = { .vnet = *vnet, .length = length, .segments = 1, .data = data };

	if (length < IPV4_HEADER || length > PACKET_SIZE_MAX)
		return -EINVAL;
	if (data[0] >> 4 == 4) {
		packet.header_length = (uint16_t)((data[0] & 0x0f) * 4);
		if (packet.header_length < IPV4_HEADER)
			return -EINVAL;
	} else if (data[0] >> 4 == 6) {
		packet.ipv6 = true;
		packet.header_length = IPV6_HEADER;
	} else {
		return -EINVAL;
	}
	if (length < packet.header_length)
		return -EINVAL;
	packet.segment_size = (uint16_t)(length - packet.header_length);
	if (vnet->gso_type != VIRTIO_NET_HDR_GSO_NONE && parse_segmented(&packet))
		return -EINVAL;
	*out = packet;
	return 0;
}

static bool is_icmpv6_housekeeping(const uint8_t *data, uint32_t length)
{
	uint32_t at = IPV6_HEADER;
	uint8_t protocol = data[6], type;

	if (protocol == PROTOCOL_HOP_BY_HOP && length >= at + 8) {
		protocol = data[at];
		at += 8 + (uint32_t)data[at + 1] * 8;
	}
	if (protocol != PROTOCOL_ICMPV6 || length <= at)
		return false;
	type = data[at];
	/* Listener queries and reports; router and neighbour discovery. */
	return (type >= 130 && type <= 137) || type == 143;
}

int packet_destination(const struct packet *packet, unsigned hosts)
{
	static const uint8_t prefix6[15] = { 0xfd, 0x00, 0x02, 0x00 };
	static const uint8_t prefix4[3] = { 10, 200, 0 };
	const uint8_t *data = packet->data, *address = data + 16;
	uint8_t host;

	if (packet->ipv6) {
		address = data + 24;
		if (is_icmpv6_housekeeping(data, packet->length))
			return PACKET_HOUSEKEEPING;
		if (address[0] == 0xff)
			return PACKET_TO_ALL;
		if (memcmp(address, prefix6, sizeof(prefix6)) != 0)
			return PACKET_TO_NOBODY;
		host = address[15];
	} else {
		if (data[9] == PROTOCOL_IGMP)
			return PACKET_HOUSEKEEPING;
		if (address[0] >> 4 == 14 || read32(address) == UINT32_MAX)
			return PACKET_TO_ALL;
		if (memcmp(address, prefix4, sizeof(prefix4)) != 0)
			return PACKET_TO_NOBODY;
		host = address[3];
		if (host == 255)
			return PACKET_TO_ALL;
	}
	return host >= 1 && host <= hosts ? host - 1 : PACKET_TO_NOBODY;
}

int packet_flow(const struct packet *packet)
{
	uint32_t at = packet->transport ? packet->transport : packet->header_length;
	uint8_t protocol = packet->data[packet->ipv6 ? 6 : 9];
	uint32_t ports;

	if ((protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP) || at + 4 > packet->length)
		return -1;
	/* An odd factor: of two flows with one port in common, the other port makes the difference. */
	ports = read16(packet->data + at) + FLOW_FACTOR * read16(packet->data + at + 2);
	return (int)((protocol == PROTOCOL_TCP ? 1U << 16 : 0) | (ports & 0xffff));
}

static uint32_t payload_bytes(const struct packet *packet, unsigned first, unsigned count)
{
	uint32_t total = packet->length - packet->header_length;
	uint32_t start = first * packet->segment_size, length = count * packet->segment_size;

	assert(count >= 1 && first + count <= packet->segments);
	return length < total - start ? length : total - start;
}

uint32_t packet_segment_bytes(const struct packet *packet, unsigned index)
{
	return packet->header_length + payload_bytes(packet, index, 1);
}

bool packet_is_ecn_capable(const struct packet *packet)
{
	const uint8_t *data = packet->data;

	return packet->ipv6 ? (data[1] >> 4 & ECN_MASK) != 0 : (data[1] & ECN_MASK) != 0;
}

static void finish_ip(const struct packet *packet, unsigned first, uint32_t length, bool congested,
		      uint8_t *header)
{
	uint32_t header_length;

	if (packet->ipv6) {
		write16(header + 4, length - IPV6_HEADER);
		if (congested)
			header[1] |= ECN_MASK << 4;
		return;
	}
	header_length = (uint32_t)(header[0] & 0x0f) * 4;
	write16(header + 2, length);
	write16(header + 4, read16(header + 4) + first);
	if (congested)
		header[1] |= ECN_MASK;
	write16(header + 10, 0);
	write16(header + 10, ~sum16(header, header_length, 0));
}

/* Returns the sum over addresses, protocol and length, with which an incomplete checksum begins. */
static uint32_t pseudo_sum(const struct packet *packet, uint32_t transport_length)
{
	uint64_t sum = transport_length + (packet->tcp ? PROTOCOL_TCP : PROTOCOL_UDP);

	return packet->ipv6 ? sum16(packet->data + 8, 32, sum) : sum16(packet->data + 12, 8, sum);
}

static void finish_transport(const struct packet *packet, unsigned first, unsigned count,
			     uint32_t length, uint8_t *header)
{
	uint8_t *transport = header + packet->transport;
	uint32_t transport_length = length - packet->transport;

	if (packet->tcp) {
		uint32_t sequence = read32(transport + 4) + first * packet->segment_size;

		write16(transport + 4, sequence >> 16);
		write16(transport + 6, sequence);
		if (first + count < packet->segments)
			transport[13] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
		if (first > 0)
			transport[13] &= (uint8_t)~TCP_CWR;
		write16(transport + 16, pseudo_sum(packet, transport_length));
	} else {
		write16(transport + 4, transport_length);
		write16(transport + 6, pseudo_sum(packet, transport_length));
	}
}

void packet_build(const struct packet *packet, unsigned first, unsigned count, bool congested,
		  struct packet_run *out)
{
	uint32_t length;

	out->vnet = packet->vnet;
	out->header_length = packet->header_length;
	out->payload_length = payload_bytes(packet, first, count);
	out->payload = packet->data + packet->header_length + first * packet->segment_size;
	length = out->header_length + out->payload_length;
	memcpy(out->header, packet->data, packet->header_length);
	if (packet->segments == 1 && !packet->transport) {
		/* A plain packet stays as its sender made it, except for the mark. */
		if (congested)
			finish_ip(packet, 0, length, true, out->header);
		return;
	}
	finish_ip(packet, first, length, congested, out->header);
	finish_transport(packet, first, count, length, out->header);
	out->vnet.hdr_len = packet->header_length;
	if (count == 1) {
		out->vnet.gso_type = VIRTIO_NET_HDR_GSO_NONE;
		out->vnet.gso_size = 0;
	}
}

void packet_finish_checksum(const struct virtio_net_hdr *vnet, uint8_t *packet, uint32_t length)
{
	uint32_t start = vnet->csum_start, field = start + vnet->csum_offset, sum;

	if (!(vnet->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || field + 2 > length)
		return;
	sum = ~sum16(packet + start, length - start, 0) & 0xffff;
	/* In UDP a checksum of 0 means that there is none, so 0xffff stands for it; in TCP both are valid. */
	write16(packet + field, sum ? sum : 0xffff);
}
