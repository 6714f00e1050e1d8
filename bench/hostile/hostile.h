/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile.h: a live transfer and someone who sprays forged packets at it. Private to the benchmark of that name.
 *
 * Three processes of one program. The two ends are made first, then forked off, so that the attacker has all they have:
 * their sockets, from which its packets come as from the peer itself, and their numbers and keys. What changes later, the
 * keys of posted receives, stands on a board that all three share.
 */
#ifndef BENCH_HOSTILE_H
#define BENCH_HOSTILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <godwit/scheme.h>

#define MESSAGE_BYTES	 (1u << 20)
#define MESSAGES_AT_ONCE 16
#define BOARD_SLOTS	 64
#define BOARD_COUNTERS	 128
#define PACKET_BYTES	 1024 /* of data: small, so that forgeries of full size are many */
#define WORD_BYTES	 8

enum { SENDER, RECEIVER, ENDS };

struct board {
	_Atomic uint64_t bytes; /* received and found right */
	_Atomic uint64_t messages;
	_Atomic bool stop;
	_Atomic bool failed;
	char why[160];
	/* The posted receives, by slot: which message goes there, and the key. Message first, key last. */
	_Atomic uint32_t message[BOARD_SLOTS];
	_Atomic uint32_t rkey[BOARD_SLOTS];
	uint64_t counters[ENDS][BOARD_COUNTERS]; /* as they were at the end */
};

struct ends {
	struct board *board;
	struct gw_context *ctx[ENDS];
	struct gw_qp *qp[ENDS];
};

/* Word `index` of a message. Every message differs from every other everywhere. */
static inline uint64_t hostile_word(uint32_t message, uint64_t index)
{
	return (index + 1) * UINT64_C(0x9e3779b97f4a7c15) ^
	       (uint64_t)(message + 1) * UINT64_C(0xd1342543de82ef95);
}

/* hostile_ends.c: what a forked process does until the board says stop. Does not return. */
/* `sealed`: their packets are encrypted and authenticated. */
void hostile_open(struct ends *ends, bool sealed);
void hostile_send(struct ends *ends) __attribute__((noreturn));
void hostile_receive(struct ends *ends) __attribute__((noreturn));

/* hostile_spray.c */
struct spray;
struct spray *spray_open(struct ends *ends, uint64_t seed);
/* Sends so many forged packets, a share of each kind, as fast as the sockets take them. */
void spray(struct spray *spray, uint64_t packets);
/* How many of each kind were sent; NULL past the last. */
const char *spray_kind(const struct spray *spray, unsigned kind, uint64_t *sent);

#endif
