/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message is checked whole before the caller sees any of it. Each body decoder gets the bytes
 * from the body's start to the message's end (a span), takes the fixed part, then takes its lists
 * off the front one by one; a list that does not fit in what is left refuses the message.
 */
#include "wire/control.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/control_layout.h"

struct span {
	const uint8_t *at;
	size_t left;
};

/* The next `size` bytes, or NULL if there are fewer. */
static const uint8_t *take(struct span *span, size_t size)
{
	const uint8_t *taken = span->at;

	if (span->left < size)
		return NULL;
	span->at += size;
	span->left -= size;
	return taken;
}

static struct control_run run_at(const uint8_t *runs, unsigned index)
{
	const uint8_t *b = runs + (size_t)index * CONTROL_RUN_SIZE;

	return (struct control_run){ .first = get_be32(b), .count = get_be32(b + 4) };
}

/* Ascending, disjoint, none empty, all ending at `limit` or below: no sum of them overflows. */
static bool runs_are_sound(const uint8_t *runs, unsigned count, uint32_t limit)
{
	uint32_t end = 0;

	for (unsigned i = 0; i < count; i++) {
		struct control_run run = run_at(runs, i);

		if (run.count == 0 || run.first < end || run.first > limit ||
		    run.count > limit - run.first)
			return false;
		end = run.first + run.count;
	}
	return true;
}

static int decode_list(struct span body, size_t entry_size, struct control_list *list)
{
	const uint8_t *b = take(&body, CONTROL_ANNOUNCE_SIZE);

	static_assert(CONTROL_ANNOUNCE_SIZE == CONTROL_GRANT_SIZE, "one decoder serves both");
	if (!b)
		return -EMSGSIZE;
	list->first_msn = get_be32(b);
	list->count = get_be16(b + 4);
	list->entries = take(&body, list->count * entry_size);
	if (list->count == 0 || !list->entries)
		return -EBADMSG;
	return 0;
}

static int decode_report(struct span body, struct control_report *report)
{
	const uint8_t *b = take(&body, CONTROL_REPORT_SIZE);

	if (!b)
		return -EMSGSIZE;
	report->landed = get_be32(b);
	report->duplicate = get_be32(b + 4);
	report->late = get_be32(b + 8);
	report->ce = get_be32(b + 12);
	report->overrun = get_be32(b + 16);
	report->echo_msn = get_be32(b + 20);
	report->echo_packet = get_be32(b + 24);
	report->hold_ns = get_be32(b + 28);
	report->runs_msn = get_be32(b + 32);
	report->lane_count = b[36];
	report->result_count = b[37];
	report->run_count = get_be16(b + 38);
	report->lanes = take(&body, (size_t)report->lane_count * CONTROL_LANE_SIZE);
	if (!report->lanes)
		return -EBADMSG;
	report->results = take(&body, (size_t)report->result_count * CONTROL_RESULT_SIZE);
	if (!report->results)
		return -EBADMSG;
	report->runs = take(&body, (size_t)report->run_count * CONTROL_RUN_SIZE);
	if (!report->runs || !runs_are_sound(report->runs, report->run_count, UINT32_MAX))
		return -EBADMSG;
	b = take(&body, CONTROL_HOLES_SIZE);
	report->has_holes = b != NULL;
	report->holes = b ? get_be32(b) : 0;
	report->hole_packets = b ? get_be32(b + 4) : 0;
	b = b ? take(&body, CONTROL_CLOCK_SIZE) : NULL;
	report->has_clock = b != NULL;
	report->clock_us = b ? get_be32(b) : 0;
	return 0;
}

static int decode_nack(struct span body, struct control_nack *nack)
{
	const uint8_t *b = take(&body, CONTROL_NACK_SIZE);

	if (!b)
		return -EMSGSIZE;
	nack->msn = get_be32(b);
	nack->round = get_be32(b + 4);
	nack->below = get_be32(b + 8);
	nack->run_count = get_be16(b + 12);
	nack->flags = get_be16(b + 14);
	nack->runs = take(&body, (size_t)nack->run_count * CONTROL_RUN_SIZE);
	if (!nack->runs || !runs_are_sound(nack->runs, nack->run_count, nack->below))
		return -EBADMSG;
	return 0;
}

static int decode_credit(struct span body, struct control_credit *credit)
{
	const uint8_t *b = take(&body, CONTROL_CREDIT_SIZE);

	if (!b)
		return -EMSGSIZE;
	credit->window_packets = get_be32(b);
	return 0;
}

static int decode_probe(struct span body, struct control_probe *probe)
{
	const uint8_t *b = take(&body, CONTROL_PROBE_SIZE);

	if (!b)
		return -EMSGSIZE;
	probe->kind = b[0];
	probe->id = get_be32(b + 4);
	probe->time_ns = get_be64(b + 8);
	probe->hold_ns = get_be32(b + 16);
	probe->msn = get_be32(b + 20);
	return probe->kind > CONTROL_PROBE_REPLY ? -EBADMSG : 0;
}

static int decode_close(struct span body, struct control_close *close)
{
	const uint8_t *b = take(&body, CONTROL_CLOSE_SIZE);

	if (!b)
		return -EMSGSIZE;
	close->reason = get_be16(b);
	close->text_length = get_be16(b + 2);
	close->text = take(&body, close->text_length);
	if (!close->text || close->text_length > CONTROL_TEXT_MAX)
		return -EBADMSG;
	return 0;
}

static int decode_scheme(struct span body, struct control_scheme *scheme)
{
	const uint8_t *b = take(&body, CONTROL_SCHEME_SIZE);

	if (!b)
		return -EMSGSIZE;
	scheme->msn = get_be32(b);
	scheme->side = b[4];
	scheme->scheme = b[5];
	scheme->payload_length = get_be16(b + 6);
	scheme->payload = take(&body, scheme->payload_length);
	if (!scheme->payload || scheme->side > CONTROL_TO_SENDER)
		return -EBADMSG;
	return 0;
}

static int decode_size(struct span body, struct control_size *size)
{
	const uint8_t *b = take(&body, CONTROL_SIZE_SIZE);

	if (!b)
		return -EMSGSIZE;
	size->kind = b[0];
	size->lane = b[1];
	size->payload = get_be32(b + 4);
	size->msn = get_be32(b + 8);
	return size->kind > CONTROL_SIZE_CUT ? -EBADMSG : 0;
}

static int decode_data(struct span body, struct control_data *data)
{
	const uint8_t *b = take(&body, CONTROL_DATA_SIZE);

	if (!b)
		return -EMSGSIZE;
	data->msn = get_be32(b);
	data->packet = get_be32(b + 4);
	data->length = get_be16(b + 8);
	data->bytes = take(&body, data->length);
	return data->bytes ? 0 : -EBADMSG;
}

static int decode_body(struct span body, struct control_message *message)
{
	switch (message->header.type) {
	case CONTROL_ANNOUNCE:
		return decode_list(body, CONTROL_ANNOUNCE_ENTRY_SIZE, &message->announce);
	case CONTROL_GRANT:
		return decode_list(body, CONTROL_GRANT_ENTRY_SIZE, &message->grant);
	case CONTROL_REPORT:
		return decode_report(body, &message->report);
	case CONTROL_NACK:
		return decode_nack(body, &message->nack);
	case CONTROL_CREDIT:
		return decode_credit(body, &message->credit);
	case CONTROL_PROBE:
		return decode_probe(body, &message->probe);
	case CONTROL_CLOSE:
		return decode_close(body, &message->close);
	case CONTROL_SCHEME:
		return decode_scheme(body, &message->scheme);
	case CONTROL_SIZE:
		return decode_size(body, &message->size);
	case CONTROL_DATA:
		return decode_data(body, &message->data);
	default:
		return -ENOMSG;
	}
}

bool control_same_header(const void *message, const void *other)
{
	return !memcmp((const uint8_t *)message + CONTROL_TOKEN_AT,
		       (const uint8_t *)other + CONTROL_TOKEN_AT,
		       CONTROL_HEADER_SIZE - CONTROL_TOKEN_AT);
}

int control_first(const void *datagram, size_t length)
{
	const uint8_t *b = datagram;
	size_t first;

	if (length < CONTROL_HEADER_SIZE)
		return -EMSGSIZE;
	if (b[0] != CONTROL_VERSION)
		return -EPROTONOSUPPORT;
	first = get_be16(b + CONTROL_LENGTH_AT);
	return first < CONTROL_HEADER_SIZE || first > length ? -EMSGSIZE : (int)first;
}

int control_decode(const void *message_bytes, size_t length, struct control_message *out)
{
	struct span body = { message_bytes, length };
	const uint8_t *b = take(&body, CONTROL_HEADER_SIZE);
	struct control_message message; /* not cleared, which would take longer than to decode it */
	int error;

	if (!b)
		return -EMSGSIZE;
	/* Another version may lay out everything else differently: look at nothing more. */
	if (b[0] != CONTROL_VERSION)
		return -EPROTONOSUPPORT;
	message.header = (struct control_header){
		.type = b[1],
		.length = get_be16(b + CONTROL_LENGTH_AT),
		.token = get_be32(b + 4),
		.announced = get_be32(b + 8),
		.granted = get_be32(b + 12),
		.completed = get_be32(b + 16),
		.results = get_be32(b + 20),
		.size = (uint32_t)(get_be16(b + 24) & ~CONTROL_SIZE_SETTLED) * CONTROL_SIZE_UNIT,
		.settled = get_be16(b + 24) & CONTROL_SIZE_SETTLED,
		.epoch = b[26],
		.epoch_applied = b[27],
	};
	if (message.header.length != length)
		return -EMSGSIZE;
	error = decode_body(body, &message);
	if (error)
		return error;
	*out = message;
	return 0;
}

struct control_announce_entry control_announce_at(const struct control_message *message,
						  unsigned index)
{
	const uint8_t *b = message->announce.entries + (size_t)index * CONTROL_ANNOUNCE_ENTRY_SIZE;

	assert(message->header.type == CONTROL_ANNOUNCE && index < message->announce.count);
	return (struct control_announce_entry){
		.length = get_be64(b),
		.imm = get_be32(b + 8),
		.has_imm = b[12] & CONTROL_FLAG_HAS_IMM,
		.scheme = b[13],
		.geometry = { get_be32(b + 16), get_be32(b + 20) },
	};
}

struct control_grant_entry control_grant_at(const struct control_message *message, unsigned index)
{
	const uint8_t *b = message->grant.entries + (size_t)index * CONTROL_GRANT_ENTRY_SIZE;

	assert(message->header.type == CONTROL_GRANT && index < message->grant.count);
	return (struct control_grant_entry){
		.slot = get_be16(b),
		.generation = get_be16(b + 2),
		.rkey = get_be32(b + 4),
		.address = get_be64(b + 8),
		.capacity = get_be64(b + 16),
		.tag = get_be32(b + 24),
		.payload = get_be32(b + 28),
	};
}

struct control_lane control_lane_at(const struct control_message *message, unsigned index)
{
	const uint8_t *b = message->report.lanes + (size_t)index * CONTROL_LANE_SIZE;

	assert(message->header.type == CONTROL_REPORT && index < message->report.lane_count);
	return (struct control_lane){ .landed = get_be32(b), .ce = get_be32(b + 4) };
}

struct control_result control_result_at(const struct control_message *message, unsigned index)
{
	const uint8_t *b = message->report.results + (size_t)index * CONTROL_RESULT_SIZE;

	assert(message->header.type == CONTROL_REPORT && index < message->report.result_count);
	return (struct control_result){
		.msn = get_be32(b),
		.status = get_be32(b + 4),
		.missing = get_be32(b + 8),
	};
}

struct control_run control_run_at(const struct control_message *message, unsigned index)
{
	if (message->header.type == CONTROL_NACK) {
		assert(index < message->nack.run_count);
		return run_at(message->nack.runs, index);
	}
	assert(message->header.type == CONTROL_REPORT && index < message->report.run_count);
	return run_at(message->report.runs, index);
}
