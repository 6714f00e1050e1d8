/* SPDX-License-Identifier: BSD-3-Clause */
/* lesser.h: the lesser and the greater of two numbers: an instruction each, where fmin() and fmax() are calls of the C library for
 * the sake of values that are no numbers. */
#ifndef CONGESTION_LESSER_H
#define CONGESTION_LESSER_H

static inline double lesser(double a, double b)
{
	return b < a ? b : a;
}

static inline double greater(double a, double b)
{
	return b > a ? b : a;
}

#endif
