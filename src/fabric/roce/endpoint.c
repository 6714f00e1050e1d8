/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing an endpoint, sleeping on it, and its ops table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "fabric/refuse.h"
#include "fabric/roce/endpoint.h"
#include "fabric/roce/roce.h"

#define WINDOWS 65536

static void roce_close(struct fabric *fabric)
{
	struct roce_endpoint *endpoint = endpoint_of(fabric);

	roce_flush(fabric);
	groups_close(endpoint);
	faults_close(endpoint->faults);
	share_leave(endpoint);
	sockets_close(endpoint);
	pool_destroy(&endpoint->windows);
	free(endpoint->table);
	free(endpoint->sealed);
	free(endpoint->rx);
	free(endpoint);
}

static uint64_t roce_now_ns(const struct fabric *fabric)
{
	(void)fabric;
	return clock_now_ns();
}

static int roce_entropy(struct fabric *fabric, void *buffer, size_t length)
{
	(void)fabric;
	return entropy_fill(buffer, length);
}

/* The kernel copies, so that any memory can be sent from. */
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

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t roce_deadline_ns(const struct fabric *fabric)
{
	const struct roce_endpoint *endpoint = endpoint_of(fabric);
	uint64_t at;

	if (!list_empty(&endpoint->exposed))
		return 0;
	at = earlier(faults_deadline_ns(endpoint->faults), steer_deadline_ns(endpoint));
	return earlier(at, groups_deadline_ns(endpoint));
}

/* Places of the sockets in what roce_watch() fills in; those of groups follow. */
enum { WATCH_SOCKET, WATCH_SHARE, WATCH_BLOCKED, WATCH_GROUPS };
_Static_assert(WATCH_GROUPS + ROCE_GROUPS_MAX <= FABRIC_FDS, "there is room for every socket");

static int roce_watch(struct fabric *fabric, struct pollfd *fds)
{
	struct roce_endpoint *endpoint = endpoint_of(fabric);

	if (linger(endpoint))
		return -EAGAIN;
	fds[WATCH_SOCKET] = (struct pollfd){ .fd = endpoint->fd, .events = POLLIN };
	fds[WATCH_SHARE] = (struct pollfd){ .fd = share_fd(endpoint), .events = POLLIN };
	fds[WATCH_BLOCKED] = (struct pollfd){ .fd = -1 };
	if (endpoint->blocked_fd == endpoint->fd)
		fds[WATCH_SOCKET].events |= POLLOUT;
	else
		fds[WATCH_BLOCKED] =
			(struct pollfd){ .fd = endpoint->blocked_fd, .events = POLLOUT };
	return WATCH_GROUPS + (int)groups_watch(endpoint, fds + WATCH_GROUPS);
}

static void roce_watched(struct fabric *fabric, const struct pollfd *fds)
{
	struct roce_endpoint *endpoint = endpoint_of(fabric);

	endpoint->others_due |= fds[WATCH_SHARE].revents != 0;
	endpoint->inbox.full = false;
	/* A sender that still has data tries again now, and sets this again if there is no room after all. */
	if ((fds[WATCH_SOCKET].revents | fds[WATCH_BLOCKED].revents) & POLLOUT)
		endpoint->blocked_fd = -1;
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
	.qp_peer = roce_qp_peer,
	.qp_seal = roce_qp_seal,
	.recut = roce_recut,
	.promise = roce_promise,
	.expose = roce_expose,
	.fence = roce_fence,
	.write = roce_write,
	.batch = roce_batch,
	.ahead_ns = roce_ahead_ns,
	.control = roce_control,
	.control_by = roce_control_by,
	.flush = roce_flush,
	.poll = roce_poll,
	.deadline_ns = roce_deadline_ns,
	.watch = roce_watch,
	.watched = roce_watched,
	.group = &roce_group_ops,
};

int roce_open(const char *where, const struct fabric_options *options, struct fabric **out)
{
	struct roce_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int error;

	if (!endpoint)
		return open_refuse(LOG_LEVEL_INFO, -ENOMEM, "roce:%s: no memory", where);
	endpoint->fabric.ops = &roce_ops;
	endpoint->fd = endpoint->blocked_fd = -1;
	endpoint->skip_icrc = options->skip_icrc;
	endpoint->rate_bps = options->rate_bps;
	list_init(&endpoint->exposed);
	error = address_parse(where, &endpoint->local);
	if (error) {
		open_refuse(
			LOG_LEVEL_INFO, error,
			error == -EADDRNOTAVAIL
				? "roce:%s: no packet can come from a multicast or broadcast address"
				: "roce:%s: not one numeric address or interface of this host, with @PORT behind it or not",
			where);
		goto close_endpoint;
	}
	endpoint->rx = malloc((size_t)RX_BATCH * RX_DATAGRAM + (size_t)RX_FORWARDED * RX_PACKET);
	error = endpoint->rx ? pool_init(&endpoint->windows, sizeof(struct roce_window), WINDOWS)
			     : -ENOMEM;
	if (!error && fabric_faulty(options->faults))
		error = faults_open(options->faults, &endpoint->faults);
	if (error) {
		open_refuse(LOG_LEVEL_INFO, error, "roce:%s: no memory for its buffers", where);
		goto close_endpoint;
	}
	rx_prepare(endpoint);
	error = sockets_open(endpoint, where, options);
	if (error)
		goto close_endpoint;
	*out = &endpoint->fabric;
	return 0;

close_endpoint:
	roce_close(&endpoint->fabric);
	return error;
}
