/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers as people write them about networks. Times and rates count in thousands, sizes in 1024s, as is usual for
 * each. Every function reads the whole text, or answers -EINVAL and leaves *out alone.
 */
#ifndef LAB_UNITS_H
#define LAB_UNITS_H

#include <stdint.h>

int units_time_ns(const char *text, uint64_t *out);    /* 25ms, 200us, 1.5s, 0; a unit unless 0 */
int units_rate_bps(const char *text, uint64_t *out);   /* 10G, 200M, 1.5G, 64k: bits a second */
int units_size_bytes(const char *text, uint64_t *out); /* 64K, 1M, 128MiB, 1500 */
int units_share(const char *text, double *out);	       /* 1e-3, 0.05, 5%; from 0 to 1 */
/* -ERANGE outside of the bounds. */
int units_size_between(const char *text, uint64_t min, uint64_t max, uint64_t *out);
int units_decimal(const char *text, double min, double max, double *out);
int units_count(const char *text, uint64_t min, uint64_t max, uint64_t *out);

#endif
