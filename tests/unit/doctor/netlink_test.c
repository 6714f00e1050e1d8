/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages as the kernel writes them, byte by byte, become the texts that checks read; shorter ones become less. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <libmnl/libmnl.h>
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <rdma/rdma_netlink.h>

#include "doctor/netlink.h"

static _Alignas(8) char buffer[4096];

static void assert_text(void (*text)(const struct nlmsghdr *, struct builder *),
			const struct nlmsghdr *message, const char *expected)
{
	struct builder out = { 0 };

	text(message, &out);
	assert_string_equal(out.text ? out.text : "", expected);
	builder_free(&out);
}

static struct nlmsghdr *begin(size_t header, const void *bytes)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);

	if (header)
		memcpy(mnl_nlmsg_put_extra_header(message, header), bytes, header);
	return message;
}

static void test_dcb(void **state)
{
	const struct dcbmsg header = { .cmd = DCB_CMD_IEEE_GET };
	const struct ieee_pfc pfc = { .pfc_cap = 8, .pfc_en = 8 };
	const struct ieee_ets ets = { .prio_tc = { 0, 1, 2, 3, 4, 5, 6, 7 } };
	const struct dcb_app app = { .selector = 5, .priority = 3, .protocol = 26 };
	struct nlmsghdr *message = begin(sizeof(header), &header);
	struct nlattr *ieee, *table;

	mnl_attr_put_strz(message, DCB_ATTR_IFNAME, "eth0");
	ieee = mnl_attr_nest_start(message, DCB_ATTR_IEEE);
	mnl_attr_put(message, DCB_ATTR_IEEE_ETS, sizeof(ets), &ets);
	mnl_attr_put(message, DCB_ATTR_IEEE_PFC, sizeof(pfc), &pfc);
	table = mnl_attr_nest_start(message, DCB_ATTR_IEEE_APP_TABLE);
	mnl_attr_put(message, DCB_ATTR_IEEE_APP, sizeof(app), &app);
	mnl_attr_nest_end(message, table);
	mnl_attr_nest_end(message, ieee);
	mnl_attr_put_u8(message, DCB_ATTR_DCBX, 5);
	assert_text(netlink_dcb_text, message,
		    "prio_tc 0 1 2 3 4 5 6 7\npfc_cap 8\npfc_en 8\napp 5 26 3\ndcbx 5\n");
	/* A PFC attribute that is too short is not read as zeros. */
	message = begin(sizeof(header), &header);
	ieee = mnl_attr_nest_start(message, DCB_ATTR_IEEE);
	mnl_attr_put(message, DCB_ATTR_IEEE_PFC, 2, &pfc);
	mnl_attr_nest_end(message, ieee);
	assert_text(netlink_dcb_text, message, "");
	message->nlmsg_len = sizeof(*message) + 1;
	assert_text(netlink_dcb_text, message, "");
}

static void test_route(void **state)
{
	const struct rtmsg header = { .rtm_family = AF_INET };
	const uint8_t gateway[] = { 10, 0, 0, 1 };
	struct nlmsghdr *message = begin(sizeof(header), &header);

	mnl_attr_put_u32(message, RTA_OIF, 1);
	mnl_attr_put(message, RTA_GATEWAY, 4, gateway);
	mnl_attr_put(message, RTA_PREFSRC, 2, gateway);
	assert_text(netlink_route_text, message, "dev lo\nvia 10.0.0.1\n");
}

static void test_rdma(void **state)
{
	struct nlmsghdr *message = begin(0, NULL);
	struct nlattr *table, *entry;

	mnl_attr_put_u32(message, RDMA_NLDEV_ATTR_DEV_INDEX, 2);
	mnl_attr_put(message, RDMA_NLDEV_ATTR_DEV_NAME, 6, "mlx\n_0");
	assert_text(netlink_rdma_device_text, message, "device 2 mlx?_0\n");
	message = begin(0, NULL);
	mnl_attr_put_u8(message, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0);
	assert_text(netlink_rdma_system_text, message, "netns exclusive\n");
	message = begin(0, NULL);
	table = mnl_attr_nest_start(message, RDMA_NLDEV_ATTR_RES_QP);
	entry = mnl_attr_nest_start(message, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
	mnl_attr_put_u32(message, RDMA_NLDEV_ATTR_RES_LQPN, 17);
	mnl_attr_put_u8(message, RDMA_NLDEV_ATTR_RES_TYPE, 2);
	mnl_attr_put_u8(message, RDMA_NLDEV_ATTR_RES_STATE, 3);
	mnl_attr_put_u32(message, RDMA_NLDEV_ATTR_RES_PID, 4321);
	mnl_attr_nest_end(message, entry);
	mnl_attr_nest_end(message, table);
	assert_text(netlink_rdma_qp_text, message, "qp 17 type 2 state 3 pid 4321\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dcb),
		cmocka_unit_test(test_route),
		cmocka_unit_test(test_rdma),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
