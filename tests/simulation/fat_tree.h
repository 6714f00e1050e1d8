/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fat_tree.h: bytes that an allgather puts on the links of a fat tree of switches with 32 ports: three levels, 16 hosts at a switch, 16
 * such switches in a pod. Ranks fill it in order. Computed from the steps that each rank has in its list.
 */
#ifndef SIMULATION_FAT_TREE_H
#define SIMULATION_FAT_TREE_H

#include <stdint.h>

#include <godwit/collective.h>

/* Blocks that cross links, each counted once for each link that it crosses. 0: no memory. */
uint64_t fat_tree_crossings(uint32_t ranks, enum gw_algorithm algorithm);
/* The same when switches copy packets. */
uint64_t fat_tree_multicast_crossings(uint32_t ranks);

#endif
