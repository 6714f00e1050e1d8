/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's choices, replayed: the GID of a port, the ports of a list, the interface of the bootstrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trees.h"

#define PORT	"/sys/devices/pci0000:00/0000:00:02.0/0000:05:00.0/infiniband/bnxt_re0/ports/1"
#define NOTHING "0000:0000:0000:0000:0000:0000:0000:0000"
#define LINK	"fe80:0000:0000:0000:0a00:00ff:fe00:0005"
#define IPV4_A	"0000:0000:0000:0000:0000:ffff:0a00:0015"
#define IPV4_B	"0000:0000:0000:0000:0000:ffff:0a07:0015"
#define IPV6	"fd00:0000:0000:0000:0000:0000:0000:0015"

struct row {
	const char *gid;
	/* null: reading it fails with EINVAL */
	const char *type;
};

struct case_of_gids {
	const char *environ;
	struct row rows[6];
	unsigned index;
	enum gid_reason reason;
};

static const struct case_of_gids cases[] = {
	/* As most hosts have it. */
	{ "",
	  { { LINK, "IB/RoCE v1" },
	    { LINK, "RoCE v2" },
	    { IPV4_A, "IB/RoCE v1" },
	    { IPV4_A, "RoCE v2" } },
	  3,
	  GID_MATCHED },
	/* v2 before v1 stays. */
	{ "",
	  { { LINK, "IB/RoCE v1" }, { IPV4_A, "RoCE v2" }, { IPV4_A, "IB/RoCE v1" } },
	  1,
	  GID_MATCHED },
	/* Of two good ones the first. */
	{ "",
	  { { LINK, "IB/RoCE v1" }, { IPV4_B, "RoCE v2" }, { IPV4_A, "RoCE v2" } },
	  1,
	  GID_MATCHED },
	/* The first IPv4 is taken whatever its version, and nothing better comes. */
	{ "", { { LINK, "IB/RoCE v1" }, { IPV4_A, "IB/RoCE v1" } }, 1, GID_MATCHED },
	/* No IPv4: index 0 is kept without a word. */
	{ "",
	  { { LINK, "IB/RoCE v1" }, { LINK, "RoCE v2" }, { IPV6, "RoCE v2" } },
	  0,
	  GID_FALLBACK },
	{ "NCCL_IB_ADDR_FAMILY=AF_INET6",
	  { { LINK, "IB/RoCE v1" }, { LINK, "RoCE v2" }, { IPV6, "RoCE v2" } },
	  2,
	  GID_MATCHED },
	{ "NCCL_IB_ADDR_RANGE=10.7.0.0/16",
	  { { LINK, "IB/RoCE v1" }, { IPV4_A, "RoCE v2" }, { IPV4_B, "RoCE v2" } },
	  2,
	  GID_MATCHED },
	{ "NCCL_IB_ADDR_RANGE=10.9.0.0/16",
	  { { LINK, "IB/RoCE v1" }, { IPV4_A, "RoCE v2" }, { IPV4_B, "RoCE v2" } },
	  0,
	  GID_FALLBACK },
	/* A range without a mask, or of the other family, counts as none. */
	{ "NCCL_IB_ADDR_RANGE=10.7.0.0",
	  { { LINK, "IB/RoCE v1" }, { IPV4_A, "RoCE v2" } },
	  1,
	  GID_MATCHED },
	{ "NCCL_IB_ADDR_RANGE=fd00::/8",
	  { { LINK, "IB/RoCE v1" }, { IPV4_A, "RoCE v2" } },
	  1,
	  GID_MATCHED },
	{ "NCCL_IB_ROCE_VERSION_NUM=1",
	  { { LINK, "IB/RoCE v1" }, { IPV4_A, "RoCE v2" }, { IPV4_A, "IB/RoCE v1" } },
	  2,
	  GID_MATCHED },
	/* A pinned index is used, even an empty one. */
	{ "NCCL_IB_GID_INDEX=1",
	  { { LINK, "IB/RoCE v1" }, { LINK, "RoCE v2" }, { IPV4_A, "RoCE v2" } },
	  1,
	  GID_PINNED },
	{ "NCCL_IB_GID_INDEX=5", { { LINK, "IB/RoCE v1" }, { IPV4_A, "RoCE v2" } }, 5, GID_PINNED },
	{ "NCCL_IB_GID_INDEX=-1",
	  { { LINK, "IB/RoCE v1" }, { IPV4_A, "RoCE v2" } },
	  1,
	  GID_MATCHED },
	/* Types of other namespaces cannot be read: the first IPv4 is taken, then one of the wanted version. */
	{ "", { { LINK, NULL }, { IPV4_A, NULL }, { IPV4_B, "RoCE v2" } }, 2, GID_MATCHED },
	{ "", { { LINK, NULL }, { IPV4_A, NULL }, { IPV4_B, NULL } }, 1, GID_MATCHED },
	/* Index 0 may be right itself. */
	{ "", { { IPV4_A, "RoCE v2" }, { LINK, "RoCE v2" } }, 0, GID_MATCHED },
};

static void write_overlay(const struct case_of_gids *c, char *out, size_t size)
{
	size_t at = (size_t)snprintf(out, size, "/.godwit/environ %s\n[" PORT "]\n", c->environ);

	for (unsigned i = 0; i < 5; i++) {
		const struct row *row = &c->rows[i];

		at += (size_t)snprintf(out + at, size - at, "gids/%u %s\ngid_attrs/types/%u %s\n",
				       i, row->gid ? row->gid : NOTHING, i,
				       row->gid && row->type ? row->type : "!EINVAL");
	}
}

static void test_gid_choice(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char overlay[4096];
		struct gid_choice choice;
		struct reader *reader;
		struct model *model;
		struct nccl nccl;

		write_overlay(&cases[i], overlay, sizeof(overlay));
		reader = tree_open("bnxt-re", overlay);
		model = model_load(reader);
		nccl_load(model, &nccl);
		nccl_choose_gid(&nccl, &model->devices[0].ports[0], &choice);
		if (choice.index != cases[i].index || choice.reason != cases[i].reason)
			fail_msg("case %zu: index %u for reason %d, not %u for %d", i, choice.index,
				 choice.reason, cases[i].index, cases[i].reason);
		reader_close(reader);
	}
}

static void test_lists(void **state)
{
	static const struct {
		const char *list;
		const char *name;
		int port;
		bool takes;
	} rows[] = {
		{ NULL, "mlx5_0", 1, true },	    { "mlx5", "mlx5_0", 1, true },
		{ "mlx5_1", "mlx5_10", 1, true },   { "=mlx5_1", "mlx5_10", 1, false },
		{ "=mlx5_1", "mlx5_1", 1, true },   { "^mlx5_1", "mlx5_1", 1, false },
		{ "^mlx5_1", "mlx5_2", 1, true },   { "^=mlx5_1", "mlx5_10", 1, true },
		{ "mlx5_0:2", "mlx5_0", 1, false }, { "mlx5_0:1,mlx5_3", "mlx5_3", 2, true },
		{ "mlx5_0::3", "mlx5_0", 1, true }, { "mlx4", "mlx5_0", 1, false },
		{ ",,mlx5_0", "mlx5_0", -1, true }, { "^", "mlx5_0", 1, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nccl_list list;

		nccl_list_read(rows[i].list, &list);
		if (nccl_list_takes(&list, rows[i].name, rows[i].port) != rows[i].takes)
			fail_msg("%s and %s", rows[i].list, rows[i].name);
	}
}

static void test_order_of_settings(void **state)
{
	struct reader *reader =
		tree_open("irdma", "/.godwit/environ HOME=/home/u\\nNCCL_A=1\n"
				   "/home/u/.nccl.conf # NCCL_A=0\\nNCCL_A=2\\nNCCL_B=2\\n\n"
				   "/etc/nccl.conf NCCL_A=3\\nNCCL_B=3\\nNCCL_C=3\\r\n");
	struct nccl nccl;

	nccl_load(model_load(reader), &nccl);
	assert_int_equal(nccl_number(&nccl, "NCCL_A", 0), 1);
	assert_int_equal(nccl_number(&nccl, "NCCL_B", 0), 2);
	assert_int_equal(nccl_number(&nccl, "NCCL_C", 0), 3);
	assert_int_equal(nccl_number(&nccl, "NCCL_D", 7), 7);
	assert_string_equal(nccl_variable(&nccl, "NCCL_C")->where, "/etc/nccl.conf");
	reader_close(reader);
	/* A file of one's own replaces the one at home, and not the one in /etc. */
	reader = tree_open(
		"irdma",
		"/.godwit/environ HOME=/home/u\\nNCCL_CONF_FILE=/x.conf\n/x.conf NCCL_B=9\n"
		"/home/u/.nccl.conf NCCL_A=2\n/etc/nccl.conf NCCL_C=3\n");
	nccl_load(model_load(reader), &nccl);
	assert_null(nccl_variable(&nccl, "NCCL_A"));
	assert_int_equal(nccl_number(&nccl, "NCCL_B", 0), 9);
	assert_int_equal(nccl_number(&nccl, "NCCL_C", 0), 3);
	reader_close(reader);
}

static void test_bootstrap(void **state)
{
	static const struct {
		const char *environ;
		const char *netdev;
	} rows[] = {
		{ "", "ib0" },
		{ "NCCL_SOCKET_IFNAME=eth", "eth0" },
		{ "NCCL_SOCKET_IFNAME=^docker0", "lo" },
		{ "NCCL_SOCKET_IFNAME=^docker,lo,ib", "eth0" },
		{ "NCCL_SOCKET_IFNAME==eth1", NULL },
		{ "NCCL_SOCKET_FAMILY=AF_INET6", "eth0" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct address *address;
		struct reader *reader;
		struct nccl nccl;
		char overlay[512];
		bool listed;

		snprintf(
			overlay, sizeof(overlay),
			"/.godwit/environ %s\n/.godwit/addresses lo 127.0.0.1/8 up running loopback\\n"
			"lo ::1/128 up running loopback\\ndocker0 172.17.0.1/16 up running\\neth0 10.1.0.1/24 up running\\n"
			"eth0 fd00::1/64 up running\\neth1 10.2.0.1/24 up\\nib0 10.3.0.1/24 up running\n",
			rows[i].environ);
		reader = tree_open("irdma", overlay);
		nccl_load(model_load(reader), &nccl);
		address = nccl_bootstrap(&nccl, &listed);
		if ((address == NULL) != (rows[i].netdev == NULL) ||
		    (address && strcmp(address->netdev, rows[i].netdev) != 0))
			fail_msg("%s: %s", rows[i].environ, address ? address->netdev : "none");
		reader_close(reader);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gid_choice),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_order_of_settings),
		cmocka_unit_test(test_bootstrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
