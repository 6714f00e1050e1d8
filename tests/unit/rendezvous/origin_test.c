/* SPDX-License-Identifier: BSD-3-Clause */
/* Networks that may connect, and which addresses count as one. */
#include "rendezvous/origin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

static struct in6_addr address(const char *text)
{
	struct sockaddr_storage from = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&from;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&from;

	from.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	assert_int_equal(inet_pton(from.ss_family, text,
				   from.ss_family == AF_INET ? (void *)&in->sin_addr
							     : (void *)&in6->sin6_addr),
			 1);
	return origin_address(&from);
}

static bool allows(const char *networks, const char *from)
{
	struct in6_addr in6 = address(from);
	struct origin_filter filter;

	assert_int_equal(origin_filter_read(networks, &filter), 0);
	return origin_filter_allows(&filter, &in6);
}

static void networks(void **state)
{
	static const struct {
		const char *networks;
		const char *in;
		const char *out;
	} cases[] = {
		{ "10.1.2.3", "10.1.2.3", "10.1.2.2" },
		{ "10.1.2.3/32", "10.1.2.3", "10.1.2.2" },
		{ "10.0.0.0/8", "10.255.0.1", "11.0.0.1" },
		/* Bits behind the length do not count. */
		{ "10.1.2.3/9", "10.127.0.1", "10.128.0.1" },
		{ "10.1.2.3", "::ffff:10.1.2.3", "::10.1.2.3" },
		{ "fd00::/8", "fd12::1", "fe80::1" },
		{ "fd00::1", "fd00::1", "fd00::2" },
		{ "2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1" },
		/* All of IPv4 is not all of IPv6. */
		{ "0.0.0.0/0", "192.0.2.1", "2001:db8::1" },
		{ "10.0.0.1,10.0.0.2,fd00::/16", "fd00::9", "10.0.0.3" },
		{ "10.0.0.1,10.0.0.2,fd00::/16", "10.0.0.2", "fd01::9" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(allows(cases[i].networks, cases[i].in));
		assert_false(allows(cases[i].networks, cases[i].out));
	}
	assert_true(allows("::/0", "10.1.1.1"));
	assert_true(allows(NULL, "10.1.1.1"));
}

static void not_networks(void **state)
{
	static const char *const wrong[] = {
		"",
		",",
		"10.0.0.1,",
		"host",
		"10.0.0",
		"10.0.0.1/",
		"10.0.0.1/33",
		"10.0.0.1/-1",
		"10.0.0.1/x",
		"fd00::/129",
		"fd00::/8/8",
		"10.0.0.1 ",
		"10.0.0.1/ 8",
		"10.0.0.1/+8",
		"[fd00::1]",
		"fd00::1%lo",
		"/8",
		"1,2,3,4,5,6",
		"10.0.0.1/99999999999999999999",
		"1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111/128",
	};
	char many[ORIGIN_NETWORKS * 9 + 9] = "";
	struct origin_filter filter;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(origin_filter_read(wrong[i], &filter), -EINVAL);
	for (unsigned i = 0; i < ORIGIN_NETWORKS; i++)
		strcat(many, i ? ",10.0.0.1" : "10.0.0.1");
	assert_int_equal(origin_filter_read(many, &filter), 0);
	assert_int_equal(filter.count, ORIGIN_NETWORKS);
	strcat(many, ",10.0.0.1");
	assert_int_equal(origin_filter_read(many, &filter), -EINVAL);
}

static void check_same(const char *one, const char *other, bool same)
{
	struct in6_addr first = address(one), second = address(other);

	first = origin_key(&first);
	second = origin_key(&second);
	assert_int_equal(memcmp(&first, &second, sizeof(first)) == 0, same);
}

static void keys(void **state)
{
	(void)state;
	check_same("10.0.0.1", "::ffff:10.0.0.1", true);
	check_same("10.0.0.1", "10.0.0.2", false);
	check_same("2001:db8::1", "2001:db8::ffff:1", true);
	check_same("2001:db8::1", "2001:db8:0:1::1", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(networks),
		cmocka_unit_test(not_networks),
		cmocka_unit_test(keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
