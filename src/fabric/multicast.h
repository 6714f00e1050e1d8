/* SPDX-License-Identifier: BSD-3-Clause */
/* multicast.h: what the multicast groups of all fabrics have in common. */
#ifndef FABRIC_MULTICAST_H
#define FABRIC_MULTICAST_H

#include "fabric/fabric.h"

/* Queue pair number that every multicast packet is addressed to. */
#define MULTICAST_QPN 0xffffffu
/* Hop limit of multicast packets: they may pass routers, as packets to one peer may. */
#define MULTICAST_HOPS 64

/* Checks a group's attributes. 0; -EINVAL: the address is not a multicast address, or the key or the split of the
 * immediate is not valid; -EAFNOSUPPORT: the address is not of this family (4 or 6). */
int multicast_check(const struct fabric_group_attr *attr, uint8_t family);

#endif
