/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages: everything that a peer may get wrong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control_golden.h"
#include "wire/control.h"

static uint8_t datagram[70000];
static struct control_writer w;

static void put32(uint8_t *p, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Every byte of a golden message is needed: cut anywhere, it is refused. */
static void test_truncation(void **state)
{
	static const size_t fixed[] = { 8, 8, 40, 16, 8, 24, 4, 8, 12, 12 };
	struct control_message m;

	for (size_t i = 0; i < GOLDEN_COUNT; i++) {
		for (size_t length = 0; length < golden[i].length; length++) {
			int expected = length < 28 + fixed[i] ? -EMSGSIZE : -EBADMSG;

			/* Older releases end a report before the holes, or before the clock. */
			if (golden[i].bytes == golden_report &&
			    length >=
				    sizeof(golden_report) - CONTROL_HOLES_SIZE - CONTROL_CLOCK_SIZE)
				expected = 0;
			/* As a network would cut it, ... */
			assert_int_equal(decode_exactly(golden[i].bytes, length, &m), -EMSGSIZE);
			/* ... and as a peer would who names the length he sends. */
			memcpy(datagram, golden[i].bytes, golden[i].length);
			set_length(datagram, length);
			assert_int_equal(decode_exactly(datagram, length, &m), expected);
		}
		memcpy(datagram, golden[i].bytes, golden[i].length);
		assert_int_equal(decode_exactly(datagram, golden[i].length + 1, &m), -EMSGSIZE);
	}
}

static void test_version_and_type(void **state)
{
	struct control_message m = { .header.token = 77 };

	for (unsigned value = 0; value < 256; value++) {
		memcpy(datagram, golden_credit, sizeof(golden_credit));
		datagram[0] = (uint8_t)value;
		if (value != 2)
			assert_int_equal(control_decode(datagram, sizeof(golden_credit), &m),
					 -EPROTONOSUPPORT);
		datagram[0] = 2;
		datagram[1] = (uint8_t)value;
		if (value < 1 || value > CONTROL_DATA)
			assert_int_equal(control_decode(datagram, sizeof(golden_credit), &m),
					 -ENOMSG);
	}
	assert_int_equal(m.header.token, 77);
}

static int decode_changed(unsigned type, unsigned at, uint8_t value)
{
	struct control_message m;

	memcpy(datagram, golden[type - 1].bytes, golden[type - 1].length);
	datagram[at] = value;
	return decode_exactly(datagram, golden[type - 1].length, &m);
}

static void test_inconsistent_bodies(void **state)
{
	uint8_t close[28 + 4 + 129] = { GOLDEN_HEADER(7, sizeof(close)), 0, 0, 0, 128 };
	struct control_message m;

	assert_int_equal(decode_changed(CONTROL_ANNOUNCE, 33, 0), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_ANNOUNCE, 33, 1), 0);
	assert_int_equal(decode_changed(CONTROL_ANNOUNCE, 33, 3), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_ANNOUNCE, 32, 0xff), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_GRANT, 33, 0), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_GRANT, 33, 3), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_REPORT, 64, 3), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_REPORT, 64, 255), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_REPORT, 65, 2), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_REPORT, 65, 255), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_REPORT, 67, 3), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_REPORT, 66, 0xff), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_NACK, 41, 3), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_PROBE, 28, 0), 0);
	assert_int_equal(decode_changed(CONTROL_PROBE, 28, 2), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_CLOSE, 31, 6), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_SCHEME, 32, 2), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_SCHEME, 35, 4), -EBADMSG);
	assert_int_equal(decode_changed(CONTROL_SCHEME, 34, 1), -EBADMSG);
	for (unsigned kind = 0; kind < 256; kind++)
		assert_int_equal(decode_changed(CONTROL_SIZE, 28, (uint8_t)kind),
				 kind > CONTROL_SIZE_CUT ? -EBADMSG : 0);
	assert_int_equal(decode_changed(CONTROL_DATA, 37, 6), -EBADMSG);

	assert_int_equal(decode_exactly(close, sizeof(close), &m), 0);
	close[31] = 129;
	assert_int_equal(decode_exactly(close, sizeof(close), &m), -EBADMSG);
}

/* Pairs of runs, and what the decoder and the writer must think of the second one. */
static void test_runs(void **state)
{
	static const struct {
		uint32_t below;
		struct control_run runs[2];
		bool sound;
	} cases[] = {
		{ 100, { { 0, 50 }, { 50, 50 } }, true },
		{ 100, { { 0, 50 }, { 99, 1 } }, true },
		{ 100, { { 0, 50 }, { 99, 2 } }, false },
		{ 100, { { 0, 50 }, { 100, 1 } }, false },
		{ 100, { { 0, 50 }, { 101, 1 } }, false },
		{ 100, { { 0, 50 }, { 60, 0xffffffff } }, false },
		{ 100, { { 0, 50 }, { 60, 0 } }, false },
		{ 100, { { 0, 50 }, { 49, 1 } }, false },
		{ 100, { { 20, 50 }, { 10, 10 } }, false },
		{ 0xffffffff, { { 0, 0xffff }, { 0xffff, 0xffff0000 } }, true },
		{ 0xffffffff, { { 0, 0xffff }, { 0x10000, 0xffff0000 } }, false },
		{ 0xffffffff, { { 0, 1 }, { 0xffffffff, 1 } }, false },
		{ 0xffffffff, { { 0, 1 }, { 0xfffffffe, 1 } }, true },
		{ 0xffffffff, { { 1, 0xfffffffe }, { 0, 1 } }, false },
	};
	struct control_message m;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct control_run *runs = cases[i].runs;
		int expected = cases[i].sound ? 0 : -EBADMSG;

		memcpy(datagram, golden_nack, sizeof(golden_nack));
		put32(datagram + 36, cases[i].below);
		for (int r = 0; r < 2; r++) {
			put32(datagram + 44 + 8 * r, runs[r].first);
			put32(datagram + 48 + 8 * r, runs[r].count);
		}
		assert_int_equal(control_decode(datagram, sizeof(golden_nack), &m), expected);
		assert_int_equal(control_begin(&w, datagram, 60, CONTROL_NACK, &golden_header), 0);
		assert_int_equal(
			control_put_nack(&w, &(struct control_nack){ .below = cases[i].below }), 0);
		assert_int_equal(control_put_run(&w, &runs[0]), 0);
		assert_int_equal(control_put_run(&w, &runs[1]), cases[i].sound ? 0 : -EINVAL);
		assert_int_equal(control_decode(datagram, control_end(&w), &m), 0);
		assert_int_equal(m.nack.run_count, cases[i].sound ? 2 : 1);

		/* A report has no `below`: its runs go up to 2^32 - 1. */
		if (cases[i].below != 0xffffffff)
			continue;
		memcpy(datagram, golden_report, sizeof(golden_report));
		for (int r = 0; r < 2; r++) {
			put32(datagram + 96 + 8 * r, runs[r].first);
			put32(datagram + 100 + 8 * r, runs[r].count);
		}
		assert_int_equal(control_decode(datagram, sizeof(golden_report), &m), expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_version_and_type),
		cmocka_unit_test(test_inconsistent_bodies),
		cmocka_unit_test(test_runs),
	};

	return cmocka_run_group_tests_name("wire-control-refuse", tests, NULL, NULL);
}
