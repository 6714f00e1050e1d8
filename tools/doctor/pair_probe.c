/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A probe is 48 bytes and padding: magic, kind, mark, size of the IP packet; the token; number; when it left; when the last
 * probe of the other end left (by its clock) and how long ago it came. So both ends see round trips, without answers.
 */
#include "pair_probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"

#define MAGIC	     0x47574450u
#define HEADER	     48u
#define PROBE_MAX    65507u
#define BUFFER_ASKED (32 << 20)
/* A train says nothing below this: the clock is too coarse. */
#define BURST_LEAST_NS	    20000
#define BURST_LEAST_PACKETS 8u

int64_t probe_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

static int parse(const char *text, uint16_t port, union probe_address *out)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;

	if (getaddrinfo(text, NULL, &hints, &found) != 0)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr,
	       found->ai_addrlen < sizeof(*out) ? found->ai_addrlen : sizeof(*out));
	freeaddrinfo(found);
	if (out->any.sa_family == AF_INET)
		out->in.sin_port = htons(port);
	else
		out->in6.sin6_port = htons(port);
	return 0;
}

static socklen_t length_of(const union probe_address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->in) : sizeof(address->in6);
}

static uint16_t port_of(const union probe_address *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->in.sin_port
						       : address->in6.sin6_port);
}

static bool same_host(const union probe_address *a, const union probe_address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	return a->any.sa_family == AF_INET ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr
					   : memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16) == 0;
}

/* Packets are not fragmented, sizes are not limited to what the kernel thinks of the path; arrivals have time and marks. */
static void prepare(int fd, int family)
{
	if (family == AF_INET) {
		set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
		set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		set(fd, IPPROTO_IP, IP_RECVERR, 1);
	} else {
		set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
		set(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
		set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	}
	set(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1);
	set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
}

/* Asks for a large buffer as the library does; returns what this user gets. The kernel reports twice that. */
static uint64_t buffer(int fd, int forced, int plain)
{
	int bytes = BUFFER_ASKED;
	socklen_t length = sizeof(bytes);

	if (set(fd, SOL_SOCKET, forced, bytes) != 0)
		set(fd, SOL_SOCKET, plain, bytes);
	return getsockopt(fd, SOL_SOCKET, plain, &bytes, &length) == 0 ? (uint64_t)bytes / 2 : 0;
}

/* MTU that the kernel assumes of the path: the interface's, or less if ICMP said so before; 0: unknown. */
static uint32_t path_mtu(const union probe_address *to)
{
	bool four = to->any.sa_family == AF_INET;
	int fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
	socklen_t length = sizeof(mtu);

	if (fd < 0)
		return 0;
	if (connect(fd, &to->any, length_of(to)) != 0 ||
	    getsockopt(fd, four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_MTU : IPV6_MTU, &mtu,
		       &length) != 0)
		mtu = 0;
	close(fd);
	return (uint32_t)mtu;
}

/* MTU of the interface that packets leave by. It is the one with the address, unless that is on the loopback interface. */
static uint32_t interface_mtu(int fd, const union probe_address *local,
			      const union probe_address *to)
{
	struct ifaddrs *all, *one;
	struct ifreq request = { 0 };
	uint32_t mtu = 0;

	if (getifaddrs(&all) != 0)
		return path_mtu(to);
	for (one = all; one && !mtu; one = one->ifa_next) {
		if (!one->ifa_addr || one->ifa_addr->sa_family != local->any.sa_family ||
		    (one->ifa_flags & IFF_LOOPBACK) ||
		    !same_host((const union probe_address *)one->ifa_addr, local))
			continue;
		snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", one->ifa_name);
		if (ioctl(fd, SIOCGIFMTU, &request) == 0)
			mtu = (uint32_t)request.ifr_mtu;
	}
	freeifaddrs(all);
	return mtu && !same_host(local, to) ? mtu : path_mtu(to);
}

static int open_socket(union probe_address *local, uint16_t *port)
{
	int fd = socket(local->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(*local);
	int rc;

	if (fd < 0)
		return -errno;
	prepare(fd, local->any.sa_family);
	rc = bind(fd, &local->any, length_of(local));
	if (rc != 0 && (errno == EADDRINUSE || errno == EACCES)) {
		if (local->any.sa_family == AF_INET)
			local->in.sin_port = 0;
		else
			local->in6.sin6_port = 0;
		rc = bind(fd, &local->any, length_of(local));
	}
	if (rc != 0 || getsockname(fd, &local->any, &length) != 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*port = port_of(local);
	return fd;
}

int probe_open(struct probe *probe, struct pair_end *own, const char *local, uint16_t port,
	       const char *remote)
{
	union probe_address address, to;
	int rc = parse(local, port, &address);

	probe->own = own;
	probe->fd[0] = probe->fd[1] = -1;
	if (rc)
		return rc;
	probe->headers = address.any.sa_family == AF_INET ? 28 : 48;
	for (unsigned i = 0; i < 2; i++) {
		if (i && parse(local, 0, &address) != 0)
			return -EINVAL;
		rc = open_socket(&address, i ? &own->other_port : &own->udp_port);
		if (rc < 0) {
			probe_close(probe);
			return rc;
		}
		probe->fd[i] = rc;
		own->receive_buffer = buffer(rc, SO_RCVBUFFORCE, SO_RCVBUF);
		own->send_buffer = buffer(rc, SO_SNDBUFFORCE, SO_SNDBUF);
	}
	if (parse(remote, port, &to) == 0)
		own->mtu = interface_mtu(probe->fd[0], &address, &to);
	return 0;
}

int probe_connect(struct probe *probe, const char *remote, uint16_t port, uint16_t other_port)
{
	int rc = parse(remote, port, &probe->peer[0]);

	return rc ? rc : parse(remote, other_port, &probe->peer[1]);
}

void probe_close(struct probe *probe)
{
	for (unsigned i = 0; i < 2; i++) {
		if (probe->fd[i] >= 0)
			close(probe->fd[i]);
		probe->fd[i] = -1;
	}
}

/* Reads what ICMP said about packets of this socket. */
static void take_errors(struct probe *probe, int fd)
{
	char control[512], data[64];
	struct iovec part = { data, sizeof(data) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	for (;;) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
			struct sock_extended_err error;

			if (!(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) &&
			    !(c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
				continue;
			memcpy(&error, CMSG_DATA(c), sizeof(error));
			/* What this host itself refuses to send is no router's word. */
			if (error.ee_errno == EMSGSIZE && error.ee_origin != SO_EE_ORIGIN_LOCAL &&
			    probe->own)
				probe->own->sent.icmp_mtu = error.ee_info;
		}
	}
}

static void put_header(const struct probe *probe, uint8_t *out, enum probe_kind kind,
		       uint32_t number, uint32_t size, unsigned mark)
{
	int64_t now = probe_now();

	put_be32(out, MAGIC);
	out[4] = (uint8_t)kind;
	out[5] = (uint8_t)mark;
	put_be16(out + 6, (uint16_t)size);
	memcpy(out + 8, probe->token_out, PROBE_TOKEN);
	put_be32(out + 16, number);
	put_be32(out + 20, 0);
	put_be64(out + 24, (uint64_t)now);
	put_be64(out + 32, (uint64_t)probe->echo_tx_ns);
	put_be64(out + 40, probe->echo_tx_ns ? (uint64_t)(now - probe->echo_rx_ns) : 0);
}

bool probe_send(struct probe *probe, unsigned socket, enum probe_kind kind, uint32_t number,
		uint32_t size, unsigned mark)
{
	static uint8_t bytes[PROBE_MAX];
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	uint32_t length = size < probe->headers + HEADER ? HEADER : size - probe->headers;
	struct iovec part = { bytes, length < PROBE_MAX ? length : PROBE_MAX };
	struct msghdr message = { .msg_name = &probe->peer[socket],
				  .msg_namelen = length_of(&probe->peer[socket]),
				  .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control.room,
				  .msg_controllen = sizeof(control.room) };
	bool four = probe->peer[socket].any.sa_family == AF_INET;
	int value = kind == PROBE_MARK ? pair_marks[mark] : 0;

	if (probe->fd[socket] < 0)
		return false;
	put_header(probe, bytes, kind, number, size, mark);
	control.header.cmsg_level = four ? IPPROTO_IP : IPPROTO_IPV6;
	control.header.cmsg_type = four ? IP_TOS : IPV6_TCLASS;
	control.header.cmsg_len = CMSG_LEN(sizeof(value));
	memcpy(CMSG_DATA(&control.header), &value, sizeof(value));
	/* An error that ICMP left behind is told by the next call, which then has sent nothing. */
	for (unsigned tries = 0; tries < 3; tries++) {
		if (sendmsg(probe->fd[socket], &message, 0) >= 0)
			return true;
		if (errno == EAGAIN || errno == ENOBUFS)
			return false;
		take_errors(probe, probe->fd[socket]);
	}
	return false;
}

static void arrived_burst(struct probe_burst *burst, uint32_t bytes, int64_t tx, int64_t now)
{
	if (!burst->packets) {
		burst->first_ns = now;
		burst->first_bytes = bytes;
	}
	burst->packets++;
	burst->bytes += bytes;
	burst->last_ns = now;
	burst->delay_sum_ns += (double)now - (double)tx;
}

static void note_source(struct probe *probe, unsigned socket, const union probe_address *from)
{
	struct pair_heard *heard = &probe->own->heard;

	if (socket == 0) {
		if (getnameinfo(&from->any, length_of(from), heard->source, sizeof(heard->source),
				NULL, 0, NI_NUMERICHOST) != 0)
			heard->source[0] = '\0';
		heard->source[strcspn(heard->source, "%")] = '\0';
		heard->source_port = port_of(from);
	}
	/* Only the port may change: the address was proven by TCP. */
	if (same_host(from, &probe->peer[socket]))
		probe->peer[socket] = *from;
}

static void take_one(struct probe *probe, unsigned socket, const uint8_t *bytes, uint32_t length,
		     const union probe_address *from, int64_t now, unsigned mark)
{
	uint32_t number, packet = length + probe->headers;
	int64_t tx, echo;
	uint64_t hold;

	if (length < HEADER || get_be32(bytes) != MAGIC ||
	    memcmp(bytes + 8, probe->token_in, PROBE_TOKEN) != 0)
		return;
	number = get_be32(bytes + 16);
	tx = (int64_t)get_be64(bytes + 24);
	echo = (int64_t)get_be64(bytes + 32);
	hold = get_be64(bytes + 40);
	note_source(probe, socket, from);
	probe->echo_tx_ns = tx;
	probe->echo_rx_ns = now;
	switch (bytes[4]) {
	case PROBE_STREAM:
		if (tx > 0 && tx < INT64_MAX / 4)
			pair_stream_arrive(&probe->stream, number, now - tx);
		if (echo > 0 && echo <= now && hold < (uint64_t)(now - echo) &&
		    probe->rtt_count < PAIR_STREAM_MAX)
			probe->rtt_ns[probe->rtt_count++] = now - echo - (int64_t)hold;
		break;
	case PROBE_OTHER:
		probe->own->heard.other_packets++;
		break;
	case PROBE_MARK:
		if (bytes[5] < PAIR_MARKS)
			probe->marks.arrived[bytes[5]][mark & 0xff]++;
		break;
	case PROBE_SIZE:
		if (probe->size_count < 2 * PAIR_SIZES_MAX && get_be16(bytes + 6) == packet)
			probe->sizes[probe->size_count++] = packet;
		break;
	case PROBE_TRAIN:
		if (number < PROBE_TRAINS * PROBE_TRAIN_PACKETS)
			arrived_burst(&probe->trains[number / PROBE_TRAIN_PACKETS], packet, tx,
				      now);
		break;
	case PROBE_BULK:
		arrived_burst(&probe->bulk, packet, tx, now);
		break;
	}
}

static bool take_next(struct probe *probe, unsigned socket)
{
	static uint8_t bytes[PROBE_MAX];
	char control[512];
	union probe_address from = { 0 };
	struct iovec part = { bytes, sizeof(bytes) };
	struct msghdr message = { .msg_name = &from,
				  .msg_namelen = sizeof(from),
				  .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(probe->fd[socket], &message, MSG_DONTWAIT);
	struct timespec stamp = { 0 };
	unsigned mark = 0;

	if (n < 0) {
		if (errno == EAGAIN)
			return false;
		take_errors(probe, probe->fd[socket]);
		return errno != EBADF;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS)
			memcpy(&stamp, CMSG_DATA(c), sizeof(stamp));
		else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL)
			memcpy(&probe->dropped[socket], CMSG_DATA(c), sizeof(uint32_t));
		else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			mark = *(const uint8_t *)CMSG_DATA(c);
		else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
			memcpy(&mark, CMSG_DATA(c), sizeof(mark));
	}
	take_one(probe, socket, bytes, (uint32_t)n, &from,
		 stamp.tv_sec ? (int64_t)stamp.tv_sec * 1000000000 + stamp.tv_nsec : probe_now(),
		 mark);
	return true;
}

void probe_take(struct probe *probe)
{
	/* A flood from a stranger must not keep this end here. */
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned taken = 0; taken < 512 && take_next(probe, i); taken++)
			;
	}
}

static int by_value(const void *a, const void *b)
{
	int64_t one = *(const int64_t *)a, two = *(const int64_t *)b;

	return (one > two) - (one < two);
}

void probe_finish_stream(struct probe *probe, uint64_t *rtt_min_ns, uint64_t *rtt_ns)
{
	pair_stream_finish(&probe->stream, &probe->own->heard);
	pair_marks_finish(&probe->marks, &probe->own->heard);
	*rtt_min_ns = *rtt_ns = 0;
	if (!probe->rtt_count)
		return;
	qsort(probe->rtt_ns, probe->rtt_count, sizeof(probe->rtt_ns[0]), by_value);
	*rtt_min_ns = (uint64_t)probe->rtt_ns[0];
	*rtt_ns = (uint64_t)probe->rtt_ns[probe->rtt_count / 2];
}

/* Returns 0 if the burst was too short to say. */
static int64_t burst_bps(const struct probe_burst *burst)
{
	int64_t took = burst->last_ns - burst->first_ns;

	if (burst->packets < BURST_LEAST_PACKETS || took < BURST_LEAST_NS)
		return 0;
	return (int64_t)((double)(burst->bytes - burst->first_bytes) * 8e9 / (double)took);
}

uint64_t probe_train_bps(const struct probe *probe)
{
	int64_t rates[PROBE_TRAINS];
	size_t count = 0;

	for (unsigned i = 0; i < PROBE_TRAINS; i++) {
		rates[count] = burst_bps(&probe->trains[i]);
		count += rates[count] > 0;
	}
	if (!count)
		return 0;
	qsort(rates, count, sizeof(rates[0]), by_value);
	return (uint64_t)rates[count / 2];
}
