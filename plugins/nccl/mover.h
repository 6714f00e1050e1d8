/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover.h: which thread moves the messages of a connection, NCCL's own or an engine's. It is decided by the messages so far,
 * because the next ones are probably alike; but the last slice of a step may be empty, and a tail short. So a large message makes the
 * engine the mover at once, and NCCL's thread is it again after a run of small ones.
 */
#ifndef PLUGINS_NCCL_MOVER_H
#define PLUGINS_NCCL_MOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Small messages in a row that make NCCL's thread the mover: two steps of an operation, and as many again. */
#define MOVER_SMALL_RUN 8

struct mover {
	/* the engine's thread moves messages; read by any thread */
	_Atomic bool engine;
	/* small messages since the last large one */
	unsigned small_run;
};

static inline bool mover_is_engine(struct mover *mover)
{
	return atomic_load_explicit(&mover->engine, memory_order_relaxed);
}

/* Takes note of a message. Messages of more than `most` bytes are large. Returns true if the engine is the mover from now on and was
 * not before. */
static inline bool mover_note(struct mover *mover, uint64_t bytes, uint64_t most)
{
	bool engine = mover_is_engine(mover);

	if (bytes > most) {
		mover->small_run = 0;
		atomic_store_explicit(&mover->engine, true, memory_order_relaxed);
		return !engine;
	}
	if (engine && ++mover->small_run == MOVER_SMALL_RUN)
		atomic_store_explicit(&mover->engine, false, memory_order_relaxed);
	return false;
}

#endif
