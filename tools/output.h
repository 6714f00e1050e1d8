/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.h: what is printed to standard output while a command runs.
 *
 * stdio remembers that a write failed, but not why, and lets what could not be written go: the next fflush() succeeds. A line
 * that is flushed by itself may be the one that fails, long before the end, where the command tells of it.
 */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

/* Writes what is in the buffer of standard output. Returns 0 if all was written so far, or the -errno of the first write that
 * failed, in this call or in an earlier one. */
int output_flush(void);

#endif
