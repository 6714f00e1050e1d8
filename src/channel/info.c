/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel's description as bytes, big-endian:
 *
 *	0   "GWCH" | u16 version | u16 reserved
 *	8   u32 small_bytes | u32 pack_bytes | u32 packs | u32 operations | u32 slots | 4 reserved
 *	32  the bulk queue pair's description, 128 bytes | the small one's
 *	288 reserved
 *
 * Reserved bytes are zero, and ignored by who reads them. An end that speaks another version is refused.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "channel/state.h"

#define VERSION	  3
#define NUMBERS	  5
#define QP_AT	  32
#define PACKS_MIN 4
#define LIMIT	  (1u << 24)

static const uint8_t magic[4] = { 'G', 'W', 'C', 'H' };

void channel_info_encode(const struct peer_channel *in, struct gw_channel_info *out)
{
	const uint32_t numbers[NUMBERS] = { in->small_bytes, in->pack_bytes, in->packs,
					    in->operations, in->slots };

	memset(out, 0, sizeof(*out));
	memcpy(out->bytes, magic, sizeof(magic));
	out->bytes[5] = VERSION;
	for (int i = 0; i < NUMBERS; i++)
		for (int j = 0; j < 4; j++)
			out->bytes[8 + 4 * i + j] = (uint8_t)(numbers[i] >> (24 - 8 * j));
	memcpy(out->bytes + QP_AT, in->qp, sizeof(in->qp));
}

int channel_info_decode(const struct gw_channel_info *in, struct peer_channel *out)
{
	unsigned version = (unsigned)in->bytes[4] << 8 | in->bytes[5];
	uint32_t numbers[NUMBERS] = { 0 };

	if (memcmp(in->bytes, magic, sizeof(magic)) != 0)
		return -EINVAL;
	if (version != VERSION) {
		log_error(
			"the peer's channel speaks version %u and this one version %u: run the same Godwit at both ends",
			version, VERSION);
		return -EPROTONOSUPPORT;
	}
	for (int i = 0; i < NUMBERS; i++) {
		for (int j = 0; j < 4; j++)
			numbers[i] = numbers[i] << 8 | in->bytes[8 + 4 * i + j];
		if (numbers[i] > LIMIT)
			return -EINVAL;
	}
	out->small_bytes = numbers[0];
	out->pack_bytes = numbers[1];
	out->packs = numbers[2];
	out->operations = numbers[3];
	out->slots = numbers[4];
	if (out->packs < PACKS_MIN || !out->operations || !out->slots ||
	    out->pack_bytes < RECORD_HEADER * 8 ||
	    out->small_bytes > out->pack_bytes - RECORD_HEADER)
		return -EINVAL;
	memcpy(out->qp, in->bytes + QP_AT, sizeof(out->qp));
	return 0;
}
