/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as people write and read them. */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_SIZE 32 /* room for any of the texts below */

/* "512 bytes", "12.3 MiB". Returns buffer. */
const char *text_bytes(uint64_t bytes, char buffer[TEXT_SIZE]);

/* "3.2 of 12.3 MiB": both in the unit that suits the second. Returns buffer. */
const char *text_share(uint64_t done, uint64_t total, char buffer[2 * TEXT_SIZE]);

/* "860 Mbit/s". Returns buffer. */
const char *text_rate(double bits_per_second, char buffer[TEXT_SIZE]);

/* Each parses the whole text, or answers -EINVAL for what is no number and -ERANGE outside [min, max]. */
int text_parse_integer(const char *text, uint64_t min, uint64_t max, uint64_t *out);
int text_parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *out); /* 64K, 1M, 2G */
int text_parse_decimal(const char *text, double min, double max, double *out);
int text_parse_probability(const char *text, double *out); /* 0.05 or 5% */

#endif
