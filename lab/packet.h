/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h: what one read from a TUN returns: an IP packet, or with offloads a super-packet of up to 64 KiB that stands for
 * many segments (TCP or UDP segmentation).
 *
 * The link model must see single packets, since each segment may be lost or delayed by itself. A super-packet is not split
 * in memory: a segment is an index into it. Neighbouring segments that leave together are written as a smaller
 * super-packet, with one new header in front of their payload, which is contiguous. Transport checksums stay incomplete, as
 * the sending kernel left them; the receiving kernel accepts that.
 */
#ifndef LAB_PACKET_H
#define LAB_PACKET_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stdint.h>

/* Since Linux 6.2; older headers lack it. */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define PACKET_SIZE_MAX	  65535
#define PACKET_HEADER_MAX 256
/* Flows of a host that are told apart: 65536 of each protocol. */
#define PACKET_FLOWS (2 << 16)

struct packet {
	/* header as read from the TUN */
	struct virtio_net_hdr vnet;
	/* bytes in data */
	uint32_t length;
	/* bytes of headers that every segment repeats; in a plain packet, those of the IP header */
	uint16_t header_length;
	/* offset of the TCP or UDP header; 0 in a plain packet */
	uint16_t transport;
	/* bytes of payload in each segment but the last */
	uint16_t segment_size;
	/* segments; 1 in a plain packet */
	uint16_t segments;
	bool ipv6;
	bool tcp;
	const uint8_t *data;
};

/* Destinations other than a host. */
enum {
	/* multicast or broadcast */
	PACKET_TO_ALL = -1,
	/* no host has the address */
	PACKET_TO_NOBODY = -2,
	/* group membership or neighbour discovery, which the lab does not need */
	PACKET_HOUSEKEEPING = -3
};

/* Parses a packet. Returns 0, or -EINVAL if it is not a complete IP packet, or a super-packet of an unknown kind. `data`
 * must outlive *out. */
int packet_parse(const struct virtio_net_hdr *vnet, const uint8_t *data, uint32_t length,
		 struct packet *out);

/* Returns the index of the receiving host, or one of the above. */
int packet_destination(const struct packet *packet, unsigned hosts);

/* Returns a number below PACKET_FLOWS made of the protocol and both ports, which identifies a flow of its host; -1 if the
 * packet is neither TCP nor UDP. */
int packet_flow(const struct packet *packet);

/* Returns the length of a segment as an IP packet, in bytes. */
uint32_t packet_segment_bytes(const struct packet *packet, unsigned index);

/* True if the packet is marked as ECN-capable. */
bool packet_is_ecn_capable(const struct packet *packet);

/* A packet to write to a TUN: some segments of a packet. The payload is not copied. */
struct packet_run {
	struct virtio_net_hdr vnet;
	uint32_t header_length;
	uint8_t header[PACKET_HEADER_MAX];
	const uint8_t *payload;
	uint32_t payload_length;
};

/* Builds a packet of `count` segments from `first` on, with a CE mark if `congested`. */
void packet_build(const struct packet *packet, unsigned first, unsigned count, bool congested,
		  struct packet_run *out);

/* Completes the transport checksum of a packet if `vnet` says that it is incomplete. */
void packet_finish_checksum(const struct virtio_net_hdr *vnet, uint8_t *packet, uint32_t length);

#endif
