/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A flow is the 36 (IPv4) or 56 (IPv6) bytes that precede the BTH, masked, with length,
 * identification and flags left to fill in per packet:
 *
 *	8 bytes of ones | IP header | UDP header
 *
 * What differs from packet to packet costs little, because a CRC is linear. Each bit of the
 * identification changes the CRC of the prefix by a constant. And each bit of the BTH's FECN / BECN
 * byte, which counts as ones, can be set right before the BTH is read: one difference in the CRC's
 * 32 bits there has the same effect.
 *
 * How an unknown IPv4 identification is recovered. The ICRCs of two packets of
 * equal length differ by the CRC, without its inversions, of the packets' difference. If a packet
 * is sound, it differs from the one we assume only in one 32-bit word of the IP header, that of
 * identification, flags and fragment offset. Let w(x) be that difference as a polynomial and k the
 * number of bytes from the word's start to the end of what is covered; then the ICRCs differ by
 *
 *	s = w(x) * x^(8k) modulo the CRC's polynomial.
 *
 * x has an inverse, so w = s * x^(-8k): one w for each s. Corruption gives a w as well, but one of
 * 2^32, and only the 2^17 with nothing but identification bits and DF in them are believed. In the
 * reflected notation of this CRC (bit 31 is x^0) w is the very word, read in little-endian order.
 */
#include "wire/icrc.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "wire/crc32.h"
#include "wire/roce.h"

enum {
	MASKED_LRH_SIZE = 8,
	IPV4_SIZE = 20,
	IPV6_SIZE = 40,
	UDP_SIZE = 8,
	/* Offsets in the prefix. */
	IPV4_TOTAL_LENGTH = MASKED_LRH_SIZE + 2,
	IPV4_ID = MASKED_LRH_SIZE + 4,
	IPV4_FLAGS = MASKED_LRH_SIZE + 6,
	IPV6_PAYLOAD_LENGTH = MASKED_LRH_SIZE + 4,
	IPV4_DF = 0x40,
	BTH_CONGESTION = 4, /* FECN, BECN and reserved bits: the network may set them */
};

#define REFLECTED_POLYNOMIAL 0xedb88320u
#define ONE		     0x80000000u

/* A difference in the IPv4 word that a sound packet may show, read in little-endian order. */
#define WORD_ID 0x0000ffffu
#define WORD_DF ((uint32_t)IPV4_DF << 16)

static void fill_udp(uint8_t *udp, in_port_t source, in_port_t destination)
{
	memcpy(udp, &source, 2);
	memcpy(udp + 2, &destination, 2);
	put_be16(udp + 6, 0xffff);
}

static void fill_ipv4(struct icrc_flow *flow, const uint8_t *source, in_port_t source_port,
		      const uint8_t *destination, in_port_t destination_port)
{
	uint8_t *ip = flow->prefix + MASKED_LRH_SIZE;

	memset(flow->prefix, 0xff, MASKED_LRH_SIZE);
	ip[0] = 0x45;
	ip[1] = 0xff;
	ip[8] = 0xff;
	ip[9] = IPPROTO_UDP;
	put_be16(ip + 10, 0xffff);
	memcpy(ip + 12, source, 4);
	memcpy(ip + 16, destination, 4);
	fill_udp(ip + IPV4_SIZE, source_port, destination_port);
	flow->prefix_length = MASKED_LRH_SIZE + IPV4_SIZE + UDP_SIZE;
}

static void fill_ipv6(struct icrc_flow *flow, const struct sockaddr_in6 *source,
		      const struct sockaddr_in6 *destination)
{
	uint8_t *ip = flow->prefix + MASKED_LRH_SIZE;

	memset(flow->prefix, 0xff, MASKED_LRH_SIZE);
	put_be32(ip, 0x6fffffff);
	ip[6] = IPPROTO_UDP;
	ip[7] = 0xff;
	memcpy(ip + 8, &source->sin6_addr, 16);
	memcpy(ip + 24, &destination->sin6_addr, 16);
	fill_udp(ip + IPV6_SIZE, source->sin6_port, destination->sin6_port);
	flow->prefix_length = MASKED_LRH_SIZE + IPV6_SIZE + UDP_SIZE;
	flow->ipv6 = true;
}

/* The IPv4 address inside a socket address, or NULL if there is none. */
static const uint8_t *ipv4_of(const struct sockaddr *address)
{
	const struct sockaddr_in6 *in6 = (const void *)address;
	const struct sockaddr_in *in = (const void *)address;

	if (address->sa_family == AF_INET)
		return (const uint8_t *)&in->sin_addr;
	if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return in6->sin6_addr.s6_addr + 12;
	return NULL;
}

static in_port_t port_of(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)address)->sin_port;
	return ((const struct sockaddr_in6 *)(const void *)address)->sin6_port;
}

static bool is_internet(const struct sockaddr *address)
{
	return address->sa_family == AF_INET || address->sa_family == AF_INET6;
}

int icrc_flow_init(const struct sockaddr *source, const struct sockaddr *destination,
		   struct icrc_flow *out)
{
	struct icrc_flow flow = { 0 };
	const uint8_t *source4, *destination4;

	if (!is_internet(source) || !is_internet(destination))
		return -EAFNOSUPPORT;
	source4 = ipv4_of(source);
	destination4 = ipv4_of(destination);
	if (!source4 != !destination4)
		return -EINVAL;
	if (source4)
		fill_ipv4(&flow, source4, port_of(source), destination4, port_of(destination));
	else
		fill_ipv6(&flow, (const void *)source, (const void *)destination);
	*out = flow;
	return 0;
}

void icrc_flow_from_port(struct icrc_flow *flow, uint16_t port)
{
	flow->crc_length = 0;
	put_be16(flow->prefix + flow->prefix_length - UDP_SIZE, port);
}

/* What each bit of the identification, and DF, changes in the CRC of the prefix. */
static const uint32_t id_bits[16] = {
	0x9b73ead4, 0xed96d3e9, 0x005ca193, 0x00b94326, 0x0172864c, 0x02e50c98,
	0x05ca1930, 0x0b943260, 0x81256527, 0xd93bcc0f, 0x69069e5f, 0xd20d3cbe,
	0x7f6b7f3d, 0xfed6fe7a, 0x26dcfab5, 0x4db9f56a,
};
#define DF_BIT 0xca4e23c7u

/* What each bit of the BTH's FECN / BECN byte changes, as if it had been in the CRC of what precedes the BTH. */
static const uint32_t congestion_bits[8] = {
	0xdb710641, 0x6d930ac3, 0xdb261586, 0x6d3d2d4d,
	0xda7a5a9a, 0x6f85b375, 0xdf0b66ea, 0x6567cb95,
};
/* All of them. */
#define CONGESTION_ALL 0x0f6a70d9u

static uint32_t sum_of(const uint32_t *bits, uint32_t which)
{
	uint32_t sum = 0;

	for (; which; which &= which - 1)
		sum ^= bits[__builtin_ctz(which)];
	return sum;
}

/* The CRC of the prefix for this length of the UDP payload, with identification 0 and DF set. */
static uint32_t prefix_crc(struct icrc_flow *flow, size_t udp_payload_length)
{
	uint16_t udp_length = (uint16_t)(udp_payload_length + UDP_SIZE);
	uint8_t *prefix = flow->prefix;

	if (flow->crc_length == udp_payload_length)
		return flow->crc;
	if (flow->ipv6) {
		put_be16(prefix + IPV6_PAYLOAD_LENGTH, udp_length);
	} else {
		put_be16(prefix + IPV4_TOTAL_LENGTH, (uint16_t)(udp_length + IPV4_SIZE));
		prefix[IPV4_FLAGS] = IPV4_DF;
	}
	put_be16(prefix + flow->prefix_length - UDP_SIZE + 4, udp_length);
	flow->crc = crc32_update(0, prefix, flow->prefix_length);
	flow->crc_length = (uint32_t)udp_payload_length;
	return flow->crc;
}

void icrc_flow_prepare(struct icrc_flow *flow, size_t udp_payload_length)
{
	prefix_crc(flow, udp_payload_length);
}

uint32_t icrc_begin(struct icrc_flow *flow, size_t udp_payload_length, uint16_t ip_id,
		    bool dont_fragment, const void *headers, size_t headers_length)
{
	uint8_t congestion = ((const uint8_t *)headers)[BTH_CONGESTION];
	uint32_t crc = prefix_crc(flow, udp_payload_length);

	assert(headers_length >= ROCE_BTH_SIZE);
	assert(udp_payload_length <= (flow->ipv6 ? ICRC_IPV6_LENGTH_MAX : ICRC_IPV4_LENGTH_MAX));
	if (!flow->ipv6)
		crc ^= sum_of(id_bits, ip_id) ^ (dont_fragment ? 0 : DF_BIT);
	/* The byte counts as ones, whatever is in it. */
	crc ^= congestion ? sum_of(congestion_bits, congestion ^ 0xffu) : CONGESTION_ALL;
	return crc32_update(crc, headers, headers_length);
}

uint32_t icrc_update(uint32_t crc, const void *data, size_t length)
{
	return crc32_update(crc, data, length);
}

void icrc_final(uint32_t crc, uint8_t out[4])
{
	out[0] = (uint8_t)crc;
	out[1] = (uint8_t)(crc >> 8);
	out[2] = (uint8_t)(crc >> 16);
	out[3] = (uint8_t)(crc >> 24);
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (int power = 31; power >= 0; power--) {
		product ^= b & -(a >> power & 1);
		b = b >> 1 ^ (REFLECTED_POLYNOMIAL & -(b & 1));
	}
	return product;
}

/* x^(-8k), from the inverse powers x^(-8 * 2^j). */
static uint32_t inverse_power(size_t k)
{
	static const uint32_t inverse[16] = {
		0x6567cb95, 0xd7125358, 0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d,
		0x5139de12, 0xba340226, 0x29c45641, 0x12fbc105, 0xecd30c55, 0x3755ebd8,
		0x24ee460c, 0x23783fcf, 0x479933fc, 0xa39442a5,
	};
	uint32_t power = ONE;

	assert(k < 1u << 16);
	for (unsigned j = 0; k >> j; j++)
		if (k >> j & 1)
			power = multiply(power, inverse[j]);
	return power;
}

static uint32_t get_le32(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

enum icrc_verdict icrc_verify(struct icrc_flow *flow, const void *udp_payload, size_t length,
			      uint16_t guess_id, uint32_t max_id, struct icrc_match *out)
{
	const uint8_t *bytes = udp_payload;
	uint32_t syndrome, word;
	size_t covered;
	uint16_t id;
	bool dont_fragment;

	assert(guess_id <= max_id);
	if (length < ROCE_BTH_SIZE + ROCE_ICRC_SIZE ||
	    length > (flow->ipv6 ? ICRC_IPV6_LENGTH_MAX : ICRC_IPV4_LENGTH_MAX))
		return ICRC_BAD;
	covered = length - ROCE_ICRC_SIZE;
	syndrome = get_le32(bytes + covered) ^
		   icrc_begin(flow, length, guess_id, true, bytes, covered);
	if (syndrome == 0) {
		*out = flow->ipv6 ? (struct icrc_match){ 0 }
				  : (struct icrc_match){ guess_id, true };
		return ICRC_EXACT;
	}
	if (flow->ipv6)
		return ICRC_BAD;

	word = multiply(syndrome, inverse_power(flow->prefix_length - IPV4_ID + covered));
	if (word & ~(WORD_ID | WORD_DF))
		return ICRC_BAD;
	id = (uint16_t)(guess_id ^ ((word & 0xff) << 8 | (word >> 8 & 0xff)));
	dont_fragment = !(word & WORD_DF);
	if (max_id < ICRC_ANY_ID && (id > max_id || !dont_fragment))
		return ICRC_BAD;
	*out = (struct icrc_match){ id, dont_fragment };
	return ICRC_UP_TO_ID;
}
