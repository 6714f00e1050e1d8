/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as people read them. lab/units.h has them as people write them. */
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

/* "27.7 ms". Returns buffer. */
const char *text_time(double ns, char buffer[TEXT_SIZE]);

#endif
