/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of an address; see address.h. A peer sent them, so that every field is checked. */
#include <errno.h>
#include <string.h>

#include "fabric/address.h"
#include "base/bytes.h"

#define QPN_MASK 0xffffffu

static size_t ip_size(uint8_t family)
{
	return family == 4 ? 4 : 16;
}

size_t address_encode(const struct roce_address *address, uint8_t out[FABRIC_ADDRESS_MAX])
{
	memset(out, 0, FABRIC_ADDRESS_MAX);
	out[0] = address->kind;
	out[1] = address->family;
	put_be16(out + 2, address->port);
	memcpy(out + 4, address->ip, ip_size(address->family));
	put_be32(out + 20, address->qpn[0]);
	put_be32(out + 24, address->control_qpn);
	put_be32(out + 28, address->qkey);
	if (address->kind == ADDRESS_USER_SPACE) {
		out[32] = address->flags;
		for (unsigned i = 1; i < ADDRESS_LANES; i++)
			put_be16(out + 36 + 2 * (i - 1), address->lane_ports[i]);
		return ADDRESS_USER_SPACE_SIZE;
	}
	out[36] = address->mode;
	out[37] = address->lanes;
	put_be16(out + 38, address->path_mtu);
	for (unsigned i = 1; i < address->lanes; i++)
		put_be24(out + 40 + 3 * (i - 1), address->qpn[i]);
	return ADDRESS_NIC_SIZE;
}

static int decode_nic(const uint8_t *bytes, size_t length, struct roce_address *address)
{
	if (length < ADDRESS_NIC_SIZE)
		return -EINVAL;
	address->mode = bytes[36];
	address->lanes = bytes[37];
	address->path_mtu = get_be16(bytes + 38);
	if (address->mode != ADDRESS_UC && address->mode != ADDRESS_UD)
		return -EPROTONOSUPPORT;
	if (!address->lanes || address->lanes > ADDRESS_LANES || address->path_mtu < 256 ||
	    address->port != ADDRESS_PORT)
		return -EINVAL;
	for (unsigned i = 1; i < address->lanes; i++)
		address->qpn[i] = get_be24(bytes + 40 + 3 * (i - 1));
	return 0;
}

static void decode_user_space(const uint8_t *bytes, struct roce_address *address)
{
	address->flags = bytes[32];
	for (unsigned i = 1; i < ADDRESS_LANES; i++)
		address->lane_ports[i] = get_be16(bytes + 36 + 2 * (i - 1));
}

int address_decode(const uint8_t *bytes, size_t length, struct roce_address *out)
{
	struct roce_address address = { .mode = ADDRESS_UC, .lanes = 1 };

	if (length < ADDRESS_USER_SPACE_SIZE)
		return -EINVAL;
	address.kind = bytes[0];
	address.family = bytes[1];
	address.port = get_be16(bytes + 2);
	if (address.kind != ADDRESS_USER_SPACE && address.kind != ADDRESS_NIC)
		return -EPROTONOSUPPORT;
	if ((address.family != 4 && address.family != 6) || !address.port)
		return -EINVAL;
	memcpy(address.ip, bytes + 4, ip_size(address.family));
	address.qpn[0] = get_be32(bytes + 20) & QPN_MASK;
	address.control_qpn = get_be32(bytes + 24) & QPN_MASK;
	address.qkey = get_be32(bytes + 28);
	if (address.kind == ADDRESS_NIC) {
		int error = decode_nic(bytes, length, &address);

		if (error)
			return error;
	} else {
		decode_user_space(bytes, &address);
	}
	*out = address;
	return 0;
}
