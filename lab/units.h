/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * units.h: parses numbers with units, for every command alike.
 *
 *	time	10s, 500ms, 200us, 50ns, 2min, 1h
 *	rate	bits a second: 800M, 1Gbit, 400Gbps, 1.5 Gbit/s; prefixes are powers of 1000
 *	size	bytes: 1500, 64K, 1M, 1MiB (powers of 1024), 128MB (powers of 1000), as dd(1) has it
 *	share	0.03, 1e-3 or 3%
 *
 * A blank may stand before the unit, so that what the commands print can be given to them again. "b" means bits and "B"
 * bytes: a size in bits or a rate in bytes is refused, as is "5m", which may be minutes or milliseconds.
 */
#ifndef LAB_UNITS_H
#define LAB_UNITS_H

#include <stdint.h>

enum units_kind {
	UNITS_TIME,
	/* a time of which a number without a unit counts seconds */
	UNITS_SECONDS,
	UNITS_RATE,
	UNITS_SIZE,
	/* bytes a second: 50G, 50GB/s; prefixes are powers of 1000 */
	UNITS_SPEED,
	UNITS_SHARE,
};

/* Room for the longest text of units_problem(). */
#define UNITS_PROBLEM_SIZE 128

/*
 * Reads a quantity of any kind but UNITS_SHARE: nanoseconds, bits a second, bytes or bytes a second.
 * -EINVAL  not of this kind, as a whole
 * -ERANGE  below `min` or above `max`, or not 0 and rounded to 0
 * *out is unchanged then.
 */
int units_read(enum units_kind kind, const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* The same without bounds. */
int units_time_ns(const char *text, uint64_t *out);
int units_rate_bps(const char *text, uint64_t *out);
int units_size_bytes(const char *text, uint64_t *out);

/* A share from 0 to 1. */
int units_share(const char *text, double *out);

/* A number without a unit, between bounds. */
int units_decimal(const char *text, double min, double max, double *out);
int units_count(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/*
 * Says why the text was refused and what would be understood, to follow the text in a sentence: "has no unit: ...". Returns
 * `out`, which is "" for a text that can be read.
 */
const char *units_problem(enum units_kind kind, const char *text, char out[UNITS_PROBLEM_SIZE]);

#endif
