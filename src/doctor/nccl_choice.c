/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's choice of a GID and of the interface over which ranks meet.
 *
 * The GID table is walked from index 1, with index 0 as the first choice. A candidate replaces the choice if it is the
 * first of the wanted address family, or if it is of that family and a valid address, and its RoCE version is the wanted
 * one while that of the choice is not (or the choice is no valid address). What matches nothing leaves index 0, and no
 * line in the log says so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

#define FLID_AT 4

struct gid_wish {
	int family;
	int version;
	/* NCCL_IB_ADDR_RANGE; 0 bits: every address */
	uint8_t range[16];
	unsigned bits;
};

static void read_wish(const struct nccl *nccl, struct gid_wish *out)
{
	const char *family = nccl_text(nccl, "NCCL_IB_ADDR_FAMILY");
	const char *range = nccl_text(nccl, "NCCL_IB_ADDR_RANGE");
	const char *slash = range ? strchr(range, '/') : NULL;
	char address[128];
	int bits;

	*out = (struct gid_wish){ .family = AF_INET };
	if (family && strcmp(family, "AF_INET6") == 0)
		out->family = AF_INET6;
	out->version = (int)nccl_number(nccl, "NCCL_IB_ROCE_VERSION_NUM", 2);
	if (!slash || (size_t)(slash - range) >= sizeof(address))
		return;
	memcpy(address, range, (size_t)(slash - range));
	address[slash - range] = '\0';
	if (inet_pton(out->family, address, out->range) != 1)
		return;
	bits = atoi(slash + 1);
	if (bits > 0 && bits <= (out->family == AF_INET ? 32 : 128))
		out->bits = (unsigned)bits;
}

static int family_of(const uint8_t raw[16])
{
	static const uint8_t multicast[12] = { 0xff, 0x0e, [10] = 0xff, [11] = 0xff };

	return gid_maps_ipv4(raw) || memcmp(raw, multicast, sizeof(multicast)) == 0 ? AF_INET
										    : AF_INET6;
}

static bool in_range(const struct gid_wish *wish, const uint8_t raw[16])
{
	const uint8_t *bytes = wish->family == AF_INET ? raw + 12 : raw;

	for (unsigned bit = 0; bit < wish->bits; bit++) {
		unsigned mask = 0x80u >> bit % 8;

		if ((bytes[bit / 8] ^ wish->range[bit / 8]) & mask)
			return false;
	}
	return true;
}

/* Neither empty nor of one link only. */
static bool is_valid(const uint8_t raw[16])
{
	static const uint8_t empty[16];

	return memcmp(raw, empty, 16) != 0 && !gid_is_link_local(raw);
}

/* An empty place in the table. */
static const struct gid nothing = { .netdev = "" };

static const struct gid *gid_at(const struct port *port, unsigned index)
{
	for (size_t i = 0; i < port->gid_count; i++) {
		if (port->gids[i].index == index)
			return &port->gids[i];
	}
	return &nothing;
}

static int version_of(const struct gid *gid)
{
	return gid->type == GID_ROCE_V2 ? 2 : gid->type == GID_ROCE_V1 ? 1 : -1;
}

static bool replaces(const struct gid_wish *wish, const struct gid *candidate,
		     const struct gid *chosen)
{
	bool of_family = family_of(candidate->raw) == wish->family;
	bool matches = of_family && in_range(wish, candidate->raw);

	if (matches && family_of(chosen->raw) != wish->family)
		return true;
	if (!matches || !is_valid(candidate->raw))
		return false;
	return (version_of(candidate) != version_of(chosen) || !is_valid(chosen->raw)) &&
	       version_of(candidate) == wish->version;
}

static void choose_infiniband(const struct nccl *nccl, const struct port *port,
			      struct gid_choice *out)
{
	int64_t routable = nccl_number(nccl, "NCCL_IB_ROUTABLE_FLID_GID_INDEX", 1);
	const struct gid *gid;

	out->reason = GID_INFINIBAND;
	if (routable >= 0 && routable < port->gid_table) {
		gid = gid_at(port, (unsigned)routable);
		if (gid->raw[FLID_AT] || gid->raw[FLID_AT + 1])
			out->index = (unsigned)routable;
	}
}

static void choose_roce(const struct nccl *nccl, const struct port *port, struct gid_choice *out)
{
	const struct gid *chosen = gid_at(port, 0);
	struct gid_wish wish;

	read_wish(nccl, &wish);
	out->reason = GID_FALLBACK;
	for (unsigned i = 1; i < port->gid_table; i++) {
		const struct gid *candidate = gid_at(port, i);

		if (candidate != &nothing && candidate->type_state == FACT_REFUSED &&
		    candidate->type_error == EINVAL)
			out->unreadable++;
		if (!replaces(&wish, candidate, chosen))
			continue;
		chosen = candidate;
		out->index = i;
		out->reason = GID_MATCHED;
	}
	/* Index 0 itself may be what was wished for. */
	if (out->index == 0 && family_of(chosen->raw) == wish.family && is_valid(chosen->raw) &&
	    in_range(&wish, chosen->raw))
		out->reason = GID_MATCHED;
}

void nccl_choose_gid(const struct nccl *nccl, const struct port *port, struct gid_choice *out)
{
	int64_t pinned = nccl_number(nccl, "NCCL_IB_GID_INDEX", -1);

	*out = (struct gid_choice){ 0 };
	if (port->link_layer == LINK_INFINIBAND) {
		choose_infiniband(nccl, port, out);
	} else if (pinned >= 0) {
		out->reason = GID_PINNED;
		out->index = pinned > UINT32_MAX ? UINT32_MAX : (unsigned)pinned;
	} else {
		choose_roce(nccl, port, out);
	}
	out->gid = gid_at(port, out->index);
	if (out->gid == &nothing)
		out->gid = NULL;
}

static const struct address *first_of(const struct model *model, const char *names, int family)
{
	struct nccl_list list;

	nccl_list_read(names, &list);
	for (size_t i = 0; i < model->address_count; i++) {
		const struct address *address = &model->addresses[i];

		if (!address->running || (family && address->family != family) ||
		    (address->loopback && address->family == AF_INET6))
			continue;
		if (nccl_list_takes(&list, address->netdev, -1))
			return address;
	}
	return NULL;
}

const struct address *nccl_bootstrap(const struct nccl *nccl, bool *listed)
{
	/* Where NCCL looks, in this order, if nobody tells it. */
	static const char *const places[] = { "ib", "^docker,lo,virbr", "docker", "lo", "virbr" };
	const char *names = nccl_text(nccl, "NCCL_SOCKET_IFNAME");
	const char *wanted = nccl_text(nccl, "NCCL_SOCKET_FAMILY");
	const struct address *found = NULL;
	int family = !wanted			       ? 0
		     : strcmp(wanted, "AF_INET") == 0  ? AF_INET
		     : strcmp(wanted, "AF_INET6") == 0 ? AF_INET6
						       : 0;

	*listed = names && names[1];
	if (*listed)
		return first_of(nccl->model, names, family);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !found; i++)
		found = first_of(nccl->model, places[i], family);
	return found;
}
