/* SPDX-License-Identifier: BSD-3-Clause */
/* reader_state.h: what a reader keeps, for the files that implement it. */
#ifndef DOCTOR_READER_STATE_H
#define DOCTOR_READER_STATE_H

#include "files.h"
#include "probe.h"
#include "reader.h"
#include "tree.h"

/* What was asked. A key begins with one of these. */
enum {
	ASKED_READ = 'r',
	ASKED_AGAIN = 'a',
	ASKED_LINK = 'l',
	ASKED_REAL = 'p',
	ASKED_LIST = 'd',
	ON_THE_WAY = 'w'
};

#define AGAIN_ROOT PROBE_ROOT "again"

struct kept {
	/* question and path as asked */
	const char *key;
	/* path with its links followed; for a link on the way, the link itself */
	const char *resolved;
	struct fact fact;
	struct names names;
	/* kinds of the names, one byte each */
	const char *kinds;
};

struct reader {
	struct scratch scratch;
	struct files files;
	struct tree tree;
	bool live;
	long pid;
	/* tsearch() tree of struct kept */
	void *kept;
	/* directory that was resolved last, and where it leads */
	char *last_directory;
	char *last_resolved;
};

#endif
