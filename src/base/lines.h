/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.h: a copy for memory that somebody polls while it is written. A reader that sees the last 8 bytes of a line of 128 sees
 * the rest of it, too: NCCL's LL128 protocol puts a flag there. memcpy() promises no order, and stores the first bytes of a
 * block last.
 */
#ifndef GODWIT_BASE_LINES_H
#define GODWIT_BASE_LINES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LINE_BYTES 128
#define LINE_FLAG  8
/* bytes that one instruction copies */
#define LINE_PIECE 16

/* Copies a line that begins at a multiple of 128. In pieces of fixed size: for a memcpy() of 120 bytes compilers use an instruction
 * that takes longer to start than these take to end. */
static inline void lines_copy_one(uint8_t *to, const uint8_t *from)
{
	uint64_t flag;

#pragma GCC unroll 8
	for (unsigned at = 0; at < LINE_BYTES - LINE_PIECE; at += LINE_PIECE)
		memcpy(to + at, from + at, LINE_PIECE);
	memcpy(to + LINE_BYTES - LINE_PIECE, from + LINE_BYTES - LINE_PIECE,
	       LINE_PIECE - LINE_FLAG);
	memcpy(&flag, from + LINE_BYTES - LINE_FLAG, sizeof(flag));
	__atomic_store_n((uint64_t *)(void *)(to + LINE_BYTES - LINE_FLAG), flag, __ATOMIC_RELEASE);
}

/* Copies in increasing order of lines, where `to` is a multiple of 128 at the beginning of each, and in each the flag last. */
static inline void lines_copy(uint8_t *to, const uint8_t *from, size_t length)
{
	size_t first = LINE_BYTES - ((uintptr_t)to & (LINE_BYTES - 1));

	/* Up to the first whole line, if the copy begins inside one. */
	if (first != LINE_BYTES || length < LINE_BYTES) {
		size_t n = length < first ? length : first;
		size_t flag = n == first && n > LINE_FLAG ? LINE_FLAG : 0;

		memcpy(to, from, n - flag);
		atomic_thread_fence(memory_order_release);
		memcpy(to + n - flag, from + n - flag, flag);
		to += n;
		from += n;
		length -= n;
	}
	for (; length >= LINE_BYTES; length -= LINE_BYTES, to += LINE_BYTES, from += LINE_BYTES)
		lines_copy_one(to, from);
	memcpy(to, from, length);
}

#endif
