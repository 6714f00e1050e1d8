/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs and windows of a user-space endpoint.
 *
 * The table by number uses open addressing with linear probing; numbers are random, so that they are their own hash.
 * Removing an entry moves later ones of its run back, and leaves no tombstone. Windows open and close at once, because
 * this process itself checks the keys; that one is open is told in the next poll, as a NIC does some time later.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/address.h"
#include "fabric/roce/endpoint.h"

#define TABLE_MIN 64

/* Largest IPv4 identification of a user-space end: the kernel counts the packets that it cuts from a batch of up to 64. */
#define USER_SPACE_MAX_ID 63
/* The same for NICs, which count packets or send 0; DF is set either way. */
#define NIC_MAX_ID 65535
/* From linux/udp.h, which cannot be included beside netinet/udp.h. */
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif

static uint32_t home(const struct roce_endpoint *endpoint, uint32_t qpn)
{
	return qpn & endpoint->table_mask;
}

_Static_assert(ADDRESS_LANES == FABRIC_LANES_MAX, "an address names every lane");

struct roce_qp *qp_lookup(const struct roce_endpoint *endpoint, uint32_t qpn)
{
	if (!endpoint->table)
		return NULL;
	for (uint32_t i = home(endpoint, qpn); endpoint->table[i];
	     i = (i + 1) & endpoint->table_mask)
		if (endpoint->table[i]->qpn == qpn)
			return endpoint->table[i];
	return NULL;
}

static void table_insert(struct roce_endpoint *endpoint, struct roce_qp *qp)
{
	uint32_t i = home(endpoint, qp->qpn);

	while (endpoint->table[i])
		i = (i + 1) & endpoint->table_mask;
	endpoint->table[i] = qp;
}

static void table_remove(struct roce_endpoint *endpoint, const struct roce_qp *qp)
{
	uint32_t mask = endpoint->table_mask;
	uint32_t hole = home(endpoint, qp->qpn);

	while (endpoint->table[hole] != qp)
		hole = (hole + 1) & mask;
	endpoint->table[hole] = NULL;
	for (uint32_t i = (hole + 1) & mask; endpoint->table[i]; i = (i + 1) & mask) {
		uint32_t distance = (i - home(endpoint, endpoint->table[i]->qpn)) & mask;

		if (distance >= ((i - hole) & mask)) {
			endpoint->table[hole] = endpoint->table[i];
			endpoint->table[i] = NULL;
			hole = i;
		}
	}
}

static int table_grow(struct roce_endpoint *endpoint)
{
	struct roce_qp **old = endpoint->table;
	uint32_t old_size = old ? endpoint->table_mask + 1 : 0;
	uint32_t size = old_size ? 2 * old_size : TABLE_MIN;

	if (endpoint->qps + 1 <= old_size / 2)
		return 0;
	endpoint->table = calloc(size, sizeof(struct roce_qp *));
	if (!endpoint->table) {
		endpoint->table = old;
		return -ENOMEM;
	}
	endpoint->table_mask = size - 1;
	for (uint32_t i = 0; i < old_size; i++)
		if (old[i])
			table_insert(endpoint, old[i]);
	free(old);
	return 0;
}

uint32_t qp_choose_number(struct roce_endpoint *endpoint)
{
	uint32_t qpn;

	do {
		qpn = endpoint->class << CLASS_SHIFT |
		      (entropy_u32(&endpoint->entropy) & ((1u << CLASS_SHIFT) - 1));
	} while (qpn < 16 || qpn == ROCE_QPN_MASK || qp_lookup(endpoint, qpn));
	return qpn;
}

/* Gets what a queue pair needs that seals its packets. */
static int seal_begin(struct roce_endpoint *endpoint, const struct fabric_seal *keys,
		      struct seal **out)
{
	int error;

	if (!endpoint->sealed)
		endpoint->sealed = malloc((size_t)SEALED_SLOTS * RX_PACKET);
	error = endpoint->sealed ? seal_open(keys, out) : -ENOMEM;
	if (error == -ENOTSUP)
		snprintf(endpoint->fabric.error, sizeof(endpoint->fabric.error),
			 "packets cannot be sealed: this Godwit was built without OpenSSL");
	return error;
}

int roce_qp_create(struct fabric *fabric, const struct fabric_qp_attr *attr, struct fabric_qp **out)
{
	struct roce_endpoint *endpoint = endpoint_of(fabric);
	struct roce_qp *qp = calloc(1, sizeof(*qp) + attr->slots * sizeof(qp->windows[0]));
	int error = qp ? table_grow(endpoint) : -ENOMEM;

	if (error) {
		free(qp);
		return error;
	}
	if (attr->seal) {
		error = seal_begin(endpoint, attr->seal, &qp->seal);
		if (error) {
			free(qp);
			return error;
		}
	}
	qp->endpoint = endpoint;
	qp->user = attr->user;
	qp->split = attr->split;
	qp->late = attr->late;
	qp->slots = attr->slots;
	qp->qpn = qp_choose_number(endpoint);
	qp->qkey = entropy_u32(&endpoint->entropy) &
		   0x7fffffff; /* bit 31 would ask for a privileged key */
	qp->psn = entropy_u32(&endpoint->entropy) & ROCE_PSN_MASK;
	table_insert(endpoint, qp);
	endpoint->qps++;
	*out = (struct fabric_qp *)qp;
	return 0;
}

static struct roce_window *window_at(const struct roce_qp *qp, uint32_t slot)
{
	return qp->windows[slot] ? pool_at(&qp->endpoint->windows, qp->windows[slot] - 1) : NULL;
}

void roce_qp_destroy(struct fabric_qp *fabric_qp)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct roce_endpoint *endpoint = qp->endpoint;

	for (uint32_t slot = 0; slot < qp->slots; slot++) {
		struct roce_window *window = window_at(qp, slot);

		if (!window)
			continue;
		list_del(&window->event);
		pool_put(&endpoint->windows, window);
	}
	table_remove(endpoint, qp);
	endpoint->qps--;
	seal_close(qp->seal);
	free(qp);
}

static uint8_t family_of(const union socket_address *address)
{
	return address->any.sa_family == AF_INET ? 4 : 6;
}

size_t roce_qp_address(const struct fabric_qp *fabric_qp, uint8_t *out)
{
	const struct roce_qp *qp = roce_qp(fabric_qp);
	const struct roce_endpoint *endpoint = qp->endpoint;
	const union socket_address *local = &endpoint->local;
	/* One number for data and control: opcodes tell them apart. */
	struct roce_address address = { .kind = ADDRESS_USER_SPACE,
					.family = family_of(local),
					.port = address_port(local),
					.qpn = { qp->qpn },
					.control_qpn = qp->qpn,
					.qkey = qp->qkey,
					.flags = ADDRESS_TAKES_UD };

	if (endpoint->skip_icrc)
		address.flags |= ADDRESS_SKIPS_ICRC;
	if (qp->seal)
		address.flags |= ADDRESS_SEALS;
	if (address.family == 4)
		memcpy(address.ip, &local->v4.sin_addr, 4);
	else
		memcpy(address.ip, &local->v6.sin6_addr, 16);
	for (uint32_t i = 1; i < endpoint->lanes; i++)
		address.lane_ports[i] = endpoint->lane_ports[i];
	return address_encode(&address, out);
}

/* Prepares for a peer that is a NIC: it sends to one port only, and without UDP checksums, which an IPv6 socket accepts
 * only when told to. */
static int accept_nic(struct roce_endpoint *endpoint, const struct roce_address *peer)
{
	int on = 1;

	if (address_port(&endpoint->local) != ADDRESS_PORT) {
		snprintf(
			endpoint->fabric.error, sizeof(endpoint->fabric.error),
			"the peer is a NIC, which sends to UDP port 4791 only: open this end on that port");
		return -EPROTONOSUPPORT;
	}
	if (peer->family == 6 &&
	    setsockopt(endpoint->fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on)))
		return -errno;
	return 0;
}

int roce_qp_seal(struct fabric_qp *fabric_qp, const struct fabric_seal *keys)
{
	struct roce_qp *qp = roce_qp(fabric_qp);

	return qp->seal ? seal_set_keys(qp->seal, keys) : -EINVAL;
}

/* Both ends seal, or neither does. */
static int agree_to_seal(struct roce_qp *qp, const struct roce_address *peer)
{
	struct seal_names names = { .own_qpn = qp->qpn,
				    .own_qkey = qp->qkey,
				    .peer_qpn = peer->qpn[0],
				    .peer_qkey = peer->qkey };
	bool seals = peer->kind == ADDRESS_USER_SPACE && peer->flags & ADDRESS_SEALS;
	int error;

	if (seals != (qp->seal != NULL)) {
		snprintf(qp->endpoint->fabric.error, sizeof(qp->endpoint->fabric.error),
			 seals ? "the peer seals its packets and this end does not"
			       : "this end seals its packets and the peer does not");
		return -EPERM;
	}
	error = seals ? seal_connect(qp->seal, &names) : 0;
	qp->endpoint->fabric.counters[FABRIC_SEALED] += seals && !error;
	return error;
}

int roce_qp_connect(struct fabric_qp *fabric_qp, const uint8_t *bytes, size_t length,
		    uint32_t payload)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	const union socket_address *local = &qp->endpoint->local;
	/* A link-local peer is in our scope. */
	union socket_address peer = *local;
	struct roce_address address;
	bool nic;
	int error;

	if (length < ADDRESS_USER_SPACE_SIZE)
		return -EPROTONOSUPPORT;
	nic = bytes[0] == ADDRESS_NIC;
	if (!nic && bytes[0] != ADDRESS_USER_SPACE)
		return -EPROTONOSUPPORT;
	if (bytes[1] != family_of(local))
		return -ENETUNREACH;
	error = address_decode(bytes, length, &address);
	if (!error && nic)
		error = accept_nic(qp->endpoint, &address);
	if (error)
		return error;
	if (address.family == 4) {
		memcpy(&peer.v4.sin_addr, address.ip, 4);
		peer.v4.sin_port = htons(address.port);
	} else {
		memcpy(&peer.v6.sin6_addr, address.ip, 16);
		peer.v6.sin6_port = htons(address.port);
	}
	if (icrc_flow_init(&local->any, &peer.any, &qp->to_peer) ||
	    icrc_flow_init(&peer.any, &local->any, &qp->from_peer))
		return -EINVAL;
	error = agree_to_seal(qp, &address);
	if (error)
		return error;
	qp->peer = peer;
	qp->peer_qpn = address.qpn[0];
	qp->peer_control_qpn = address.control_qpn;
	qp->peer_qkey = address.qkey;
	qp->peer_max_id = nic ? NIC_MAX_ID : USER_SPACE_MAX_ID;
	qp->peer_nic = nic;
	qp->skip_icrc = !nic && qp->endpoint->skip_icrc && address.flags & ADDRESS_SKIPS_ICRC;
	memcpy(qp->peer_ports, address.lane_ports, sizeof(qp->peer_ports));
	qp->peer_ports[0] = address.port;
	qp->payload = payload;
	qp->peer_ud = address.mode == ADDRESS_UD;
	memcpy(qp->peer_lanes, address.qpn, sizeof(qp->peer_lanes));
	qp->endpoint->fabric.counters[FABRIC_UNGUARDED] += qp->skip_icrc;
	return 0;
}

int roce_promise(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t *rkey)
{
	struct roce_qp *qp = roce_qp(fabric_qp);

	*rkey = promise_make(&qp->promise, slot, entropy_u32(&qp->endpoint->entropy));
	return 0;
}

int roce_expose(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t generation,
		struct fabric_mr *mr, void *addr, uint64_t length, uint32_t payload)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct roce_window *window;

	(void)mr;
	if (qp->windows[slot])
		return -EBUSY;
	window = pool_get(&qp->endpoint->windows);
	if (!window)
		return -EAGAIN;
	list_init(&window->event);
	window->qp = qp;
	window->addr = addr;
	window->length = length;
	window->slot = slot;
	window->generation = generation;
	window->payload = payload;
	window->rkey = promise_keep(&qp->promise, slot, entropy_u32(&qp->endpoint->entropy));
	qp->windows[slot] = pool_index(&qp->endpoint->windows, window) + 1;
	list_add_tail(&qp->endpoint->exposed, &window->event);
	return 0;
}

int roce_recut(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t generation, uint32_t payload,
	       uint32_t *rkey)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct roce_window *window = window_at(qp, slot);

	if (!window)
		return -ENOENT;
	window->generation = generation;
	window->payload = payload;
	*rkey = window->rkey = entropy_u32(&qp->endpoint->entropy);
	return 0;
}

int roce_fence(struct fabric_qp *fabric_qp, uint32_t slot)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct roce_window *window = window_at(qp, slot);

	if (!window)
		return -ENOENT;
	qp->windows[slot] = 0;
	list_del(&window->event);
	pool_put(&qp->endpoint->windows, window);
	return 1;
}
