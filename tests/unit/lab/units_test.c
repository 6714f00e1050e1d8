/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with units as people write them: each form has one meaning in every command, or is refused with a reason. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lab/units.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
	enum units_kind kind;
	const char *text;
	uint64_t value;
} understood[] = {
	{ UNITS_TIME, "0", 0 },
	{ UNITS_TIME, "50ns", 50 },
	{ UNITS_TIME, "200us", 200000 },
	{ UNITS_TIME, "200\xc2\xb5s", 200000 },
	{ UNITS_TIME, "200\xce\xbcs", 200000 },
	{ UNITS_TIME, "25ms", 25000000 },
	{ UNITS_TIME, "25 ms", 25000000 },
	{ UNITS_TIME, "25MS", 25000000 },
	{ UNITS_TIME, "1.5s", 1500000000 },
	{ UNITS_TIME, ".5s", 500000000 },
	{ UNITS_TIME, "10sec", UINT64_C(10000000000) },
	{ UNITS_TIME, "2min", UINT64_C(120000000000) },
	{ UNITS_TIME, "1h", UINT64_C(3600000000000) },
	{ UNITS_SECONDS, "10s", UINT64_C(10000000000) },
	{ UNITS_SECONDS, "10", UINT64_C(10000000000) },
	{ UNITS_SECONDS, "0.5", 500000000 },
	{ UNITS_SECONDS, "500ms", 500000000 },
	{ UNITS_RATE, "0", 0 },
	{ UNITS_RATE, "1500", 1500 },
	{ UNITS_RATE, "64k", 64000 },
	{ UNITS_RATE, "200M", 200000000 },
	{ UNITS_RATE, "200m", 200000000 },
	{ UNITS_RATE, "1.5G", 1500000000 },
	{ UNITS_RATE, "1Gbit", 1000000000 },
	{ UNITS_RATE, "1gbit", 1000000000 },
	{ UNITS_RATE, "1Gb", 1000000000 },
	{ UNITS_RATE, "1Gb/s", 1000000000 },
	{ UNITS_RATE, "1GBit/s", 1000000000 },
	{ UNITS_RATE, "860 Mbit/s", 860000000 },
	{ UNITS_RATE, "94.1 Mbits/sec", 94100000 },
	{ UNITS_RATE, "400Gbps", UINT64_C(400000000000) },
	{ UNITS_RATE, "1.6Tbps", UINT64_C(1600000000000) },
	{ UNITS_RATE, "1Gibit/s", 1073741824 },
	{ UNITS_RATE, "9 bit/s", 9 },
	{ UNITS_SIZE, "0", 0 },
	{ UNITS_SIZE, "1500", 1500 },
	{ UNITS_SIZE, "1500B", 1500 },
	{ UNITS_SIZE, "512 bytes", 512 },
	{ UNITS_SIZE, "1 byte", 1 },
	{ UNITS_SIZE, "64K", 65536 },
	{ UNITS_SIZE, "64k", 65536 },
	{ UNITS_SIZE, "64Ki", 65536 },
	{ UNITS_SIZE, "64KiB", 65536 },
	{ UNITS_SIZE, "64kib", 65536 },
	{ UNITS_SIZE, "64kB", 64000 },
	{ UNITS_SIZE, "64KB", 64000 },
	{ UNITS_SIZE, "1M", 1048576 },
	{ UNITS_SIZE, "1.5MiB", 1572864 },
	{ UNITS_SIZE, "1.5 MiB", 1572864 },
	{ UNITS_SIZE, "128MB", 128000000 },
	{ UNITS_SIZE, "128MiB", 134217728 },
	{ UNITS_SIZE, "1G", 1073741824 },
	{ UNITS_SIZE, "1GiB", 1073741824 },
	{ UNITS_SIZE, "1GB", 1000000000 },
	{ UNITS_SIZE, "1T", UINT64_C(1099511627776) },
	{ UNITS_SIZE, "1e6", 1000000 },
	{ UNITS_SPEED, "50G", UINT64_C(50000000000) },
	{ UNITS_SPEED, "50GB/s", UINT64_C(50000000000) },
	{ UNITS_SPEED, "50GBps", UINT64_C(50000000000) },
};

static void test_understood(void **state)
{
	char why[UNITS_PROBLEM_SIZE];

	(void)state;
	for (unsigned i = 0; i < COUNT(understood); i++) {
		uint64_t value = 7;
		int rc = units_read(understood[i].kind, understood[i].text, 0, UINT64_MAX, &value);

		if (rc || value != understood[i].value)
			fail_msg("\"%s\": %d, %llu", understood[i].text, rc,
				 (unsigned long long)value);
		assert_string_equal(units_problem(understood[i].kind, understood[i].text, why), "");
	}
}

static const struct {
	enum units_kind kind;
	const char *text;
	int error;
	/* what the reason says */
	const char *why;
} refused[] = {
	{ UNITS_TIME, "", -EINVAL, "is not a time: write 25ms" },
	{ UNITS_TIME, "5", -EINVAL, "has no unit: write 5s, 5ms or 5us" },
	{ UNITS_TIME, "-5ms", -EINVAL, "is not a time" },
	{ UNITS_TIME, " 5ms", -EINVAL, "is not a time" },
	{ UNITS_TIME, "5ms ", -EINVAL, "is not a time" },
	{ UNITS_TIME, "5  ms", -EINVAL, "is not a time" },
	{ UNITS_TIME, "5 ", -EINVAL, "is not a time" },
	{ UNITS_TIME, "ms", -EINVAL, "is not a time" },
	{ UNITS_TIME, "1msx", -EINVAL, "is not a time" },
	{ UNITS_TIME, "inf", -EINVAL, "is not a time" },
	{ UNITS_TIME, "0x1s", -EINVAL, "is not a time" },
	{ UNITS_TIME, "5M", -EINVAL, "may be minutes or milliseconds: write min or ms" },
	{ UNITS_TIME, "1e30s", -ERANGE, "is too large" },
	{ UNITS_TIME, "0.1ns", -ERANGE, "is rounded to 0" },
	{ UNITS_SECONDS, "soon", -EINVAL, "a number alone counts seconds" },
	{ UNITS_SECONDS, "5m", -EINVAL, "may be minutes or milliseconds" },
	{ UNITS_SECONDS, "nan", -EINVAL, "is not a time" },
	{ UNITS_RATE, "fast", -EINVAL, "bits a second: write 800M, 1Gbit or 400Gbps" },
	{ UNITS_RATE, "1GB", -EINVAL, "is in bytes (b is bits, B bytes)" },
	{ UNITS_RATE, "1GB/s", -EINVAL, "is in bytes" },
	{ UNITS_RATE, "1GBPS", -EINVAL, "is in bytes" },
	{ UNITS_RATE, "1Gbyte/s", -EINVAL, "is in bytes" },
	{ UNITS_RATE, "1Gx", -EINVAL, "is not a rate" },
	{ UNITS_RATE, "1ibit", -EINVAL, "is not a rate" },
	{ UNITS_RATE, "1GG", -EINVAL, "is not a rate" },
	{ UNITS_RATE, "0.4", -ERANGE, "is rounded to 0" },
	{ UNITS_RATE, "99999999T", -ERANGE, "is too large" },
	{ UNITS_SIZE, "big", -EINVAL, "is not a size: write 1500, 64K, 1MiB or 128MB" },
	{ UNITS_SIZE, "128Mb", -EINVAL, "is in bits (b is bits, B bytes)" },
	{ UNITS_SIZE, "128Mbit", -EINVAL, "is in bits" },
	{ UNITS_SIZE, "128MB/s", -EINVAL, "is not a size" },
	{ UNITS_SIZE, "128MBps", -EINVAL, "is not a size" },
	{ UNITS_SIZE, "-4K", -EINVAL, "is not a size" },
	{ UNITS_SIZE, "1.5", -EINVAL, "is not a whole number of bytes" },
	{ UNITS_SIZE, "18446744073709551616", -ERANGE, "is too large" },
	{ UNITS_SPEED, "50Gbit/s", -EINVAL, "is in bits" },
};

static void test_refused(void **state)
{
	char why[UNITS_PROBLEM_SIZE];

	(void)state;
	for (unsigned i = 0; i < COUNT(refused); i++) {
		uint64_t value = 7;
		int rc = units_read(refused[i].kind, refused[i].text, 0, UINT64_MAX, &value);

		units_problem(refused[i].kind, refused[i].text, why);
		if (rc != refused[i].error || value != 7 || !strstr(why, refused[i].why))
			fail_msg("\"%s\": %d, %s", refused[i].text, rc, why);
	}
}

/* No reason is cut off, whatever the text. */
static void test_reasons_fit(void **state)
{
	char why[UNITS_PROBLEM_SIZE], digits[64];

	(void)state;
	for (int kind = UNITS_TIME; kind <= UNITS_SHARE; kind++) {
		assert_true(strlen(units_problem((enum units_kind)kind, "?", why)) <
			    UNITS_PROBLEM_SIZE - 1);
		units_problem((enum units_kind)kind, kind == UNITS_RATE ? "1GB" : "1Gb", why);
		assert_true(strlen(why) < UNITS_PROBLEM_SIZE - 1);
	}
	memset(digits, '1', sizeof(digits) - 1);
	digits[sizeof(digits) - 1] = '\0';
	assert_true(strlen(units_problem(UNITS_TIME, digits, why)) < UNITS_PROBLEM_SIZE - 1);
}

static void test_bounds(void **state)
{
	uint64_t value = 7;

	(void)state;
	assert_int_equal(units_read(UNITS_SIZE, "4K", 4096, 8192, &value), 0);
	assert_int_equal(units_read(UNITS_SIZE, "8K", 4096, 8192, &value), 0);
	assert_int_equal(value, 8192);
	assert_int_equal(units_read(UNITS_SIZE, "4095", 4096, 8192, &value), -ERANGE);
	assert_int_equal(units_read(UNITS_SIZE, "8193", 4096, 8192, &value), -ERANGE);
	assert_int_equal(value, 8192);
	assert_int_equal(units_time_ns("1us", &value), 0);
	assert_int_equal(value, 1000);
	assert_int_equal(units_rate_bps("1k", &value), 0);
	assert_int_equal(value, 1000);
	assert_int_equal(units_size_bytes("1k", &value), 0);
	assert_int_equal(value, 1024);
}

static void test_shares(void **state)
{
	static const char *const good[] = { "0.03", "3%", "3 %", "3e-2", "3.0%" };
	static const char *const bad[] = { "",	  "3",	  "1.1", "-1",	"101%", "5%%", "nan",
					   "0x1", "5 %%", "%",	 "1,5", "3% ",	" 3%" };
	char why[UNITS_PROBLEM_SIZE];
	double share = 7;

	(void)state;
	for (unsigned i = 0; i < COUNT(bad); i++) {
		assert_int_equal(units_share(bad[i], &share), -EINVAL);
		assert_non_null(strstr(units_problem(UNITS_SHARE, bad[i], why), "0.03 or 3%"));
	}
	assert_true(share == 7);
	for (unsigned i = 0; i < COUNT(good); i++) {
		assert_int_equal(units_share(good[i], &share), 0);
		assert_true(share == 0.03);
		assert_string_equal(units_problem(UNITS_SHARE, good[i], why), "");
	}
	assert_int_equal(units_share("0", &share), 0);
	assert_int_equal(units_share("1", &share), 0);
	assert_int_equal(units_share("100%", &share), 0);
}

static void test_numbers_without_units(void **state)
{
	uint64_t value = 7;
	double number = 7;

	(void)state;
	assert_int_not_equal(units_count("12a", 0, 99, &value), 0);
	assert_int_not_equal(units_count("100", 0, 99, &value), 0);
	assert_int_not_equal(units_count("4", 5, 99, &value), 0);
	assert_int_not_equal(units_count("-1", 0, UINT64_MAX, &value), 0);
	assert_int_not_equal(units_count("18446744073709551616", 0, UINT64_MAX, &value), 0);
	assert_int_not_equal(units_decimal("1.5x", 0, 9, &number), 0);
	assert_int_not_equal(units_decimal("1 x", 0, 9, &number), 0);
	assert_int_not_equal(units_decimal("9.5", 0, 9, &number), 0);
	assert_int_not_equal(units_decimal("0.5", 1, 9, &number), 0);
	assert_int_equal(value, 7);
	assert_true(number == 7);
	assert_int_equal(units_count("99", 99, 99, &value), 0);
	assert_int_equal(value, 99);
	assert_int_equal(units_decimal("0.5", 0.1, 9, &number), 0);
	assert_true(number == 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_understood),  cmocka_unit_test(test_refused),
		cmocka_unit_test(test_reasons_fit), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_shares),	    cmocka_unit_test(test_numbers_without_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
