/* SPDX-License-Identifier: BSD-3-Clause */
/* sizes.h: how large a connection's buffers are, by the round-trip time of its path. */
#ifndef PLUGINS_NCCL_SIZES_H
#define PLUGINS_NCCL_SIZES_H

#include <godwit/channel.h>

/*
 * Sets operations, packs, slots, and the bytes of small sends and packs. `rtt_ns` is the path's round-trip time, 0 if it is not
 * known. Small sends are copied at both ends and wait for no grant. Where the path is long they may be large: NCCL posts the
 * receives of an operation when it begins, so that their grants would arrive half a round trip after the data is ready.
 */
void connection_sizes(uint64_t rtt_ns, struct gw_channel_attr *attr);

#endif
