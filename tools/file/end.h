/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a transfer: a context on the right address, one queue pair, and registered memory cut
 * into pieces. A piece is one message's buffer; at most RING_PIECES of the file are under way at once,
 * which bounds the memory whatever the file's size.
 */
#ifndef TOOLS_FILE_END_H
#define TOOLS_FILE_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/flow.h>
#include <godwit/scheme.h>

#include "tools/options.h"

struct report;

#define RING_PIECES 16

enum piece_state { PIECE_IDLE, PIECE_OPEN, PIECE_ENDED };

struct piece {
	enum piece_state state;
	/* result of the message: 0 or -errno */
	int status;
	uint8_t *memory;
	/* bytes in the message, once it ended */
	uint64_t length;
	/* packets that landed, of a receive */
	uint32_t packets;
	struct gw_send *send;
	struct gw_recv *recv;
};

struct file_end {
	struct gw_context *ctx;
	struct gw_qp *qp;
	/* congestion control of what is sent; null at the receiver */
	struct gw_flow *flow;
	struct gw_mr *mr;
	uint8_t *memory;
	size_t memory_bytes;
	/* status with which the peer was lost; 0 while it is there */
	int gone;
	struct piece ring[RING_PIECES];
	struct piece trailer;
	struct piece verdict;
};

/* `local` is an address of this host; the ring's pieces are `block` bytes each, `pieces` of them. */
int file_end_open(struct file_end *end, struct report *report, const struct options *options,
		  const char *local, uint32_t block, unsigned pieces);

/* Puts a congestion controller in front of the connected queue pair. For the end that sends the file. */
int file_end_govern(struct file_end *end, struct report *report, const struct options *options);

/* Tells the peer and gives everything back. Harmless on one that is not open. */
void file_end_close(struct file_end *end);

/* The piece must be idle. 0 or -errno of the library. */
int file_end_send(struct file_end *end, struct piece *piece, uint64_t length);
int file_end_recv(struct file_end *end, struct piece *piece, uint64_t length);

/* Makes an ended piece idle again. */
void piece_reuse(struct piece *piece);

/* Sleeps until something happens, a tenth of a second at most, and does it. -EINTR when a signal asks to stop. */
int file_end_wait(struct file_end *end);

/* Does what there is to do without sleeping: call it between slow things. */
void file_end_poll(struct file_end *end);

#endif
