/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference of `godwit coll` is right for any number of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/coll/values.h"

#define INDICES 40

/* Adds what the ranks give to an element, each sum rounded or wrapped as in the type, and divides a mean at the end. */
static double reduced_in_type(const struct value_question *q, uint64_t index)
{
	uint64_t element = 0;

	for (uint32_t rank = 0; rank < q->size; rank++) {
		double sum = value_get(q->type, &element, 0);

		value_put(q->type, &element, 0, (int)sum + value_given_sparsely(q, rank, index));
	}
	if (q->reduction == GW_MEAN)
		value_put(q->type, &element, 0,
			  (int)value_get(q->type, &element, 0) / (int)q->size);
	return value_get(q->type, &element, 0);
}

static void test_sums_are_right(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 15, 16, 31, 32, 33, 64, 100, 256, 257, 1000, 4096 };

	(void)state;
	for (enum gw_type type = GW_FLOAT32; type <= GW_UINT64; type++) {
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			struct value_question q = { .operation = COLL_ALLREDUCE,
						    .reduction =
							    type > GW_FLOAT64 ? GW_MEAN : GW_SUM,
						    .type = type,
						    .size = sizes[s],
						    .count = INDICES };

			q.stride = value_stride(&q);
			for (uint64_t i = 0; i < INDICES; i++) {
				uint64_t elements[INDICES] = { 0 };

				value_put(type, elements, i, (int)reduced_in_type(&q, i));
				assert_true(value_right(&q, elements, i));
				q.reduction = GW_SUM;
				assert_true(reduced_in_type(&q, i) > 0);
				q.reduction = type > GW_FLOAT64 ? GW_MEAN : GW_SUM;
			}
		}
	}
}

/* Every rank gives something where sums have room, and to operations that add nothing. */
static void test_few_ranks_give_all(void **state)
{
	struct value_question q = { .operation = COLL_REDUCE_SCATTER, .type = GW_INT8, .size = 15 };

	(void)state;
	assert_true(value_stride(&q) <= 1);
	q.size = 16;
	assert_int_equal(value_stride(&q), 2);
	q.type = GW_FLOAT32;
	q.size = 4096;
	assert_true(value_stride(&q) <= 1);
	q.type = GW_BFLOAT16;
	assert_int_equal(value_stride(&q), 128);
	q.reduction = GW_MAX;
	assert_true(value_stride(&q) <= 1);
	q.reduction = GW_SUM;
	q.operation = COLL_ALLGATHER;
	assert_true(value_stride(&q) <= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_are_right),
		cmocka_unit_test(test_few_ranks_give_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
