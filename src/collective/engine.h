/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h: runs a list of steps. It begins every step whose reasons to wait are gone, and messages to or from one rank in the
 * order of the list. Who moves the messages and does the arithmetic is the owner's business.
 */
#ifndef COLLECTIVE_ENGINE_H
#define COLLECTIVE_ENGINE_H

#include <stdint.h>

#include "collective/program.h"

/* Messages with one rank, each way, that are open at a time. */
#define ENGINE_WINDOW 64

struct engine_ops {
	/* Begins to send or to receive. 0; or -EAGAIN: not now, engine_kick() follows; or -errno, which ends the run. */
	int (*post)(void *arg, uint32_t step);
	/* Does the arithmetic of a step at once. */
	void (*compute)(void *arg, uint32_t step);
};

/* Messages of one kind with one rank. */
struct queue {
	/* next step to begin, or STEP_NONE */
	uint32_t head;
	/* steps that have begun and not ended */
	uint32_t open;
};

struct engine {
	struct program *program;
	const struct engine_ops *ops;
	void *arg;
	/* ranks */
	uint32_t size;
	/* steps that have not ended */
	uint32_t left;
	/* first step of arithmetic that waits for nothing, linked by `next`; and the last */
	uint32_t ready, ready_last;
	/* two for each rank: what it is sent, and what it sends */
	struct queue *queues;
	/* what `post` failed with */
	int error;
};

/* Makes a run of a sealed program. -ENOMEM */
int engine_init(struct engine *engine, struct program *program, uint32_t size,
		const struct engine_ops *ops, void *arg);
void engine_free(struct engine *engine);

/* Begins all that can begin. Returns `error`; or 1 when every step has ended. */
int engine_start(struct engine *engine);

/* A send or a receive has ended. Returns as engine_start(). */
int engine_ended(struct engine *engine, uint32_t step);

/* Messages with a rank that could not begin may be able to. Returns as engine_start(). */
int engine_kick(struct engine *engine, uint32_t peer);

#endif
