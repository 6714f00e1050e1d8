/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing here follows a link, waits, or opens anything but plain files and directories. */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK	  16384u
#define NAMES_MAX 65536u

/* A path from the root, as *at() calls want it. */
static const char *relative(const char *path)
{
	while (path[0] == '/')
		path++;
	return path[0] ? path : ".";
}

static int read_all(int fd, struct builder *out, bool *truncated)
{
	char chunk[CHUNK];
	size_t total = 0;

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		if (total + (size_t)n > READER_FILE_MAX) {
			*truncated = true;
			builder_add(out, chunk, READER_FILE_MAX - total);
			return 0;
		}
		builder_add(out, chunk, (size_t)n);
		total += (size_t)n;
	}
}

static int read_opened(int root, const char *path, struct builder *out, bool *truncated)
{
	int fd = openat(root, relative(path),
			O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW);
	struct stat status;
	int rc;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) != 0)
		rc = -errno;
	else if (S_ISDIR(status.st_mode))
		rc = -EISDIR;
	else if (!S_ISREG(status.st_mode))
		rc = -ENODEV;
	else
		rc = read_all(fd, out, truncated);
	close(fd);
	return rc;
}

int files_read(const struct files *files, const char *path, struct builder *out, bool *truncated)
{
	const struct tree_entry *entry;
	size_t length;

	*truncated = false;
	if (files->root_fd >= 0)
		return read_opened(files->root_fd, path, out, truncated);
	entry = tree_find(files->tree, path);
	if (!entry)
		return -ENOENT;
	if (entry->kind == TREE_ERROR)
		return -entry->error;
	if (entry->kind != TREE_FILE)
		return entry->kind == TREE_DIRECTORY ? -EISDIR : -ELOOP;
	length = entry->length;
	if (length > READER_FILE_MAX) {
		*truncated = true;
		length = READER_FILE_MAX;
	}
	builder_add(out, entry->text, length);
	return 0;
}

int files_link(const struct files *files, const char *path, char out[FILES_PATH_MAX])
{
	const struct tree_entry *entry;
	ssize_t n;

	if (files->root_fd >= 0) {
		n = readlinkat(files->root_fd, relative(path), out, FILES_PATH_MAX - 1);
		if (n < 0)
			return -errno;
		out[n] = '\0';
		return 0;
	}
	entry = tree_find(files->tree, path);
	if (!entry)
		return -ENOENT;
	if (entry->kind != TREE_LINK)
		return -EINVAL;
	if (entry->length >= FILES_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(out, entry->text, entry->length + 1);
	return 0;
}

static void add_name(struct builder *out, const char *name, size_t length, char kind)
{
	const char tail[2] = { kind, '\0' };

	builder_add(out, name, length);
	builder_add(out, tail, sizeof(tail));
}

static int list_directory(int root, const char *path, struct builder *out)
{
	int fd = openat(root, relative(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	const struct dirent *entry;
	unsigned count = 0;
	DIR *directory;

	if (fd < 0)
		return -errno;
	directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return -ENOMEM;
	}
	while ((entry = readdir(directory)) && count < NAMES_MAX) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		add_name(out, entry->d_name, strlen(entry->d_name),
			 entry->d_type == DT_LNK   ? 'l'
			 : entry->d_type == DT_DIR ? 'd'
						   : 'f');
		count++;
	}
	closedir(directory);
	return 0;
}

static int list_tree(const struct tree *tree, const char *path, struct builder *out)
{
	const struct tree_entry *self = tree_find(tree, path);
	const char *before = NULL;
	size_t before_length = 0, end, skip = strlen(path) + (strcmp(path, "/") != 0);

	if (!self)
		return -ENOENT;
	if (self->kind != TREE_DIRECTORY)
		return self->kind == TREE_ERROR ? -self->error : -ENOTDIR;
	for (size_t i = tree_below(tree, path, &end); i < end; i++) {
		const char *name = tree->entries[i].path + skip;
		size_t length = strcspn(name, "/");
		enum tree_kind kind = name[length] ? TREE_DIRECTORY : tree->entries[i].kind;

		if (length == 0 ||
		    (before && before_length == length && memcmp(before, name, length) == 0))
			continue;
		add_name(out, name, length,
			 kind == TREE_LINK	  ? 'l'
			 : kind == TREE_DIRECTORY ? 'd'
						  : 'f');
		before = name;
		before_length = length;
	}
	return 0;
}

int files_list(const struct files *files, const char *path, struct builder *out)
{
	return files->root_fd >= 0 ? list_directory(files->root_fd, path, out)
				   : list_tree(files->tree, path, out);
}

/* Puts a link's target in front of what is left of the path. */
static int put_before(char rest[FILES_PATH_MAX], const char *at, const char *target)
{
	char joined[FILES_PATH_MAX];
	int length = snprintf(joined, sizeof(joined), "%s/%s", target, at);

	if (length < 0 || (size_t)length >= sizeof(joined))
		return -ENAMETOOLONG;
	memcpy(rest, joined, (size_t)length + 1);
	return 0;
}

static void drop_last(char *path, size_t *length)
{
	while (*length > 0 && path[*length - 1] != '/')
		--*length;
	if (*length > 0)
		--*length;
	path[*length] = '\0';
}

int files_resolve(const struct files *files, const char *path, char out[FILES_PATH_MAX],
		  void (*seen)(void *arg, const char *link, const char *target), void *arg)
{
	char rest[FILES_PATH_MAX], target[FILES_PATH_MAX];
	size_t length = 0, was;
	const char *at = rest;
	unsigned links = 0;

	if ((size_t)snprintf(rest, sizeof(rest), "%s", path) >= sizeof(rest))
		return -ENAMETOOLONG;
	out[0] = '\0';
	while (*(at += strspn(at, "/"))) {
		size_t step = strcspn(at, "/");

		was = length;
		if (step == 1 && at[0] == '.') {
			at += step;
			continue;
		}
		if (step == 2 && memcmp(at, "..", 2) == 0) {
			drop_last(out, &length);
			at += step;
			continue;
		}
		if (length + 1 + step >= FILES_PATH_MAX)
			return -ENAMETOOLONG;
		out[length++] = '/';
		memcpy(out + length, at, step);
		length += step;
		out[length] = '\0';
		at += step;
		if (files_link(files, out, target) != 0)
			continue;
		if (++links > FILES_LINKS_MAX)
			return -ELOOP;
		if (seen)
			seen(arg, out, target);
		if (put_before(rest, at, target) != 0)
			return -ENAMETOOLONG;
		at = rest;
		length = target[0] == '/' ? 0 : was;
		out[length] = '\0';
	}
	if (length == 0)
		memcpy(out, "/", 2);
	return 0;
}
