/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * operations.h: allreduces of two ranks as NCCL runs them (tools/ncclcheck/cases_operations.c has the rules), in virtual time. An
 * operation takes a one-way delay for each of its two steps and the bytes at the link's rate, and nothing more.
 */
#ifndef TESTS_UNIT_NCCL_OPERATIONS_H
#define TESTS_UNIT_NCCL_OPERATIONS_H

#include "unit/channel/two.h"

#define OPERATIONS_CHANNELS 8
/* The first ones, during which the rate is found, do not count. */
#define OPERATIONS_WARM 5

/* Zero is the default everywhere. */
struct operations_attr {
	/* The path in either direction. */
	struct link_attr link;
	/* NCCL's channels: each has a connection in either direction. */
	unsigned channels;
	unsigned operations;
	/* Bytes that are reduced in one operation. */
	uint64_t bytes;
	/* From the end of an operation to the beginning of the next. */
	uint64_t gap_ns;
	/* As in struct world. */
	uint64_t wake_ns;
	uint64_t seed;
	uint32_t payload;
	/* Only one connection, which carries both directions. */
	bool both_ways;
	/* Congestion controller; default: the channel's. */
	const char *congestion;
	/* Prints what the first connection does after each operation. */
	bool verbose;
};

struct operations_result {
	/* Mean and longest time of an operation, and the least that it could take. */
	uint64_t mean_ns, most_ns, floor_ns;
	/* Packets that found the link's queue full, as a share of all. */
	double overflow;
};

/* Fails the test if an operation does not end, or a byte is wrong. */
void operations_run(const struct operations_attr *attr, struct operations_result *out);

#endif
