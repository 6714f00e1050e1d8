/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parse.h: what sysfs and procfs write, as numbers. Every call returns whether the text was understood as a whole, and
 * sets its out-parameters only then. Texts come from drivers and from files that strangers sent.
 */
#ifndef DOCTOR_PARSE_H
#define DOCTOR_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole number, decimal or 0x..., with blanks around it. */
bool parse_number(const char *text, uint64_t *out);
/* As strtoll(text, NULL, 0) has it, which is how NCCL reads its variables: a number, and rubbish may follow. */
bool parse_signed(const char *text, int64_t *out);
/* The number before a colon: "4: ACTIVE". */
bool parse_leading(const char *text, unsigned *out);
/* "400 Gb/sec (4X NDR)" in bits a second. */
bool parse_port_rate(const char *text, uint64_t *bps);
/* "32.0 GT/s PCIe" in units of 0.1 GT/s; "Unknown" is not understood. */
bool parse_link_speed(const char *text, unsigned *tenths);
/* "fe80:0000:...", 8 groups of 4 digits. */
bool parse_gid(const char *text, uint8_t out[16]);
/* "0-7,16": whether a processor is among them. */
bool parse_cpu_list_has(const char *text, unsigned cpu);

/* Iterates over lines. *at begins as the text; returns false behind the last. The line has no zero byte. */
bool parse_line(const char **at, const char **line, size_t *length);

/* Finds "key VALUE" at the beginning of a line; copies VALUE into `out`. Returns whether it is there and fits. */
bool parse_value(const char *text, const char *key, char *out, size_t size);
/* The same, as a number. */
bool parse_value_number(const char *text, const char *key, uint64_t *out);

#endif
