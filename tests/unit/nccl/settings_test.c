/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's environment variables: what is understood, and one sentence about what is not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "plugins/nccl/settings.h"

static struct settings read_with(const char *name, const char *value, int wanted)
{
	struct settings settings;
	char why[256] = "";

	setenv(name, value, 1);
	assert_int_equal(settings_read(&settings, why, sizeof(why)), wanted);
	unsetenv(name);
	if (wanted) {
		assert_non_null(strstr(why, name));
		assert_null(strchr(why, '\n'));
	}
	return settings;
}

static void test_defaults(void **state)
{
	struct settings settings = read_with("GODWIT_RATE", "", 0);

	(void)state;
	assert_false(settings.parity);
	assert_true(settings.icrc);
	assert_int_equal(settings.lanes, 1);
	assert_int_equal(settings.rate_bps, 0);
	assert_true(settings.threads >= 1 && settings.threads <= 4);
	assert_int_equal(settings.inline_bytes,
			 sysconf(_SC_NPROCESSORS_ONLN) >= 4 ? 4096 : UINT64_MAX);
	assert_int_equal(settings.spin_ns, settings.inline_bytes == 4096 ? 20000 : 0);
	assert_int_equal(settings.timeout_ns, UINT64_C(120000000000));
}

static void test_values(void **state)
{
	(void)state;
	assert_int_equal(read_with("GODWIT_RATE", "10G", 0).rate_bps, UINT64_C(10000000000));
	assert_int_equal(read_with("GODWIT_RATE", "1.5 Gbit", 0).rate_bps, UINT64_C(1500000000));
	assert_int_equal(read_with("GODWIT_TIMEOUT", "2min", 0).timeout_ns, UINT64_C(120000000000));
	assert_int_equal(read_with("GODWIT_TIMEOUT", "30", 0).timeout_ns, UINT64_C(30000000000));
	assert_int_equal(read_with("GODWIT_TIMEOUT", "24h", 0).timeout_ns,
			 UINT64_C(86400000000000));
	assert_int_equal(read_with("GODWIT_SPIN", "50us", 0).spin_ns, 50000);
	assert_true(read_with("GODWIT_FABRIC", "verbs", 0).verbs);
	assert_false(read_with("GODWIT_FABRIC", "roce", 0).verbs);
	assert_int_equal(read_with("GODWIT_THREADS", "2", 0).inline_bytes, 4096);
	assert_int_equal(read_with("GODWIT_INLINE", "16K", 0).inline_bytes, 16384);
	assert_int_equal(read_with("GODWIT_INLINE", "0", 0).inline_bytes, 0);
	setenv("GODWIT_THREADS", "2", 1);
	assert_int_equal(read_with("GODWIT_INLINE", "1M", 0).inline_bytes, 1 << 20);
	unsetenv("GODWIT_THREADS");
	assert_string_equal(read_with("GODWIT_CPUS", "0,2-3", 0).processors, "0,2-3");
	assert_true(read_with("GODWIT_CPUS", "none", 0).anywhere);
	assert_true(read_with("GODWIT_SCHEME", "AUTO", 0).parity);
	assert_false(read_with("GODWIT_ICRC", "off", 0).icrc);
	assert_string_equal(read_with("GODWIT_CONGESTION", "Swift", 0).congestion, "swift");
	assert_string_equal(read_with("GODWIT_IFNAME", "^lo", 0).interfaces, "^lo");
}

static void test_refused(void **state)
{
	static const char *const wrong[][2] = {
		{ "GODWIT_RATE", "10" },
		{ "GODWIT_RATE", "1e99" },
		{ "GODWIT_RATE", "-5G" },
		{ "GODWIT_RATE", "nan" },
		{ "GODWIT_LANES", "1.5" },
		{ "GODWIT_LANES", ""
				  "9" },
		{ "GODWIT_THREADS", "-1" },
		{ "GODWIT_CPUS", "0-" },
		{ "GODWIT_CPUS", "all" },
		{ "GODWIT_TIMEOUT", "5m" },
		{ "GODWIT_TIMEOUT", "0" },
		{ "GODWIT_SCHEME", "s" },
		{ "GODWIT_FABRIC", "sim" },
		{ "GODWIT_SEAL", "on" },
		{ "GODWIT_DROP", "1" },
		{ "GODWIT_DROP", "nan" },
		{ "GODWIT_SPEED", "0" },
		{ "GODWIT_LOG", "2" },
		{ "GODWIT_SECRET_FILE", "/no/such/file" },
		{ "GODWIT_STATISTICS", "/no/such/directory/file.json" },
		{ "GODWIT_INLINE", "-1" },
		{ "GODWIT_INLINE", "2G" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		read_with(wrong[i][0], wrong[i][1], -EINVAL);
}

static void test_misspelt(void **state)
{
	const char *const fine[] = { "GODWIT_THREADS=4", "GODWIT_RANK=3", "HOME=/", "GODWIT_DROP=0",
				     NULL };
	const char *const wrong[] = { "GODWIT_THREADS=4",
				      "GODWIT_"
				      "THREAD=4",
				      "GODWIT_"
				      "X=1",
				      NULL };
	const char *const longer[] = { "GODWIT_THREADS"
				       "_=4",
				       NULL };
	char name[64] = "";

	(void)state;
	assert_false(settings_unknown(fine, name, sizeof(name)));
	assert_true(settings_unknown(wrong, name, sizeof(name)));
	assert_string_equal(name, "GODWIT_"
				  "THREAD");
	assert_true(settings_unknown(longer, name, sizeof(name)));
}

static void test_marks(void **state)
{
	struct settings plain = { .parity = false }, parity = { .parity = true },
			verbs = { .verbs = true };

	(void)state;
	assert_int_not_equal(settings_mark(&plain), settings_mark(&parity));
	assert_string_equal(settings_difference(settings_mark(&plain), settings_mark(&parity)),
			    "GODWIT_SCHEME");
	assert_string_equal(settings_difference(settings_mark(&plain), settings_mark(&verbs)),
			    "GODWIT_FABRIC");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),
		cmocka_unit_test(test_refused),	 cmocka_unit_test(test_misspelt),
		cmocka_unit_test(test_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
