/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the kernel over netlink: data center bridging and routes of NETLINK_ROUTE, devices and queue pairs of NETLINK_RDMA.
 * Every question here is allowed to every user, and none changes anything.
 */
#include "netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/dcbnl.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "probe.h"

#define BUFFER	      16384
#define ANSWER_WAIT_S 2

typedef void text_fn(const struct nlmsghdr *message, struct builder *out);

struct answer {
	text_fn *text;
	struct builder *out;
	bool dump;
};

static int on_message(const struct nlmsghdr *message, void *arg)
{
	struct answer *answer = arg;

	answer->text(message, answer->out);
	return answer->dump ? MNL_CB_OK : MNL_CB_STOP;
}

/* Sends one request and turns its answers into text. Returns 0 or -errno. */
static int ask(int bus, struct nlmsghdr *request, text_fn *text, struct builder *out)
{
	struct answer answer = { text, out, (request->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP };
	const struct timeval wait = { .tv_sec = ANSWER_WAIT_S };
	struct mnl_socket *socket = mnl_socket_open2(bus, SOCK_CLOEXEC);
	char buffer[BUFFER];
	ssize_t n;
	int rc = 1;

	if (!socket)
		return -errno;
	setsockopt(mnl_socket_get_fd(socket), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	request->nlmsg_seq = 1;
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0 ||
	    mnl_socket_sendto(socket, request, request->nlmsg_len) < 0)
		rc = -1;
	while (rc > 0) {
		n = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
		rc = n < 0 ? -1
			   : mnl_cb_run(buffer, (size_t)n, 1, mnl_socket_get_portid(socket),
					on_message, &answer);
	}
	rc = rc < 0 ? -errno : 0;
	mnl_socket_close(socket);
	return rc;
}

static int ask_dcb(const char *interface, long pid, struct builder *out)
{
	static const uint8_t commands[] = { DCB_CMD_IEEE_GET, DCB_CMD_GDCBX };
	int rc = 0;

	if (!if_nametoindex(interface))
		return -ENOENT;
	for (unsigned i = 0; i < sizeof(commands); i++) {
		char buffer[BUFFER];
		struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
		struct dcbmsg *dcb;

		request->nlmsg_type = RTM_GETDCB;
		request->nlmsg_flags = NLM_F_REQUEST;
		dcb = mnl_nlmsg_put_extra_header(request, sizeof(*dcb));
		dcb->cmd = commands[i];
		mnl_attr_put_strz(request, DCB_ATTR_IFNAME, interface);
		rc = ask(NETLINK_ROUTE, request, netlink_dcb_text, out);
		if (rc && i == 0)
			return rc;
	}
	return 0;
}

/* "10.1.0.7/from/10.0.0.1": the way that a packet with this source takes. */
static int ask_route(const char *rest, long pid, struct builder *out)
{
	char buffer[BUFFER], text[INET_ADDRSTRLEN];
	const char *from = strstr(rest, "/from/");
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct in_addr destination, from_address;
	struct rtmsg *route;

	if (!from || (size_t)(from - rest) >= sizeof(text))
		return -ENOENT;
	memcpy(text, rest, (size_t)(from - rest));
	text[from - rest] = '\0';
	if (inet_pton(AF_INET, text, &destination) != 1 ||
	    inet_pton(AF_INET, from + strlen("/from/"), &from_address) != 1)
		return -ENOENT;
	request->nlmsg_type = RTM_GETROUTE;
	request->nlmsg_flags = NLM_F_REQUEST;
	route = mnl_nlmsg_put_extra_header(request, sizeof(*route));
	route->rtm_family = AF_INET;
	route->rtm_dst_len = 32;
	route->rtm_src_len = 32;
	mnl_attr_put_u32(request, RTA_DST, destination.s_addr);
	mnl_attr_put_u32(request, RTA_SRC, from_address.s_addr);
	return ask(NETLINK_ROUTE, request, netlink_route_text, out);
}

static int ask_rules(const char *rest, long pid, struct builder *out)
{
	char buffer[BUFFER];
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
	struct fib_rule_hdr *rule;

	request->nlmsg_type = RTM_GETRULE;
	request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	rule = mnl_nlmsg_put_extra_header(request, sizeof(*rule));
	rule->family = AF_INET;
	return ask(NETLINK_ROUTE, request, netlink_rule_text, out);
}

static struct nlmsghdr *rdma_request(char *buffer, unsigned command, unsigned flags)
{
	struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);

	request->nlmsg_type = (uint16_t)(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
	request->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	return request;
}

static int ask_rdma_system(const char *rest, long pid, struct builder *out)
{
	char buffer[BUFFER];

	return ask(NETLINK_RDMA, rdma_request(buffer, RDMA_NLDEV_CMD_SYS_GET, 0),
		   netlink_rdma_system_text, out);
}

static int ask_rdma_devices(const char *rest, long pid, struct builder *out)
{
	char buffer[BUFFER];

	return ask(NETLINK_RDMA, rdma_request(buffer, RDMA_NLDEV_CMD_GET, NLM_F_DUMP),
		   netlink_rdma_device_text, out);
}

/* The queue pairs of one device, by its name. */
static int ask_rdma_qp(const char *name, long pid, struct builder *out)
{
	struct builder devices = { 0 };
	char buffer[BUFFER], wanted[80];
	unsigned index;
	int rc = ask_rdma_devices("", pid, &devices);
	char *line, *save = NULL;

	snprintf(wanted, sizeof(wanted), " %s", name);
	if (rc == 0)
		rc = -ENOENT;
	for (line = devices.text ? strtok_r(devices.text, "\n", &save) : NULL;
	     line && rc == -ENOENT; line = strtok_r(NULL, "\n", &save)) {
		const char *blank = strrchr(line, ' ');

		if (blank && strcmp(blank, wanted) == 0 && sscanf(line, "device %u", &index) == 1) {
			struct nlmsghdr *request =
				rdma_request(buffer, RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP);

			mnl_attr_put_u32(request, RDMA_NLDEV_ATTR_DEV_INDEX, index);
			rc = ask(NETLINK_RDMA, request, netlink_rdma_qp_text, out);
		}
	}
	builder_free(&devices);
	return rc;
}

int probe_netlink(const char *rest, long pid, struct builder *out)
{
	static const struct {
		const char *name;
		int (*ask)(const char *rest, long pid, struct builder *out);
	} questions[] = {
		{ "dcb/", ask_dcb },	     { "rdma/devices", ask_rdma_devices },
		{ "rdma/qp/", ask_rdma_qp }, { "rdma/system", ask_rdma_system },
		{ "route/", ask_route },     { "rules", ask_rules },
	};

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		size_t length = strlen(questions[i].name);

		if (strncmp(rest, questions[i].name, length) == 0)
			return questions[i].ask(rest + length, pid, out);
	}
	return -ENOENT;
}
