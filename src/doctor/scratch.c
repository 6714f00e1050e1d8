/* SPDX-License-Identifier: BSD-3-Clause */
/* A list of blocks, one for each text: an examination makes some ten thousand. */
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_NOT_EXAMINED 3

struct scratch_block {
	struct scratch_block *next;
	char bytes[];
};

static void *must(void *memory)
{
	static const char words[] = "godwit doctor: out of memory\n";

	if (memory)
		return memory;
	(void)!write(STDERR_FILENO, words, sizeof(words) - 1);
	_exit(STATUS_NOT_EXAMINED);
}

void *scratch_alloc(struct scratch *scratch, size_t size)
{
	struct scratch_block *block = must(calloc(1, sizeof(*block) + size));

	block->next = scratch->blocks;
	scratch->blocks = block;
	return block->bytes;
}

char *scratch_copy(struct scratch *scratch, const char *text, size_t length)
{
	char *copy = scratch_alloc(scratch, length + 1);

	if (length)
		memcpy(copy, text, length);
	return copy;
}

char *scratch_vprint(struct scratch *scratch, const char *format, va_list args)
{
	va_list again;
	char *text;
	int length;

	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (length < 0)
		return scratch_alloc(scratch, 1);
	text = scratch_alloc(scratch, (size_t)length + 1);
	vsnprintf(text, (size_t)length + 1, format, args);
	return text;
}

char *scratch_print(struct scratch *scratch, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = scratch_vprint(scratch, format, args);
	va_end(args);
	return text;
}

void scratch_free(struct scratch *scratch)
{
	while (scratch->blocks) {
		struct scratch_block *block = scratch->blocks;

		scratch->blocks = block->next;
		free(block);
	}
}

void builder_add(struct builder *builder, const void *bytes, size_t length)
{
	if (builder->room - builder->length <= length) {
		builder->room = (builder->length + length + 1) * 2;
		builder->text = must(realloc(builder->text, builder->room));
	}
	if (length)
		memcpy(builder->text + builder->length, bytes, length);
	builder->length += length;
	builder->text[builder->length] = '\0';
}

void builder_print(struct builder *builder, const char *format, ...)
{
	char line[1024];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (length > 0)
		builder_add(builder, line,
			    (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1);
}

void builder_free(struct builder *builder)
{
	free(builder->text);
	*builder = (struct builder){ 0 };
}
