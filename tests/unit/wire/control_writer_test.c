/* SPDX-License-Identifier: BSD-3-Clause */
/* The control writer: random round trips of every type, and datagrams filled to their last byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "wire/control.h"

static uint8_t datagram[70000];
static struct control_writer w;

static void begin(enum control_type type, size_t size)
{
	struct control_header header = { .token = 1 };

	assert_int_equal(control_begin(&w, datagram, size, type, &header), 0);
}

/* Decodes a copy of exactly the right size, so that a sanitizer sees any step beyond it. */
static void finish(struct control_message *out)
{
	static void *copy;
	size_t length = control_end(&w);

	free(copy);
	copy = malloc(length);
	assert_non_null(copy);
	memcpy(copy, datagram, length);
	assert_int_equal(control_decode(copy, length, out), 0);
	assert_int_equal(out->header.length, length);
}

static void random_begin(enum control_type type, struct control_header *header)
{
	memset(datagram, 0xee, 4096);
	random_fill(header, sizeof(*header));
	header->size = random_below(1u << 15) * 4;
	header->settled = random64() & 1;
	assert_int_equal(control_begin(&w, datagram, 4096, type, header), 0);
}

static void random_finish(enum control_type type, const struct control_header *header,
			  struct control_message *out)
{
	finish(out);
	assert_int_equal(out->header.type, type);
	assert_int_equal(out->header.token, header->token);
	assert_int_equal(out->header.announced, header->announced);
	assert_int_equal(out->header.granted, header->granted);
	assert_int_equal(out->header.completed, header->completed);
	assert_int_equal(out->header.results, header->results);
	assert_int_equal(out->header.size, header->size);
	assert_int_equal(out->header.settled, header->settled);
	assert_int_equal(out->header.epoch, header->epoch);
	assert_int_equal(out->header.epoch_applied, header->epoch_applied);
}

static void test_random_announces(void **state)
{
	for (int round = 0; round < 1000; round++) {
		struct control_announce_entry entries[8];
		uint32_t first_msn = random32();
		struct control_header header;
		struct control_message m;
		unsigned count = 1 + random_below(8);

		random_begin(CONTROL_ANNOUNCE, &header);
		assert_int_equal(control_put_announce(&w, first_msn), 0);
		for (unsigned i = 0; i < count; i++) {
			entries[i] = (struct control_announce_entry){ random64(),
								      random32(),
								      random64() & 1,
								      (uint8_t)random64(),
								      { random32(), random32() } };
			assert_int_equal(control_put_announce_entry(&w, &entries[i]), 0);
		}
		random_finish(CONTROL_ANNOUNCE, &header, &m);
		assert_int_equal(m.announce.first_msn, first_msn);
		assert_int_equal(m.announce.count, count);
		for (unsigned i = 0; i < count; i++) {
			struct control_announce_entry entry = control_announce_at(&m, i);

			assert_true(entry.length == entries[i].length);
			assert_int_equal(entry.imm, entries[i].imm);
			assert_int_equal(entry.has_imm, entries[i].has_imm);
			assert_int_equal(entry.scheme, entries[i].scheme);
			assert_int_equal(entry.geometry[0], entries[i].geometry[0]);
			assert_int_equal(entry.geometry[1], entries[i].geometry[1]);
		}
	}
}

static void test_random_grants(void **state)
{
	for (int round = 0; round < 1000; round++) {
		struct control_grant_entry entries[8];
		uint32_t first_msn = random32();
		struct control_header header;
		struct control_message m;
		unsigned count = 1 + random_below(8);

		random_begin(CONTROL_GRANT, &header);
		assert_int_equal(control_put_grant(&w, first_msn), 0);
		for (unsigned i = 0; i < count; i++) {
			entries[i] = (struct control_grant_entry){
				(uint16_t)random64(), (uint16_t)random64(), random32(), random64(),
				random64(),	      random32(),	    random32()
			};
			assert_int_equal(control_put_grant_entry(&w, &entries[i]), 0);
		}
		random_finish(CONTROL_GRANT, &header, &m);
		assert_int_equal(m.grant.first_msn, first_msn);
		assert_int_equal(m.grant.count, count);
		for (unsigned i = 0; i < count; i++) {
			struct control_grant_entry entry = control_grant_at(&m, i);

			assert_int_equal(entry.slot, entries[i].slot);
			assert_int_equal(entry.generation, entries[i].generation);
			assert_int_equal(entry.rkey, entries[i].rkey);
			assert_true(entry.address == entries[i].address);
			assert_true(entry.capacity == entries[i].capacity);
			assert_int_equal(entry.tag, entries[i].tag);
			assert_int_equal(entry.payload, entries[i].payload);
		}
	}
}

static unsigned put_random_runs(struct control_run *runs, unsigned limit)
{
	uint32_t end = 0;

	for (unsigned i = 0; i < limit; i++) {
		runs[i].first = end + random_below(1u << 28);
		runs[i].count = 1 + random_below(1u << 28);
		end = runs[i].first + runs[i].count;
		assert_int_equal(control_put_run(&w, &runs[i]), 0);
	}
	return limit;
}

static void check_runs(const struct control_message *m, const struct control_run *runs,
		       unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct control_run run = control_run_at(m, i);

		assert_int_equal(run.first, runs[i].first);
		assert_int_equal(run.count, runs[i].count);
	}
}

static void test_random_reports(void **state)
{
	for (int round = 0; round < 1000; round++) {
		struct control_report report;
		struct control_result results[8];
		struct control_lane lanes[8];
		struct control_run runs[7];
		struct control_header header;
		struct control_message m;
		unsigned lane_count = random_below(9), result_count = random_below(9), run_count;

		random_fill(&report, sizeof(report));
		random_fill(lanes, sizeof(lanes));
		random_fill(results, sizeof(results));
		random_begin(CONTROL_REPORT, &header);
		assert_int_equal(control_put_report(&w, &report), 0);
		for (unsigned i = 0; i < lane_count; i++)
			assert_int_equal(control_put_lane(&w, &lanes[i]), 0);
		for (unsigned i = 0; i < result_count; i++)
			assert_int_equal(control_put_result(&w, &results[i]), 0);
		run_count = put_random_runs(runs, random_below(8));
		random_finish(CONTROL_REPORT, &header, &m);
		/* Up to the counts the struct holds nothing but the nine fields sent. */
		assert_memory_equal(&m.report, &report,
				    offsetof(struct control_report, lane_count));
		assert_int_equal(m.report.lane_count, lane_count);
		assert_int_equal(m.report.result_count, result_count);
		assert_int_equal(m.report.run_count, run_count);
		for (unsigned i = 0; i < lane_count; i++) {
			struct control_lane lane = control_lane_at(&m, i);

			assert_memory_equal(&lane, &lanes[i], sizeof(lane));
		}
		for (unsigned i = 0; i < result_count; i++) {
			struct control_result result = control_result_at(&m, i);

			assert_memory_equal(&result, &results[i], sizeof(result));
		}
		check_runs(&m, runs, run_count);
	}
}

static void test_random_nacks(void **state)
{
	for (int round = 0; round < 1000; round++) {
		struct control_nack nack = { .msn = random32(),
					     .round = random32(),
					     .below = UINT32_MAX - random_below(1u << 28),
					     .flags = (uint16_t)random64() };
		struct control_run runs[7];
		struct control_header header;
		struct control_message m;
		unsigned count;

		random_begin(CONTROL_NACK, &header);
		assert_int_equal(control_put_nack(&w, &nack), 0);
		count = put_random_runs(runs, random_below(8));
		random_finish(CONTROL_NACK, &header, &m);
		assert_int_equal(m.nack.msn, nack.msn);
		assert_int_equal(m.nack.round, nack.round);
		assert_int_equal(m.nack.below, nack.below);
		assert_int_equal(m.nack.flags, nack.flags);
		assert_int_equal(m.nack.run_count, count);
		check_runs(&m, runs, count);
	}
}

static void test_random_small_ones(void **state)
{
	for (int round = 0; round < 1000; round++) {
		struct control_credit credit = { random32() };
		struct control_probe probe = { random64() & 1, random32(), random64(), random32(),
					       random32() };
		uint8_t bytes[200];
		struct control_close close = { (uint16_t)random64(), (uint16_t)random_below(129),
					       bytes };
		struct control_scheme scheme = { random32(), random64() & 1, (uint8_t)random64(),
						 (uint16_t)random_below(201), bytes };
		struct control_size size = { (uint8_t)random_below(3), (uint8_t)random64(),
					     random32(), random32() };
		struct control_header header;
		struct control_message m;

		random_fill(bytes, sizeof(bytes));
		random_begin(CONTROL_CREDIT, &header);
		assert_int_equal(control_put_credit(&w, &credit), 0);
		random_finish(CONTROL_CREDIT, &header, &m);
		assert_int_equal(m.credit.window_packets, credit.window_packets);

		random_begin(CONTROL_PROBE, &header);
		assert_int_equal(control_put_probe(&w, &probe), 0);
		random_finish(CONTROL_PROBE, &header, &m);
		assert_int_equal(m.probe.kind, probe.kind);
		assert_int_equal(m.probe.id, probe.id);
		assert_true(m.probe.time_ns == probe.time_ns);
		assert_int_equal(m.probe.hold_ns, probe.hold_ns);
		assert_int_equal(m.probe.msn, probe.msn);

		random_begin(CONTROL_CLOSE, &header);
		assert_int_equal(control_put_close(&w, &close), 0);
		random_finish(CONTROL_CLOSE, &header, &m);
		assert_int_equal(m.close.reason, close.reason);
		assert_int_equal(m.close.text_length, close.text_length);
		assert_memory_equal(m.close.text, bytes, close.text_length);

		random_begin(CONTROL_SCHEME, &header);
		assert_int_equal(control_put_scheme(&w, &scheme), 0);
		random_finish(CONTROL_SCHEME, &header, &m);
		assert_int_equal(m.scheme.msn, scheme.msn);
		assert_int_equal(m.scheme.side, scheme.side);
		assert_int_equal(m.scheme.scheme, scheme.scheme);
		assert_int_equal(m.scheme.payload_length, scheme.payload_length);
		assert_memory_equal(m.scheme.payload, bytes, scheme.payload_length);

		random_begin(CONTROL_SIZE, &header);
		assert_int_equal(control_put_size(&w, &size, random_below(1000)), 0);
		random_finish(CONTROL_SIZE, &header, &m);
		assert_int_equal(m.size.kind, size.kind);
		assert_int_equal(m.size.lane, size.lane);
		assert_int_equal(m.size.payload, size.payload);
		assert_int_equal(m.size.msn, size.msn);
	}
}

/* Fills datagrams of every size; what fits must be whole, and what does not must change nothing. */
static void test_fill_every_size(void **state)
{
	for (size_t size = 0; size < 400; size++) {
		size_t room = size < 36 ? 0 : (size - 36) / CONTROL_GRANT_ENTRY_SIZE;
		struct control_grant_entry entry = { 1, 2, 3, 4, 5, 6, 7 };
		struct control_message m;
		size_t count = 0, length;

		memset(datagram, 0xee, sizeof(datagram));
		if (control_begin(&w, datagram, size, CONTROL_GRANT,
				  &(struct control_header){ 0 })) {
			assert_true(size < 28);
			assert_int_equal(datagram[0], 0xee);
			continue;
		}
		if (control_put_grant(&w, 9) == 0) {
			while (control_put_grant_entry(&w, &entry) == 0)
				count++;
			assert_int_equal(control_put_grant_entry(&w, &entry), -ENOSPC);
		}
		assert_int_equal(count, room);
		length = control_end(&w);
		assert_int_equal(length, room ? 36 + CONTROL_GRANT_ENTRY_SIZE * room : 0);
		assert_int_equal(datagram[size], 0xee);
		if (length) {
			assert_int_equal(datagram[length], 0xee);
			finish(&m);
			assert_int_equal(m.grant.count, room);
		}
	}
}

/* Bodies that do not fit leave nothing to send. */
static void test_bodies_do_not_fit(void **state)
{
	static const uint8_t bytes[128];
	static const size_t body[] = { 8, 8, 40, 16, 8, 24, 4 + 100, 8 + 100, 12, 12 + 100 };

	for (size_t i = 0; i < sizeof(body) / sizeof(body[0]); i++) {
		size_t size = 28 + body[i];

		for (int fits = 0; fits < 2; fits++) {
			int expected = fits ? 0 : -ENOSPC, error = 1;

			begin((enum control_type)(i + 1), size - !fits);
			switch (i + 1) {
			case CONTROL_ANNOUNCE:
				error = control_put_announce(&w, 1);
				break;
			case CONTROL_GRANT:
				error = control_put_grant(&w, 1);
				break;
			case CONTROL_REPORT:
				error = control_put_report(&w, &(struct control_report){ 0 });
				break;
			case CONTROL_NACK:
				error = control_put_nack(&w, &(struct control_nack){ 0 });
				break;
			case CONTROL_CREDIT:
				error = control_put_credit(&w, &(struct control_credit){ 0 });
				break;
			case CONTROL_PROBE:
				error = control_put_probe(&w, &(struct control_probe){ 0 });
				break;
			case CONTROL_CLOSE:
				error = control_put_close(&w,
							  &(struct control_close){ 1, 100, bytes });
				break;
			case CONTROL_SCHEME:
				error = control_put_scheme(
					&w, &(struct control_scheme){ 1, 0, 0, 100, bytes });
				break;
			case CONTROL_SIZE:
				/* Padding that does not fit is left out. */
				error = control_put_size(&w, &(struct control_size){ 0 }, 1000);
				break;
			case CONTROL_DATA:
				error = control_put_data(
					&w, &(struct control_data){ 1, 0, 100, bytes });
				break;
			}
			assert_int_equal(error, expected);
			assert_int_equal(control_end(&w), fits && i >= 2 ? size : 0);
		}
	}
}

static void test_largest_messages(void **state)
{
	struct control_announce_entry entry = { .length = 1 };
	struct control_message m;
	uint32_t i;

	/* The buffer is larger than a 16-bit length can say. */
	begin(CONTROL_ANNOUNCE, sizeof(datagram));
	assert_int_equal(control_put_announce(&w, 0), 0);
	for (i = 0; control_put_announce_entry(&w, &entry) == 0; i++)
		entry.length++;
	assert_int_equal(i, (65535 - 36) / 24);
	finish(&m);
	assert_int_equal(m.header.length, 36 + 24 * i);
	assert_int_equal(m.announce.count, i);
	assert_int_equal(control_announce_at(&m, i - 1).length, i);

	/* 8-bit counts end before the datagram does. */
	begin(CONTROL_REPORT, sizeof(datagram));
	assert_int_equal(control_put_report(&w, &(struct control_report){ 0 }), 0);
	for (i = 0; control_put_lane(&w, &(struct control_lane){ i, ~i }) == 0; i++)
		;
	assert_int_equal(i, 255);
	for (i = 0; control_put_result(&w, &(struct control_result){ i, 0, ~i }) == 0; i++)
		;
	assert_int_equal(i, 255);
	for (i = 0; control_put_run(&w, &(struct control_run){ 3 * i, 2 }) == 0; i++)
		;
	assert_int_equal(i, (65535 - 68 - 255 * 20) / 8);
	finish(&m);
	assert_int_equal(m.report.run_count, i);
	assert_int_equal(control_lane_at(&m, 254).ce, ~254u);
	assert_int_equal(control_result_at(&m, 254).missing, ~254u);
	assert_int_equal(control_run_at(&m, i - 1).first, 3 * (i - 1));
}

static void test_long_text_is_cut(void **state)
{
	struct control_message m;
	uint8_t text[300];

	random_fill(text, sizeof(text));
	begin(CONTROL_CLOSE, 1000);
	assert_int_equal(control_put_close(&w, &(struct control_close){ 1, sizeof(text), text }),
			 0);
	finish(&m);
	assert_int_equal(m.header.length, 28 + 4 + 128);
	assert_int_equal(m.close.text_length, 128);
	assert_memory_equal(m.close.text, text, 128);

	begin(CONTROL_CLOSE, 1000);
	assert_int_equal(control_put_close(&w, &(struct control_close){ .reason = 2 }), 0);
	finish(&m);
	assert_int_equal(m.close.text_length, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_announces),  cmocka_unit_test(test_random_grants),
		cmocka_unit_test(test_random_reports),	  cmocka_unit_test(test_random_nacks),
		cmocka_unit_test(test_random_small_ones), cmocka_unit_test(test_fill_every_size),
		cmocka_unit_test(test_bodies_do_not_fit), cmocka_unit_test(test_largest_messages),
		cmocka_unit_test(test_long_text_is_cut),
	};

	return cmocka_run_group_tests_name("wire-control-writer", tests, NULL, NULL);
}
