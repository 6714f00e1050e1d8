/* SPDX-License-Identifier: BSD-3-Clause */
/* Which fabric strings open, which do not, and why. */
#include "../message/pair.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/open.h"
#include "fabric/refuse.h"
#include "fabric/roce/endpoint.h"

/* Whatever fails gives a reason. */
static int try_open(const char *name)
{
	struct fabric *fabric = NULL;
	int error;

	open_refuse(LOG_LEVEL_DEBUG, 0, "%s", "");
	error = fabric_open(name, NULL, &fabric);
	if (!error)
		fabric->ops->close(fabric);
	else
		assert_null(fabric);
	assert_int_equal(error != 0, open_refusal()[0] != '\0');
	return error;
}

static void bad_names(void **state)
{
	static const char *const bad[] = {
		"",
		"roce",
		"roce:",
		"roce:@",
		"roce:@0",
		"rocky:127.0.0.1",
		"127.0.0.1",
		"roce:localhost",
		"roce:localhost@0",
		"roce:127.0.0.1@",
		"roce:127.0.0.1@x",
		"roce:127.0.0.1@65536",
		"roce:127.0.0.1@99999999999999999999999",
		"roce:127.0.0.1@-1",
		"roce:127.0.0.1@0x0",
		"roce:127.0.0.1@0 ",
		"roce:127.0.0.1@0@0",
		"roce:127.0.0.1:0",
		"roce:127.0.0.256@0",
		"roce: 127.0.0.1@0",
		"roce:[::1]@0",
		"roce:::1::@0",
		/* The ICRC covers the source address: it has to be one. */
		"roce:0.0.0.0@0",
		"roce:::@0",
		"roce:1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee:ffff:0000@0",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (try_open(bad[i]) != -EINVAL)
			fail_msg("\"%s\" gives %d", bad[i], try_open(bad[i]));
	assert_int_equal(try_open(NULL), -EINVAL);
}

/* A port is digits: strtoul() alone would also take a sign, and -18446744073709551615 as 1. */
static void ports_with_a_sign(void **state)
{
	static const char *const bad[] = { "roce:127.0.0.1@+0", "roce:127.0.0.1@-0",
					   "roce:127.0.0.1@ 0",
					   "roce:127.0.0.1@-18446744073709531615" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (try_open(bad[i]) != -EINVAL)
			fail_msg("\"%s\" gives %d", bad[i], try_open(bad[i]));
}

static void not_ours(void **state)
{
	(void)state;
	/* Addresses kept for documentation. */
	assert_int_equal(try_open("roce:192.0.2.77@0"), -EADDRNOTAVAIL);
	assert_int_equal(try_open("roce:192.0.2.77"), -EADDRNOTAVAIL);
	assert_int_equal(try_open("roce:2001:db8::77@0"), -EADDRNOTAVAIL);
}

/* A socket binds to these too, but no packet can come from them. */
static void not_a_host(void **state)
{
	(void)state;
	assert_int_equal(try_open("roce:224.0.0.1@0"), -EADDRNOTAVAIL);
	assert_int_equal(try_open("roce:255.255.255.255@0"), -EADDRNOTAVAIL);
	assert_int_equal(try_open("roce:ff02::1@0"), -EADDRNOTAVAIL);
}

static void assert_open(const char *name, int family, uint16_t port)
{
	struct fabric *fabric;
	struct roce_endpoint *endpoint;

	assert_int_equal(fabric_open(name, NULL, &fabric), 0);
	endpoint = endpoint_of(fabric);
	assert_int_equal(endpoint->local.any.sa_family, family);
	if (port)
		assert_int_equal(address_port(&endpoint->local), port);
	else
		assert_int_not_equal(address_port(&endpoint->local), 0);
	assert_string_equal(fabric->ops->name, "roce");
	assert_true(fabric->caps.max_payload >= 1024 &&
		    fabric->caps.max_payload <= ROCE_MAX_PAYLOAD &&
		    fabric->caps.max_payload % 4 == 0);
	assert_true(fabric->caps.max_control >= 256);
	assert_true(fabric->caps.buffer >= UINT64_C(16) * fabric->caps.max_payload);
	assert_true(fabric->caps.buffer_most >= fabric->caps.buffer);
	assert_true(fabric->caps.copies);
	assert_true(fabric->caps.wake_ns > 0);
	fabric->ops->close(fabric);
}

static void good_names(void **state)
{
	(void)state;
	assert_open("roce:127.0.0.1@0", AF_INET, 0);
	assert_open("roce:127.0.0.77@0", AF_INET, 0);
	assert_open("roce:::1@0", AF_INET6, 0);
	if (try_open("roce:127.0.0.77") == -EADDRINUSE)
		return; /* a NIC or the kernel's soft-RoCE has the port */
	assert_open("roce:127.0.0.77", AF_INET, ROCE_PORT);
	assert_open("roce:127.0.0.77@4791", AF_INET, ROCE_PORT);
}

/* Numbers and keys are as good as the system's entropy: none repeats, none is one with a meaning of its own. */
static void numbers(void **state)
{
	enum { QPS = 2000 };
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct fabric_qp *qps[QPS];
	struct fabric *fabric;

	(void)state;
	assert_int_equal(fabric_open("roce:127.0.0.1@0", NULL, &fabric), 0);
	for (unsigned i = 0; i < QPS; i++) {
		assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qps[i]), 0);
		assert_true(roce_qp(qps[i])->qpn >= 16 && roce_qp(qps[i])->qpn < ROCE_QPN_MASK);
		assert_int_equal(roce_qp(qps[i])->qkey >> 31, 0);
	}
	/* Every third goes; the others are still found. */
	for (unsigned i = 0; i < QPS; i += 3) {
		uint32_t qpn = roce_qp(qps[i])->qpn;

		fabric->ops->qp_destroy(qps[i]);
		assert_null(qp_lookup(endpoint_of(fabric), qpn));
	}
	for (unsigned i = 0; i < QPS; i++)
		if (i % 3)
			assert_ptr_equal(qp_lookup(endpoint_of(fabric), roce_qp(qps[i])->qpn),
					 roce_qp(qps[i]));
	for (unsigned i = 0; i < QPS; i++)
		if (i % 3)
			fabric->ops->qp_destroy(qps[i]);
	fabric->ops->close(fabric);
}

/* The table is small, so that runs of entries often go on at its beginning: whichever goes, the others are found. */
static void found_around_the_end_of_the_table(void **state)
{
	enum { QPS = 31, ROUNDS = 200 };
	struct fabric_qp_attr attr = { .split = { 10, 18, 4 }, .slots = 1 };
	struct fabric_qp *qps[QPS];
	struct fabric *fabric;

	(void)state;
	assert_int_equal(fabric_open("roce:127.0.0.1@0", NULL, &fabric), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < QPS; i++)
			assert_int_equal(fabric->ops->qp_create(fabric, &attr, &qps[i]), 0);
		for (unsigned gone = 0; gone < QPS; gone++) {
			fabric->ops->qp_destroy(qps[gone]);
			for (unsigned i = gone + 1; i < QPS; i++)
				assert_ptr_equal(
					qp_lookup(endpoint_of(fabric), roce_qp(qps[i])->qpn),
					roce_qp(qps[i]));
		}
	}
	assert_int_equal(endpoint_of(fabric)->table_mask, 63);
	fabric->ops->close(fabric);
}

/* The reason names what is wrong. */
static void says_why(void **state)
{
	static const struct gw_faults too_often = { .drop = 1.5 };
	static const struct {
		struct gw_context_attr attr;
		const char *why;
	} cases[] = {
		{ { .fabric = NULL }, "no fabric" },
		{ { .fabric = "roce:127.0.0.1@0", .flags = 0x80 }, "0x80" },
		{ { .fabric = "roce:127.0.0.1@0", .lanes = 9 }, "9 lanes" },
		{ { .fabric = "roce:127.0.0.1@0", .traffic_class = 1 }, "ECN" },
		{ { .fabric = "roce:127.0.0.1@0", .faults = &too_often }, "between 0 and 1" },
		{ { .fabric = "roce:127.0.0.1@0", .max_qps = UINT32_MAX }, "too large" },
		{ { .fabric = "rocky:127.0.0.1" }, "unknown fabric \"rocky:" },
		{ { .fabric = "roce:nobody" },
		  "roce:nobody: not one numeric address or interface" },
		{ { .fabric = "roce:nobody0@0" },
		  "roce:nobody0@0: not one numeric address or interface" },
		{ { .fabric = "roce:fe80::1@0" }, "needs its interface, such as fe80::1%eth0" },
		{ { .fabric = "verbs:nobody0" }, "verbs:nobody0: " },
		{ { .fabric = "roce:192.0.2.77@0" }, "192.0.2.77@0: cannot bind" },
		{ { .fabric = "roce:224.0.0.1@0" }, "multicast" },
	};
	struct gw_context *ctx;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_refuse(LOG_LEVEL_DEBUG, 0, "%s", "");
		assert_true(gw_context_open(&cases[i].attr, &ctx) < 0);
		if (!strstr(gw_context_error(NULL), cases[i].why))
			fail_msg("\"%s\" does not speak of \"%s\"", gw_context_error(NULL),
				 cases[i].why);
	}
}

/* A port that another program holds, and one that takes a privilege. */
static void says_why_no_port(void **state)
{
	struct sockaddr_in local = { .sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(local);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct gw_context_attr attr = { 0 };
	struct gw_context *ctx;
	char fabric[64];
	int rc;

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&local, length), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &length), 0);
	snprintf(fabric, sizeof(fabric), "roce:127.0.0.1@%u", ntohs(local.sin_port));
	attr.fabric = fabric;
	assert_int_equal(gw_context_open(&attr, &ctx), -EADDRINUSE);
	assert_non_null(strstr(gw_context_error(NULL), "a program that does not share it"));
	assert_non_null(strstr(gw_context_error(NULL), fabric));
	close(fd);
	attr.fabric = "roce:127.0.0.1@7";
	rc = gw_context_open(&attr, &ctx);
	if (rc == 0) /* root may */
		gw_context_close(ctx);
	else if (rc == -EACCES)
		assert_non_null(strstr(gw_context_error(NULL), "ports below 1024"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_names),
		cmocka_unit_test(ports_with_a_sign),
		cmocka_unit_test(not_ours),
		cmocka_unit_test(not_a_host),
		cmocka_unit_test(good_names),
		cmocka_unit_test(numbers),
		cmocka_unit_test(found_around_the_end_of_the_table),
		cmocka_unit_test(says_why),
		cmocka_unit_test(says_why_no_port),
	};

	gw_log_set(GW_LOG_ERROR, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
