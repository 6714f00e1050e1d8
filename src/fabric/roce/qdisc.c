/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and answers of rtnetlink; see qdisc.h. A dump is answered at once: nothing here waits. */
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/roce/qdisc.h"

#define ANSWER_BYTES 32768
/* Reads of one answer at most. */
#define READS_MAX 64

/* The attribute of this type; null: there is none. */
static const struct rtattr *find(const struct rtattr *attr, size_t left, unsigned short type)
{
	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == type)
			return attr;
	return NULL;
}

static bool is_kind(const struct rtattr *kind, const char *name)
{
	size_t length = strlen(name) + 1;

	return kind && RTA_PAYLOAD(kind) == length && !memcmp(RTA_DATA(kind), name, length);
}

static void take_one(struct qdisc_view *view, const struct nlmsghdr *message)
{
	const struct tcmsg *qdisc = NLMSG_DATA(message);
	const struct rtattr *kind;

	if (message->nlmsg_type != RTM_NEWQDISC ||
	    message->nlmsg_len < NLMSG_LENGTH(sizeof(*qdisc)) ||
	    qdisc->tcm_ifindex != view->interface || qdisc->tcm_parent == TC_H_INGRESS)
		return;
	kind = find((const struct rtattr *)((const char *)qdisc + NLMSG_ALIGN(sizeof(*qdisc))),
		    message->nlmsg_len - NLMSG_LENGTH(sizeof(*qdisc)), TCA_KIND);
	if (qdisc->tcm_parent == TC_H_ROOT) {
		view->root_fq = is_kind(kind, "fq");
		view->root_many = is_kind(kind, "mq") || is_kind(kind, "mqprio");
	} else {
		view->below++;
		view->below_fq += is_kind(kind, "fq");
	}
}

bool qdisc_take(struct qdisc_view *view, const void *bytes, size_t length)
{
	const struct nlmsghdr *message = bytes;

	for (; NLMSG_OK(message, length); message = NLMSG_NEXT(message, length)) {
		if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
			return false;
		take_one(view, message);
	}
	return true;
}

bool qdisc_view_holds(const struct qdisc_view *view)
{
	return view->root_fq || (view->root_many && view->below && view->below_fq == view->below);
}

static void *add_address(struct nlmsghdr *request, unsigned short type,
			 const struct sockaddr *address)
{
	struct rtattr *attr = (void *)((char *)request + NLMSG_ALIGN(request->nlmsg_len));
	bool v4 = address->sa_family == AF_INET;
	size_t length = v4 ? 4 : 16;

	attr->rta_type = type;
	attr->rta_len = (unsigned short)RTA_LENGTH(length);
	memcpy(RTA_DATA(attr),
	       v4 ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
		  : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr,
	       length);
	request->nlmsg_len = NLMSG_ALIGN(request->nlmsg_len) + RTA_ALIGN(attr->rta_len);
	return RTA_DATA(attr);
}

/* Index of the interface that the route to the peer leaves by; 0: not known. */
static int route_interface(int fd, const struct sockaddr *local, const struct sockaddr *peer,
			   void *answer)
{
	union {
		struct nlmsghdr header;
		uint8_t bytes[256];
	} request = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
				  .nlmsg_type = RTM_GETROUTE,
				  .nlmsg_flags = NLM_F_REQUEST } };
	struct rtmsg *route = NLMSG_DATA(&request.header);
	const struct nlmsghdr *message = answer;
	const struct rtattr *out = NULL;
	ssize_t length;

	route->rtm_family = (unsigned char)peer->sa_family;
	route->rtm_dst_len = route->rtm_src_len = peer->sa_family == AF_INET ? 32 : 128;
	add_address(&request.header, RTA_DST, peer);
	add_address(&request.header, RTA_SRC, local);
	if (send(fd, &request, request.header.nlmsg_len, 0) < 0)
		return 0;
	length = recv(fd, answer, ANSWER_BYTES, MSG_DONTWAIT);
	if (length > 0 && NLMSG_OK(message, (size_t)length) &&
	    message->nlmsg_type == RTM_NEWROUTE &&
	    message->nlmsg_len >= NLMSG_LENGTH(sizeof(*route)))
		out = find((const struct rtattr *)((const char *)NLMSG_DATA(message) +
						   NLMSG_ALIGN(sizeof(*route))),
			   message->nlmsg_len - NLMSG_LENGTH(sizeof(*route)), RTA_OIF);
	return out && RTA_PAYLOAD(out) == sizeof(int) ? *(const int *)RTA_DATA(out) : 0;
}

static bool ask_disciplines(int fd, struct qdisc_view *view, void *answer)
{
	struct {
		struct nlmsghdr header;
		struct tcmsg qdisc;
	} request = { .header = { .nlmsg_len = sizeof(request),
				  .nlmsg_type = RTM_GETQDISC,
				  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		      .qdisc = { .tcm_family = AF_UNSPEC, .tcm_ifindex = view->interface } };

	if (send(fd, &request, sizeof(request), 0) < 0)
		return false;
	for (int i = 0; i < READS_MAX; i++) {
		ssize_t length = recv(fd, answer, ANSWER_BYTES, MSG_DONTWAIT);

		if (length <= 0)
			return false;
		if (!qdisc_take(view, answer, (size_t)length))
			return true;
	}
	return false;
}

bool qdisc_holds(const struct sockaddr *local, const struct sockaddr *peer)
{
	_Alignas(struct nlmsghdr) uint8_t answer[ANSWER_BYTES];
	struct qdisc_view view = { 0 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	bool known;

	if (fd < 0)
		return false;
	view.interface = route_interface(fd, local, peer, answer);
	known = view.interface && ask_disciplines(fd, &view, answer);
	close(fd);
	return known && qdisc_view_holds(&view);
}
