/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing an endpoint, sleeping on it, and its ops table.
 *
 * The socket stays unconnected and asks for path-MTU discovery: the kernel then sends DF with an IPv4 identification
 * of 0, which the ICRC covers and the sender must therefore know.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/log.h"
#include "fabric/roce/endpoint.h"
#include "fabric/roce/roce.h"

#define RECEIVE_BUFFER (8 << 20)
#define SEND_BUFFER    (2 << 20)
#define WINDOWS	       65536
#define WINDOW_MIN     16
#define DEFAULT_MTU    1500
/* What the kernel charges a queued datagram beyond its payload, doubled: buffers come in powers of two. */
#define SKB_OVERHEAD	1024
#define ADDRESS_TEXT	64
#define IPV4_UDP_HEADER 28
#define IPV6_UDP_HEADER 48

uint16_t address_port(const union address *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port
						       : address->v6.sin6_port);
}

socklen_t address_length(const union address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

bool same_host(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

uint32_t random_u32(struct endpoint *endpoint)
{
	uint32_t value;

	if (endpoint->entropy_left < sizeof(value)) {
		if (entropy_fill(endpoint->entropy, sizeof(endpoint->entropy)))
			abort(); /* keys that can be guessed are worse than none */
		endpoint->entropy_left = sizeof(endpoint->entropy);
	}
	endpoint->entropy_left -= (uint32_t)sizeof(value);
	memcpy(&value, endpoint->entropy + endpoint->entropy_left, sizeof(value));
	return value;
}

static int parse(const char *where, union address *out)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_PASSIVE,
				  .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;
	char text[ADDRESS_TEXT];
	const char *at = strchr(where, '@');
	size_t length = at ? (size_t)(at - where) : strlen(where);
	unsigned long port = ROCE_PORT;
	char *end;

	if (length >= sizeof(text) || !length)
		return -EINVAL;
	memcpy(text, where, length);
	text[length] = '\0';
	if (at) {
		port = strtoul(at + 1, &end, 10);
		/* strtoul() would also take blanks and a sign. */
		if (at[1] < '0' || at[1] > '9' || *end || port > 65535)
			return -EINVAL;
	}
	if (getaddrinfo(text, NULL, &hints, &found))
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	if (out->any.sa_family == AF_INET)
		out->v4.sin_port = htons((uint16_t)port);
	else
		out->v6.sin6_port = htons((uint16_t)port);
	if ((out->any.sa_family == AF_INET && out->v4.sin_addr.s_addr == htonl(INADDR_ANY)) ||
	    (out->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&out->v6.sin6_addr)))
		return -EINVAL; /* the ICRC covers the source: it has to be one address */
	/* A socket may be bound to these, but no packet can come from them. */
	if ((out->any.sa_family == AF_INET &&
	     (IN_MULTICAST(ntohl(out->v4.sin_addr.s_addr)) ||
	      out->v4.sin_addr.s_addr == htonl(INADDR_BROADCAST))) ||
	    (out->any.sa_family == AF_INET6 && IN6_IS_ADDR_MULTICAST(&out->v6.sin6_addr)))
		return -EADDRNOTAVAIL;
	return 0;
}

/* The MTU of the interface that has the address; an ordinary Ethernet's when that cannot be told. */
static uint32_t interface_mtu(int fd, const union address *local)
{
	struct ifaddrs *all, *item;
	uint32_t mtu = DEFAULT_MTU;

	if (getifaddrs(&all))
		return mtu;
	for (item = all; item; item = item->ifa_next) {
		union address address;
		struct ifreq request;

		if (!item->ifa_addr ||
		    (item->ifa_addr->sa_family != AF_INET && item->ifa_addr->sa_family != AF_INET6))
			continue;
		memset(&address, 0, sizeof(address));
		memcpy(&address, item->ifa_addr,
		       item->ifa_addr->sa_family == AF_INET ? sizeof(address.v4)
							    : sizeof(address.v6));
		memset(&request, 0, sizeof(request));
		strncpy(request.ifr_name, item->ifa_name, sizeof(request.ifr_name) - 1);
		if (same_host(&address, local) && !ioctl(fd, SIOCGIFMTU, &request) &&
		    request.ifr_mtu > 0) {
			mtu = (uint32_t)request.ifr_mtu;
			break;
		}
	}
	freeifaddrs(all);
	return mtu;
}

static int set_buffer(int fd, int forced, int plain, int bytes)
{
	socklen_t length = sizeof(bytes);

	if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes));
	if (getsockopt(fd, SOL_SOCKET, plain, &bytes, &length))
		return 0;
	return bytes;
}

static void size_up(struct endpoint *endpoint)
{
	struct fabric_caps *caps = &endpoint->fabric.caps;
	uint32_t headers =
		endpoint->local.any.sa_family == AF_INET ? IPV4_UDP_HEADER : IPV6_UDP_HEADER;
	uint32_t mtu = interface_mtu(endpoint->fd, &endpoint->local);
	uint32_t room =
		mtu > headers + ROCE_DATA_OVERHEAD + 64 ? mtu - headers - ROCE_DATA_OVERHEAD : 64;
	int receive = set_buffer(endpoint->fd, SO_RCVBUFFORCE, SO_RCVBUF, RECEIVE_BUFFER);

	set_buffer(endpoint->fd, SO_SNDBUFFORCE, SO_SNDBUF, SEND_BUFFER);
	if (receive < RECEIVE_BUFFER)
		log_info(
			"the receive buffer is %d KiB of the %d KiB asked for; raise net.core.rmem_max for fast long links",
			receive / 1024, RECEIVE_BUFFER / 1024);
	caps->max_payload = (room < ROCE_MAX_PAYLOAD ? room : ROCE_MAX_PAYLOAD) & ~3u;
	caps->max_control = room < ROCE_MAX_CONTROL ? room & ~3u : ROCE_MAX_CONTROL;
	caps->window = (uint32_t)receive / (2 * caps->max_payload + SKB_OVERHEAD);
	if (caps->window < WINDOW_MIN)
		caps->window = WINDOW_MIN;
	caps->copies = true;
}

static int open_socket(struct endpoint *endpoint)
{
	bool v4 = endpoint->local.any.sa_family == AF_INET;
	int discover = v4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;
	int on = 1;

	endpoint->fd =
		socket(endpoint->local.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (endpoint->fd < 0)
		return -errno;
	if (setsockopt(endpoint->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
		       v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover, sizeof(discover)))
		return -errno;
	if (!v4)
		setsockopt(endpoint->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	setsockopt(endpoint->fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
	if (address_port(&endpoint->local) &&
	    setsockopt(endpoint->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)))
		return -errno;
	endpoint->local_length = address_length(&endpoint->local);
	if (bind(endpoint->fd, &endpoint->local.any, endpoint->local_length))
		return -errno;
	if (address_port(&endpoint->local)) {
		int error = share_join(endpoint);

		if (error)
			return error;
	} else if (getsockname(endpoint->fd, &endpoint->local.any, &endpoint->local_length)) {
		return -errno;
	}
	return 0;
}

/* Whatever the kernel offers to carry many packets in one call; without it everything works the same, slower. */
static void offload(struct endpoint *endpoint)
{
	int on = 1, size = 0;
	socklen_t length = sizeof(size);

	endpoint->segments = !getsockopt(endpoint->fd, SOL_UDP, UDP_SEGMENT, &size, &length);
	if (setsockopt(endpoint->fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) || !endpoint->segments)
		log_info(
			"this kernel does not batch UDP packets (UDP_SEGMENT, UDP_GRO): sending costs more");
}

static void roce_close(struct fabric *fabric)
{
	struct endpoint *endpoint = endpoint_of(fabric);

	faults_close(endpoint->faults);
	share_leave(endpoint);
	if (endpoint->fd >= 0)
		close(endpoint->fd);
	pool_destroy(&endpoint->windows);
	free(endpoint->table);
	free(endpoint->rx);
	free(endpoint);
}

static uint64_t roce_now_ns(const struct fabric *fabric)
{
	struct clock clock = clock_monotonic();

	(void)fabric;
	return clock_now_ns(&clock);
}

static int roce_entropy(struct fabric *fabric, void *buffer, size_t length)
{
	(void)fabric;
	return entropy_fill(buffer, length);
}

/* The kernel copies: any memory will do. */
static int roce_mr_register(struct fabric *fabric, void *addr, size_t length,
			    struct fabric_mr **out)
{
	(void)fabric;
	(void)addr;
	(void)length;
	*out = NULL;
	return 0;
}

static void roce_mr_deregister(struct fabric *fabric, struct fabric_mr *mr)
{
	(void)fabric;
	(void)mr;
}

static uint64_t roce_deadline_ns(const struct fabric *fabric)
{
	const struct endpoint *endpoint = endpoint_of(fabric);
	uint64_t faults_ns, steer_ns;

	if (!list_empty(&endpoint->events))
		return 0;
	faults_ns = faults_deadline_ns(endpoint->faults);
	steer_ns = steer_deadline_ns(endpoint);
	return faults_ns < steer_ns ? faults_ns : steer_ns;
}

static int roce_wait(struct fabric *fabric, uint64_t until_ns)
{
	struct endpoint *endpoint = endpoint_of(fabric);
	struct pollfd fds[2] = { { .fd = endpoint->fd, .events = POLLIN },
				 { .fd = share_fd(endpoint), .events = POLLIN } };
	uint64_t now = roce_now_ns(fabric);
	uint64_t left = until_ns > now ? until_ns - now : 0;
	struct timespec timeout = { .tv_sec = (time_t)(left / 1000000000),
				    .tv_nsec = (long)(left % 1000000000) };

	if (endpoint->blocked)
		fds[0].events |= POLLOUT;
	if (ppoll(fds, 2, until_ns == UINT64_MAX ? NULL : &timeout, NULL) < 0)
		return -errno;
	return 0;
}

static const struct fabric_ops roce_ops = {
	.name = "roce",
	.close = roce_close,
	.now_ns = roce_now_ns,
	.entropy = roce_entropy,
	.mr_register = roce_mr_register,
	.mr_deregister = roce_mr_deregister,
	.qp_create = roce_qp_create,
	.qp_destroy = roce_qp_destroy,
	.qp_address = roce_qp_address,
	.qp_connect = roce_qp_connect,
	.expose = roce_expose,
	.fence = roce_fence,
	.write = roce_write,
	.control = roce_control,
	.poll = roce_poll,
	.deadline_ns = roce_deadline_ns,
	.wait = roce_wait,
};

int roce_open(const char *where, const struct fabric_faults *faults, struct fabric **out)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int error;

	if (!endpoint)
		return -ENOMEM;
	endpoint->fabric.ops = &roce_ops;
	endpoint->fd = -1;
	list_init(&endpoint->events);
	error = parse(where, &endpoint->local);
	if (error) {
		log_info(
			"\"%s\" is not one numeric address of this host, with @PORT behind it or not",
			where);
		goto close_endpoint;
	}
	endpoint->rx = malloc((size_t)RX_BATCH * RX_DATAGRAM + (size_t)RX_FORWARDED * RX_PACKET);
	error = endpoint->rx ? pool_init(&endpoint->windows, sizeof(struct window), WINDOWS)
			     : -ENOMEM;
	if (error)
		goto close_endpoint;
	if (faults && (faults->drop > 0 || faults->duplicate > 0 || faults->reorder > 0)) {
		error = faults_open(faults, &endpoint->faults);
		if (error)
			goto close_endpoint;
	}
	error = open_socket(endpoint);
	if (error) {
		log_info("UDP %s: %s", where, strerror(-error));
		goto close_endpoint;
	}
	size_up(endpoint);
	offload(endpoint);
	*out = &endpoint->fabric;
	return 0;

close_endpoint:
	roce_close(&endpoint->fabric);
	return error;
}
