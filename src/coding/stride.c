/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stride.c: a group of m blocks is a matrix with a block in each row and a run in each column. Packet order reads it column by
 * column. The last block but one may be cut short, so that one row ends early.
 *
 * A copy writes a few runs side by side, each from another place, then the next few from behind those. So it reads a few streams,
 * which the processor prefetches; with a place for each row or each column, every run would lie in another page than the one
 * before.
 */
#include "coding/stride.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "coding/hadamard.h"

#define LINE_BYTES 64
/* Places that a copy reads from in turns. */
#define STREAMS 8
/* Tensors from this size on are written past the caches, where they would not stay anyway. */
#define STREAM_BYTES ((size_t)8 << 20)

/* A group: rows of `block` elements, except that row number `cut_row` has `cut`. */
struct group {
	/* its first block, and how many it has */
	size_t first;
	size_t rows;
	/* rows, if none is cut */
	size_t cut_row;
	size_t cut;
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

void stride_init(struct stride *stride, size_t count, size_t size, size_t block, size_t interleave,
		 size_t packet_bytes)
{
	size_t wanted;

	assert(size > 0 && interleave > 0);
	*stride = (struct stride){ .count = count,
				   .size = size,
				   .blocks = hadamard_parts(count, block) };
	if (!count)
		return;
	stride->block = hadamard_block(count, block);
	stride->cut = count % stride->block;
	stride->groups = (stride->blocks + interleave - 1) / interleave;
	wanted = packet_bytes / size / least(interleave, stride->blocks);
	if (wanted < LINE_BYTES / size)
		wanted = LINE_BYTES / size;
	stride->run = 1;
	while (stride->run < stride->block && stride->run * 2 <= wanted)
		stride->run *= 2;
}

/* Where a block begins in the tensor. The last one is whole, and takes from the one before. */
static size_t block_start(const struct stride *stride, size_t block)
{
	return block + 1 < stride->blocks ? block * stride->block : stride->count - stride->block;
}

/* Groups differ by one row at most. */
static struct group group_at(const struct stride *stride, size_t index)
{
	size_t first = stride->blocks * index / stride->groups;
	size_t end = stride->blocks * (index + 1) / stride->groups;
	struct group group = { first, end - first, end - first, stride->block };

	if (stride->cut && stride->blocks - 2 >= first && stride->blocks - 2 < end) {
		group.cut_row = stride->blocks - 2 - first;
		group.cut = stride->cut;
	}
	return group;
}

/* Elements of a row that columns below `column` have. */
static size_t row_before(const struct stride *stride, const struct group *group, size_t row,
			 size_t column)
{
	return least(column * stride->run, row == group->cut_row ? group->cut : stride->block);
}

/* Place in the group's packet order of the run of a row in a column. */
static size_t run_place(const struct stride *stride, const struct group *group, size_t row,
			size_t column)
{
	/* Whole rows above have one run more than those from here on; the cut row has what it has. */
	size_t place = (group->rows * column + row) * stride->run;

	if (group->cut_row < group->rows) {
		size_t before = column + (group->cut_row < row);

		place -= before * stride->run - row_before(stride, group, group->cut_row, before);
	}
	return place;
}

/* Elements in the run of a row in a column. */
static size_t run_length(const struct stride *stride, const struct group *group, size_t row,
			 size_t column)
{
	return row_before(stride, group, row, column + 1) - row_before(stride, group, row, column);
}

/* ---- copying ------------------------------------------------------------------------------------------------------- */

#ifdef __SSE2__

/* Past the caches: a line that is written whole need not be read first. */
static void stream_line(unsigned char *to, const unsigned char *from)
{
	for (unsigned i = 0; i < LINE_BYTES / sizeof(__m128i); i++)
		_mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)from + i));
}

static bool may_stream(const unsigned char *to)
{
	return (uintptr_t)to % sizeof(__m128i) == 0;
}

static void stream_end(void)
{
	_mm_sfence();
}

#else

static void stream_line(unsigned char *to, const unsigned char *from)
{
	memcpy(to, from, LINE_BYTES);
}

static bool may_stream(const unsigned char *to)
{
	return false;
}

static void stream_end(void)
{
}

#endif

static void copy(unsigned char *to, const unsigned char *from, size_t bytes, bool stream)
{
	stream = stream && may_stream(to);
	for (; bytes >= LINE_BYTES; bytes -= LINE_BYTES) {
		if (stream)
			stream_line(to, from);
		else
			memcpy(to, from, LINE_BYTES);
		to += LINE_BYTES;
		from += LINE_BYTES;
	}
	if (bytes)
		memcpy(to, from, bytes);
}

static void spread_group(const struct stride *stride, const struct group *group,
			 const unsigned char *tensor, unsigned char *packets, bool stream)
{
	size_t size = stride->size, columns = stride->block / stride->run;
	size_t start = block_start(stride, group->first);

	for (size_t first = 0; first < group->rows; first += STREAMS) {
		for (size_t column = 0; column < columns; column++) {
			size_t to = start + run_place(stride, group, first, column);

			for (size_t row = first; row < least(first + STREAMS, group->rows); row++) {
				size_t from = block_start(stride, group->first + row) +
					      column * stride->run;
				size_t length = run_length(stride, group, row, column);

				copy(packets + to * size, tensor + from * size, length * size,
				     stream);
				to += length;
			}
		}
	}
}

static void gather_group(const struct stride *stride, const struct group *group,
			 const unsigned char *packets, unsigned char *tensor, bool stream)
{
	size_t size = stride->size, columns = stride->block / stride->run;
	size_t start = block_start(stride, group->first);

	for (size_t first = 0; first < columns; first += STREAMS) {
		for (size_t row = 0; row < group->rows; row++) {
			size_t to = block_start(stride, group->first + row) + first * stride->run;

			for (size_t column = first; column < least(first + STREAMS, columns);
			     column++) {
				size_t from = start + run_place(stride, group, row, column);
				size_t length = run_length(stride, group, row, column);

				copy(tensor + to * size, packets + from * size, length * size,
				     stream);
				to += length;
			}
		}
	}
}

void stride_spread(const struct stride *stride, const void *tensor, void *packets)
{
	bool stream = stride->count * stride->size >= STREAM_BYTES;

	for (size_t i = 0; i < stride->groups; i++) {
		struct group group = group_at(stride, i);

		spread_group(stride, &group, tensor, packets, stream);
	}
	stream_end();
}

void stride_gather(const struct stride *stride, const void *packets, void *tensor)
{
	bool stream = stride->count * stride->size >= STREAM_BYTES;

	for (size_t i = 0; i < stride->groups; i++) {
		struct group group = group_at(stride, i);

		gather_group(stride, &group, packets, tensor, stream);
	}
	stream_end();
}

/* ---- places -------------------------------------------------------------------------------------------------------- */

/* The block that has an element of the tensor. */
static size_t block_of(const struct stride *stride, size_t index)
{
	size_t last = stride->blocks - 1;

	return index >= block_start(stride, last) ? last : index / stride->block;
}

/* The group that has a block: the last one that does not begin behind it. */
static struct group group_of(const struct stride *stride, size_t block)
{
	return group_at(stride, ((block + 1) * stride->groups - 1) / stride->blocks);
}

size_t stride_place(const struct stride *stride, size_t index)
{
	size_t block = block_of(stride, index), offset = index - block_start(stride, block);
	struct group group = group_of(stride, block);

	return block_start(stride, group.first) +
	       run_place(stride, &group, block - group.first, offset / stride->run) +
	       offset % stride->run;
}

/* The last column that does not begin behind a place of the group. */
static size_t column_of(const struct stride *stride, const struct group *group, size_t place)
{
	size_t low = 0, high = stride->block / stride->run;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (run_place(stride, group, 0, middle) <= place)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Counts from a place of the group on, up to the end of its column at most. Returns the place where it ended. */
static size_t count_column(const struct stride *stride, const struct group *group, size_t from,
			   size_t to, uint32_t *counts)
{
	size_t column = column_of(stride, group, from);
	size_t place = run_place(stride, group, 0, column);

	for (size_t row = 0; row < group->rows && place < to; row++) {
		size_t end = place + run_length(stride, group, row, column);

		if (end > from)
			counts[group->first + row] +=
				(uint32_t)(least(end, to) - (place > from ? place : from));
		place = end;
	}
	return least(place, to);
}

void stride_count(const struct stride *stride, size_t from, size_t to, uint32_t *counts)
{
	assert(from <= to && to <= stride->count);
	while (from < to) {
		/* A group has the same places in both orders. */
		struct group group = group_of(stride, block_of(stride, from));
		size_t start = block_start(stride, group.first), next = group.first + group.rows;
		size_t end = next < stride->blocks ? block_start(stride, next) : stride->count;

		from = start +
		       count_column(stride, &group, from - start, least(to, end) - start, counts);
	}
}
