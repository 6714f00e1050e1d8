/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a verbs endpoint, sleeping on it, and its ops table. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/entropy.h"
#include "base/log.h"
#include "fabric/refuse.h"
#include "fabric/verbs/endpoint.h"
#include "fabric/verbs/gid.h"

/* Largest control datagram, bytes: as that of user-space ends, it fits an Ethernet frame under IPv6. */
#define MAX_CONTROL	1408
#define GENERATION_BITS 2
/* Bytes of a datagram on the wire beyond its data: frame and gap 38, IP 20 or 40, UDP 8, transport 28, key 4. */
#define WIRE_IPV4 98
#define WIRE_IPV6 118
/* caps.lifetime_ns. Keys keep stale packets out; this is for completions that a device delivers late. */
#define LIFETIME_NS UINT64_C(1000000)
/* caps.wake_ns: a device places data without the processor, and a completion is seen by polling; Swift's base target. */
#define WAKE_NS 25000

uint64_t verbs_now_ns(const struct fabric *fabric)
{

	(void)fabric;
	return clock_now_ns();
}

static int verbs_entropy(struct fabric *fabric, void *buffer, size_t length)
{
	(void)fabric;
	return entropy_fill(buffer, length);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t verbs_deadline_ns(const struct fabric *fabric)
{
	const struct verbs_endpoint *endpoint = endpoint_of(fabric);
	uint64_t at = UINT64_MAX;
	struct list *item;

	if (!list_empty(&endpoint->windows_tell) || !list_empty(&endpoint->windows_draining) ||
	    !list_empty(&endpoint->sent))
		return 0;
	for (uint32_t i = 0; i < endpoint->cq_count; i++)
		if (endpoint->cqs[i]->next < endpoint->cqs[i]->count)
			return 0;
	list_for_each (item, &endpoint->broken)
		at = earlier(at, container_of(item, struct queue, broken)->heal_at);
	list_for_each (item, &endpoint->leavers)
		at = earlier(at, container_of(item, struct leaver, link)->until_ns);
	return earlier(at, endpoint->rate_limit.again_ns);
}

static int verbs_watch(struct fabric *fabric, struct pollfd *fds)
{
	struct verbs_endpoint *endpoint = endpoint_of(fabric);

	if (cqs_arm(endpoint))
		return -EAGAIN;
	fds[0] = (struct pollfd){ .fd = endpoint->channel->fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = endpoint->context->async_fd, .events = POLLIN };
	return 2;
}

static void verbs_watched(struct fabric *fabric, const struct pollfd *fds)
{
	struct verbs_endpoint *endpoint = endpoint_of(fabric);

	if (fds[0].revents)
		cqs_take_events(endpoint);
	if (fds[1].revents)
		device_events(endpoint);
}

/* Waits until the last datagrams of queue pairs that were just closed have left. */
static void say_goodbye(struct verbs_endpoint *endpoint)
{
	uint64_t now = verbs_now_ns(&endpoint->fabric), until = now;
	struct timespec nap = { 0 };
	struct list *item;

	list_for_each (item, &endpoint->leavers) {
		const struct leaver *leaver = container_of(item, struct leaver, link);

		until = leaver->until_ns > until ? leaver->until_ns : until;
	}
	nap.tv_nsec = (long)(until - now);
	if (nap.tv_nsec)
		nanosleep(&nap, NULL);
	leavers_see_off(endpoint, until);
}

static void verbs_close(struct fabric *fabric)
{
	struct verbs_endpoint *endpoint = endpoint_of(fabric);
	struct list *item;

	groups_leave(endpoint);
	while ((item = list_first(&endpoint->qps)))
		verbs_qp_destroy((struct fabric_qp *)container_of(item, struct verbs_qp, link));
	say_goodbye(endpoint);
	windows_close(endpoint);
	if (endpoint->binder)
		queue_destroy(endpoint->binder);
	supply_destroy(endpoint->shared_data);
	supply_destroy(endpoint->shared_control);
	device_close(endpoint);
	free(endpoint->numbers);
	free(endpoint->seats);
	free(endpoint);
}

static const struct fabric_ops verbs_ops = {
	.name = "verbs",
	.wire = "roce",
	.close = verbs_close,
	.now_ns = verbs_now_ns,
	.entropy = verbs_entropy,
	.mr_register = verbs_mr_register,
	.mr_register_dmabuf = verbs_mr_register_dmabuf,
	.mr_deregister = verbs_mr_deregister,
	.qp_create = verbs_qp_create,
	.qp_destroy = verbs_qp_destroy,
	.qp_address = verbs_qp_address,
	.qp_connect = verbs_qp_connect,
	.expose = verbs_expose,
	.fence = verbs_fence,
	.write = verbs_write,
	.control = verbs_control,
	.poll = verbs_poll,
	.deadline_ns = verbs_deadline_ns,
	.watch = verbs_watch,
	.watched = verbs_watched,
	.group = &verbs_group_ops,
};

static void fill_caps(struct verbs_endpoint *endpoint)
{
	struct fabric_caps *caps = &endpoint->fabric.caps;

	caps->max_payload = endpoint->path_mtu - (endpoint->ud ? KEY_SIZE : 0);
	caps->max_control = endpoint->path_mtu < MAX_CONTROL ? endpoint->path_mtu : MAX_CONTROL;
	/* Receive requests. A packet that finds none is not counted anywhere, so that no more may be in flight. */
	caps->buffer = endpoint->ud ? endpoint->sizes.ud_receives : endpoint->sizes.uc_receives;
	if (endpoint->name.srq)
		caps->buffer = endpoint->sizes.shared_data;
	caps->buffer_most = caps->buffer;
	caps->buffer_packet = 1;
	caps->addresses_forged = true;
	caps->lanes = endpoint->name.lanes;
	caps->max_group = endpoint->path_mtu;
	caps->generation_bits = GENERATION_BITS;
	caps->lifetime_ns = endpoint->ud ? 0 : LIFETIME_NS;
	caps->wake_ns = WAKE_NS;
}

/* Sets up the rate limit, from now on. */
static void open_rate_limit(struct verbs_endpoint *endpoint)
{
	endpoint->now_ns = verbs_now_ns(&endpoint->fabric);
	rate_limit_init(&endpoint->rate_limit, endpoint->rate_bps,
			gid_is_ipv4(endpoint->gid.raw) ? WIRE_IPV4 : WIRE_IPV6, endpoint->now_ns);
	if (endpoint->ud && endpoint->rate_bps)
		log_info("verbs:%s: datagrams leave at up to %.1f Gbit/s%s", endpoint->name.device,
			 (double)endpoint->rate_bps / 1e9,
			 endpoint->name.rate_bps ? ", as asked" : ", the port's rate");
	else if (endpoint->ud)
		log_info("verbs:%s: the port does not say how fast it is: datagrams are not paced",
			 endpoint->name.device);
}

int verbs_open(const char *where, struct fabric **out)
{
	struct verbs_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int error;

	if (!endpoint)
		return open_refuse(LOG_LEVEL_ERROR, -ENOMEM, "verbs:%s: no memory", where);
	endpoint->fabric.ops = &verbs_ops;
	list_init(&endpoint->qps);
	list_init(&endpoint->broken);
	list_init(&endpoint->leavers);
	list_init(&endpoint->groups);
	list_init(&endpoint->sent);
	list_init(&endpoint->windows_free);
	list_init(&endpoint->windows_queued);
	list_init(&endpoint->windows_draining);
	list_init(&endpoint->windows_tell);
	error = verbs_name_parse(where, &endpoint->name);
	if (error) {
		open_refuse(
			LOG_LEVEL_ERROR, error,
			"\"verbs:%s\": use verbs:DEVICE[/PORT][@GIDINDEX][,ud][,srq][,lanes=N][,tc=N][,sl=N][,rate=N[K|M|G]]",
			where);
		goto close_endpoint;
	}
	error = device_open(endpoint);
	if (error)
		goto close_endpoint;
	error = probe_mode(endpoint);
	if (error) {
		open_refuse(LOG_LEVEL_ERROR, error, "verbs:%s: cannot make its queue pairs: %s",
			    endpoint->name.device, strerror(-error));
		goto close_endpoint;
	}
	error = windows_open(endpoint);
	if (error) {
		open_refuse(LOG_LEVEL_ERROR, error, "verbs:%s: no memory for its windows",
			    endpoint->name.device);
		goto close_endpoint;
	}
	error = supplies_share(endpoint);
	if (error) {
		open_refuse(LOG_LEVEL_ERROR, error,
			    "verbs:%s: cannot make its shared receive queues: %s",
			    endpoint->name.device, strerror(-error));
		goto close_endpoint;
	}
	fill_caps(endpoint);
	open_rate_limit(endpoint);
	log_info("verbs:%s port %u: %s, path MTU %u, %s", endpoint->name.device, endpoint->port,
		 endpoint->gid_why, endpoint->path_mtu, endpoint->mode_why);
	*out = &endpoint->fabric;
	return 0;

close_endpoint:
	verbs_close(&endpoint->fabric);
	return error;
}
