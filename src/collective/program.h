/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.h: what one rank does in one operation, as a list of steps: send, receive, reduce, copy, scale.
 *
 * An algorithm writes the steps down in an order in which they would be right if done one after the other. The list itself finds
 * out which of them must wait for which: a step that reads waits for the last one that wrote there, and a step that writes waits
 * for all that read or wrote there before. Whatever is left runs side by side (engine.c). Messages between two ranks match in
 * the order of the steps, so that both lists must name them in the same order.
 *
 * Memory is named by *cells*, never by bytes. The data of an operation is cut into chunks (one a rank, as a rule), and each chunk
 * into segments of about the same size, with a boundary between elements. A cell is a segment; cells are numbered through all
 * chunks. Two steps touch the same memory only if they name the same cell.
 */
#ifndef COLLECTIVE_PROGRAM_H
#define COLLECTIVE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define STEP_NONE UINT32_MAX

/* How an operation's data is cut. */
struct layout {
	/* elements of all chunks together */
	uint64_t elements;
	/* bytes of an element */
	uint32_t unit;
	uint32_t chunks;
	/* segments of each chunk */
	uint32_t segments;
};

/* Offset in bytes of a cell from the start of all data. A cell after the last one is the end. */
uint64_t layout_offset(const struct layout *layout, uint32_t cell);

/* Cells of all chunks. */
static inline uint32_t layout_cells(const struct layout *layout)
{
	return layout->chunks * layout->segments;
}

enum place {
	/* the caller's buffers */
	PLACE_SEND,
	PLACE_RECV,
	/* memory of the operation with the layout of the data: partial results */
	PLACE_WORK,
	/* memory of the operation in slots, each of which takes one message: data on its way to be reduced */
	PLACE_SLOT,
	PLACE_COUNT,
};

/* Some cells that follow each other, or one slot. */
struct spot {
	enum place place;
	uint32_t first;
	uint32_t cells;
};

enum step_kind {
	/* `from` goes to `peer` */
	STEP_SEND,
	/* `to` comes from `peer` */
	STEP_RECV,
	/* to = from op with */
	STEP_REDUCE,
	/* to = from */
	STEP_COPY,
	/* to = to / ranks */
	STEP_SCALE,
};

struct step {
	enum step_kind kind;
	uint32_t peer;
	struct spot to;
	struct spot from;
	struct spot with;
	uint64_t bytes;
	/* steps that must end before this one may begin, and have not */
	uint32_t waits;
	/* first edge to a step that waits for this one */
	uint32_t edges;
	/* next step of the same kind with the same peer */
	uint32_t next;
};

/* One step waits for another. */
struct edge {
	uint32_t step;
	uint32_t next;
};

/* A step that read a cell since it was last written. */
struct reader {
	uint32_t step;
	uint32_t next;
};

/* What is known of a cell while the list grows. */
struct cell {
	uint32_t writer;
	uint32_t readers;
};

/* A list that grows. */
struct grow {
	void *items;
	uint32_t count;
	uint32_t room;
};

struct program {
	struct layout layout;
	/* what a place stands for: PLACE_SEND and PLACE_RECV are the same memory in an operation in place */
	enum place alias[PLACE_COUNT];
	/* bytes and number of slots */
	uint64_t slot_bytes;
	uint32_t slots;
	/* PLACE_WORK is used */
	bool work;
	/* 0, or -ENOMEM once */
	int error;
	struct grow steps, edges, readers;
	struct cell *cells[PLACE_COUNT];
};

/* Begins a list. `in_place`: PLACE_SEND is PLACE_RECV. -ENOMEM */
int program_init(struct program *program, const struct layout *layout, uint32_t slots,
		 bool in_place);
void program_free(struct program *program);

static inline struct step *program_steps(const struct program *program)
{
	return program->steps.items;
}

static inline struct edge *program_edges(const struct program *program)
{
	return program->edges.items;
}

static inline struct spot spot(enum place place, uint32_t first, uint32_t cells)
{
	return (struct spot){ place, first, cells };
}

/* Add a step. Each returns its index; STEP_NONE if it has no bytes and was left out, or if memory is short (`error`). Those with
 * `like` are for slots, which do not say how many bytes they hold: as many as the cells of `like`. */
uint32_t program_send(struct program *program, uint32_t peer, struct spot from);
uint32_t program_send_as(struct program *program, uint32_t peer, struct spot from,
			 struct spot like);
uint32_t program_recv(struct program *program, uint32_t peer, struct spot to);
uint32_t program_recv_as(struct program *program, uint32_t peer, struct spot to, struct spot like);
uint32_t program_reduce_as(struct program *program, struct spot to, struct spot from,
			   struct spot with, struct spot like);
uint32_t program_copy(struct program *program, struct spot to, struct spot from);
uint32_t program_scale(struct program *program, struct spot to);

/* Adds another reason to wait. Either may be STEP_NONE: nothing happens. */
void program_after(struct program *program, uint32_t step, uint32_t before);

/* Called when all steps are there: frees what only the growing needed. Returns `error`. */
int program_seal(struct program *program);

#endif
