/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.h: files in memory: what a capture (tar) or a manifest contains.
 *
 * A manifest is a text for people. Lines are:
 *
 *	[/sys/class/net/eth0]	paths below are relative to this
 *	mtu 4200		a file and its contents; \n, \xHH and \z8; (8 zero bytes) are understood
 *	device -> ../../x	a link
 *	queues/			a directory
 *	secret !EACCES		a file whose read fails
 *	- phys_port		take this path, and all below it, out again
 *	# a remark
 */
#ifndef DOCTOR_TREE_H
#define DOCTOR_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "scratch.h"

enum tree_kind { TREE_FILE, TREE_LINK, TREE_DIRECTORY, TREE_ERROR, TREE_REMOVED };

struct tree_entry {
	/* absolute, without a trailing slash */
	const char *path;
	enum tree_kind kind;
	/* contents, or the link's target */
	const char *text;
	size_t length;
	/* errno of TREE_ERROR */
	int error;
	/* place in the order of addition */
	size_t order;
};

/* Zero is empty. */
struct tree {
	struct scratch scratch;
	struct tree_entry *entries;
	size_t count;
	size_t room;
	/* entries of the kind TREE_REMOVED that were added */
	size_t removals;
};

/* Bounds of what is read from a file that somebody sent. */
#define TREE_ENTRIES_MAX  200000u
#define TREE_PATH_MAX	  1024u
#define TREE_REMOVALS_MAX 256u

void tree_add(struct tree *tree, const char *path, enum tree_kind kind, const char *text,
	      size_t length, int error);

/* Adds what a manifest says. Returns 0, or -EINVAL with *line_number set to the number of the line that is none. */
int tree_add_manifest(struct tree *tree, const char *text, size_t length, unsigned *line_number);

/* Adds the members of a tar file. Returns 0, or -EINVAL: not a tar file, or cut short. */
int tree_add_tar(struct tree *tree, const char *bytes, size_t length);

/* Adds the errors that a capture lists in .godwit/errors ("EACCES /sys/...") for paths that have no entry. The tree is
 * sealed, and has to be sealed again. */
void tree_add_errors(struct tree *tree, const char *text, size_t length);

/* To be called after the last addition and before the first search. */
void tree_seal(struct tree *tree);

/* Returns the entry of a path, also for a directory that only has entries below it; null if there is none. */
const struct tree_entry *tree_find(const struct tree *tree, const char *path);

/* Returns the first entry below a directory, whose path has `length` bytes; *end is set behind the last. */
size_t tree_below(const struct tree *tree, const char *path, size_t *end);

void tree_free(struct tree *tree);

/* Adds a sealed tree to a text, as a manifest with a whole path on each line. Names with blanks are left out. */
void tree_print(const struct tree *tree, struct builder *out);

/* Writes a tar file. Returns 0 or -errno. */
int tree_write_tar(const struct tree *tree, const char *path);

/* Returns the number of an errno by its name, or 0; and its name, or null. Only those that reads fail with. */
int errno_number(const char *name, size_t length);
const char *errno_name(int number);

#endif
