/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of the fabric: making their lanes and control queue, their address, connecting, destroying.
 *
 * Destroying one destroys its lanes at once, so that nothing lands and no memory is read any more. Its control queue stays
 * a moment longer: the last datagrams were posted just now, and a destroyed queue sends nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/endpoint.h"
#include "fabric/verbs/gid.h"

#define LAST_WORDS_NS UINT64_C(20000000)

static void destroy_lanes(struct verbs_qp *qp)
{
	for (unsigned i = 0; i < VERBS_LANES_MAX; i++)
		if (qp->lane[i])
			queue_destroy(qp->lane[i]);
}

static int create_queues(struct verbs_endpoint *endpoint, struct verbs_qp *qp)
{
	enum queue_kind kind = endpoint->ud ? QUEUE_UD : QUEUE_UC;
	int error;

	for (unsigned i = 0; i < endpoint->name.lanes; i++) {
		error = queue_create(endpoint, kind, i, qp->qkey, qp->cq, &qp->lane[i]);
		if (error)
			return error;
		qp->lane[i]->owner = qp;
	}
	error = queue_create(endpoint, QUEUE_CONTROL, 0, qp->qkey, qp->cq, &qp->control);
	if (!error)
		qp->control->owner = qp;
	return error;
}

int verbs_qp_create(struct fabric *fabric, const struct fabric_qp_attr *attr,
		    struct fabric_qp **out)
{
	struct verbs_endpoint *endpoint = endpoint_of(fabric);
	uint32_t entries = sizes_completions(&endpoint->sizes, endpoint->name.lanes, endpoint->ud);
	struct verbs_qp *qp = calloc(1, sizeof(*qp) + attr->slots * sizeof(qp->windows[0]));
	int error;

	if (!qp)
		return -ENOMEM;
	error = cq_reserve(endpoint, entries, &qp->cq);
	if (error) {
		free(qp);
		return error;
	}
	qp->endpoint = endpoint;
	qp->user = attr->user;
	qp->split = attr->split;
	qp->late = attr->late;
	qp->slots = attr->slots;
	qp->lanes = endpoint->name.lanes;
	qp->qkey =
		entropy_u32(&endpoint->entropy) & 0x7fffffff; /* bit 31 asks for a privileged key */
	sends_done_init(&qp->sent, attr->user);
	error = create_queues(endpoint, qp);
	if (error) {
		snprintf(fabric->error, sizeof(fabric->error), "%s gives no queue pair: %s",
			 endpoint->name.device, strerror(-error));
		destroy_lanes(qp);
		cq_release(qp->cq, entries);
		free(qp);
		return error;
	}
	list_add_tail(&endpoint->qps, &qp->link);
	*out = (struct fabric_qp *)qp;
	return 0;
}

static void see_off(struct leaver *leaver)
{
	struct cq *cq = leaver->queue->cq;

	list_del(&leaver->link);
	queue_destroy(leaver->queue);
	if (leaver->ah)
		ibv_destroy_ah(leaver->ah);
	cq_release(cq, leaver->reserved);
	free(leaver);
}

void leavers_see_off(struct verbs_endpoint *endpoint, uint64_t now_ns)
{
	struct list *item, *after;

	list_for_each_safe (item, after, &endpoint->leavers) {
		struct leaver *leaver = container_of(item, struct leaver, link);

		if (now_ns >= leaver->until_ns)
			see_off(leaver);
	}
}

void verbs_qp_destroy(struct fabric_qp *fabric_qp)
{
	struct verbs_qp *qp = verbs_qp(fabric_qp);
	struct verbs_endpoint *endpoint = qp->endpoint;
	struct leaver *leaver = calloc(1, sizeof(*leaver));

	destroy_lanes(qp);
	windows_forget(qp);
	list_del(&qp->sent.link);
	list_del(&qp->link);
	qp->control->owner = NULL;
	if (!leaver)
		abort(); /* for want of 48 bytes; going on would leak the queue and its reservation */
	list_init(&leaver->link);
	leaver->queue = qp->control;
	leaver->ah = qp->ah;
	leaver->reserved = sizes_completions(&endpoint->sizes, endpoint->name.lanes, endpoint->ud);
	if (qp->payload)
		leaver->until_ns = verbs_now_ns(&endpoint->fabric) + LAST_WORDS_NS;
	list_add_tail(&endpoint->leavers, &leaver->link);
	free(qp);
}

size_t verbs_qp_address(const struct fabric_qp *fabric_qp, uint8_t *out)
{
	const struct verbs_qp *qp = verbs_qp(fabric_qp);
	const struct verbs_endpoint *endpoint = qp->endpoint;
	bool v4 = gid_is_ipv4(endpoint->gid.raw);
	struct roce_address address = {
		.kind = ADDRESS_NIC,
		.family = v4 ? 4 : 6,
		.port = ADDRESS_PORT,
		.control_qpn = qp->control->qp->qp_num,
		.qkey = qp->qkey,
		.mode = endpoint->ud ? ADDRESS_UD : ADDRESS_UC,
		.lanes = (uint8_t)endpoint->name.lanes,
		.path_mtu = (uint16_t)endpoint->path_mtu,
	};

	if (v4)
		memcpy(address.ip, endpoint->gid.raw + 12, 4);
	else
		memcpy(address.ip, endpoint->gid.raw, 16);
	for (unsigned i = 0; i < endpoint->name.lanes; i++)
		address.qpn[i] = qp->lane[i]->qp->qp_num;
	return address_encode(&address, out);
}

/* Why the two ends cannot be connected; null: they can. */
static const char *obstacle(const struct verbs_endpoint *endpoint, const struct roce_address *peer)
{
	if (peer->family != (gid_is_ipv4(endpoint->gid.raw) ? 4 : 6))
		return "one end has an IPv4 GID and the other an IPv6 one: choose with verbs:DEVICE@GIDINDEX";
	if (peer->port != ADDRESS_PORT)
		return "the peer listens on another UDP port than 4791, the only one a NIC sends to";
	if (peer->kind == ADDRESS_USER_SPACE)
		return !endpoint->ud || peer->flags & ADDRESS_TAKES_UD
			       ? NULL
			       : "this end uses UD datagrams for data, and the user-space end is of a version that takes none";
	if (peer->mode != (endpoint->ud ? ADDRESS_UD : ADDRESS_UC))
		return "one end's NIC uses UC writes and the other's UD datagrams: open both with verbs:DEVICE,ud";
	return NULL;
}

static int connect_lanes(struct verbs_qp *qp, const struct roce_address *peer,
			 const struct ibv_ah_attr *route, uint32_t path_mtu)
{
	struct verbs_endpoint *endpoint = qp->endpoint;
	int error = 0;

	qp->lanes = endpoint->name.lanes;
	if (peer->kind == ADDRESS_NIC && peer->lanes < qp->lanes)
		qp->lanes = peer->lanes;
	for (unsigned i = 0; i < qp->lanes && !error && !endpoint->ud; i++)
		error = queue_connect(qp->lane[i], peer->qpn[i], route, path_mtu);
	return error;
}

int verbs_qp_connect(struct fabric_qp *fabric_qp, const uint8_t *bytes, size_t length,
		     uint32_t payload)
{
	struct verbs_qp *qp = verbs_qp(fabric_qp);
	struct verbs_endpoint *endpoint = qp->endpoint;
	uint32_t path_mtu = size_path_mtu(payload + (endpoint->ud ? KEY_SIZE : 0));
	struct ibv_ah_attr route;
	struct roce_address peer;
	const char *why;
	int error = address_decode(bytes, length, &peer);

	if (error)
		return error;
	why = obstacle(endpoint, &peer);
	if (why) {
		snprintf(endpoint->fabric.error, sizeof(endpoint->fabric.error), "%s", why);
		return -EPROTONOSUPPORT;
	}
	if (!path_mtu || path_mtu > endpoint->path_mtu ||
	    (peer.kind == ADDRESS_NIC && path_mtu > peer.path_mtu))
		return -EMSGSIZE;
	/* A user-space end has one queue pair number for all lanes. */
	for (unsigned i = 1; peer.kind == ADDRESS_USER_SPACE && i < ADDRESS_LANES; i++)
		peer.qpn[i] = peer.qpn[0];
	route = route_to(endpoint, &peer);
	if (!qp->ah) {
		errno = EHOSTUNREACH;
		qp->ah = ibv_create_ah(endpoint->pd, &route);
	}
	error = qp->ah ? connect_lanes(qp, &peer, &route, path_mtu) : -errno;
	if (error) {
		snprintf(endpoint->fabric.error, sizeof(endpoint->fabric.error),
			 "%s finds no way to the peer's address: %s", endpoint->name.device,
			 strerror(-error));
		return error;
	}
	qp->peer = peer;
	qp->payload = payload;
	return 0;
}
