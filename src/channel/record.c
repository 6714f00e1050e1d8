/* SPDX-License-Identifier: BSD-3-Clause */
/* Records: see record.h. The decoder believes nothing: a pack comes from the peer. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "channel/record.h"

#define STATUS_MAX 4095 /* no errno is larger */

size_t record_put(uint8_t *out, const struct record *record)
{
	uint16_t word = record->kind == RECORD_DATA ? record->label : record->status;

	put_be32(out, record->seq);
	out[4] = record->kind;
	out[5] = record->flags;
	out[6] = (uint8_t)(word >> 8);
	out[7] = (uint8_t)word;
	put_be32(out + 8, record->length);
	put_be32(out + 12, record->crc);
	if (record->kind != RECORD_DATA)
		return RECORD_HEADER;
	if (record->length)
		memcpy(out + RECORD_HEADER, record->data, record->length);
	return RECORD_HEADER + (size_t)record->length;
}

static bool sound(const struct record *record)
{
	switch ((enum record_kind)record->kind) {
	case RECORD_ENDED:
	case RECORD_REFUSED:
		return record->status && record->status <= STATUS_MAX;
	case RECORD_DATA:
	case RECORD_CRC:
	case RECORD_ASK:
	case RECORD_TAKEN:
		return true;
	}
	return false;
}

int record_next(const uint8_t *pack, size_t size, size_t *offset, struct record *out)
{
	const uint8_t *in = pack + *offset;
	size_t left = size - *offset;
	struct record record;
	uint16_t word;

	if (!left)
		return 0;
	if (left < RECORD_HEADER)
		return -EBADMSG;
	word = (uint16_t)(in[6] << 8 | in[7]);
	record = (struct record){ .seq = get_be32(in),
				  .kind = in[4],
				  .flags = in[5],
				  .status = in[4] == RECORD_DATA ? 0 : word,
				  .label = in[4] == RECORD_DATA ? word : 0,
				  .length = get_be32(in + 8),
				  .crc = get_be32(in + 12),
				  .data = in + RECORD_HEADER };
	if (!sound(&record))
		return -EBADMSG;
	left -= RECORD_HEADER;
	*offset += RECORD_HEADER;
	if (record.kind == RECORD_DATA) {
		if (record.length > left) {
			*offset -= RECORD_HEADER;
			return -EBADMSG;
		}
		*offset += record.length;
	}
	*out = record;
	return 1;
}
