/* SPDX-License-Identifier: BSD-3-Clause */
/* The level is the one that the kernel's list of the processor's features allows, and stays the same. */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

/* The line of features, with a space after the last; NULL where there is none. */
static char *features(void)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char *line = NULL, *found = NULL;
	size_t size = 0;

	while (file && !found && getline(&line, &size, file) > 0) {
		if (strncmp(line, "flags", 5) == 0) {
			line[strcspn(line, "\n")] = ' ';
			found = line;
			line = NULL;
		}
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

static void test_level_is_what_the_kernel_lists(void **state)
{
	char *flags = features();

	(void)state;
	if (!flags) {
		assert_int_equal(cpu_level(), CPU_PLAIN);
		return;
	}
	if (!strstr(flags, " avx2 ") || !strstr(flags, " fma ") || !strstr(flags, " f16c "))
		assert_int_equal(cpu_level(), CPU_PLAIN);
	else if (!strstr(flags, " avx512f ") || !strstr(flags, " avx512bw "))
		assert_int_equal(cpu_level(), CPU_AVX2);
	else
		assert_int_equal(cpu_level(), CPU_AVX512);
	free(flags);
}

static void test_level_stays(void **state)
{
	enum cpu_level level = cpu_level();

	(void)state;
	assert_in_range(level, CPU_PLAIN, CPU_LEVELS - 1);
	for (int i = 0; i < 10; i++)
		assert_int_equal(cpu_level(), level);
	assert_string_equal(cpu_level_name(CPU_PLAIN), "plain");
	assert_string_equal(cpu_level_name(CPU_AVX512), "AVX-512");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_level_is_what_the_kernel_lists),
		cmocka_unit_test(test_level_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
