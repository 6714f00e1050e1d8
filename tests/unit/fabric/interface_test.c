/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces by name, and RDMA devices that take a port for themselves, read from a tree that stands for sysfs. */
#include "../message/pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fabric/open.h"
#include "fabric/roce/interface.h"

static char root[] = "/tmp/godwit-sysfs-XXXXXX";

static void make(const char *format, const char *name, int index, const char *content)
{
	char path[256], command[300];
	FILE *file;

	snprintf(path, sizeof(path), format, root, name, index);
	snprintf(command, sizeof(command), "mkdir -p $(dirname %s)", path);
	assert_int_equal(system(command), 0);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", content);
	fclose(file);
}

static void entry(const char *device, int index, const char *gid, const char *type)
{
	make("%s/class/infiniband/%s/ports/1/gids/%d", device, index, gid);
	if (type)
		make("%s/class/infiniband/%s/ports/1/gid_attrs/types/%d", device, index, type);
}

static int set_up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(root));
	entry("mlx5_0", 0, "fe80:0000:0000:0000:0000:00ff:fe00:0001", "IB/RoCE v1");
	entry("mlx5_0", 1, "0000:0000:0000:0000:0000:ffff:c000:0205", "IB/RoCE v1");
	entry("mlx5_0", 2, "0000:0000:0000:0000:0000:0000:0000:0000", NULL);
	entry("mlx5_1", 0, "0000:0000:0000:0000:0000:ffff:c000:0206", "RoCE v2");
	make("%s/class/net/%s/speed", "eth0", 0, "25000");
	make("%s/class/net/%s/speed", "tap0", 0, "-1");
	entry("mlx5_1", 1, "2001:0db8:0000:0000:0000:0000:0000:0007", "RoCE v2");
	return 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

static void rates(void **state)
{
	(void)state;
	assert_int_equal(interface_rate_bps(root, "eth0"), UINT64_C(25000000000));
	assert_int_equal(interface_rate_bps(root, "tap0"), 0);
	assert_int_equal(interface_rate_bps(root, "eth1"), 0);
}

static void owners(void **state)
{
	char device[64] = "";

	(void)state;
	assert_true(interface_owner(root, "192.0.2.6", device, sizeof(device)));
	assert_string_equal(device, "mlx5_1");
	assert_true(interface_owner(root, "2001:db8::7", device, sizeof(device)));
	assert_true(interface_owner(root, "192.0.2.6@4791", device, sizeof(device)));
	/* Listed as RoCE v1 only: that is not UDP. */
	assert_false(interface_owner(root, "192.0.2.5", device, sizeof(device)));
	assert_false(interface_owner(root, "192.0.2.7", device, sizeof(device)));
	assert_false(interface_owner(root, "::", device, sizeof(device)));
	assert_false(interface_owner(root, "nonsense", device, sizeof(device)));
	assert_false(interface_owner("/nonexistent", "192.0.2.6", device, sizeof(device)));
}

static void by_name(void **state)
{
	char address[INTERFACE_ADDRESS_MAX];
	struct fabric *fabric;

	(void)state;
	assert_int_equal(interface_address("nosuch0", address), -ENODEV);
	assert_int_equal(interface_address("lo", address), 0);
	assert_string_equal(address, "127.0.0.1");
	assert_int_equal(interface_resolve("lo@99", address), 0);
	assert_string_equal(address, "127.0.0.1@99");
	assert_int_equal(interface_resolve("192.0.2.1@99", address), 0);
	assert_string_equal(address, "192.0.2.1@99");
	assert_int_equal(fabric_open("roce:lo@0", NULL, &fabric), 0);
	fabric->ops->close(fabric);
	assert_int_equal(fabric_open("roce:nosuch0@0", NULL, &fabric), -EINVAL);
}

/* What is not to be had says so, with its own errno. */
static void others(void **state)
{
	struct fabric_faults faults = { .drop = 0.1 };
	struct fabric_options options = { .faults = &faults };
	struct fabric *fabric;
	int error;

	(void)state;
	/* Without libibverbs any name is -ENOTSUP. */
	error = fabric_open("verbs:", NULL, &fabric);
	assert_true(error == -EINVAL || error == -ENOTSUP);
	error = fabric_open("verbs:nosuch0", NULL, &fabric);
	assert_true(error == -ENODEV || error == -ENOTSUP);
	assert_int_equal(fabric_open("verbs:nosuch0", &options, &fabric), -ENOTSUP);
	/* Faults are user space's: `auto` goes there, if this host has an address at all. */
	error = fabric_open("auto", &options, &fabric);
	if (!error) {
		assert_string_equal(fabric->ops->name, "roce");
		fabric->ops->close(fabric);
	} else {
		assert_true(error == -EADDRNOTAVAIL || error == -EADDRINUSE);
	}
}

static void swallow(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners),
		cmocka_unit_test(rates),
		cmocka_unit_test(by_name),
		cmocka_unit_test(others),
	};

	gw_log_set(GW_LOG_ERROR, swallow, NULL);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
