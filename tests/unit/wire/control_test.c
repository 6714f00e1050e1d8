/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages: golden bytes both ways. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control_golden.h"
#include "random.h"
#include "wire/control.h"

static uint8_t datagram[70000];
static struct control_writer w;

static void begin(enum control_type type, size_t size)
{
	assert_int_equal(control_begin(&w, datagram, size, type, &golden_header), 0);
}

static void finish_as(const uint8_t *bytes, size_t length)
{
	assert_int_equal(control_end(&w), length);
	assert_memory_equal(datagram, bytes, length);
	/* Nothing is left behind for the next message to inherit. */
	memset(datagram, 0xee, sizeof(datagram));
}

static void test_golden_encode(void **state)
{
	static const struct control_report report = {
		.landed = 0x50515253,
		.duplicate = 0x54555657,
		.late = 0x58595a5b,
		.ce = 0x5c5d5e5f,
		.overrun = 0x60616263,
		.echo_msn = 0x64656667,
		.echo_packet = 0x68696a6b,
		.hold_ns = 0x6c6d6e6f,
		.runs_msn = 0x70717273,
	};

	memset(datagram, 0xee, sizeof(datagram));

	begin(CONTROL_ANNOUNCE, 84);
	assert_int_equal(control_put_announce(&w, 0xa0a1a2a3), 0);
	assert_int_equal(
		control_put_announce_entry(
			&w, &(struct control_announce_entry){ 0x0001020304050607,
							      0xb0b1b2b3,
							      true,
							      5,
							      { 0xc0c1c2c3, 0xd0d1d2d3 } }),
		0);
	assert_int_equal(
		control_put_announce_entry(&w, &(struct control_announce_entry){ .length = 4096 }),
		0);
	finish_as(golden_announce, sizeof(golden_announce));

	begin(CONTROL_GRANT, 100);
	assert_int_equal(control_put_grant(&w, 0xffffffff), 0);
	assert_int_equal(
		control_put_grant_entry(
			&w, &(struct control_grant_entry){ 0x3ff, 0x1234, 0xe0e1e2e3,
							   0x1011121314151617, 0x0000000100000002,
							   0xf0f1f2f3, 0x1004 }),
		0);
	assert_int_equal(
		control_put_grant_entry(&w, &(struct control_grant_entry){ 1, 2, 3, 4, 5, 6, 7 }),
		0);
	finish_as(golden_grant, sizeof(golden_grant));

	begin(CONTROL_REPORT, 124);
	assert_int_equal(control_put_report(&w, &report), 0);
	assert_int_equal(control_put_lane(&w, &(struct control_lane){ 0x100, 0x200 }), 0);
	assert_int_equal(control_put_lane(&w, &(struct control_lane){ 0x300, 0x400 }), 0);
	assert_int_equal(control_put_result(&w, &(struct control_result){ 0x80818283, 0x84858687,
									  0x88898a8b }),
			 0);
	assert_int_equal(control_put_run(&w, &(struct control_run){ 0x10, 0x20 }), 0);
	assert_int_equal(control_put_run(&w, &(struct control_run){ 0x10000, 0xfffeffff }), 0);
	assert_int_equal(control_put_holes(&w, 0x8c8d8e8f, 0x90919293), 0);
	assert_int_equal(control_put_clock(&w, 0x94959697), 0);
	finish_as(golden_report, sizeof(golden_report));

	begin(CONTROL_NACK, 60);
	assert_int_equal(control_put_nack(&w, &(struct control_nack){ .msn = 0x90919293,
								      .round = 7,
								      .below = 0x100,
								      .flags = 0x8001 }),
			 0);
	assert_int_equal(control_put_run(&w, &(struct control_run){ 0, 1 }), 0);
	assert_int_equal(control_put_run(&w, &(struct control_run){ 0xf0, 0x10 }), 0);
	finish_as(golden_nack, sizeof(golden_nack));

	begin(CONTROL_CREDIT, 36);
	assert_int_equal(control_put_credit(&w, &(struct control_credit){ 0x00010203 }), 0);
	finish_as(golden_credit, sizeof(golden_credit));

	begin(CONTROL_PROBE, 52);
	assert_int_equal(
		control_put_probe(&w, &(struct control_probe){ CONTROL_PROBE_REPLY, 0xf0f1f2f3,
							       0x0123456789abcdef, 0x0f0e0d0c,
							       0x0b0a0908 }),
		0);
	finish_as(golden_probe, sizeof(golden_probe));

	begin(CONTROL_CLOSE, 37);
	assert_int_equal(
		control_put_close(&w, &(struct control_close){ 0x1234, 5, (const void *)"done\n" }),
		0);
	finish_as(golden_close, sizeof(golden_close));

	begin(CONTROL_SCHEME, 39);
	assert_int_equal(
		control_put_scheme(&w, &(struct control_scheme){ 0x01000200, CONTROL_TO_SENDER, 9,
								 3, (const void *)"\xaa\xbb\xcc" }),
		0);
	finish_as(golden_scheme, sizeof(golden_scheme));

	begin(CONTROL_SIZE, 40);
	assert_int_equal(
		control_put_size(
			&w, &(struct control_size){ CONTROL_SIZE_CUT, 7, 1436, 0x94959697 }, 0),
		0);
	finish_as(golden_size, sizeof(golden_size));

	begin(CONTROL_DATA, 45);
	assert_int_equal(control_put_data(&w, &(struct control_data){ 0x01000200, 7, 5,
								      (const void *)"godwi" }),
			 0);
	finish_as(golden_data, sizeof(golden_data));
}

/* Padding is part of the length and of nothing else; there is as much as fits. */
static void test_padding(void **state)
{
	struct control_size size = { CONTROL_SIZE_PROBE, 3, 1436, 0 };
	struct control_message m;

	(void)state;
	begin(CONTROL_SIZE, 100);
	assert_int_equal(control_put_size(&w, &size, 90), 0);
	assert_int_equal(control_end(&w), 90);
	assert_int_equal(control_decode(datagram, 90, &m), 0);
	assert_int_equal(m.size.kind, CONTROL_SIZE_PROBE);
	assert_int_equal(m.size.lane, 3);
	assert_int_equal(m.size.payload, 1436);
	assert_int_equal(m.size.msn, 0);
	for (size_t i = sizeof(golden_size); i < 90; i++)
		assert_int_equal(datagram[i], 0);
	begin(CONTROL_SIZE, 100);
	assert_int_equal(control_put_size(&w, &size, 200), 0);
	assert_int_equal(control_end(&w), 100);
	begin(CONTROL_SIZE, 39);
	assert_int_equal(control_put_size(&w, &size, 200), -ENOSPC);
}

static void check_header(const struct control_message *m, uint8_t type, size_t length)
{
	assert_int_equal(m->header.type, type);
	assert_int_equal(m->header.length, length);
	assert_int_equal(m->header.token, 0x01020304);
	assert_int_equal(m->header.announced, 0x11121314);
	assert_int_equal(m->header.granted, 0x21222324);
	assert_int_equal(m->header.completed, 0x31323334);
	assert_int_equal(m->header.results, 0x41424344);
	assert_int_equal(m->header.size, 1436);
	assert_true(m->header.settled);
	assert_int_equal(m->header.epoch, 0x51);
	assert_int_equal(m->header.epoch_applied, 0x52);
}

static void check_lists(const struct control_message *m)
{
	if (m->header.type == CONTROL_ANNOUNCE) {
		struct control_announce_entry first = control_announce_at(m, 0);
		struct control_announce_entry second = control_announce_at(m, 1);

		assert_int_equal(m->announce.first_msn, 0xa0a1a2a3);
		assert_int_equal(m->announce.count, 2);
		assert_true(first.length == 0x0001020304050607);
		assert_int_equal(first.imm, 0xb0b1b2b3);
		assert_true(first.has_imm);
		assert_int_equal(first.scheme, 5);
		assert_int_equal(first.geometry[0], 0xc0c1c2c3);
		assert_int_equal(first.geometry[1], 0xd0d1d2d3);
		assert_true(second.length == 4096 && !second.has_imm);
	} else {
		struct control_grant_entry first = control_grant_at(m, 0);
		struct control_grant_entry second = control_grant_at(m, 1);

		assert_int_equal(m->grant.first_msn, 0xffffffff);
		assert_int_equal(m->grant.count, 2);
		assert_int_equal(first.slot, 0x3ff);
		assert_int_equal(first.generation, 0x1234);
		assert_int_equal(first.rkey, 0xe0e1e2e3);
		assert_true(first.address == 0x1011121314151617);
		assert_true(first.capacity == 0x0000000100000002);
		assert_int_equal(first.tag, 0xf0f1f2f3);
		assert_int_equal(first.payload, 0x1004);
		assert_true(second.slot == 1 && second.generation == 2 && second.rkey == 3);
		assert_true(second.address == 4 && second.capacity == 5 && second.tag == 6);
		assert_int_equal(second.payload, 7);
	}
}

static void check_report(const struct control_message *m)
{
	struct control_lane lane = control_lane_at(m, 1);
	struct control_result result = control_result_at(m, 0);
	struct control_run run = control_run_at(m, 1);

	assert_int_equal(m->report.landed, 0x50515253);
	assert_int_equal(m->report.duplicate, 0x54555657);
	assert_int_equal(m->report.late, 0x58595a5b);
	assert_int_equal(m->report.ce, 0x5c5d5e5f);
	assert_int_equal(m->report.overrun, 0x60616263);
	assert_int_equal(m->report.echo_msn, 0x64656667);
	assert_int_equal(m->report.echo_packet, 0x68696a6b);
	assert_int_equal(m->report.hold_ns, 0x6c6d6e6f);
	assert_int_equal(m->report.runs_msn, 0x70717273);
	assert_int_equal(m->report.lane_count, 2);
	assert_int_equal(m->report.result_count, 1);
	assert_int_equal(m->report.run_count, 2);
	assert_true(lane.landed == 0x300 && lane.ce == 0x400);
	assert_true(result.msn == 0x80818283 && result.status == 0x84858687);
	assert_int_equal(result.missing, 0x88898a8b);
	assert_true(run.first == 0x10000 && run.count == 0xfffeffff);
	assert_true(m->report.has_holes);
	assert_int_equal(m->report.holes, 0x8c8d8e8f);
	assert_int_equal(m->report.hole_packets, 0x90919293);
	assert_true(m->report.has_clock);
	assert_int_equal(m->report.clock_us, 0x94959697);
}

static void check_rest(const struct control_message *m)
{
	struct control_run run;

	switch (m->header.type) {
	case CONTROL_NACK:
		run = control_run_at(m, 1);
		assert_int_equal(m->nack.msn, 0x90919293);
		assert_int_equal(m->nack.round, 7);
		assert_int_equal(m->nack.below, 0x100);
		assert_int_equal(m->nack.flags, 0x8001);
		assert_int_equal(m->nack.run_count, 2);
		assert_true(run.first == 0xf0 && run.count == 0x10);
		break;
	case CONTROL_CREDIT:
		assert_int_equal(m->credit.window_packets, 0x00010203);
		break;
	case CONTROL_PROBE:
		assert_int_equal(m->probe.kind, CONTROL_PROBE_REPLY);
		assert_int_equal(m->probe.id, 0xf0f1f2f3);
		assert_true(m->probe.time_ns == 0x0123456789abcdef);
		assert_int_equal(m->probe.hold_ns, 0x0f0e0d0c);
		assert_int_equal(m->probe.msn, 0x0b0a0908);
		break;
	case CONTROL_CLOSE:
		assert_int_equal(m->close.reason, 0x1234);
		assert_int_equal(m->close.text_length, 5);
		assert_memory_equal(m->close.text, "done\n", 5);
		break;
	case CONTROL_DATA:
		assert_int_equal(m->data.msn, 0x01000200);
		assert_int_equal(m->data.packet, 7);
		assert_int_equal(m->data.length, 5);
		assert_memory_equal(m->data.bytes, "godwi", 5);
		break;
	case CONTROL_SIZE:
		assert_int_equal(m->size.kind, CONTROL_SIZE_CUT);
		assert_int_equal(m->size.lane, 7);
		assert_int_equal(m->size.payload, 1436);
		assert_int_equal(m->size.msn, 0x94959697);
		break;
	default:
		assert_int_equal(m->scheme.msn, 0x01000200);
		assert_int_equal(m->scheme.side, CONTROL_TO_SENDER);
		assert_int_equal(m->scheme.scheme, 9);
		assert_int_equal(m->scheme.payload_length, 3);
		assert_memory_equal(m->scheme.payload, "\xaa\xbb\xcc", 3);
		break;
	}
}

static void check_golden(const struct control_message *m, uint8_t type, size_t length)
{
	check_header(m, type, length);
	if (type == CONTROL_ANNOUNCE || type == CONTROL_GRANT)
		check_lists(m);
	else if (type == CONTROL_REPORT)
		check_report(m);
	else
		check_rest(m);
}

static void test_golden_decode(void **state)
{
	struct control_message m;

	for (size_t i = 0; i < GOLDEN_COUNT; i++) {
		memset(&m, 0xee, sizeof(m));
		assert_int_equal(control_decode(golden[i].bytes, golden[i].length, &m), 0);
		check_golden(&m, (uint8_t)(i + 1), golden[i].length);
	}
}

/* The header names a size in units of 4 bytes, in 15 bits, beside the bit that says that it is settled: neither spills
 * into the other, and a size that is no multiple of 4 is rounded down. */
static void test_header_sizes(void **state)
{
	static const uint32_t sizes[] = { 0,	1,    3,      4,       5,	1436,
					  4095, 4096, 0xffff, 0x10000, 0x1fffc, 0x1ffff };
	struct control_message m;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (unsigned bits = 0; bits < 8; bits++) {
			struct control_header header = { .token = 1,
							 .results = bits & 1 ? UINT32_MAX : 0,
							 .size = sizes[i],
							 .settled = bits & 2,
							 .epoch = bits & 4 ? 0xff : 0 };

			header.epoch_applied = (uint8_t)~header.epoch;
			assert_int_equal(control_begin(&w, datagram, 100, CONTROL_CREDIT, &header),
					 0);
			assert_int_equal(control_put_credit(&w, &(struct control_credit){ 1 }), 0);
			assert_int_equal(control_decode(datagram, control_end(&w), &m), 0);
			assert_int_equal(m.header.results, header.results);
			assert_int_equal(m.header.size, sizes[i] / 4 * 4);
			assert_int_equal(m.header.settled, header.settled);
			assert_int_equal(m.header.epoch, header.epoch);
			assert_int_equal(m.header.epoch_applied, header.epoch_applied);
		}
	}
}

/* A later release may append fields: this one reads what it knows. */
static void test_growth(void **state)
{
	struct control_message m;

	for (size_t i = 0; i < GOLDEN_COUNT; i++) {
		for (size_t extra = 1; extra <= 40; extra++) {
			size_t length = golden[i].length + extra;

			random_fill(datagram, length);
			memcpy(datagram, golden[i].bytes, golden[i].length);
			set_length(datagram, length);
			assert_int_equal(control_decode(datagram, length, &m), 0);
			check_golden(&m, (uint8_t)(i + 1), length);
		}
	}
}

/* Releases before this one told no clock, and earlier ones no holes. */
static void test_report_without_tail(void **state)
{
	const size_t tail = CONTROL_HOLES_SIZE + CONTROL_CLOCK_SIZE;
	struct control_message m;

	for (size_t left = 0; left < tail; left++) {
		size_t length = sizeof(golden_report) - tail + left;

		memcpy(datagram, golden_report, length);
		set_length(datagram, length);
		assert_int_equal(control_decode(datagram, length, &m), 0);
		assert_int_equal(m.report.run_count, 2);
		assert_int_equal(m.report.has_holes, left >= CONTROL_HOLES_SIZE);
		assert_int_equal(m.report.holes, m.report.has_holes ? 0x8c8d8e8f : 0);
		assert_int_equal(m.report.hole_packets, m.report.has_holes ? 0x90919293 : 0);
		assert_false(m.report.has_clock);
		assert_int_equal(m.report.clock_us, 0);
	}
}

static void test_reserved_is_ignored(void **state)
{
	static const struct {
		unsigned type, at, size;
	} reserved[] = {
		{ 1, 34, 2 }, { 1, 50, 2 }, { 2, 34, 2 },  { 5, 32, 4 },
		{ 6, 29, 3 }, { 9, 30, 2 }, { 10, 38, 2 },
	};
	struct control_message m;

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		unsigned type = reserved[i].type;
		size_t length = golden[type - 1].length;

		memcpy(datagram, golden[type - 1].bytes, length);
		memset(datagram + reserved[i].at, 0xff, reserved[i].size);
		assert_int_equal(control_decode(datagram, length, &m), 0);
		check_golden(&m, (uint8_t)type, length);
	}
	/* Unknown flags of an announcement. */
	memcpy(datagram, golden_announce, sizeof(golden_announce));
	datagram[36 + 12] = 0xfe;
	assert_int_equal(control_decode(datagram, sizeof(golden_announce), &m), 0);
	assert_false(control_announce_at(&m, 0).has_imm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_encode),
		cmocka_unit_test(test_padding),
		cmocka_unit_test(test_golden_decode),
		cmocka_unit_test(test_header_sizes),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_reserved_is_ignored),
		cmocka_unit_test(test_report_without_tail),
	};

	return cmocka_run_group_tests_name("wire-control", tests, NULL, NULL);
}
