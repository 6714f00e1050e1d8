/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd.h: several contexts on one address and port, each with a queue pair to every other, for tests. Transfers run under
 * Selective Repeat: what is handed on goes through short queues and may be lost like any packet.
 */
#ifndef TESTS_UNIT_FABRIC_CROWD_H
#define TESTS_UNIT_FABRIC_CROWD_H

#include "../message/pair.h"

#define CROWD	     7
#define CROWD_LENGTH 30001u
#define CROWD_ROOM   (2 * CROWD_LENGTH)

struct member {
	struct gw_context *ctx; /* null: not there */
	struct gw_mr *mr;
	uint8_t memory[CROWD_ROOM];
	struct gw_qp *qps[CROWD]; /* to each of the others */
};

extern struct member crowd[CROWD];
/* These make no progress. */
extern bool crowd_asleep[CROWD];

/* A UDP port of 127.0.0.1 that was free just now. */
uint16_t crowd_port(void);
int crowd_context(uint16_t port, struct gw_context **out);

void crowd_join(unsigned i, uint16_t port);
void crowd_leave(unsigned i);

/* CROWD_LENGTH bytes, found right at the other end. */
void crowd_carry(struct member *from, struct gw_qp *out, struct member *to, struct gw_qp *in);
void crowd_all_to_all(void);

/* Of a counter, over all that are there. */
uint64_t crowd_total(const char *name);
/* Which sockets of the port a member's packets come to (fabric/roce/share.c). */
uint32_t crowd_class(unsigned i);

#endif
