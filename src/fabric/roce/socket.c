/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of an endpoint: one at which everything arrives, and one more for each lane beyond the first.
 *
 * They are not connected, and have path-MTU discovery turned on: the kernel then sends IPv4 packets with DF and an
 * identification of 0, which the sender has to know because the ICRC covers them.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/refuse.h"
#include "fabric/roce/endpoint.h"

#define RECEIVE_BUFFER (32 << 20)
#define SEND_BUFFER    (2 << 20)
#define PACKETS_MIN    16u
#define BUFFER_ADVICE                                                                              \
	"raise net.core.rmem_max (as root: sysctl -w net.core.rmem_max=33554432), or give this process more of a processor"
/* Bytes that the kernel charges for a queued datagram beyond its data, doubled because buffers come in powers of two. */
#define SKB_OVERHEAD 1024
/* caps.wake_ns: a process that sleeps on the socket is woken for each packet on an idle link. */
#define WAKE_NS		50000
#define ECN_ECT0	2
#define IPV4_UDP_HEADER 28
#define IPV6_UDP_HEADER 48

static int set_buffer(int fd, int forced, int plain, int bytes)
{
	socklen_t length = sizeof(bytes);

	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes));
	if (getsockopt(fd, SOL_SOCKET, plain, &bytes, &length))
		return 0;
	return bytes;
}

static void size_up(struct roce_endpoint *endpoint)
{
	/* MTUs that links have: for an IB path MTU of 4096, Ethernet, and the least of IPv6, which every path carries. */
	static const uint32_t mtus[] = { 4200, 1500, 1280 };
	struct fabric_caps *caps = &endpoint->fabric.caps;
	uint32_t headers =
		endpoint->local.any.sa_family == AF_INET ? IPV4_UDP_HEADER : IPV6_UDP_HEADER;
	uint32_t mtu = address_mtu(endpoint->fd, &endpoint->local);
	uint32_t room =
		mtu > headers + ROCE_DATA_OVERHEAD + 64 ? mtu - headers - ROCE_DATA_OVERHEAD : 64;
	int receive = set_buffer(endpoint->fd, SO_RCVBUFFORCE, SO_RCVBUF, RECEIVE_BUFFER);

	caps->max_payload = (room < ROCE_MAX_PAYLOAD ? room : ROCE_MAX_PAYLOAD) & ~3u;
	caps->max_control = room < ROCE_MAX_CONTROL ? room & ~3u : ROCE_MAX_CONTROL;
	caps->buffer_packet = SKB_OVERHEAD;
	caps->wake_ns = WAKE_NS;
	caps->buffer_byte = 2;
	caps->buffer = (uint64_t)receive;
	if (caps->buffer < PACKETS_MIN * (2 * caps->max_payload + SKB_OVERHEAD))
		caps->buffer = PACKETS_MIN * (2 * caps->max_payload + SKB_OVERHEAD);
	/* As much as with the buffer that a privileged user gets. */
	caps->buffer_most = caps->buffer > 2 * RECEIVE_BUFFER ? caps->buffer : 2 * RECEIVE_BUFFER;
	if (receive < RECEIVE_BUFFER)
		caps->buffer_advice = BUFFER_ADVICE;
	caps->max_group = caps->max_payload;
	caps->copies = true;
	caps->addresses_forged = true;
	caps->seal_extra = SEAL_EXTRA;
	caps->probe_extra = ROCE_DATA_OVERHEAD - ROCE_CONTROL_OVERHEAD;
	for (size_t i = 0, n = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		uint32_t payload = (mtus[i] - headers - ROCE_DATA_OVERHEAD) & ~3u;

		if (payload < caps->max_payload && n < FABRIC_RUNGS)
			caps->rungs[n++] = payload;
	}
}

static int discover_mtu(int fd, int family)
{
	bool v4 = family == AF_INET;
	int discover = v4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;

	return setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
			  v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover, sizeof(discover));
}

/* Says which step of opening failed, by errno; returns -errno. */
static int refuse(const struct roce_endpoint *endpoint, const char *where, const char *step)
{
	const struct sockaddr_in6 *v6 = &endpoint->local.v6;
	int error = -errno;
	const char *hint = "";

	if (error == -EADDRNOTAVAIL)
		hint = ": it is no address of this host";
	else if (error == -EADDRINUSE)
		hint = ": a program that does not share it holds the port";
	else if (error == -EACCES)
		hint = ": ports below 1024 are for privileged users";
	else if (error == -EINVAL && v6->sin6_family == AF_INET6 && !v6->sin6_scope_id &&
		 IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		hint = ": a link-local address needs its interface, such as fe80::1%eth0";
	return open_refuse(LOG_LEVEL_INFO, error, "roce:%s: %s: %s%s", where, step,
			   strerror(-error), hint);
}

static int open_socket(struct roce_endpoint *endpoint, const char *where)
{
	bool v4 = endpoint->local.any.sa_family == AF_INET;
	int on = 1;

	endpoint->fd =
		socket(endpoint->local.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (endpoint->fd < 0)
		return refuse(endpoint, where, "cannot make a UDP socket");
	if (discover_mtu(endpoint->fd, endpoint->local.any.sa_family))
		return refuse(endpoint, where, "cannot turn path-MTU discovery on");
	if (!v4)
		setsockopt(endpoint->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	setsockopt(endpoint->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
	/* Time stamps: the time that a packet waits for this process is no part of the path's round trip. */
	setsockopt(endpoint->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	if (address_port(&endpoint->local) &&
	    setsockopt(endpoint->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)))
		return refuse(endpoint, where, "cannot share the port (SO_REUSEPORT)");
	endpoint->local_length = address_length(&endpoint->local);
	if (bind(endpoint->fd, &endpoint->local.any, endpoint->local_length))
		return refuse(endpoint, where, "cannot bind a UDP socket");
	if (address_port(&endpoint->local))
		return share_join(endpoint);
	if (getsockname(endpoint->fd, &endpoint->local.any, &endpoint->local_length))
		return refuse(endpoint, where, "cannot learn the UDP port");
	return 0;
}

/* Opens the socket of a lane: a source port of its own, which networks that hash flows may send along another path. Nothing
 * arrives there, since the peer sends to the first socket. */
static int open_lane(struct roce_endpoint *endpoint, const char *where, uint32_t lane)
{
	union socket_address local = endpoint->local;
	socklen_t length = endpoint->local_length;
	int fd = socket(local.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return refuse(endpoint, where, "cannot make a lane's UDP socket");
	if (local.any.sa_family == AF_INET)
		local.v4.sin_port = 0;
	else
		local.v6.sin6_port = 0;
	if (discover_mtu(fd, local.any.sa_family) || bind(fd, &local.any, length) ||
	    getsockname(fd, &local.any, &length)) {
		int error = refuse(endpoint, where, "cannot open a lane's UDP port");

		close(fd);
		return error;
	}
	set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER);
	endpoint->lane_fds[lane] = fd;
	endpoint->lane_ports[lane] = address_port(&local);
	endpoint->lanes = lane + 1;
	return 0;
}

static int open_lanes(struct roce_endpoint *endpoint, const char *where, uint32_t lanes)
{
	int error = 0;

	endpoint->lane_fds[0] = endpoint->fd;
	endpoint->lane_ports[0] = address_port(&endpoint->local);
	endpoint->lanes = 1;
	while (!error && endpoint->lanes < lanes)
		error = open_lane(endpoint, where, endpoint->lanes);
	endpoint->fabric.caps.lanes = endpoint->lanes;
	return error;
}

/* Sets the traffic class of packets sent, with ECN on, and asks for that of packets received. */
static void set_traffic_class(struct roce_endpoint *endpoint, int fd, uint8_t traffic_class)
{
	bool v4 = endpoint->local.any.sa_family == AF_INET;
	int class = traffic_class | ECN_ECT0, on = 1;

	setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &class,
		   sizeof(class));
	setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on,
		   sizeof(on));
}

/* Turns on batches in both directions where the kernel has them; without them sending and receiving cost more. */
static void offload(struct roce_endpoint *endpoint)
{
	int on = 1, size = 0;
	socklen_t length = sizeof(size);

	endpoint->segments = !getsockopt(endpoint->fd, SOL_UDP, UDP_SEGMENT, &size, &length);
	if (setsockopt(endpoint->fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) || !endpoint->segments)
		log_info(
			"this kernel does not batch UDP packets (UDP_SEGMENT, UDP_GRO): sending costs more");
}

int sockets_open(struct roce_endpoint *endpoint, const char *where,
		 const struct fabric_options *options)
{
	int error = open_socket(endpoint, where), send_bytes;

	if (error)
		return error;
	size_up(endpoint);
	send_bytes = set_buffer(endpoint->fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER);
	offload(endpoint);
	error = open_lanes(endpoint, where, options->lanes);
	if (!options->no_departures)
		departures_open(endpoint, (uint64_t)send_bytes);
	for (uint32_t i = 0; i < endpoint->lanes; i++)
		set_traffic_class(endpoint, endpoint->lane_fds[i], options->traffic_class);
	return error;
}

void sockets_close(struct roce_endpoint *endpoint)
{
	for (uint32_t i = 1; i < endpoint->lanes; i++)
		close(endpoint->lane_fds[i]);
	if (endpoint->fd >= 0)
		close(endpoint->fd);
}
