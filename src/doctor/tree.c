/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sorted array of paths. Entries are appended in any order, sorted once, and then only searched: everything below a
 * directory lies together behind it. Of two entries for one path the later one counts.
 */
#include "tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int number;
} errors[] = {
	{ "EACCES", EACCES },
	{ "EBUSY", EBUSY },
	{ "EINVAL", EINVAL },
	{ "EIO", EIO },
	{ "EISDIR", EISDIR },
	{ "ELOOP", ELOOP },
	{ "ENODATA", ENODATA },
	{ "ENODEV", ENODEV },
	{ "ENOSYS", ENOSYS },
	{ "ENOTTY", ENOTTY },
	{ "ENXIO", ENXIO },
	{ "EOPNOTSUPP", EOPNOTSUPP },
	{ "EOVERFLOW", EOVERFLOW },
	{ "EPERM", EPERM },
	{ "ESRCH", ESRCH },
	{ "ETIMEDOUT", ETIMEDOUT },
	{ "EAGAIN", EAGAIN },
	{ "ENAMETOOLONG", ENAMETOOLONG },
	{ "EPROTONOSUPPORT", EPROTONOSUPPORT },
};

int errno_number(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (strlen(errors[i].name) == length && memcmp(errors[i].name, name, length) == 0)
			return errors[i].number;
	}
	return 0;
}

const char *errno_name(int number)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].number == number)
			return errors[i].name;
	}
	return NULL;
}

void tree_add(struct tree *tree, const char *path, enum tree_kind kind, const char *text,
	      size_t length, int error)
{
	size_t path_length = strlen(path);

	while (path_length > 1 && path[path_length - 1] == '/')
		path_length--;
	if (tree->count == TREE_ENTRIES_MAX || path_length > TREE_PATH_MAX)
		return;
	if (tree->count == tree->room) {
		size_t room = tree->room ? tree->room * 2 : 256;
		struct tree_entry *entries = scratch_alloc(&tree->scratch, room * sizeof(*entries));

		if (tree->count)
			memcpy(entries, tree->entries, tree->count * sizeof(*entries));
		tree->entries = entries;
		tree->room = room;
	}
	tree->entries[tree->count] = (struct tree_entry){
		.path = scratch_copy(&tree->scratch, path, path_length),
		.kind = kind,
		.text = scratch_copy(&tree->scratch, text, length),
		.length = length,
		.error = error,
		.order = tree->count,
	};
	tree->count++;
}

#define ZEROS_MAX 4096ul

/* Copies a value with \n, \t, \\, \xHH and \zN; (N zero bytes) undone. */
static void unescape(const char *text, struct builder *out)
{
	static const char zeros[ZEROS_MAX];

	for (; *text; text++) {
		char c = *text, *end;

		if (c == '\\' && text[1]) {
			c = *++text;
			if (c == 'n') {
				c = '\n';
			} else if (c == 't') {
				c = '\t';
			} else if (c == 'x' && text[1] && text[2]) {
				char digits[3] = { text[1], text[2] };

				c = (char)strtoul(digits, NULL, 16);
				text += 2;
			} else if (c == 'z') {
				unsigned long count = strtoul(text + 1, &end, 10);

				builder_add(out, zeros, count < ZEROS_MAX ? count : ZEROS_MAX);
				text = *end == ';' ? end : end - 1;
				continue;
			}
		}
		builder_add(out, &c, 1);
	}
}

/* Reads one line, which is the caller's to change and ends in a zero byte. Returns whether it is one. */
static bool manifest_line(struct tree *tree, char *line, const char *prefix)
{
	enum tree_kind kind = TREE_FILE;
	char *value, *path;
	size_t length;

	if (line[0] == '-' && line[1] == ' ') {
		kind = TREE_REMOVED;
		line += 2;
	}
	value = kind == TREE_REMOVED ? NULL : strchr(line, ' ');
	if (value)
		*value++ = '\0';
	length = strlen(line);
	if (length == 0)
		return false;
	path = line[0] == '/' ? line : scratch_print(&tree->scratch, "%s/%s", prefix, line);
	if (path[0] != '/')
		return false;
	if (kind == TREE_REMOVED) {
		if (tree->removals++ == TREE_REMOVALS_MAX)
			return false;
		tree_add(tree, path, kind, "", 0, 0);
	} else if (value && strncmp(value, "-> ", 3) == 0) {
		tree_add(tree, path, TREE_LINK, value + 3, strlen(value + 3), 0);
	} else if (value && value[0] == '!') {
		int error = errno_number(value + 1, strlen(value + 1));

		if (!error)
			return false;
		tree_add(tree, path, TREE_ERROR, "", 0, error);
	} else if (!value && line[length - 1] == '/') {
		tree_add(tree, path, TREE_DIRECTORY, "", 0, 0);
	} else {
		struct builder text = { 0 };

		unescape(value ? value : "", &text);
		tree_add(tree, path, TREE_FILE, text.text ? text.text : "", text.length, 0);
		builder_free(&text);
	}
	return true;
}

int tree_add_manifest(struct tree *tree, const char *text, size_t length, unsigned *line_number)
{
	const char *prefix = "";
	size_t at = 0;

	*line_number = 0;
	while (at < length) {
		const char *end = memchr(text + at, '\n', length - at);
		size_t long_as = (end ? (size_t)(end - text) : length) - at;
		char *line = scratch_copy(&tree->scratch, text + at, long_as);

		at += long_as + 1;
		++*line_number;
		if (strlen(line) != long_as)
			return -EINVAL;
		if (long_as == 0 || line[0] == '#')
			continue;
		if (line[0] == '[') {
			if (line[long_as - 1] != ']' || line[1] != '/')
				return -EINVAL;
			line[long_as - 1] = '\0';
			prefix = line + 1;
			continue;
		}
		if (!manifest_line(tree, line, prefix))
			return -EINVAL;
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	const struct tree_entry *one = a, *two = b;
	int order = strcmp(one->path, two->path);

	if (order)
		return order;
	return one->order < two->order ? -1 : 1;
}

static bool is_below(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	return strncmp(path, directory, length) == 0 &&
	       (path[length] == '\0' || path[length] == '/');
}

/* Marks what a removal takes out: the entries below it that are older. */
static void apply_removals(struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		const struct tree_entry *gone = &tree->entries[i];

		if (gone->kind != TREE_REMOVED)
			continue;
		for (size_t j = 0; j < tree->count; j++) {
			struct tree_entry *entry = &tree->entries[j];

			if (entry->order < gone->order && is_below(entry->path, gone->path))
				entry->kind = TREE_REMOVED;
		}
	}
}

void tree_seal(struct tree *tree)
{
	size_t kept = 0;

	apply_removals(tree);
	if (tree->count)
		qsort(tree->entries, tree->count, sizeof(tree->entries[0]), by_path);
	for (size_t i = 0; i < tree->count; i++) {
		bool last = i + 1 == tree->count ||
			    strcmp(tree->entries[i].path, tree->entries[i + 1].path) != 0;

		if (last && tree->entries[i].kind != TREE_REMOVED)
			tree->entries[kept++] = tree->entries[i];
	}
	tree->count = kept;
}

/* Returns the number of entries whose path sorts before this one. */
static size_t lower_bound(const struct tree *tree, const char *path)
{
	size_t low = 0, high = tree->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(tree->entries[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t tree_below(const struct tree *tree, const char *path, size_t *end)
{
	char prefix[TREE_PATH_MAX + 3];
	size_t length = strlen(path), first;

	*end = 0;
	if (length > TREE_PATH_MAX)
		return 0;
	memcpy(prefix, path, length);
	if (length == 0 || path[length - 1] != '/')
		prefix[length++] = '/';
	prefix[length] = '\0';
	first = lower_bound(tree, prefix);
	for (*end = first; *end < tree->count; ++*end) {
		if (strncmp(tree->entries[*end].path, prefix, length) != 0)
			break;
	}
	return first;
}

const struct tree_entry *tree_find(const struct tree *tree, const char *path)
{
	static const struct tree_entry directory = { .kind = TREE_DIRECTORY, .text = "" };
	size_t at = lower_bound(tree, path), end;

	if (at < tree->count && strcmp(tree->entries[at].path, path) == 0)
		return &tree->entries[at];
	at = tree_below(tree, path, &end);
	return at < end ? &directory : NULL;
}

void tree_add_errors(struct tree *tree, const char *text, size_t length)
{
	struct tree sealed = *tree;
	size_t at = 0;

	while (at < length) {
		const char *end = memchr(text + at, '\n', length - at);
		size_t long_as = (end ? (size_t)(end - text) : length) - at;
		char *line = scratch_copy(&tree->scratch, text + at, long_as);
		char *path = strchr(line, ' ');
		int error = path ? errno_number(line, (size_t)(path - line)) : 0;

		/* A name that was listed may have been read later. */
		if (error && path[1] == '/' && !tree_find(&sealed, path + 1))
			tree_add(tree, path + 1, TREE_ERROR, "", 0, error);
		at += long_as + 1;
	}
}

void tree_free(struct tree *tree)
{
	scratch_free(&tree->scratch);
	*tree = (struct tree){ 0 };
}
