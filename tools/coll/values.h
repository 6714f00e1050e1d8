/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * values.h: what ranks give to a collective, and what each must get: a sequential reference. Values are small integers, so
 * that sums of few ranks are exact in every type and in every order; of many ranks each element gets some zeros.
 */
#ifndef TOOLS_COLL_VALUES_H
#define TOOLS_COLL_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/collective.h>

/* The operations, in the order of their calls in collective.h. */
enum coll_operation {
	COLL_BARRIER,
	COLL_BROADCAST,
	COLL_ALLGATHER,
	COLL_REDUCE_SCATTER,
	COLL_ALLREDUCE,
	COLL_ALLTOALL,
	COLL_OPERATIONS,
};

/* What a rank gives as its i-th element. */
int value_given(uint32_t rank, uint64_t index);

/* Writes and reads an element. */
void value_put(enum gw_type type, void *array, size_t index, int value);
double value_get(enum gw_type type, const void *array, size_t index);

struct value_question {
	enum coll_operation operation;
	enum gw_reduction reduction;
	enum gw_type type;
	uint32_t rank;
	uint32_t size;
	uint32_t root;
	/* of a sum of many ranks: every so manyth gives something to an element, and the others zero; 0: all give something */
	uint32_t stride;
	/* elements as in struct gw_coll_attr */
	uint64_t count;
};

/* The least stride with which sums fit into the type. */
uint32_t value_stride(const struct value_question *question);

/* What a rank gives as its i-th element with that stride. */
int value_given_sparsely(const struct value_question *question, uint32_t rank, uint64_t index);

/* Whether the i-th element that a rank got is right. */
bool value_right(const struct value_question *question, const void *array, size_t index);

/* Elements of what a rank gives, and gets. */
uint64_t value_send_count(enum coll_operation operation, uint64_t count, uint32_t size);
uint64_t value_recv_count(enum coll_operation operation, uint64_t count, uint32_t size);

#endif
