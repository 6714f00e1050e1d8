/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the two ends learn of each other and how they report. They share a directory and nothing else
 * (they live in different network namespaces): each leaves a small text file there, which the other
 * waits for.
 */
#ifndef INTEROP_MEET_H
#define INTEROP_MEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct meet_end {
	char address[64]; /* IPv4 or IPv6, as text */
	uint64_t va;
	uint32_t rkey;
	uint32_t uc_qpn;
	uint32_t uc_psn;
	uint32_t ud_qpn;
	uint32_t qkey;
};

/* Leaves dir/name for the other side; what is there is whole. Exits the program on failure. */
void meet_publish(const char *dir, const char *name, const struct meet_end *end);

/* Waits for dir/name, 20 s at most; exits the program if it does not come. */
void meet_await(const char *dir, const char *name, struct meet_end *out);

/* The same for any bytes, in dir/name.what; the finder does not wait, and tells whether they are there. */
void meet_leave(const char *dir, const char *name, const char *what, const void *bytes,
		size_t size);
bool meet_find(const char *dir, const char *name, const char *what, void *bytes, size_t size);

/* Among arguments NAME=NUMBER from the first one on; `otherwise` where it is not given. */
uint32_t meet_option(int argc, char **argv, int first, const char *name, uint32_t otherwise);

/* Prints one line, `ok` or `FAIL` and what was looked at, and remembers a failure. */
void report(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0 if nothing failed so far, otherwise 1: the program's exit status. */
int report_status(void);

/* Ends the program with a FAIL line: for what leaves nothing more to look at. */
void report_fatal(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
