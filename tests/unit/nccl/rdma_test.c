/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA device that answers for an address, found in a sysfs of our own making. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "plugins/nccl/state.h"

static char root[] = "/tmp/godwit-rdma.XXXXXX";

/* Writes a file under the root, with the directories that it needs. */
static void put(const char *name, const char *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s", root, name);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void gid(const char *port, int index, const char *address, const char *type)
{
	char name[128];

	snprintf(name, sizeof(name), "%s/gids/%d", port, index);
	put(name, address);
	snprintf(name, sizeof(name), "%s/gid_attrs/types/%d", port, index);
	put(name, type);
}

static int make(void **state)
{
	(void)state;
	if (!mkdtemp(root))
		return -1;
	/* Port 1 is down, and would be the one. */
	put("mlx5_7/ports/1/state", "1: DOWN\n");
	gid("mlx5_7/ports/1", 0, "0000:0000:0000:0000:0000:ffff:0a00:0007\n", "RoCE v2\n");
	put("mlx5_7/ports/2/state", "4: ACTIVE\n");
	put("mlx5_7/ports/2/rate", "100 Gb/sec (4X EDR)\n");
	gid("mlx5_7/ports/2", 0, "fe80:0000:0000:0000:0000:0000:0000:0001\n", "RoCE v2\n");
	gid("mlx5_7/ports/2", 1, "0000:0000:0000:0000:0000:ffff:0a00:0007\n", "IB/RoCE v1\n");
	gid("mlx5_7/ports/2", 2, "0000:0000:0000:0000:0000:ffff:0a00:0007\n", "RoCE v2\n");
	gid("mlx5_7/ports/2", 3, "fd00:0000:0000:0000:0000:0000:0000:0009\n", "RoCE v2\n");
	return 0;
}

static int unmake(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void test_found(void **state)
{
	struct device device = { .name = "eth4", .address = "10.0.0.7", .speed = 10, .port = 1 };

	(void)state;
	assert_true(rdma_find(root, &device));
	assert_string_equal(device.name, "mlx5_7");
	assert_string_equal(device.fabric, "verbs:mlx5_7/2@2");
	assert_int_equal(device.port, 2);
	assert_int_equal(device.speed, 100000);
	assert_string_equal(device.address, "10.0.0.7");
	strcpy(device.address, "fd00::9");
	assert_true(rdma_find(root, &device));
	assert_string_equal(device.fabric, "verbs:mlx5_7/2@3");
}

static void test_not_found(void **state)
{
	struct device device = { .name = "eth4", .address = "10.0.0.8", .port = 1 };

	(void)state;
	assert_false(rdma_find(root, &device));
	assert_false(rdma_find("/nonexistent", &device));
	assert_string_equal(device.name, "eth4");
	assert_int_equal(device.port, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_not_found),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
