/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a transfer: a context on the right address, one channel, and registered memory cut into
 * pieces. A piece is one message's buffer. The pieces of the file form a ring, whose size bounds the
 * memory, and with it what is in flight, whatever the file's size.
 */
#ifndef TOOLS_FILE_END_H
#define TOOLS_FILE_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/channel.h>
#include <godwit/erasure.h>
#include <godwit/rendezvous.h>

#include "tools/options.h"
#include "tools/scheme.h"

struct report;

#define RING_MAX 256

enum piece_state { PIECE_IDLE, PIECE_OPEN, PIECE_ENDED };

struct piece {
	enum piece_state state;
	/* result of the message: 0 or -errno */
	int status;
	uint8_t *memory;
	/* bytes in the message, once it ended */
	uint64_t length;
	/* bytes of the message known to be at the receiver, once it ended */
	uint64_t moved;
	/* memory for parity, under a scheme that codes; else null */
	struct gw_erasure *code;
};

struct file_end {
	struct gw_context *ctx;
	struct gw_channel *channel;
	struct gw_mr *mr;
	uint8_t *memory;
	size_t memory_bytes;
	const struct scheme *scheme;
	/* status with which the peer was lost; 0 while it is there */
	int gone;
	/* pieces in the ring */
	uint32_t pieces;
	struct piece ring[RING_MAX];
	struct piece trailer;
	struct piece verdict;
};

/* `met` is the connection to the other end; the file has `blocks` blocks of `block` bytes. Congestion control and the rate limit
 * in the options hold for what this end sends. */
int file_end_open(struct file_end *end, struct report *report, const struct options *options,
		  struct gw_rendezvous *met, const struct scheme *scheme, uint32_t block,
		  uint64_t blocks);

/* Tells the peer and gives everything back. Harmless on one that is not open. */
void file_end_close(struct file_end *end);

/* The piece must be idle. Returns 0, -EAGAIN if the channel has no room for it yet, or -errno of the library. */
int file_end_send(struct file_end *end, struct piece *piece, uint64_t length);
int file_end_recv(struct file_end *end, struct piece *piece, uint64_t length);

/* The piece of a block. */
struct piece *file_end_piece(struct file_end *end, uint64_t block);

/* Makes an ended piece idle again. */
void piece_reuse(struct piece *piece);

/* Sleeps until something happens, a tenth of a second at most, and does it. -EINTR when a signal asks to stop. */
int file_end_wait(struct file_end *end);

/* Does what there is to do without sleeping: call it between slow things. */
void file_end_poll(struct file_end *end);

#endif
