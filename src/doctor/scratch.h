/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scratch.h: memory and texts that live as long as an examination.
 *
 * A check makes many short texts and never knows which of them a finding will keep. They are all freed together. Running
 * out of memory ends the process with the status "could not examine": there is nothing left to examine with.
 */
#ifndef DOCTOR_SCRATCH_H
#define DOCTOR_SCRATCH_H

#include <stdarg.h>
#include <stddef.h>

struct scratch_block;

/* Zero is an empty one. */
struct scratch {
	struct scratch_block *blocks;
};

/* Returns zeroed memory, never null. */
void *scratch_alloc(struct scratch *scratch, size_t size);

/* Returns a copy that ends in a zero byte. */
char *scratch_copy(struct scratch *scratch, const char *text, size_t length);

char *scratch_print(struct scratch *scratch, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
char *scratch_vprint(struct scratch *scratch, const char *format, va_list args);

void scratch_free(struct scratch *scratch);

/* A text that grows. Zero is empty; `text` is null until something was added. */
struct builder {
	char *text;
	size_t length;
	size_t room;
};

void builder_add(struct builder *builder, const void *bytes, size_t length);
void builder_print(struct builder *builder, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void builder_free(struct builder *builder);

#endif
