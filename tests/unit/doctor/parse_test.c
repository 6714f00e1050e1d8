/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts of drivers as numbers, counters and their changes, and netlink messages as texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "doctor/parse.h"
#include "trees.h"

static void test_numbers(void **state)
{
	uint8_t gid[16];
	uint64_t value = 7;
	unsigned tenths = 7;
	int64_t number;

	assert_true(parse_number(" 42\n", &value) && value == 42);
	assert_true(parse_number("0x1f", &value) && value == 31);
	assert_false(parse_number("", &value) || parse_number("-1", &value) ||
		     parse_number("12x", &value) || parse_number("N/A (no PMA)", &value) ||
		     parse_number("99999999999999999999999", &value));
	assert_int_equal(value, 31);
	assert_true(parse_signed("0x10 rubbish", &number) && number == 16);
	assert_true(parse_port_rate("400 Gb/sec (4X NDR)", &value) &&
		    value == UINT64_C(400000000000));
	assert_true(parse_port_rate("2.5 Gb/sec (1X SDR)", &value) &&
		    value == UINT64_C(2500000000));
	assert_false(parse_port_rate("fast", &value) || parse_port_rate("99999999 Gb/sec", &value));
	assert_true(parse_link_speed("32.0 GT/s PCIe", &tenths) && tenths == 320);
	assert_true(parse_link_speed("8 GT/s", &tenths) && tenths == 80);
	assert_false(parse_link_speed("Unknown", &tenths));
	assert_true(parse_gid("fe80:0000:0000:0000:0a00:00ff:fe00:0005", gid) && gid[15] == 5);
	assert_false(parse_gid("fe80::5", gid) || parse_gid("", gid));
	assert_true(parse_value_number("a 1\nab 2\n", "ab", &value) && value == 2);
	assert_false(parse_value_number("abc 2\n", "ab", &value));
}

static void test_deltas(void **state)
{
	static const struct {
		const char *name;
		uint64_t first;
		uint64_t second;
		bool known;
		uint64_t delta;
	} rows[] = {
		{ "packet_seq_err", 5, 9, true, 4 },
		/* 32 bits, wrapped */
		{ "packet_seq_err", 0xfffffff0u, 0x10, true, 0x20 },
		/* reset */
		{ "packet_seq_err", 1000, 3, false, 0 },
		/* stopped at its largest value, before or since */
		{ "symbol_error", 65535, 65535, false, 0 },
		{ "symbol_error", 65530, 65535, false, 0 },
		{ "link_downed", 255, 255, false, 0 },
		{ "port_xmit_wait", UINT32_MAX, UINT32_MAX, false, 0 },
		/* firmware that counts further */
		{ "symbol_error", 70000, 70001, true, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct counters counters = { 0 };
		struct reader *reader;
		const struct counter *counter;
		char overlay[256];
		uint64_t delta = 0;

		snprintf(overlay, sizeof(overlay), "/c/%s %llu\n/.godwit/again/c/%s %llu\n",
			 rows[i].name, (unsigned long long)rows[i].first, rows[i].name,
			 (unsigned long long)rows[i].second);
		reader = tree_open("vf", overlay);
		counters_add_directory(&counters, reader, "/c");
		counters_again_directory(&counters, reader, "/c");
		counter = counters_find(&counters, rows[i].name);
		assert_non_null(counter);
		if (counter_delta(counter, &delta) != rows[i].known || delta != rows[i].delta)
			fail_msg("%s %llu to %llu", rows[i].name, (unsigned long long)rows[i].first,
				 (unsigned long long)rows[i].second);
		reader_close(reader);
	}
}

static void test_unknown_counters(void **state)
{
	struct reader *reader =
		tree_open("vf", "[/c]\nna N/A (no PMA)\ninval !EINVAL\ntext abc\nempty\n");
	static const char *const names[] = { "na", "inval", "text", "empty" };
	struct counters counters = { 0 };
	uint64_t value = 77;

	counters_add_directory(&counters, reader, "/c");
	counters_again_directory(&counters, reader, "/c");
	for (size_t i = 0; i < 4; i++) {
		const struct counter *counter = counters_find(&counters, names[i]);

		assert_non_null(counter);
		assert_false(counter_value(counter, &value) || counter_delta(counter, &value));
	}
	assert_false(counter_value(counters_find(&counters, "none"), &value));
	assert_int_equal(value, 77);
	reader_close(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_deltas),
		cmocka_unit_test(test_unknown_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
