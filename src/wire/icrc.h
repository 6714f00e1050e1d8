/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC that ends every RoCEv2 packet: CRC-32 over what the network must not change. It
 * covers the IP and UDP headers, with the fields that routers rewrite (traffic class, TTL, flow
 * label, checksums) set to ones, then everything from the BTH on, with the BTH's FECN / BECN byte
 * set to ones.
 *
 * Making one: icrc_begin() with the BTH and extension headers, icrc_update() over the gathered
 * payload and pad, icrc_final(). The headers enter through icrc_begin() because it masks the FECN /
 * BECN byte: there is no way to start without doing so.
 *
 * Checking one: a UDP socket shows neither the IPv4 identification nor the DF flag, and the ICRC
 * covers both. icrc_verify() tries a guess; if that fails it asks whether *some* identification and
 * DF flag explain the ICRC, and which. How much corruption that accepts, if it looks random to the
 * CRC:
 *
 *	2^-32  the guess was right (EXACT), or IPv6
 *	2^-26  max_id = 63: the 64 segments of one UDP_SEGMENT send
 *	2^-16  max_id = 65535: any identification, DF set
 *	2^-15  ICRC_ANY_ID: any identification, DF or not
 *
 * CRC-32 catches every single flipped bit, but a flipped bit may pass for another identification.
 * How many do, over all bits of the UDP payload (headers, payload, ICRC; not the masked byte), by
 * trying each one:
 *
 *	UDP payload length, bytes    36 + 64  36 + 1024  36 + 1436  36 + 4096
 *	with ICRC_ANY_ID                0         1          1          2
 *	with max_id = 65535 or less     0         0          0          0
 *
 * The two are bit 3 of byte 173 and bit 6 of byte 1834, whatever the length; both seem to clear DF.
 * The UDP checksum, where the sender makes one, stands behind this; NICs send none. So: give the
 * peer's real max_id where it is known, 65535 for a peer known to set DF (soft-RoCE does), and
 * ICRC_ANY_ID only where nothing is known.
 */
#ifndef WIRE_ICRC_H
#define WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

/* 8 bytes of ones, an IPv6 header, a UDP header. */
#define ICRC_PREFIX_MAX 56

/* As `max_id`: any identification, DF or not. */
#define ICRC_ANY_ID 0x10000u

/* The largest UDP payload of each family: what a 16-bit IP length leaves. */
#define ICRC_IPV4_LENGTH_MAX 65507
#define ICRC_IPV6_LENGTH_MAX 65527

/*
 * The masked IP and UDP headers of one direction between two sockets: build once, use for every
 * packet. Opaque. A packet sent and its answer need a flow each. A flow remembers the CRC of these
 * headers for the last length, since most packets have the same.
 */
struct icrc_flow {
	uint8_t prefix[ICRC_PREFIX_MAX];
	uint8_t prefix_length;
	bool ipv6;
	/* length of the UDP payload that the CRC is for; 0: none */
	uint32_t crc_length;
	uint32_t crc;
};

enum icrc_verdict {
	ICRC_BAD,
	ICRC_EXACT,    /* the guessed identification with DF set; for IPv6, simply right */
	ICRC_UP_TO_ID, /* right for the identification and DF flag in icrc_match */
};

struct icrc_match {
	uint16_t id;
	bool dont_fragment;
};

/*
 * Addresses and ports as the packet carries them; the address must be the real one, not a wildcard.
 * An IPv4-mapped IPv6 address counts as IPv4, for that is what leaves the machine.
 *
 * -EAFNOSUPPORT: not an Internet address.
 * -EINVAL:       the two ends differ in family.
 */
int icrc_flow_init(const struct sockaddr *source, const struct sockaddr *destination,
		   struct icrc_flow *out);

/* Remembers the CRC for packets of this length, so that copies of the flow have it, too. */
void icrc_flow_prepare(struct icrc_flow *flow, size_t udp_payload_length);

/* The same flow from another source port, in host order: a sender may vary it for the network's sake. */
void icrc_flow_from_port(struct icrc_flow *flow, uint16_t port);

/*
 * Starts the ICRC of a packet whose UDP payload, from BTH to ICRC, is `udp_payload_length` long.
 * `headers` starts at the BTH and holds at least all of it; the rest follows in any number of
 * icrc_update() calls. `ip_id` and `dont_fragment` are ignored for IPv6.
 */
uint32_t icrc_begin(struct icrc_flow *flow, size_t udp_payload_length, uint16_t ip_id,
		    bool dont_fragment, const void *headers, size_t headers_length);
uint32_t icrc_update(uint32_t crc, const void *data, size_t length);
void icrc_final(uint32_t crc, uint8_t out[4]);

/*
 * Checks the ICRC in the last 4 bytes of a UDP payload.
 *
 * (guess_id, DF set) is tried first and costs nothing extra: 0 for a peer that sends single packets
 * as we do, the index in the batch for its UDP_SEGMENT sends, the last one seen plus 1 for a peer
 * that counts. A wrong guess costs a few hundred nanoseconds more. With max_id up to 65535 only
 * identifications 0 to max_id with DF set are accepted; guess_id must be among them. `out` is set
 * unless the verdict is ICRC_BAD; for IPv6, to zero.
 */
enum icrc_verdict icrc_verify(struct icrc_flow *flow, const void *udp_payload, size_t length,
			      uint16_t guess_id, uint32_t max_id, struct icrc_match *out);

#endif
