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
	while (length >= LINE_BYTES) {
		uint64_t flag;

		memcpy(to, from, LINE_BYTES - LINE_FLAG);
		memcpy(&flag, from + LINE_BYTES - LINE_FLAG, sizeof(flag));
		__atomic_store_n((uint64_t *)(void *)(to + LINE_BYTES - LINE_FLAG), flag,
				 __ATOMIC_RELEASE);
		to += LINE_BYTES;
		from += LINE_BYTES;
		length -= LINE_BYTES;
	}
	memcpy(to, from, length);
}

#endif
