/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the attributes of a multicast group; see multicast.h. */
#include <errno.h>

#include "fabric/multicast.h"

static bool is_multicast(const struct fabric_group_attr *attr)
{
	return attr->family == 4 ? (attr->ip[0] & 0xf0) == 0xe0 : attr->ip[0] == 0xff;
}

int multicast_check(const struct fabric_group_attr *attr, uint8_t family)
{
	const struct fabric_split *split = &attr->split;

	if ((attr->family != 4 && attr->family != 6) || !is_multicast(attr) ||
	    attr->qkey & 0x80000000u ||
	    split->slot_bits + split->packet_bits + split->user_bits != 32)
		return -EINVAL;
	return attr->family == family ? 0 : -EAFNOSUPPORT;
}
