/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A writer appends to one datagram. The counts of a body start at zero and are incremented in the
 * datagram itself with every entry, so the writer holds no state of its own beyond how much is
 * used, and what has been written is a valid message after every put.
 */
#include "wire/control.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/control_layout.h"

/* The next `size` bytes, zeroed so that reserved fields are; NULL if the datagram is full. */
static uint8_t *append(struct control_writer *w, size_t size)
{
	uint8_t *b = w->buf + w->used;

	if (w->size - w->used < size)
		return NULL;
	memset(b, 0, size);
	w->used += size;
	return b;
}

static bool is_type(const struct control_writer *w, enum control_type type)
{
	return w->buf[1] == type;
}

static bool has_body(const struct control_writer *w, enum control_type type, size_t size)
{
	return is_type(w, type) && w->used >= CONTROL_HEADER_SIZE + size;
}

/* A body comes first and once. */
static uint8_t *append_body(struct control_writer *w, enum control_type type, size_t size)
{
	assert(is_type(w, type) && w->used == CONTROL_HEADER_SIZE);
	return append(w, size);
}

int control_begin(struct control_writer *w, void *buf, size_t size, enum control_type type,
		  const struct control_header *header)
{
	uint8_t *b;

	/* The length is a 16-bit field: what lies beyond cannot be used. */
	*w = (struct control_writer){ .buf = buf, .size = size < UINT16_MAX ? size : UINT16_MAX };
	b = append(w, CONTROL_HEADER_SIZE);
	if (!b)
		return -ENOSPC;
	b[0] = CONTROL_VERSION;
	b[1] = (uint8_t)type;
	put_be32(b + 4, header->token);
	put_be32(b + 8, header->announced);
	put_be32(b + 12, header->granted);
	put_be32(b + 16, header->completed);
	put_be32(b + 20, header->results);
	put_be16(b + 24, (uint16_t)(header->size / CONTROL_SIZE_UNIT |
				    (header->settled ? CONTROL_SIZE_SETTLED : 0)));
	b[26] = header->epoch;
	b[27] = header->epoch_applied;
	return 0;
}

int control_begin_like(struct control_writer *w, void *buf, size_t size, enum control_type type,
		       const void *message)
{
	uint8_t *b = buf;

	*w = (struct control_writer){ .buf = buf, .size = size < UINT16_MAX ? size : UINT16_MAX };
	if (w->size < CONTROL_HEADER_SIZE)
		return -ENOSPC;
	memcpy(b, message, CONTROL_HEADER_SIZE);
	b[1] = (uint8_t)type;
	w->used = CONTROL_HEADER_SIZE;
	return 0;
}

static int put_list(struct control_writer *w, enum control_type type, uint32_t first_msn)
{
	uint8_t *b = append_body(w, type, CONTROL_ANNOUNCE_SIZE);

	static_assert(CONTROL_ANNOUNCE_SIZE == CONTROL_GRANT_SIZE, "one encoder serves both");
	if (!b)
		return -ENOSPC;
	put_be32(b, first_msn);
	return 0;
}

/* A 16-bit count cannot overflow: a datagram of 64 KiB ends before. */
static void increment_be16(uint8_t *count)
{
	put_be16(count, (uint16_t)(get_be16(count) + 1));
}

int control_put_announce(struct control_writer *w, uint32_t first_msn)
{
	return put_list(w, CONTROL_ANNOUNCE, first_msn);
}

int control_put_announce_entry(struct control_writer *w, const struct control_announce_entry *entry)
{
	uint8_t *b;

	assert(has_body(w, CONTROL_ANNOUNCE, CONTROL_ANNOUNCE_SIZE));
	b = append(w, CONTROL_ANNOUNCE_ENTRY_SIZE);
	if (!b)
		return -ENOSPC;
	put_be64(b, entry->length);
	put_be32(b + 8, entry->imm);
	b[12] = entry->has_imm ? CONTROL_FLAG_HAS_IMM : 0;
	b[13] = entry->scheme;
	put_be32(b + 16, entry->geometry[0]);
	put_be32(b + 20, entry->geometry[1]);
	increment_be16(w->buf + CONTROL_LIST_COUNT_AT);
	return 0;
}

int control_put_grant(struct control_writer *w, uint32_t first_msn)
{
	return put_list(w, CONTROL_GRANT, first_msn);
}

int control_put_grant_entry(struct control_writer *w, const struct control_grant_entry *entry)
{
	uint8_t *b;

	assert(has_body(w, CONTROL_GRANT, CONTROL_GRANT_SIZE));
	b = append(w, CONTROL_GRANT_ENTRY_SIZE);
	if (!b)
		return -ENOSPC;
	put_be16(b, entry->slot);
	put_be16(b + 2, entry->generation);
	put_be32(b + 4, entry->rkey);
	put_be64(b + 8, entry->address);
	put_be64(b + 16, entry->capacity);
	put_be32(b + 24, entry->tag);
	put_be32(b + 28, entry->payload);
	increment_be16(w->buf + CONTROL_LIST_COUNT_AT);
	return 0;
}

int control_put_report(struct control_writer *w, const struct control_report *report)
{
	uint8_t *b = append_body(w, CONTROL_REPORT, CONTROL_REPORT_SIZE);

	if (!b)
		return -ENOSPC;
	put_be32(b, report->landed);
	put_be32(b + 4, report->duplicate);
	put_be32(b + 8, report->late);
	put_be32(b + 12, report->ce);
	put_be32(b + 16, report->overrun);
	put_be32(b + 20, report->echo_msn);
	put_be32(b + 24, report->echo_packet);
	put_be32(b + 28, report->hold_ns);
	put_be32(b + 32, report->runs_msn);
	return 0;
}

int control_put_lane(struct control_writer *w, const struct control_lane *lane)
{
	uint8_t *count = w->buf + CONTROL_REPORT_LANES_AT;
	uint8_t *b;

	assert(has_body(w, CONTROL_REPORT, CONTROL_REPORT_SIZE));
	assert(w->buf[CONTROL_REPORT_RESULTS_AT] == 0);
	assert(get_be16(w->buf + CONTROL_REPORT_RUNS_AT) == 0);
	b = *count < UINT8_MAX ? append(w, CONTROL_LANE_SIZE) : NULL;
	if (!b)
		return -ENOSPC;
	put_be32(b, lane->landed);
	put_be32(b + 4, lane->ce);
	++*count;
	return 0;
}

int control_put_result(struct control_writer *w, const struct control_result *result)
{
	uint8_t *count = w->buf + CONTROL_REPORT_RESULTS_AT;
	uint8_t *b;

	assert(has_body(w, CONTROL_REPORT, CONTROL_REPORT_SIZE));
	assert(get_be16(w->buf + CONTROL_REPORT_RUNS_AT) == 0);
	b = *count < UINT8_MAX ? append(w, CONTROL_RESULT_SIZE) : NULL;
	if (!b)
		return -ENOSPC;
	put_be32(b, result->msn);
	put_be32(b + 4, result->status);
	put_be32(b + 8, result->missing);
	++*count;
	return 0;
}

int control_put_nack(struct control_writer *w, const struct control_nack *nack)
{
	uint8_t *b = append_body(w, CONTROL_NACK, CONTROL_NACK_SIZE);

	if (!b)
		return -ENOSPC;
	put_be32(b, nack->msn);
	put_be32(b + 4, nack->round);
	put_be32(b + 8, nack->below);
	put_be16(b + 14, nack->flags);
	return 0;
}

int control_put_run(struct control_writer *w, const struct control_run *run)
{
	bool nack = has_body(w, CONTROL_NACK, CONTROL_NACK_SIZE);
	uint8_t *count = w->buf + (nack ? CONTROL_NACK_RUNS_AT : CONTROL_REPORT_RUNS_AT);
	uint32_t limit = nack ? get_be32(w->buf + CONTROL_NACK_BELOW_AT) : UINT32_MAX;
	uint32_t end = 0;
	uint8_t *b;

	assert(nack || has_body(w, CONTROL_REPORT, CONTROL_REPORT_SIZE));
	if (get_be16(count) > 0) {
		const uint8_t *last = w->buf + w->used - CONTROL_RUN_SIZE;

		end = get_be32(last) + get_be32(last + 4);
	}
	if (run->count == 0 || run->first < end || run->first > limit ||
	    run->count > limit - run->first)
		return -EINVAL;
	b = append(w, CONTROL_RUN_SIZE);
	if (!b)
		return -ENOSPC;
	put_be32(b, run->first);
	put_be32(b + 4, run->count);
	increment_be16(count);
	return 0;
}

int control_put_holes(struct control_writer *w, uint32_t holes, uint32_t hole_packets)
{
	uint8_t *b;

	assert(has_body(w, CONTROL_REPORT, CONTROL_REPORT_SIZE));
	b = append(w, CONTROL_HOLES_SIZE);
	if (!b)
		return -ENOSPC;
	put_be32(b, holes);
	put_be32(b + 4, hole_packets);
	return 0;
}

int control_put_clock(struct control_writer *w, uint32_t clock_us)
{
	uint8_t *b;

	assert(has_body(w, CONTROL_REPORT, CONTROL_REPORT_SIZE + CONTROL_HOLES_SIZE));
	b = append(w, CONTROL_CLOCK_SIZE);
	if (!b)
		return -ENOSPC;
	put_be32(b, clock_us);
	return 0;
}

int control_put_credit(struct control_writer *w, const struct control_credit *credit)
{
	uint8_t *b = append_body(w, CONTROL_CREDIT, CONTROL_CREDIT_SIZE);

	if (!b)
		return -ENOSPC;
	put_be32(b, credit->window_packets);
	return 0;
}

int control_put_probe(struct control_writer *w, const struct control_probe *probe)
{
	uint8_t *b = append_body(w, CONTROL_PROBE, CONTROL_PROBE_SIZE);

	assert(probe->kind <= CONTROL_PROBE_REPLY);
	if (!b)
		return -ENOSPC;
	b[0] = probe->kind;
	put_be32(b + 4, probe->id);
	put_be64(b + 8, probe->time_ns);
	put_be32(b + 16, probe->hold_ns);
	put_be32(b + 20, probe->msn);
	return 0;
}

int control_put_close(struct control_writer *w, const struct control_close *close)
{
	uint16_t length =
		close->text_length < CONTROL_TEXT_MAX ? close->text_length : CONTROL_TEXT_MAX;
	uint8_t *b = append_body(w, CONTROL_CLOSE, (size_t)CONTROL_CLOSE_SIZE + length);

	if (!b)
		return -ENOSPC;
	put_be16(b, close->reason);
	put_be16(b + 2, length);
	if (length)
		memcpy(b + CONTROL_CLOSE_SIZE, close->text, length);
	return 0;
}

int control_put_scheme(struct control_writer *w, const struct control_scheme *scheme)
{
	uint8_t *b = append_body(w, CONTROL_SCHEME,
				 (size_t)CONTROL_SCHEME_SIZE + scheme->payload_length);

	assert(scheme->side <= CONTROL_TO_SENDER);
	if (!b)
		return -ENOSPC;
	put_be32(b, scheme->msn);
	b[4] = scheme->side;
	b[5] = scheme->scheme;
	put_be16(b + 6, scheme->payload_length);
	if (scheme->payload_length)
		memcpy(b + CONTROL_SCHEME_SIZE, scheme->payload, scheme->payload_length);
	return 0;
}

int control_put_data(struct control_writer *w, const struct control_data *data)
{
	uint8_t *b = append_body(w, CONTROL_DATA, (size_t)CONTROL_DATA_SIZE + data->length);

	if (!b)
		return -ENOSPC;
	put_be32(b, data->msn);
	put_be32(b + 4, data->packet);
	put_be16(b + 8, data->length);
	memcpy(b + CONTROL_DATA_SIZE, data->bytes, data->length);
	return 0;
}

int control_put_size(struct control_writer *w, const struct control_size *size, size_t length)
{
	uint8_t *b = append_body(w, CONTROL_SIZE, CONTROL_SIZE_SIZE);

	assert(size->kind <= CONTROL_SIZE_CUT);
	if (!b)
		return -ENOSPC;
	b[0] = size->kind;
	b[1] = size->lane;
	put_be32(b + 4, size->payload);
	put_be32(b + 8, size->msn);
	if (length > w->used)
		append(w, (length < w->size ? length : w->size) - w->used);
	return 0;
}

size_t control_end(struct control_writer *w)
{
	bool list = is_type(w, CONTROL_ANNOUNCE) || is_type(w, CONTROL_GRANT);
	size_t nothing = CONTROL_HEADER_SIZE + (list ? CONTROL_ANNOUNCE_SIZE : 0);

	if (w->used <= nothing)
		return 0;
	put_be16(w->buf + CONTROL_LENGTH_AT, (uint16_t)w->used);
	return w->used;
}
