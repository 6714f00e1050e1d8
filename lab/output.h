/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.h: copies the commands' output line by line, with the host's number in front. A line is written when it is
 * complete, so that lines of different hosts do not mix.
 */
#ifndef LAB_OUTPUT_H
#define LAB_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes after which a line is broken. */
#define OUTPUT_LINE_MAX 65536

struct output {
	/* pipe to read from; -1 after end of file */
	int fd;
	unsigned host;
	/* where lines go */
	FILE *to;
	/* bytes of an incomplete line */
	size_t used;
	char line[OUTPUT_LINE_MAX];
};

void output_init(struct output *output, int fd, unsigned host, FILE *to);

/* Reads once and writes the complete lines. At end of file it writes what is left, with a line break, and closes fd. */
void output_read(struct output *output);

#endif
