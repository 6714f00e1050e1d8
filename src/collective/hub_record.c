/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective/hub_record.h"

#include <errno.h>
#include <string.h>

void hub_record_put32(uint8_t *out, uint32_t value)
{
	out[0] = (uint8_t)(value >> 24);
	out[1] = (uint8_t)(value >> 16);
	out[2] = (uint8_t)(value >> 8);
	out[3] = (uint8_t)value;
}

uint32_t hub_record_get32(const uint8_t *in)
{
	return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

size_t hub_record_encode(const struct hub_record *record, uint8_t *out)
{
	hub_record_put32(out, (uint32_t)record->kind << 16 | record->length);
	hub_record_put32(out + 4, record->number);
	if (record->length)
		memcpy(out + HUB_HEADER, record->data, record->length);
	return (size_t)HUB_HEADER + record->length;
}

int hub_record_decode(const uint8_t *in, size_t length, struct hub_record *out)
{
	struct hub_record record;

	if (length < HUB_HEADER)
		return -EPROTO;
	record = (struct hub_record){ .kind = (uint16_t)(hub_record_get32(in) >> 16),
				      .length = (uint16_t)hub_record_get32(in),
				      .number = hub_record_get32(in + 4),
				      .data = in + HUB_HEADER };
	if (record.kind < HUB_JOIN || record.kind >= HUB_KINDS || record.length > HUB_DATA_MAX ||
	    record.length > length - HUB_HEADER)
		return -EPROTO;
	*out = record;
	return HUB_HEADER + record.length;
}

size_t hub_record_encode_join(const struct hub_record_join *join, uint8_t out[HUB_JOIN_MAX])
{
	uint8_t data[HUB_JOIN_BYTES + HUB_SETTINGS];
	size_t length = strnlen(join->settings, HUB_SETTINGS);
	struct hub_record record = { .kind = HUB_JOIN,
				     .length = (uint16_t)(HUB_JOIN_BYTES + length),
				     .number = join->rank,
				     .data = data };

	hub_record_put32(data, join->version);
	hub_record_put32(data + 4, join->size);
	hub_record_put32(data + 8, join->process);
	memcpy(data + HUB_JOIN_BYTES, join->settings, length);
	return hub_record_encode(&record, out);
}

int hub_record_decode_join(const uint8_t *in, size_t length, struct hub_record_join *out)
{
	struct hub_record record, settings;

	/* Later versions may say more. */
	if (hub_record_decode(in, length, &record) < 0 || record.kind != HUB_JOIN ||
	    record.length < HUB_JOIN_BYTES)
		return -EPROTO;
	*out = (struct hub_record_join){ .rank = record.number,
					 .version = hub_record_get32(record.data),
					 .size = hub_record_get32(record.data + 4),
					 .process = hub_record_get32(record.data + 8) };
	settings = (struct hub_record){ .length = (uint16_t)(record.length - HUB_JOIN_BYTES),
					.data = record.data + HUB_JOIN_BYTES };
	hub_record_text(&settings, out->settings, sizeof(out->settings));
	return 0;
}

void hub_record_text(const struct hub_record *record, char *out, size_t size)
{
	size_t length = record->length < size ? record->length : size - 1;

	for (size_t i = 0; i < length; i++) {
		char c = (char)record->data[i];

		out[i] = c >= 0x20 && c <= 0x7e ? c : '?';
	}
	out[length] = '\0';
}
