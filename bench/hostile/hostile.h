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
	/* How often the counters were asked for, and how often an end has written them since. */
	_Atomic unsigned asked;
	_Atomic unsigned answered[ENDS];
	/* As they were when last asked for, and at the end. */
	uint64_t counters[ENDS][BOARD_COUNTERS];
	/* With sealed packets: an end has sent enough of them that PSNs began anew, and the next key was taken. */
	bool crossed[ENDS];
};

struct ends {
	struct board *board;
	bool sealed;
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
/* `sealed`: their packets are encrypted and authenticated. An earlier connection of theirs is overheard then, and the recorder
 * returned; else null. */
struct recorder *hostile_open(struct ends *ends, bool sealed);
void hostile_send(struct ends *ends) __attribute__((noreturn));
void hostile_receive(struct ends *ends) __attribute__((noreturn));

/* hostile_replay.c: sealed packets that were overheard. */
#define RECORDED_MAX 1400

enum overheard {
	/* one of the last that were sent */
	REPLAY_FRESH,
	/* one of the first: PSNs have begun anew and keys have changed since */
	REPLAY_OLD,
	/* one of another connection between the same ends with the same secret, with the queue pair number changed */
	REPLAY_CONNECTION,
	/* one of the last, back to the end that sent it, with the queue pair number changed */
	REPLAY_REFLECTED,
	REPLAYS,
};

struct recorded {
	/* the end that it goes to */
	int end;
	size_t length;
	uint8_t bytes[RECORDED_MAX];
};

struct recorder;
struct recorder *replay_open(struct ends *ends);
/* Lets the counters of both ends begin shortly before their PSNs begin anew; before anything is sent. */
void replay_begin(struct ends *ends);
bool replay_crossed(const struct ends *ends, int end);
/* Keeps what lies first in an end's socket: anything if it belongs to the earlier connection, else what is genuine. */
void replay_record(struct recorder *recorder, int end, bool earlier);
/* False: there is none of that kind yet. */
bool replay_pick(const struct recorder *recorder, enum overheard kind, uint32_t random,
		 struct recorded *out);
/* Whether there is one of each kind. */
bool replay_complete(const struct recorder *recorder);

/* hostile_spray.c */
struct spray;
/* The recorder may be null: nothing is replayed then. */
struct spray *spray_open(struct ends *ends, struct recorder *recorder, uint64_t seed);
/* Sends so many packets that were overheard, and nothing else. */
void spray_replays(struct spray *spray, uint64_t packets);
/* Sends so many forged packets, a share of each kind, as fast as the sockets take them. */
void spray(struct spray *spray, uint64_t packets);
/* How many of each kind were sent; NULL past the last. */
const char *spray_kind(const struct spray *spray, unsigned kind, uint64_t *sent);

#endif
