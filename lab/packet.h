/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.h: what one read from a TUN brings: an IP packet, or with offloads a super-packet of up to 64 KiB that stands
 * for many (TCP or UDP segmentation).
 *
 * The lab's links must see single packets: each segment has its own fate and its own time. So a super-packet is never
 * cut up in memory; a segment is an index into it, and neighbours that met the same fate can be written on as a smaller
 * super-packet by making one header for the run and pointing at their payload, which lies in one piece.
 * Transport checksums stay unfinished, as the kernel handed them over, and the receiving kernel takes them so.
 */
#ifndef LAB_PACKET_H
#define LAB_PACKET_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stdint.h>

/* Of Linux 6.2; older headers lack it. */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define PACKET_SIZE_MAX	  65535
#define PACKET_HEADER_MAX 256
#define PACKET_FLOWS	  (2 << 16)

struct packet {
	struct virtio_net_hdr vnet; /* as it was read */
	uint32_t length;
	uint16_t header_length; /* what every segment repeats; of a plain packet the IP header */
	uint16_t transport;	/* where TCP or UDP begins; 0 in a plain packet */
	uint16_t segment_size;	/* payload of each but the last */
	uint16_t segments;	/* 1 in a plain packet */
	bool ipv6;
	bool tcp;
	const uint8_t *data;
};

/* Where a packet goes. */
enum {
	PACKET_TO_ALL = -1,	 /* multicast, broadcast */
	PACKET_TO_NOBODY = -2,	 /* no host has that address */
	PACKET_HOUSEKEEPING = -3 /* group membership and neighbours: a star of TUNs needs neither */
};

/* -EINVAL for what is no whole IP packet, or no super-packet this file can cut. `data` must outlive it. */
int packet_parse(const struct virtio_net_hdr *vnet, const uint8_t *data, uint32_t length,
		 struct packet *out);

/* The host's index, or one of the above. */
int packet_destination(const struct packet *packet, unsigned hosts);

/* What tells the flows of a host apart: protocol and source port, below PACKET_FLOWS. -1: neither TCP nor UDP. */
int packet_flow(const struct packet *packet);

/* Length of a segment as an IP packet. */
uint32_t packet_segment_bytes(const struct packet *packet, unsigned index);

/* True if the packet says that its ends understand marks. */
bool packet_is_ecn_capable(const struct packet *packet);

/* Segments first to first + count - 1 as one packet to write. */
struct packet_run {
	struct virtio_net_hdr vnet;
	uint32_t header_length;
	uint8_t header[PACKET_HEADER_MAX];
	const uint8_t *payload;
	uint32_t payload_length;
};

void packet_build(const struct packet *packet, unsigned first, unsigned count, bool congested,
		  struct packet_run *out);

/* Finishes the transport checksum in a whole packet of which `vnet` says it is unfinished. */
void packet_finish_checksum(const struct virtio_net_hdr *vnet, uint8_t *packet, uint32_t length);

#endif
