/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * promise.h: a key that was given away before its window exists (fabric_ops.promise), for fabrics whose software chooses
 * the keys. A queue pair promises one slot at most; the slot's first window gets the promised key.
 */
#ifndef FABRIC_PROMISE_H
#define FABRIC_PROMISE_H

#include <stdbool.h>
#include <stdint.h>

struct promise {
	/* Whether a key is promised and its slot not yet exposed. */
	bool open;
	uint32_t slot;
	uint32_t rkey;
};

/* Promises this key for the slot's first window; returns the key. */
static inline uint32_t promise_make(struct promise *promise, uint32_t slot, uint32_t rkey)
{
	*promise = (struct promise){ .open = true, .slot = slot, .rkey = rkey };
	return rkey;
}

/* The key of a window that opens in the slot: the promised one where there is one, else `fresh`. */
static inline uint32_t promise_keep(struct promise *promise, uint32_t slot, uint32_t fresh)
{
	if (!promise->open || promise->slot != slot)
		return fresh;
	promise->open = false;
	return promise->rkey;
}

#endif
