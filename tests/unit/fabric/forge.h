/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forge.h: hand-made RoCEv2 packets from a plain UDP socket, for tests.
 *
 * A forger knows everything that the victim's peer knows: numbers, keys, tokens. So a packet of its own making is taken
 * like the peer's, unless it is wrong in some way, and a test makes it wrong in one way at a time.
 */
#ifndef TESTS_UNIT_FABRIC_FORGE_H
#define TESTS_UNIT_FABRIC_FORGE_H

#include "../message/pair.h"

#include "fabric/roce/endpoint.h"
#include "message/state.h"
#include "base/bytes.h"

#define FORGE_MAX 8192

struct forger {
	int fd;
	struct gw_context *victim;
	struct gw_qp *qp; /* the victim's */
	union socket_address to;
	struct icrc_flow flow;
};

/* From a free port of `address`. */
void forger_open(struct forger *forger, const char *address, struct gw_qp *qp);
void forger_close(struct forger *forger);

/* A whole packet: headers, payload, pad, ICRC. Returns its length. */
size_t forge(const struct forger *forger, const struct roce_packet *packet, uint8_t *out);
/* The right ICRC for bytes that were changed. */
void forge_icrc(const struct forger *forger, uint8_t *bytes, size_t length);
void forge_send(const struct forger *forger, const void *bytes, size_t length);

/* The data packet that the peer would send for packet `number` of this receive, with its right length. */
void forge_data(const struct forger *forger, const struct gw_recv *recv, uint32_t number,
		const uint8_t *message, struct roce_packet *out);

/* A control datagram of the peer: `bytes` is a control message. */
void forge_control(const struct forger *forger, const void *bytes, size_t length,
		   struct roce_packet *out);

/* The header that the peer would write now. */
struct control_header forge_header(const struct forger *forger);

#endif
