/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device: opens it by name, chooses a port and a GID, reads its limits, and handles the events that it reports while
 * it runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/refuse.h"
#include "fabric/verbs/endpoint.h"
#include "fabric/verbs/gid.h"

#define GIDS_MAX 1024

const char *stale_text(enum stale_answer answer)
{
	switch (answer) {
	case STALE_DROPPED:
		return "is dropped in silence";
	case STALE_ERROR:
		return "raises an error completion";
	case STALE_BREAKS:
		return "breaks the queue pair, which is then set up anew";
	case STALE_LANDS:
		return "lands all the same";
	case STALE_UNKNOWN:
		break;
	}
	return "could not be tried";
}

static struct ibv_context *open_by_name(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return context;
}

static bool port_usable(struct ibv_context *context, unsigned port, struct ibv_port_attr *attr)
{
	return !ibv_query_port(context, (uint8_t)port, attr) && attr->state == IBV_PORT_ACTIVE &&
	       attr->link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* The port asked for, or the first one that is up. 0: none. */
static unsigned find_port(struct ibv_context *context, unsigned wanted, unsigned ports,
			  struct ibv_port_attr *attr)
{
	if (wanted)
		return port_usable(context, wanted, attr) ? wanted : 0;
	for (unsigned port = 1; port <= ports; port++)
		if (port_usable(context, port, attr))
			return port;
	return 0;
}

/* Reads the GIDs of a port; returns how many. */
static size_t read_gids(struct ibv_context *context, unsigned port, struct gid_entry *out)
{
	struct ibv_gid_entry *table = calloc(GIDS_MAX, sizeof(*table));
	ssize_t count = table ? ibv_query_gid_table(context, table, GIDS_MAX, 0) : 0;
	size_t n = 0;

	for (ssize_t i = 0; i < count; i++) {
		char interface[IF_NAMESIZE] = "";

		/* A queue pair names its GID in eight bits. */
		if (table[i].port_num != port || table[i].gid_index > UINT8_MAX)
			continue;
		out[n] = (struct gid_entry){ .index = table[i].gid_index,
					     .roce_v2 = table[i].gid_type == IBV_GID_TYPE_ROCE_V2 };
		memcpy(out[n].bytes, table[i].gid.raw, sizeof(out[n].bytes));
		if (table[i].ndev_ifindex && if_indextoname(table[i].ndev_ifindex, interface))
			memcpy(out[n].interface, interface, sizeof(out[n].interface));
		n++;
	}
	free(table);
	return n;
}

static int choose_gid(struct verbs_endpoint *endpoint)
{
	struct gid_entry *entries = calloc(GIDS_MAX, sizeof(*entries));
	size_t count;
	int chosen;

	if (!entries)
		return -ENOMEM;
	count = read_gids(endpoint->context, endpoint->port, entries);
	chosen = gid_choose(entries, count, endpoint->name.gid_index, endpoint->gid_why,
			    sizeof(endpoint->gid_why));
	if (chosen >= 0) {
		endpoint->gid_index = (uint8_t)entries[chosen].index;
		endpoint->interface = if_nametoindex(entries[chosen].interface);
		memcpy(endpoint->gid.raw, entries[chosen].bytes, sizeof(endpoint->gid.raw));
	}
	free(entries);
	return chosen < 0 ? -ENOTSUP : 0;
}

static int fail(const struct verbs_endpoint *endpoint, int error, const char *why)
{
	return open_refuse(LOG_LEVEL_ERROR, error, "verbs:%s: %s", endpoint->name.device, why);
}

static int open_objects(struct verbs_endpoint *endpoint)
{
	struct ibv_context *context = endpoint->context;

	endpoint->pd = ibv_alloc_pd(context);
	endpoint->channel = ibv_create_comp_channel(context);
	if (!endpoint->pd || !endpoint->channel)
		return -errno;
	if (fcntl(endpoint->channel->fd, F_SETFL, O_NONBLOCK) ||
	    fcntl(context->async_fd, F_SETFL, O_NONBLOCK))
		return -errno;
	/* The binder's. It is opened in UD mode too, so that the others always begin at index 1. */
	return cq_open(endpoint, 2 * endpoint->sizes.binds);
}

int device_open(struct verbs_endpoint *endpoint)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	int error;

	errno = 0;
	endpoint->context = open_by_name(endpoint->name.device);
	if (!endpoint->context)
		return fail(
			endpoint, -ENODEV,
			errno == EACCES || errno == EPERM
				? "no right to open the device (/dev/infiniband/uverbs*)"
				: "no such RDMA device; `rdma link` or `ibv_devices` lists them");
	/* iWARP and EFA devices have verbs too, but another wire format. */
	if (endpoint->context->device->transport_type != IBV_TRANSPORT_IB)
		return fail(endpoint, -ENOTSUP,
			    "this device speaks iWARP, EFA or the like, not RoCE");
	if (ibv_query_device(endpoint->context, &device))
		return fail(endpoint, -EIO, "the device does not say what it can do");
	endpoint->port = (uint8_t)find_port(endpoint->context, endpoint->name.port,
					    device.phys_port_cnt, &port);
	if (!endpoint->port)
		return fail(endpoint, -ENODEV, "no Ethernet port of it is up");
	error = choose_gid(endpoint);
	if (error)
		return fail(endpoint, error, endpoint->gid_why);
	endpoint->path_mtu = 128u << port.active_mtu;
	endpoint->rate_bps = endpoint->name.rate_bps
				     ? endpoint->name.rate_bps
				     : size_port_rate_bps(port.active_speed, port.active_width);
	sizes_choose(&(struct size_limits){ (uint32_t)device.max_qp_wr, (uint32_t)device.max_cqe,
					    (uint32_t)device.max_srq_wr },
		     endpoint->name.srq, &endpoint->sizes);
	error = open_objects(endpoint);
	if (error)
		return fail(endpoint, error, strerror(-error));
	return 0;
}

void device_close(struct verbs_endpoint *endpoint)
{
	cqs_close(endpoint);
	if (endpoint->channel)
		ibv_destroy_comp_channel(endpoint->channel);
	if (endpoint->pd)
		ibv_dealloc_pd(endpoint->pd);
	if (endpoint->context)
		ibv_close_device(endpoint->context);
}

static void react(struct verbs_endpoint *endpoint, const struct ibv_async_event *event)
{
	const char *device = endpoint->name.device;

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: /* the only sign of an error where requests are shared */
		queue_break(event->element.qp->qp_context, ibv_event_type_str(event->event_type));
		break;
	case IBV_EVENT_PORT_ERR:
		log_warn("verbs:%s: port %d is down; what is sent is lost until it is back", device,
			 event->element.port_num);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		log_info("verbs:%s: port %d is up", device, event->element.port_num);
		break;
	case IBV_EVENT_CQ_ERR:
		log_error("verbs:%s: a completion queue overflowed; it should not be able to",
			  device);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		log_error("verbs:%s: the device has failed", device);
		endpoint->dead = true;
		windows_abandon(endpoint);
		break;
	default:
		log_debug("verbs:%s: %s", device, ibv_event_type_str(event->event_type));
	}
}

void device_events(struct verbs_endpoint *endpoint)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(endpoint->context, &event)) {
		react(endpoint, &event);
		ibv_ack_async_event(&event);
	}
}

/* Whether a device has a port that `auto` could use. */
static bool promising(struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	struct gid_entry *entries = calloc(GIDS_MAX, sizeof(*entries));
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	bool good = false;

	if (context && entries && device->transport_type == IBV_TRANSPORT_IB &&
	    !ibv_query_device(context, &attr)) {
		unsigned port = find_port(context, 0, attr.phys_port_cnt, &port_attr);
		char why[8];

		good = port && gid_choose(entries, read_gids(context, port, entries), -1, why,
					  sizeof(why)) >= 0;
	}
	free(entries);
	if (context)
		ibv_close_device(context);
	return good;
}

bool verbs_find(char device[VERBS_DEVICE_MAX], char *why, size_t why_size)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool found = false;

	snprintf(why, why_size,
		 list && list[0] ? "no RDMA device has a port that is up and a RoCE v2 address"
				 : "this host has no RDMA device");
	for (int i = 0; list && list[i] && !found; i++) {
		found = promising(list[i]);
		if (found)
			snprintf(device, VERBS_DEVICE_MAX, "%s", ibv_get_device_name(list[i]));
	}
	if (list)
		ibv_free_device_list(list);
	return found;
}
