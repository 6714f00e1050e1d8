/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * units.h: parses numbers with units. Prefixes of times and rates are powers of 1000, those of sizes powers of 1024. Each
 * function returns 0, or -EINVAL, with *out unchanged, unless the whole text is such a number.
 */
#ifndef LAB_UNITS_H
#define LAB_UNITS_H

#include <stdint.h>

/* A time, such as 25ms, 200us or 1.5s; the unit may be missing only from 0. */
int units_time_ns(const char *text, uint64_t *out);

/* A rate in bits per second, such as 10G, 200M, 1.5G or 64k. */
int units_rate_bps(const char *text, uint64_t *out);

/* A size, such as 64K, 1M, 128MiB or 1500. The second function returns -ERANGE outside of its bounds. */
int units_size_bytes(const char *text, uint64_t *out);
int units_size_between(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* A share from 0 to 1, such as 1e-3, 0.05 or 5%. */
int units_share(const char *text, double *out);

/* A number without a unit, between bounds. */
int units_decimal(const char *text, double min, double max, double *out);
int units_count(const char *text, uint64_t min, uint64_t max, uint64_t *out);

#endif
