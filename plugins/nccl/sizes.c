/* SPDX-License-Identifier: BSD-3-Clause */
/* The sizes of a connection's buffers. */
#include "sizes.h"

/* A near connection has about 1 MiB of memory with these, a far one 8 MiB; it is touched as it is used. */
#define OPERATIONS 128
#define PACKS	   8
#define SLOTS	   64
/* Bytes of a small send: a slice of NCCL's LL protocol, or of its operations to some MiB where the path is long. */
#define NEAR_BYTES (64u << 10)
#define FAR_BYTES  (512u << 10)
/* Room in a pack for the headers of its records. */
#define HEADERS 4096u
/* A path is long if two copies of FAR_BYTES take a small part of its round-trip time. */
#define FAR_NS UINT64_C(1000000)

void connection_sizes(uint64_t rtt_ns, struct gw_channel_attr *attr)
{
	attr->operations = OPERATIONS;
	attr->packs = PACKS;
	attr->slots = SLOTS;
	attr->small_bytes = rtt_ns < FAR_NS ? NEAR_BYTES : FAR_BYTES;
	attr->pack_bytes = attr->small_bytes + HEADERS;
}
