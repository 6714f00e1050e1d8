/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is sent: a regular file, whose size is known, or standard input ("-"), which ends when it ends. Reading never waits
 * for a pipe, because the transfer has to go on meanwhile.
 */
#ifndef TOOLS_FILE_SOURCE_H
#define TOOLS_FILE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct report;

struct source {
	/* for messages: the file's name, or "standard input" */
	const char *name;
	/* -1 when there is none */
	int fd;
	bool stream;
	/* nothing more comes */
	bool ended;
	/* permission bits */
	uint32_t mode;
	/* bytes of the file, or PROTOCOL_SIZE_UNKNOWN */
	uint64_t size;
	/* bytes read so far, and their checksum */
	uint64_t read;
	uint32_t crc32;
};

/* Every error is explained in the report. */
int source_open(struct source *source, struct report *report, const char *path);

/* Reads up to `room` bytes. Returns their number; 0 at the end (`ended`), or while a pipe has nothing; or -errno. */
ssize_t source_read(struct source *source, struct report *report, uint8_t *out, size_t room);

/* Waits until there is something to read, for so long at most. */
void source_wait(const struct source *source, int milliseconds);

void source_close(struct source *source);

#endif
