/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.h: the commands' output, whole lines at a time, each with its host's number in front. A line is written when
 * it is complete, so that hosts do not cut into each other's.
 */
#ifndef LAB_OUTPUT_H
#define LAB_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define OUTPUT_LINE_MAX 65536 /* a longer line is broken here */

struct output {
	int fd; /* -1 once it has ended */
	unsigned host;
	FILE *to;
	size_t used;
	char line[OUTPUT_LINE_MAX];
};

void output_init(struct output *output, int fd, unsigned host, FILE *to);

/* Reads what there is. At the end of file the last line is written, closed by a line break if it had none. */
void output_read(struct output *output);

#endif
