/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reader.h: the one reader of everything that a check looks at.
 *
 * A source answers by path. Below the root are the files of this host, of a directory that holds a copy of some of them,
 * or of a capture (a tar file). What is not a file (netlink, ioctl, getrlimit(), dlopen(), the environment) has a path
 * under /.godwit, and its answer is a text like any other: so it is recorded and replayed without further code. docs/doctor.md
 * lists these paths.
 *
 * Nothing is written anywhere. Links are resolved inside the root. What could not be read is a fact, too: its state says
 * why, and no check may take it for a number.
 */
#ifndef DOCTOR_READER_H
#define DOCTOR_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scratch.h"

enum fact_state {
	FACT_KNOWN,
	/* no such file, or the capture does not have it */
	FACT_ABSENT,
	/* more rights are needed */
	FACT_DENIED,
	/* the kernel or the driver refused the read: EINVAL of an unused GID, EIO */
	FACT_REFUSED,
	/* the driver says that it has no such value: "N/A (no PMA)", EOPNOTSUPP */
	FACT_NOT_APPLICABLE,
	/* not a plain file, or not what such a file contains */
	FACT_MALFORMED,
	/* the name was recorded and its contents were not */
	FACT_UNRECORDED,
	/* this program was built without the library that would ask */
	FACT_UNSUPPORTED,
};

struct fact {
	/* where it was read */
	const char *path;
	enum fact_state state;
	/* errno of the read; 0 if it went well */
	int error;
	/* contents without the trailing line break, and a zero byte; "" unless FACT_KNOWN */
	const char *text;
	size_t length;
	/* the file was longer */
	bool truncated;
};

/* Names in a directory, sorted. */
struct names {
	enum fact_state state;
	int error;
	size_t count;
	const char **name;
};

/* Most bytes of a file that are read. */
#define READER_FILE_MAX (1u << 20)

struct reader;

struct reader_attr {
	/* directory, tar file or text manifest (.tree); null: this host */
	const char *root;
	/* process whose environment, limits and files stand for the job's; 0: this process */
	long pid;
};

/* Returns 0, or -errno: -ENOENT, -ENOTDIR, -EINVAL for a file that is neither tar nor manifest. */
int reader_open(const struct reader_attr *attr, struct reader **out);

/* A source of files that the caller has in memory: manifests (tree.h), in order; later lines replace earlier ones. */
int reader_open_text(const char *const *manifests, unsigned count, struct reader **out);

/* The same from the bytes of a capture, or of one manifest. -EINVAL: they are neither. */
int reader_open_bytes(const char *bytes, size_t length, struct reader **out);

void reader_close(struct reader *reader);

/* Memory that lives as long as the source. */
struct scratch *reader_scratch(struct reader *reader);

/* This host, now; false: a copy. */
bool reader_live(const struct reader *reader);
long reader_pid(const struct reader *reader);

/* Reads a file once; later calls return the same fact. Never null. */
const struct fact *reader_read(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads it anew: the second sample of a counter. A copy has it if it was captured with an interval. */
const struct fact *reader_again(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads the target of a link. */
const struct fact *reader_link(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Reads where a path leads once all its links are followed. */
const struct fact *reader_real(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

const struct names *reader_list(struct reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Returns whether a fact is known; if not, and `why` is not null, sets *why to half a sentence: "it needs root". */
bool fact_known(const struct fact *fact, const char **why);
const char *fact_why(enum fact_state state, int error);

/* Adds a fact that this program itself knows, so that a capture has it. */
void reader_put(struct reader *reader, const char *path, const char *text);

/* Writes all that was read so far as a tar file. Returns 0 or -errno. */
int reader_capture(struct reader *reader, const char *file);

/* Adds the same to a text, as a manifest (tree.h) whose lines are in the order of their paths. */
void reader_manifest(struct reader *reader, struct builder *out);

#endif
