/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h: what the fabrics' multicast groups have in common. */
#ifndef FABRIC_GROUP_H
#define FABRIC_GROUP_H

#include "fabric/fabric.h"

/* The queue pair number that every multicast packet is addressed to. */
#define GROUP_QPN 0xffffffu
/* Some routers on the way, as for packets to one peer. */
#define GROUP_HOPS 64

/* 0; -EINVAL: not a multicast address, or a key or split that cannot be; -EAFNOSUPPORT: the end is of another family. */
int group_check(const struct fabric_group_attr *attr, uint8_t family);

#endif
