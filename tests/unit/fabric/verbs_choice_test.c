/* SPDX-License-Identifier: BSD-3-Clause */
/* What the verbs fabric decides before it touches a device: what a name means, which GID, how deep queues are. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <stddef.h>
#include <cmocka.h>

#include "fabric/verbs/gid.h"
#include "fabric/verbs/size.h"
#include "fabric/verbs/verbs.h"

static void names(void **state)
{
	struct verbs_name name;

	(void)state;
	assert_int_equal(verbs_name_parse("mlx5_0", &name), 0);
	assert_string_equal(name.device, "mlx5_0");
	assert_int_equal(name.port, 0);
	assert_int_equal(name.gid_index, -1);
	assert_int_equal(name.lanes, true);
	assert_false(name.ud);
	assert_int_equal(verbs_name_parse("rxe0/2@0,srq,lanes=8,ud", &name), 0);
	assert_string_equal(name.device, "rxe0");
	assert_int_equal(name.port, 2);
	assert_int_equal(name.gid_index, 0);
	assert_int_equal(name.lanes, 8);
	assert_true(name.ud);
	assert_true(name.srq);
	assert_int_equal(verbs_name_parse("rxe0,tc=106,sl=3", &name), 0);
	assert_int_equal(name.traffic_class, 106);
	assert_int_equal(name.service_level, 3);
	assert_int_equal(name.rate_bps, 0);
	assert_int_equal(verbs_name_parse("rxe0,rate=10G,ud", &name), 0);
	assert_int_equal(name.rate_bps, UINT64_C(10000000000));
	assert_true(name.ud);
	assert_int_equal(verbs_name_parse("rxe0,rate=2500M", &name), 0);
	assert_int_equal(name.rate_bps, UINT64_C(2500000000));
	assert_int_equal(verbs_name_parse("rxe0,rate=9K", &name), 0);
	assert_int_equal(name.rate_bps, 9000);
	assert_int_equal(verbs_name_parse("rxe0,rate=123", &name), 0);
	assert_int_equal(name.rate_bps, 123);
	assert_int_equal(verbs_name_parse("rxe0@17", &name), 0);
	assert_int_equal(name.gid_index, 17);
}

static void bad_names(void **state)
{
	static const char *const bad[] = {
		"",
		"/1",
		"@1",
		",ud",
		"rxe0/",
		"rxe0/0",
		"rxe0/256",
		"rxe0/x",
		"rxe0@",
		"rxe0@-1",
		"rxe0@ 1",
		"rxe0@1/1",
		"rxe0,",
		"rxe0,uc",
		"rxe0,udx",
		"rxe0,ud,",
		"rxe0,lanes=",
		"rxe0,lanes=0",
		"rxe0,lanes=9",
		"rxe0@65536",
		"rxe0,tc=256",
		"rxe0,sl=16",
		"rxe0,rate=",
		"rxe0,rate=0",
		"rxe0,rate=G",
		"rxe0,rate=1T",
		"rxe0,rate=1GG",
		"rxe0,rate=10001G",
		"0123456789012345678901234567890123456789012345678901234567890123"
	};
	struct verbs_name name;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (verbs_name_parse(bad[i], &name) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
}

#define IPV4(d)                                                                                    \
	{                                                                                          \
		[10] = 0xff, [11] = 0xff, [12] = 10, [15] = d                                      \
	}

/* As soft-RoCE and NICs list them: link-local first, each as v1 and v2. */
static const struct gid_entry table[] = {
	{ 0, false, { 0xfe, 0x80, [15] = 1 }, "eth0" },
	{ 1, true, { 0xfe, 0x80, [15] = 1 }, "eth0" },
	{ 2, false, IPV4(1), "eth0" },
	{ 3, true, IPV4(1), "eth0" },
	{ 4, true, { 0xfd, 9, [15] = 1 }, "eth0" },
	{ 5, true, { 0x20, 1, [15] = 1 }, "eth0" },
	{ 6, true, { 0 }, "" },
	{ 7, true, IPV4(2), "" },
};

static int choose(size_t first, size_t count, int wanted, char why[160])
{
	return gid_choose(table + first, count, wanted, why, 160);
}

static void reach_decides(void **state)
{
	char why[160];

	(void)state;
	assert_int_equal(choose(0, 8, -1, why), 3);
	assert_string_equal(why, "GID 3 = 10.0.0.1 of eth0 (RoCE v2, IPv4)");
	assert_int_equal(choose(0, 2, -1, why), 1);
	assert_non_null(strstr(why, "link-local"));
	assert_int_equal(choose(4, 2, -1, why), 1);
	assert_string_equal(why, "GID 5 = 2001::1 of eth0 (RoCE v2, global IPv6)");
	assert_int_equal(choose(4, 1, -1, why), 0);
	assert_int_equal(choose(6, 2, -1, why), 1);
	assert_string_equal(why, "GID 7 = 10.0.0.2 (RoCE v2, IPv4)");
}

/* The lowest index, in whatever order they are listed. */
static void equals(void **state)
{
	const struct gid_entry backwards[] = { { 9, true, IPV4(9), "b" },
					       { 4, true, IPV4(4), "a" } };
	char why[160];

	(void)state;
	assert_int_equal(gid_choose(backwards, 2, -1, why, sizeof(why)), 1);
}

static void no_choice(void **state)
{
	char why[160];

	(void)state;
	assert_int_equal(choose(0, 1, -1, why), -ENOENT);
	assert_non_null(strstr(why, "no RoCE v2 GID"));
	assert_int_equal(choose(0, 0, -1, why), -ENOENT);
	assert_int_equal(choose(6, 1, -1, why), -ENOENT);
}

static void as_asked(void **state)
{
	char why[160];

	(void)state;
	assert_int_equal(choose(0, 8, 1, why), 1);
	assert_non_null(strstr(why, "as asked"));
	assert_int_equal(choose(0, 8, 2, why), -ENOENT);
	assert_string_equal(why, "GID 2 is not RoCE v2");
	assert_int_equal(choose(0, 8, 6, why), -ENOENT);
	assert_int_equal(choose(0, 8, 99, why), -ENOENT);
	assert_string_equal(why, "there is no GID 99");
}

/* Every request that can be outstanding has its completion, and one queue pair always fits. */
static void no_overflow(void **state)
{
	static const struct size_limits limits[] = {
		{ 1 << 20, 32767, 1 << 20 }, { 32768, 4194303, 32767 }, { 16384, 16384, 0 },
		{ 4096, 4096, 4096 },	     { 1024, 1024, 1024 },	{ 128, 1 << 20, 128 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct sizes sizes;

		sizes_choose(&limits[i], false, &sizes);
		assert_in_range(sizes.uc_receives, 16, limits[i].max_qp_wr);
		assert_in_range(sizes.ud_receives, 16, sizes.uc_receives);
		assert_in_range(sizes.sends, 16, limits[i].max_qp_wr);
		assert_in_range(sizes.cq, 1, limits[i].max_cqe);
		assert_true(sizes_completions(&sizes, 1, false) <= sizes.cq);
		for (unsigned lanes = 1; lanes <= VERBS_LANES_MAX; lanes++) {
			uint32_t control = sizes.control_receives + sizes.control_sends;

			assert_int_equal(sizes_completions(&sizes, lanes, false),
					 lanes * (sizes.uc_receives + sizes.sends) + control);
			assert_int_equal(sizes_completions(&sizes, lanes, true),
					 lanes * (sizes.ud_receives + sizes.sends) + control);
		}
		assert_int_equal(sizes_common(&sizes), 0);
		if (!limits[i].max_srq_wr)
			continue;
		sizes_choose(&limits[i], true, &sizes);
		assert_in_range(sizes.shared_data, 16, limits[i].max_srq_wr);
		assert_in_range(sizes.shared_control, 16, limits[i].max_srq_wr);
		assert_int_equal(sizes_common(&sizes), sizes.shared_data + sizes.shared_control);
		assert_int_equal(sizes_completions(&sizes, 2, false),
				 2 * sizes.sends + sizes.control_sends);
		assert_true(sizes_completions(&sizes, 1, false) + sizes_common(&sizes) <= sizes.cq);
	}
}

static void path_mtus(void **state)
{
	(void)state;
	assert_int_equal(size_path_mtu(1), 256);
	assert_int_equal(size_path_mtu(256), 256);
	assert_int_equal(size_path_mtu(260), 512);
	assert_int_equal(size_path_mtu(1432), 2048);
	assert_int_equal(size_path_mtu(4096), 4096);
	assert_int_equal(size_path_mtu(4100), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),	 cmocka_unit_test(bad_names),
		cmocka_unit_test(reach_decides), cmocka_unit_test(equals),
		cmocka_unit_test(no_choice),	 cmocka_unit_test(as_asked),
		cmocka_unit_test(no_overflow),	 cmocka_unit_test(path_mtus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
