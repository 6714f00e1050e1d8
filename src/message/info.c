/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair's description, the 128 bytes that its peer needs, big-endian:
 *
 *	 0  "GWQP"
 *	 4  u8 version, u8 oldest version it speaks, u8 slot / packet / user bits, u8 generation bits,
 *	    u8 whether it probes for the size of packets, u8 lanes it sends on (0: unsaid)
 *	12  u32 payload, slots, token, first msn, window (packets), longest control datagram
 *	36  the fabric's name, 8 bytes, zero-filled
 *	44  u8 address length, 3 zero bytes
 *	48  the fabric's address, up to 64 bytes
 *	112 u64 bytes of the first receive, u32 its key; zero where it is not promised (first_receive.c)
 *	124 u32 payload that every path carries
 */
#include <errno.h>
#include <string.h>

#include "message/info.h"
#include "base/bytes.h"

#define INFO_VERSION 2
static const uint8_t magic[4] = { 'G', 'W', 'Q', 'P' };

void info_encode(const struct peer_info *info, struct gw_qp_info *out)
{
	uint8_t *p = out->bytes;

	memset(out, 0, sizeof(*out));
	memcpy(p, magic, sizeof(magic));
	p[4] = INFO_VERSION;
	p[5] = INFO_VERSION;
	p[6] = info->split.slot_bits;
	p[7] = info->split.packet_bits;
	p[8] = info->split.user_bits;
	p[9] = info->generation_bits;
	p[10] = info->probes;
	p[11] = info->lanes;
	put_be32(p + 12, info->payload);
	put_be32(p + 16, info->slots);
	put_be32(p + 20, info->token);
	put_be32(p + 24, info->first_msn);
	put_be32(p + 28, info->window);
	put_be32(p + 32, info->control_max);
	memcpy(p + 36, info->fabric, sizeof(info->fabric));
	p[44] = (uint8_t)info->address_length;
	memcpy(p + 48, info->address, info->address_length);
	put_be64(p + 112, info->first_bytes);
	put_be32(p + 120, info->first_key);
	put_be32(p + 124, info->floor);
}

int info_decode(const struct gw_qp_info *bytes, struct peer_info *out)
{
	const uint8_t *p = bytes->bytes;
	struct peer_info info = { 0 };

	if (memcmp(p, magic, sizeof(magic)) != 0)
		return -EINVAL;
	if (p[5] > INFO_VERSION || p[4] < INFO_VERSION)
		return -EPROTONOSUPPORT;
	info.split.slot_bits = p[6];
	info.split.packet_bits = p[7];
	info.split.user_bits = p[8];
	info.generation_bits = p[9];
	info.probes = p[10] & 1;
	info.lanes = p[11];
	info.payload = get_be32(p + 12);
	info.slots = get_be32(p + 16);
	info.token = get_be32(p + 20);
	info.first_msn = get_be32(p + 24);
	info.window = get_be32(p + 28);
	info.control_max = get_be32(p + 32);
	memcpy(info.fabric, p + 36, sizeof(info.fabric));
	info.address_length = p[44];
	if (info.fabric[sizeof(info.fabric) - 1] || info.address_length > FABRIC_ADDRESS_MAX)
		return -EINVAL;
	memcpy(info.address, p + 48, info.address_length);
	info.first_bytes = get_be64(p + 112);
	info.first_key = get_be32(p + 120);
	info.floor = get_be32(p + 124);
	/* The bounds also keep later arithmetic and tables small, whatever the peer says. */
	if (info.split.slot_bits > 16 ||
	    info.split.slot_bits + info.split.packet_bits + info.split.user_bits != 32 ||
	    info.generation_bits > info.split.user_bits || !info.payload || info.payload % 4 ||
	    info.payload > 65536 || !info.floor || info.floor % 4 || info.floor > info.payload ||
	    (info.floor < info.payload && info.floor < SIZE_LEAST) || !info.slots ||
	    info.slots & (info.slots - 1) || info.slots > 1u << info.split.slot_bits ||
	    info.control_max < 256)
		return -EINVAL;
	*out = info;
	return 0;
}
