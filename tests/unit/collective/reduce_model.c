/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_model.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Bits of exponent and of fraction. */
struct format {
	int exponent;
	int fraction;
};

static const struct format formats[MODEL_TYPES] = {
	[GW_FLOAT32] = { 8, 23 },
	[GW_FLOAT16] = { 5, 10 },
	[GW_BFLOAT16] = { 8, 7 },
	[GW_FLOAT64] = { 11, 52 },
};

static double decode(struct format format, uint64_t bits)
{
	int bias = (1 << (format.exponent - 1)) - 1, top = (1 << format.exponent) - 1;
	int exponent = (int)(bits >> format.fraction) & top;
	uint64_t fraction = bits & ((UINT64_C(1) << format.fraction) - 1);
	double sign = bits >> (format.exponent + format.fraction) & 1 ? -1 : 1;

	if (exponent == top)
		return fraction ? NAN : sign * INFINITY;
	if (exponent == 0)
		return sign * ldexp((double)fraction, 1 - bias - format.fraction);
	return sign * ldexp((double)(fraction | UINT64_C(1) << format.fraction),
			    exponent - bias - format.fraction);
}

/* The nearest number of the format; of two, the one whose bits are even. Magnitudes grow with their bits. */
static uint64_t encode(struct format format, double value)
{
	int bits = format.exponent + format.fraction;
	uint64_t infinity = ((UINT64_C(1) << format.exponent) - 1) << format.fraction;
	uint64_t sign = signbit(value) ? UINT64_C(1) << bits : 0, low = 0, high = infinity;
	double below, above;

	if (isnan(value))
		return infinity | UINT64_C(1) << (format.fraction - 1);
	value = fabs(value);
	/* The largest whose value is not above. */
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (decode(format, middle) <= value)
			low = middle;
		else
			high = middle;
	}
	if (value == INFINITY)
		return sign | infinity;
	below = decode(format, low);
	/* Beyond the largest number, rounding works as if the exponent went on. */
	above = high < infinity ? decode(format, high) : 2 * below - decode(format, low - 1);
	if (value - below > above - value || (value - below == above - value && low % 2))
		low = high;
	return sign | low;
}

static bool is_float(enum gw_type type)
{
	return formats[type].exponent != 0;
}

/* Sums and quotients of the small types are float32's, rounded again. */
static uint64_t round_to(enum gw_type type, double value)
{
	return encode(formats[type], type == GW_FLOAT64 ? value : (double)(float)value);
}

static double smaller(double a, double b)
{
	if (isnan(a) || isnan(b))
		return NAN;
	if (a == b)
		return signbit(a) ? a : b;
	return a < b ? a : b;
}

static uint64_t reduce_floats(enum gw_type type, enum gw_reduction op, double a, double b)
{
	switch (op) {
	case GW_MIN:
		return round_to(type, smaller(a, b));
	case GW_MAX:
		return round_to(type, -smaller(-a, -b));
	default:
		return round_to(type, type == GW_FLOAT64 ? a + b : (double)((float)a + (float)b));
	}
}

static uint64_t truncated(enum gw_type type, uint64_t value)
{
	size_t bits = 8 * gw_type_size(type);

	return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static bool is_signed(enum gw_type type)
{
	return type == GW_INT8 || type == GW_INT32 || type == GW_INT64;
}

/* The element with its sign extended. */
static int64_t extended(enum gw_type type, uint64_t value)
{
	uint64_t sign = UINT64_C(1) << (8 * gw_type_size(type) - 1);

	return (int64_t)((value ^ sign) - sign);
}

uint64_t model_reduce(enum gw_type type, enum gw_reduction op, uint64_t a, uint64_t b)
{
	bool less;

	if (is_float(type))
		return reduce_floats(type, op, decode(formats[type], a), decode(formats[type], b));
	if (op == GW_SUM || op == GW_MEAN)
		return truncated(type, a + b);
	less = is_signed(type) ? extended(type, a) < extended(type, b) : a < b;
	return less == (op == GW_MIN) ? a : b;
}

uint64_t model_divide(enum gw_type type, uint64_t a, unsigned divisor)
{
	if (type == GW_FLOAT64)
		return round_to(type, decode(formats[type], a) / divisor);
	if (is_float(type))
		return round_to(type, (double)((float)decode(formats[type], a) / (float)divisor));
	if (is_signed(type))
		return truncated(type, (uint64_t)(extended(type, a) / (int64_t)divisor));
	return a / divisor;
}
