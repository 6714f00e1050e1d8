/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * netlink.h: the kernel's answers as texts, one function for each kind of answer. They read no more than the message, which
 * may be anything: a capture is text, but these are fuzzed with bytes. Only in a build with libmnl.
 */
#ifndef DOCTOR_NETLINK_H
#define DOCTOR_NETLINK_H

#include <linux/netlink.h>

#include "scratch.h"

/* DCB_CMD_IEEE_GET and DCB_CMD_GDCBX: "pfc_en 8", "prio_tc 0 1 2 ...", "app SELECTOR PROTOCOL PRIORITY", "dcbx 1". */
void netlink_dcb_text(const struct nlmsghdr *message, struct builder *out);

/* RTM_GETROUTE, one answer: "dev eth0", "src 10.0.0.1", "via 10.0.0.254". */
void netlink_route_text(const struct nlmsghdr *message, struct builder *out);

/* RTM_GETRULE, one of a dump: "rule from 10.0.0.1/32 table 100". */
void netlink_rule_text(const struct nlmsghdr *message, struct builder *out);

/* RDMA_NLDEV_CMD_SYS_GET: "netns shared". */
void netlink_rdma_system_text(const struct nlmsghdr *message, struct builder *out);

/* RDMA_NLDEV_CMD_GET, one of a dump: "device INDEX NAME". */
void netlink_rdma_device_text(const struct nlmsghdr *message, struct builder *out);

/* RDMA_NLDEV_CMD_RES_QP_GET, one of a dump: "qp NUMBER type TYPE state STATE pid PID". */
void netlink_rdma_qp_text(const struct nlmsghdr *message, struct builder *out);

#endif
