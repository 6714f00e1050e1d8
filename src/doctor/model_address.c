/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, GIDs and the interfaces that have them. */
#include "model.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

struct netdev *model_netdev(const struct model *model, const char *name)
{
	for (size_t i = 0; i < model->netdev_count; i++) {
		if (strcmp(model->netdevs[i].name, name) == 0)
			return &model->netdevs[i];
	}
	return NULL;
}

const struct address *model_address(const struct model *model, const char *netdev,
				    const struct address *after)
{
	size_t at = after ? (size_t)(after - model->addresses) + 1 : 0;

	for (; at < model->address_count; at++) {
		if (strcmp(model->addresses[at].netdev, netdev) == 0)
			return &model->addresses[at];
	}
	return NULL;
}

bool address_link_local(const struct address *address)
{
	if (address->family == AF_INET)
		return address->raw[0] == 169 && address->raw[1] == 254;
	return address->raw[0] == 0xfe && (address->raw[1] & 0xc0) == 0x80;
}

bool address_same_subnet(const struct address *a, const struct address *b)
{
	unsigned bits = a->prefix, whole = bits / 8;
	uint8_t mask = (uint8_t)(0xff00u >> bits % 8);

	if (a->family != b->family || a->prefix != b->prefix ||
	    bits > (a->family == AF_INET ? 32 : 128))
		return false;
	if (memcmp(a->raw, b->raw, whole) != 0)
		return false;
	return bits % 8 == 0 || (a->raw[whole] & mask) == (b->raw[whole] & mask);
}

bool gid_maps_ipv4(const uint8_t raw[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(raw, prefix, sizeof(prefix)) == 0;
}

bool gid_is_link_local(const uint8_t raw[16])
{
	static const uint8_t prefix[8] = { 0xfe, 0x80 };

	return memcmp(raw, prefix, sizeof(prefix)) == 0;
}

const char *gid_text(const uint8_t raw[16], char out[INET6_ADDRSTRLEN])
{
	const char *done = gid_maps_ipv4(raw) ? inet_ntop(AF_INET, raw + 12, out, INET6_ADDRSTRLEN)
					      : inet_ntop(AF_INET6, raw, out, INET6_ADDRSTRLEN);

	return done ? done : "";
}
