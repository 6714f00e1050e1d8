/* SPDX-License-Identifier: BSD-3-Clause */
/* output.c: one line buffer for each stream. */
#include "output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void output_init(struct output *output, int fd, unsigned host, FILE *to)
{
	output->fd = fd;
	output->host = host;
	output->to = to;
	output->used = 0;
}

static void write_line(const struct output *output, const char *text, size_t length)
{
	fprintf(output->to, "[%u] ", output->host);
	fwrite(text, 1, length, output->to);
	fputc('\n', output->to);
}

static void write_lines(struct output *output)
{
	char *start = output->line, *end = output->line + output->used, *mark;

	while ((mark = memchr(start, '\n', (size_t)(end - start)))) {
		write_line(output, start, (size_t)(mark - start));
		start = mark + 1;
	}
	output->used = (size_t)(end - start);
	memmove(output->line, start, output->used);
	if (output->used == OUTPUT_LINE_MAX) {
		write_line(output, output->line, output->used);
		output->used = 0;
	}
}

void output_read(struct output *output)
{
	ssize_t got = read(output->fd, output->line + output->used, OUTPUT_LINE_MAX - output->used);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got > 0) {
		output->used += (size_t)got;
		write_lines(output);
	} else {
		if (output->used)
			write_line(output, output->line, output->used);
		close(output->fd);
		output->fd = -1;
	}
	fflush(output->to);
}
