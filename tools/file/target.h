/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file being received. It has no name until it is complete and checked; then it takes the name
 * it was meant for in one step, replacing what was there. Whatever goes wrong before that, nothing
 * stays behind. Standard output ("-") is written as data arrives, and is what it is when something
 * goes wrong.
 */
#ifndef TOOLS_FILE_TARGET_H
#define TOOLS_FILE_TARGET_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct report;

/* Room for why a file does not fit: two paths, two sizes. */
#define TARGET_WHY 512

struct target {
	/* for messages: the file's name, or "standard output" */
	const char *path;
	bool stream;
	/* of a stream: a pipe or a socket, which may have no room */
	bool pipe;
	bool socket;
	char directory[PATH_MAX];
	/* "" while the file has no name at all */
	char temporary[PATH_MAX];
	/* -1 when there is none */
	int fd;
	pthread_t committer;
	bool committing;
	/* -EINPROGRESS, 0 or another -errno */
	atomic_int commit_status;
};

/* Makes the nameless file where `path` will be. Every error is explained in the report. */
int target_open(struct target *target, struct report *report, const char *path);

/* Whether a file of this size fits now; if not, `why` says so. Nothing is taken: the space goes to what arrives. */
bool target_fits(const struct target *target, uint64_t size, char why[TARGET_WHY]);

/*
 * Writes to a file all of it, to a pipe or a socket what fits now, which may be nothing. Returns the
 * number of bytes or -errno.
 */
int64_t target_write(struct target *target, const void *data, uint64_t length, uint64_t offset);

/* Waits until a pipe has room again, for so long at most. */
void target_wait(const struct target *target, int milliseconds);

/*
 * Makes it durable and gives it its name. Syncing may take longer than a peer is patient, so it runs
 * on a thread of its own: start, then ask until the answer is not -EINPROGRESS.
 */
int target_commit_start(struct target *target, uint32_t mode);
int target_commit_status(struct target *target);

/* Leaves nothing behind of a file that was not committed. Waits for a commit under way. */
void target_close(struct target *target);

#endif
