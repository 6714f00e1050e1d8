/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses with and without a port. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/address.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_split(void **state)
{
	static const struct {
		const char *text;
		const char *host;
		uint16_t port;
	} cases[] = {
		{ "host", "host", 0 },
		{ "host:1", "host", 1 },
		{ "host.example:65535", "host.example", 65535 },
		{ "192.0.2.1", "192.0.2.1", 0 },
		{ "192.0.2.1:5000", "192.0.2.1", 5000 },
		{ "::1", "::1", 0 },
		{ "::", "::", 0 },
		{ "2001:db8::1:4791", "2001:db8::1:4791", 0 },
		{ "fe80::1%eth0", "fe80::1%eth0", 0 },
		{ "[::1]", "::1", 0 },
		{ "[::1]:5000", "::1", 5000 },
		{ "[fe80::1%eth0]:5000", "fe80::1%eth0", 5000 },
		{ "[192.0.2.1]:5000", "192.0.2.1", 5000 },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		char text[64], *host = NULL;
		uint16_t port = 7;

		snprintf(text, sizeof(text), "%s", cases[i].text);
		assert_int_equal(address_split(text, &host, &port), 0);
		assert_string_equal(host, cases[i].host);
		assert_int_equal(port, cases[i].port);
	}
}

/* The text stays as it was, to be quoted. */
static void test_refused(void **state)
{
	static const struct {
		const char *text;
		int error;
	} cases[] = {
		{ ":5000", -EINVAL },	    { "[]", -EINVAL },	      { "[]:5000", -EINVAL },
		{ "[::1", -EINVAL },	    { "[::1]5000", -EINVAL }, { "[::1]x:5000", -EINVAL },
		{ "host:", -ERANGE },	    { "host:0", -ERANGE },    { "host:65536", -ERANGE },
		{ "host:-1", -ERANGE },	    { "host:http", -ERANGE }, { "host:/file", -ERANGE },
		{ "[::1]:", -ERANGE },	    { "[::1]:x", -ERANGE },   { "host: 80", -ERANGE },
		{ "[::1]:5000x", -ERANGE },
	};

	(void)state;
	for (unsigned i = 0; i < COUNT(cases); i++) {
		char text[64], *host = NULL;
		uint16_t port = 7;

		snprintf(text, sizeof(text), "%s", cases[i].text);
		assert_int_equal(address_split(text, &host, &port), cases[i].error);
		assert_string_equal(text, cases[i].text);
		assert_null(host);
		assert_int_equal(port, 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
