/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of processors, and those near a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "plugins/nccl/processors.h"

static void test_lists(void **state)
{
	static const char *const wrong[] = { "",    ",",    "1,",   "-3",    "3-",
					     "3-1", "1 2",  "0x1",  "1-2-3", "100000",
					     "all", "1,,2", "1\n2", "0-4096" };
	cpu_set_t set;

	(void)state;
	assert_true(processors_read("0", &set));
	assert_int_equal(CPU_COUNT(&set), 1);
	assert_true(processors_read("0-3,8,10-11\n", &set));
	assert_int_equal(CPU_COUNT(&set), 7);
	assert_true(CPU_ISSET(3, &set) && CPU_ISSET(8, &set) && CPU_ISSET(11, &set));
	assert_false(CPU_ISSET(4, &set) || CPU_ISSET(9, &set));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(processors_read(wrong[i], &set));
}

static void write_list(const char *directory, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/local_cpulist", directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_near(void **state)
{
	char root[] = "/tmp/godwit-near.XXXXXX", child[64], command[128];
	cpu_set_t set;

	(void)state;
	assert_non_null(mkdtemp(root));
	snprintf(child, sizeof(child), "%s/virtio0", root);
	assert_int_equal(mkdir(child, 0700), 0);
	assert_false(processors_near("", &set));
	assert_false(processors_near(child, &set));
	write_list(root, "4-7\n");
	assert_true(processors_near(root, &set));
	assert_true(processors_near(child, &set));
	assert_int_equal(CPU_COUNT(&set), 4);
	write_list(child, "5\n");
	assert_true(processors_near(child, &set));
	assert_true(CPU_COUNT(&set) == 1 && CPU_ISSET(5, &set));
	snprintf(command, sizeof(command), "rm -rf %s", root);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
