/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a control datagram: the decoder must stay inside them, and what it shows, written
 * again, must come out as the same bytes but for reserved fields, and decode to the same again.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "wire/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_report(struct control_writer *w, const struct control_message *m)
{
	uint32_t sum = 0;

	assert(control_put_report(w, &m->report) == 0);
	for (unsigned i = 0; i < m->report.lane_count; i++) {
		struct control_lane lane = control_lane_at(m, i);

		assert(control_put_lane(w, &lane) == 0);
	}
	for (unsigned i = 0; i < m->report.result_count; i++) {
		struct control_result result = control_result_at(m, i);

		assert(control_put_result(w, &result) == 0);
	}
	for (unsigned i = 0; i < m->report.run_count; i++) {
		struct control_run run = control_run_at(m, i);

		assert(run.first + run.count > run.first);
		assert(sum + run.count > sum);
		sum += run.count;
		assert(control_put_run(w, &run) == 0);
	}
	if (m->report.has_holes)
		assert(control_put_holes(w, m->report.holes, m->report.hole_packets) == 0);
	if (m->report.has_clock)
		assert(control_put_clock(w, m->report.clock_us) == 0);
}

static void write_nack(struct control_writer *w, const struct control_message *m)
{
	uint32_t sum = 0;

	assert(control_put_nack(w, &m->nack) == 0);
	for (unsigned i = 0; i < m->nack.run_count; i++) {
		struct control_run run = control_run_at(m, i);

		assert(run.first + run.count > run.first && run.first + run.count <= m->nack.below);
		sum += run.count;
		assert(sum >= run.count && sum <= m->nack.below);
		assert(control_put_run(w, &run) == 0);
	}
}

static void write_list(struct control_writer *w, const struct control_message *m)
{
	if (m->header.type == CONTROL_ANNOUNCE) {
		assert(control_put_announce(w, m->announce.first_msn) == 0);
		for (unsigned i = 0; i < m->announce.count; i++) {
			struct control_announce_entry entry = control_announce_at(m, i);

			assert(control_put_announce_entry(w, &entry) == 0);
		}
	} else {
		assert(control_put_grant(w, m->grant.first_msn) == 0);
		for (unsigned i = 0; i < m->grant.count; i++) {
			struct control_grant_entry entry = control_grant_at(m, i);

			assert(control_put_grant_entry(w, &entry) == 0);
		}
	}
}

static size_t write_again(uint8_t *buf, size_t size, const struct control_message *m)
{
	struct control_writer w;

	assert(control_begin(&w, buf, size, (enum control_type)m->header.type, &m->header) == 0);
	switch ((enum control_type)m->header.type) {
	case CONTROL_ANNOUNCE:
	case CONTROL_GRANT:
		write_list(&w, m);
		break;
	case CONTROL_REPORT:
		write_report(&w, m);
		break;
	case CONTROL_NACK:
		write_nack(&w, m);
		break;
	case CONTROL_CREDIT:
		assert(control_put_credit(&w, &m->credit) == 0);
		break;
	case CONTROL_PROBE:
		assert(control_put_probe(&w, &m->probe) == 0);
		break;
	case CONTROL_CLOSE:
		assert(control_put_close(&w, &m->close) == 0);
		break;
	case CONTROL_SCHEME:
		assert(control_put_scheme(&w, &m->scheme) == 0);
		break;
	case CONTROL_SIZE:
		assert(m->size.kind <= CONTROL_SIZE_CUT);
		assert(control_put_size(&w, &m->size, 0) == 0);
		break;
	case CONTROL_DATA:
		assert(control_put_data(&w, &m->data) == 0);
		break;
	}
	return control_end(&w);
}

/* Bytes that need not survive: reserved fields, unknown flags, the length (growth is not kept). */
static void clear_reserved(uint8_t *b, const struct control_message *m)
{
	memset(b + 2, 0, 2);
	if (m->header.type == CONTROL_ANNOUNCE || m->header.type == CONTROL_GRANT)
		memset(b + 34, 0, 2);
	if (m->header.type == CONTROL_ANNOUNCE) {
		for (unsigned i = 0; i < m->announce.count; i++) {
			b[36 + 24 * i + 12] &= 1;
			memset(b + 36 + 24 * i + 14, 0, 2);
		}
	}
	if (m->header.type == CONTROL_CREDIT)
		memset(b + 32, 0, 4);
	if (m->header.type == CONTROL_DATA)
		memset(b + 38, 0, 2);
	if (m->header.type == CONTROL_PROBE)
		memset(b + 29, 0, 3);
	if (m->header.type == CONTROL_SIZE)
		memset(b + 30, 0, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t original[1 << 16], once[1 << 16], twice[1 << 16];
	struct control_message m, n;
	size_t length;

	if (control_decode(data, size, &m))
		return 0;
	assert(m.header.length == size);
	assert(m.header.size % 4 == 0 && m.header.size <= 4 * 0x7fff);
	length = write_again(once, size, &m);
	assert(length > CONTROL_HEADER_SIZE && length <= size);
	assert(control_decode(once, length, &n) == 0);
	assert(write_again(twice, length, &n) == length);
	assert(memcmp(once, twice, length) == 0);

	memcpy(original, data, size);
	clear_reserved(original, &m);
	memset(once + 2, 0, 2);
	assert(memcmp(original, once, length) == 0);
	return 0;
}
