/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequential reference of collectives. */
#include "values.h"

#include <math.h>
#include <string.h>

int value_given(uint32_t rank, uint64_t index)
{
	uint64_t mixed = (rank * UINT64_C(1000003) + index + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return (int)(mixed >> 61) + 1;
}

/* The largest of those. */
#define VALUE_MOST 8

uint32_t value_stride(const struct value_question *q)
{
	/* up to which all integers are numbers of the type; others have room for GW_COMM_RANKS_MAX values */
	static const uint32_t exact[] = {
		[GW_FLOAT16] = 2048, [GW_BFLOAT16] = 256, [GW_INT8] = 127, [GW_UINT8] = 255
	};
	bool adds = q->reduction == GW_SUM || q->reduction == GW_MEAN;
	bool reduces = q->operation == COLL_ALLREDUCE || q->operation == COLL_REDUCE_SCATTER;
	uint32_t ranks;

	if (!adds || !reduces || q->type >= sizeof(exact) / sizeof(exact[0]) || !exact[q->type])
		return 0;
	ranks = exact[q->type] / VALUE_MOST;
	return (q->size + ranks - 1) / ranks;
}

int value_given_sparsely(const struct value_question *q, uint32_t rank, uint64_t index)
{
	return q->stride > 1 && (rank + index) % q->stride ? 0 : value_given(rank, index);
}

/* Bits of a float of 16 bits, of which `digits` are the fraction. */
static uint16_t narrow(float value, int digits)
{
	uint32_t bits;
	int exponent;

	memcpy(&bits, &value, sizeof(bits));
	if (digits == 7)
		return (uint16_t)(bits >> 16);
	exponent = (int)(bits >> 23 & 0xff) - 127 + 15;
	return value == 0 ? 0
			  : (uint16_t)(bits >> 31 << 15 | (uint32_t)exponent << 10 |
				       (bits >> 13 & 0x3ff));
}

static float widen(uint16_t half, int digits)
{
	uint32_t bits = (uint32_t)half << 16;
	float value;

	if (digits == 10) {
		uint32_t exponent = half >> 10 & 31;

		bits = half & 0x7fff ? (uint32_t)(half >> 15) << 31 | (exponent + 112) << 23 |
					       (uint32_t)(half & 0x3ff) << 13
				     : 0;
	}
	memcpy(&value, &bits, sizeof(value));
	return value;
}

#define EACH_INTEGER(DO)                                                                           \
	DO(GW_INT8, int8_t)                                                                        \
	DO(GW_UINT8, uint8_t)                                                                      \
	DO(GW_INT32, int32_t)                                                                      \
	DO(GW_UINT32, uint32_t)                                                                    \
	DO(GW_INT64, int64_t)                                                                      \
	DO(GW_UINT64, uint64_t)                                                                    \
	DO(GW_FLOAT32, float)                                                                      \
	DO(GW_FLOAT64, double)

void value_put(enum gw_type type, void *array, size_t index, int value)
{
	uint16_t half;

	switch (type) {
#define PUT(name, ctype)                                                                           \
	case name: {                                                                               \
		ctype item = (ctype)value;                                                         \
		memcpy((char *)array + index * sizeof(item), &item, sizeof(item));                 \
		return;                                                                            \
	}
		EACH_INTEGER(PUT)
	default:
		half = narrow((float)value, type == GW_FLOAT16 ? 10 : 7);
		memcpy((char *)array + index * 2, &half, 2);
	}
}

double value_get(enum gw_type type, const void *array, size_t index)
{
	uint16_t half;

	switch (type) {
#define GET(name, ctype)                                                                           \
	case name: {                                                                               \
		ctype item;                                                                        \
		memcpy(&item, (const char *)array + index * sizeof(item), sizeof(item));           \
		return (double)item;                                                               \
	}
		EACH_INTEGER(GET)
	default:
		memcpy(&half, (const char *)array + index * 2, 2);
		return widen(half, type == GW_FLOAT16 ? 10 : 7);
	}
}

static bool is_float(enum gw_type type)
{
	return type <= GW_FLOAT64;
}

static double reduced(const struct value_question *q, uint64_t index)
{
	double result = value_given_sparsely(q, 0, index);

	for (uint32_t r = 1; r < q->size; r++) {
		double other = value_given_sparsely(q, r, index);

		if (q->reduction == GW_MIN)
			result = fmin(result, other);
		else if (q->reduction == GW_MAX)
			result = fmax(result, other);
		else
			result += other;
	}
	if (q->reduction == GW_MEAN)
		result = is_float(q->type) ? result / q->size : floor(result / q->size);
	return result;
}

bool value_right(const struct value_question *q, const void *array, size_t index)
{
	static const double slack[] = {
		[GW_FLOAT32] = 1e-6, [GW_FLOAT16] = 1e-3, [GW_BFLOAT16] = 8e-3, [GW_FLOAT64] = 1e-12
	};
	double got = value_get(q->type, array, index), expected;

	switch (q->operation) {
	case COLL_BROADCAST:
		expected = value_given(q->root, index);
		break;
	case COLL_ALLGATHER:
		expected = value_given((uint32_t)(index / q->count), index % q->count);
		break;
	case COLL_ALLTOALL:
		expected = value_given((uint32_t)(index / q->count),
				       q->rank * q->count + index % q->count);
		break;
	case COLL_REDUCE_SCATTER:
		expected = reduced(q, q->rank * q->count + index);
		break;
	default:
		expected = reduced(q, index);
		break;
	}
	if (q->reduction == GW_MEAN && is_float(q->type) &&
	    (q->operation == COLL_ALLREDUCE || q->operation == COLL_REDUCE_SCATTER))
		return fabs(got - expected) <= expected * slack[q->type];
	return got == expected;
}

uint64_t value_send_count(enum coll_operation operation, uint64_t count, uint32_t size)
{
	switch (operation) {
	case COLL_BARRIER:
		return 0;
	case COLL_REDUCE_SCATTER:
	case COLL_ALLTOALL:
		return count * size;
	default:
		return count;
	}
}

uint64_t value_recv_count(enum coll_operation operation, uint64_t count, uint32_t size)
{
	switch (operation) {
	case COLL_BARRIER:
		return 0;
	case COLL_ALLGATHER:
	case COLL_ALLTOALL:
		return count * size;
	default:
		return count;
	}
}
