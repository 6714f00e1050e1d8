/* SPDX-License-Identifier: BSD-3-Clause */
/* entropy.h: unpredictable bytes from the kernel, for keys that an attacker must not guess. */
#ifndef GODWIT_BASE_ENTROPY_H
#define GODWIT_BASE_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* Fills the whole buffer and returns 0, or -errno with the buffer in any state. */
int entropy_fill(void *buffer, size_t length);

/* A stock of unpredictable bytes, so that the kernel is asked once for many small numbers. Zero is an empty one. */
struct entropy {
	uint8_t bytes[1024];
	/* Bytes not yet used: the last ones. */
	uint32_t left;
};

/* Returns a number that nobody else was given. Aborts if the kernel has no entropy: guessable keys are worse than none. */
uint32_t entropy_u32(struct entropy *entropy);

#endif
