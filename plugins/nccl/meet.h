/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meet.h: how two processes make a connection. The end that connects shows the token that is in the listener's handle, and both
 * exchange descriptions of their channels, over <godwit/rendezvous.h>. The keeper does it; connect() and accept() only look.
 */
#ifndef PLUGINS_NCCL_MEET_H
#define PLUGINS_NCCL_MEET_H

#include "state.h"

#define HANDLE_MAGIC   UINT64_C(0x476f647769744e31) /* "GodwitN1" */
#define HANDLE_VERSION 1

/* The 128 bytes that NCCL carries from listen() to connect(), and gives to every call of that again. */
struct handle {
	uint64_t magic;
	uint16_t version;
	/* settings_mark() */
	uint16_t mark;
	/* TCP port of the listening process */
	uint16_t port;
	uint16_t reserved;
	uint8_t token[TOKEN_BYTES];
	char address[ADDRESS_CHARS];
	char padding[2];
	/* the meeting that connect() has begun; 0: none. Not part of what travels. */
	uint64_t meeting;
};
_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "a handle has 128 bytes");

/* What both ends of a rendezvous have in common: names, version, secret. */
void meet_attr(struct gw_rendezvous_attr *attr);

/* Begins to connect. Returns the number of the meeting, or 0 without memory. Holds process.lock. */
uint64_t meet_begin(struct endpoint *endpoint, struct communicator *communicator,
		    const struct handle *handle);

/* What became of a meeting: 1 and the connection, 0 if it is under way, or -errno and the reason, which was logged. A meeting
 * that has ended is forgotten. Holds process.lock. */
int meet_result(uint64_t meeting, uint64_t now, struct connection **out);

#endif
