/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * files.h: the two places where a source has its files: a directory (the root of this host, or of a copy), and a tree in
 * memory. Both are asked with paths that have no links in them; paths_resolve() makes such paths.
 */
#ifndef DOCTOR_FILES_H
#define DOCTOR_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "scratch.h"
#include "reader.h"
#include "tree.h"

struct files {
	/* directory, or -1 */
	int root_fd;
	/* used if there is no directory */
	const struct tree *tree;
};

#define FILES_PATH_MAX 4096u
/* Links on the way of one path, as the kernel has it. */
#define FILES_LINKS_MAX 40u

/* Adds the contents to `out`. Returns 0 or -errno; *truncated is set if there was more. */
int files_read(const struct files *files, const char *path, struct builder *out, bool *truncated);

/* Writes a link's target, with a zero byte. Returns 0; -EINVAL: not a link; -errno. */
int files_link(const struct files *files, const char *path, char out[FILES_PATH_MAX]);

/* Adds the names in a directory to `out`, each followed by its kind ('l', 'd' or 'f') and a zero byte. Returns 0 or -errno. */
int files_list(const struct files *files, const char *path, struct builder *out);

/*
 * Writes where a path leads once its links are followed, inside the root: ".." of the root is the root, and a link to an
 * absolute path starts there. `seen`, if not null, is called with each link on the way. A last component that does not
 * exist is no error. Returns 0, -ELOOP or -ENAMETOOLONG.
 */
int files_resolve(const struct files *files, const char *path, char out[FILES_PATH_MAX],
		  void (*seen)(void *arg, const char *link, const char *target), void *arg);

#endif
