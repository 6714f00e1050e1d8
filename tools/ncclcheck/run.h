/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a case: a process for each rank, a byte stream between them, and a limit of time after which they are killed. Rank 1
 * may run on another host, where `godwit ncclcheck --wait` serves.
 */
#ifndef TOOLS_NCCLCHECK_RUN_H
#define TOOLS_NCCLCHECK_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "case.h"

enum run_verdict { RUN_PASS, RUN_FAIL, RUN_SKIP };

struct run {
	const char *plugin;
	/* host and TCP port of the other end; null: both ranks run here */
	const char *peer;
	const char *port;
	unsigned timeout_s;
	unsigned silence_s;
	unsigned connections;
	unsigned channels;
	int dev;
	bool verbose;
};

struct run_outcome {
	enum run_verdict verdict;
	double seconds;
	/* why it failed or was skipped, or a remark; "" if there is none */
	char text[1024];
	/* numbers, by name; the receiver releases it */
	json_t *metrics;
};

/* Versions whose tables the plugin exports, a bit each, found out in a process of its own: loading may crash. Returns 0 or
 * -errno, and a sentence in `why`. */
int run_versions(const struct run *run, uint32_t *out, char *why, size_t size);

/* Tries a case. `other` is the version for rank 1. */
void run_case(const struct run *run, const struct check_case *c, int version, int other,
	      struct run_outcome *out);

/* Serves rank 1 for another host until that says it is done. Returns 0 or -errno. */
int run_serve(const struct run *run, const char *bind);
/* Tells the host that serves that this end is done. */
void run_dismiss(const struct run *run);

#endif
