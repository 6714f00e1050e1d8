/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stride.h: the order in which the coefficients of a tensor travel. In the tensor's own order a packet takes a quarter of one
 * block, say, and a burst of losses takes the whole block. In packet order a packet takes a run of a few coefficients from each of
 * many blocks, and a burst a few runs.
 *
 *     tensor order:  block 0 | block 1 | block 2 | ...      each in runs 0, 1, 2, ...
 *     packet order:  run 0 of block 0, of block 1, of block 2, ... | run 1 of block 0, ... | run 2 ...
 *
 * Blocks take turns in groups of `interleave`; a group lies at the same place in both orders, so that it can leave before the
 * next one is computed. Runs stay together because all coefficients of a block are worth the same (hadamard.h): single ones
 * would spread no thinner, and runs of a cache line are copied at the memory's speed.
 *
 * Blocks are hadamard.h's parts, so any count will do. Elements have any size. Packets are cut anywhere.
 */
#ifndef CODING_STRIDE_H
#define CODING_STRIDE_H

#include <stddef.h>
#include <stdint.h>

struct stride {
	/* elements in the tensor */
	size_t count;
	/* bytes of an element */
	size_t size;
	/* elements in a block; a power of two */
	size_t block;
	/* elements in a run; a power of two */
	size_t run;
	/* blocks, and groups of them */
	size_t blocks;
	size_t groups;
	/* elements in the last block but one, of which the rest belongs to the last; 0: it is whole */
	size_t cut;
};

/*
 * Describes both orders of a tensor of `count` elements of `size` bytes in blocks of `block` (as in hadamard.h), of which
 * `interleave` take turns. The run is the power of two with which a packet takes one run from each of them, but a cache
 * line of 64 bytes at least.
 */
void stride_init(struct stride *stride, size_t count, size_t size, size_t block, size_t interleave,
		 size_t packet_bytes);

/* Copies a tensor into packet order, and back. The memories do not overlap. */
void stride_spread(const struct stride *stride, const void *tensor, void *packets);
void stride_gather(const struct stride *stride, const void *packets, void *tensor);

/* Returns the place in packet order of element `index` of the tensor. */
size_t stride_place(const struct stride *stride, size_t index);

/* Adds to counts[] of each block how many of its elements have the places `from` to `to` - 1 in packet order. There are
 * stride->blocks counters. */
void stride_count(const struct stride *stride, size_t from, size_t to, uint32_t *counts);

#endif
