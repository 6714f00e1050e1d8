/* SPDX-License-Identifier: BSD-3-Clause */
/* An attribute counts only if it is as long as its kind has to be. */
#include "netlink.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/dcbnl.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <stdint.h>
#include <string.h>

/* libmnl's loops over attributes pass a difference of pointers where they want an int. */
#pragma GCC diagnostic ignored "-Wconversion"

/* Returns whether the message has a fixed header of this size, and what follows can be parsed. */
static bool has_header(const struct nlmsghdr *message, size_t size)
{
	return mnl_nlmsg_get_payload_len(message) >= size;
}

static bool is_long(const struct nlattr *attr, size_t size)
{
	return mnl_attr_get_payload_len(attr) >= size;
}

static void ieee_text(const struct nlattr *nest, struct builder *out)
{
	const struct nlattr *attr, *entry;

	mnl_attr_for_each_nested (attr, nest) {
		unsigned type = mnl_attr_get_type(attr);

		if (type == DCB_ATTR_IEEE_PFC && is_long(attr, sizeof(struct ieee_pfc))) {
			struct ieee_pfc pfc;

			memcpy(&pfc, mnl_attr_get_payload(attr), sizeof(pfc));
			builder_print(out, "pfc_cap %u\npfc_en %u\n", pfc.pfc_cap, pfc.pfc_en);
		} else if (type == DCB_ATTR_IEEE_ETS && is_long(attr, sizeof(struct ieee_ets))) {
			struct ieee_ets ets;

			memcpy(&ets, mnl_attr_get_payload(attr), sizeof(ets));
			builder_print(out, "prio_tc");
			for (unsigned i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
				builder_print(out, " %u", ets.prio_tc[i]);
			builder_print(out, "\n");
		} else if (type == DCB_ATTR_IEEE_APP_TABLE) {
			mnl_attr_for_each_nested (entry, attr) {
				struct dcb_app app;

				if (!is_long(entry, sizeof(app)))
					continue;
				memcpy(&app, mnl_attr_get_payload(entry), sizeof(app));
				builder_print(out, "app %u %u %u\n", app.selector, app.protocol,
					      app.priority);
			}
		}
	}
}

void netlink_dcb_text(const struct nlmsghdr *message, struct builder *out)
{
	const struct nlattr *attr;

	if (!has_header(message, sizeof(struct dcbmsg)))
		return;
	mnl_attr_for_each (attr, message, sizeof(struct dcbmsg)) {
		unsigned type = mnl_attr_get_type(attr);

		if (type == DCB_ATTR_IEEE)
			ieee_text(attr, out);
		else if (type == DCB_ATTR_DCBX && is_long(attr, 1))
			builder_print(out, "dcbx %u\n", mnl_attr_get_u8(attr));
	}
}

static void address_text(int family, const struct nlattr *attr, const char *name,
			 struct builder *out)
{
	char text[INET6_ADDRSTRLEN];

	if (is_long(attr, family == AF_INET ? 4 : 16) &&
	    inet_ntop(family, mnl_attr_get_payload(attr), text, sizeof(text)))
		builder_print(out, "%s %s\n", name, text);
}

void netlink_route_text(const struct nlmsghdr *message, struct builder *out)
{
	const struct nlattr *attr;
	const struct rtmsg *route;

	if (!has_header(message, sizeof(*route)))
		return;
	route = mnl_nlmsg_get_payload(message);
	if (route->rtm_family != AF_INET && route->rtm_family != AF_INET6)
		return;
	mnl_attr_for_each (attr, message, sizeof(*route)) {
		unsigned type = mnl_attr_get_type(attr);
		char name[IF_NAMESIZE];

		if (type == RTA_OIF && is_long(attr, 4) &&
		    if_indextoname(mnl_attr_get_u32(attr), name))
			builder_print(out, "dev %s\n", name);
		else if (type == RTA_PREFSRC)
			address_text(route->rtm_family, attr, "src", out);
		else if (type == RTA_GATEWAY)
			address_text(route->rtm_family, attr, "via", out);
	}
}

void netlink_rule_text(const struct nlmsghdr *message, struct builder *out)
{
	const struct fib_rule_hdr *rule;
	const struct nlattr *attr;
	char from[INET6_ADDRSTRLEN] = "all";
	uint32_t table;

	if (!has_header(message, sizeof(*rule)))
		return;
	rule = mnl_nlmsg_get_payload(message);
	if (rule->family != AF_INET)
		return;
	table = rule->table;
	mnl_attr_for_each (attr, message, sizeof(*rule)) {
		if (mnl_attr_get_type(attr) == FRA_TABLE && is_long(attr, 4))
			table = mnl_attr_get_u32(attr);
		else if (mnl_attr_get_type(attr) == FRA_SRC && is_long(attr, 4))
			inet_ntop(AF_INET, mnl_attr_get_payload(attr), from, sizeof(from));
	}
	builder_print(out, "rule from %s/%u table %u\n", from, rule->src_len, table);
}

void netlink_rdma_system_text(const struct nlmsghdr *message, struct builder *out)
{
	const struct nlattr *attr;

	mnl_attr_for_each (attr, message, 0) {
		if (mnl_attr_get_type(attr) == RDMA_NLDEV_SYS_ATTR_NETNS_MODE && is_long(attr, 1))
			builder_print(out, "netns %s\n",
				      mnl_attr_get_u8(attr) ? "shared" : "exclusive");
	}
}

/* A name in an attribute, which may lack its zero byte. */
static void copy_name(const struct nlattr *attr, char name[64])
{
	size_t length = strnlen(mnl_attr_get_payload(attr), mnl_attr_get_payload_len(attr));

	if (length > 63)
		length = 63;
	memcpy(name, mnl_attr_get_payload(attr), length);
	name[length] = '\0';
	/* One line stays one line. */
	for (char *c = name; *c; c++) {
		if (*c <= ' ' || *c > '~')
			*c = '?';
	}
}

void netlink_rdma_device_text(const struct nlmsghdr *message, struct builder *out)
{
	const struct nlattr *attr;
	char name[64] = "";
	uint32_t index = UINT32_MAX;

	mnl_attr_for_each (attr, message, 0) {
		if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_DEV_INDEX && is_long(attr, 4))
			index = mnl_attr_get_u32(attr);
		else if (mnl_attr_get_type(attr) == RDMA_NLDEV_ATTR_DEV_NAME)
			copy_name(attr, name);
	}
	if (index != UINT32_MAX && name[0])
		builder_print(out, "device %u %s\n", index, name);
}

static void qp_text(const struct nlattr *entry, struct builder *out)
{
	uint32_t number = 0, pid = 0;
	uint8_t type = 0, state = 0;
	const struct nlattr *attr;

	mnl_attr_for_each_nested (attr, entry) {
		unsigned kind = mnl_attr_get_type(attr);

		if (kind == RDMA_NLDEV_ATTR_RES_LQPN && is_long(attr, 4))
			number = mnl_attr_get_u32(attr);
		else if (kind == RDMA_NLDEV_ATTR_RES_PID && is_long(attr, 4))
			pid = mnl_attr_get_u32(attr);
		else if (kind == RDMA_NLDEV_ATTR_RES_TYPE && is_long(attr, 1))
			type = mnl_attr_get_u8(attr);
		else if (kind == RDMA_NLDEV_ATTR_RES_STATE && is_long(attr, 1))
			state = mnl_attr_get_u8(attr);
	}
	builder_print(out, "qp %u type %u state %u pid %u\n", number, type, state, pid);
}

void netlink_rdma_qp_text(const struct nlmsghdr *message, struct builder *out)
{
	const struct nlattr *attr, *entry;

	mnl_attr_for_each (attr, message, 0) {
		if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_QP)
			continue;
		mnl_attr_for_each_nested (entry, attr) {
			qp_text(entry, out);
		}
	}
}
