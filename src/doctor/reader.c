/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every answer is kept, by what was asked: a letter for the question and the path. A check that runs again, or another one
 * that reads the same file, sees the same state of the host; and a capture is what was kept.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "reader_state.h"

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct kept *)a)->key, ((const struct kept *)b)->key);
}

static struct kept *find(struct reader *reader, const char *key)
{
	const struct kept wanted = { .key = key };
	struct kept **node = tfind(&wanted, &reader->kept, by_key);

	return node ? *node : NULL;
}

static struct kept *keep(struct reader *reader, const char *key)
{
	struct kept *kept = scratch_alloc(&reader->scratch, sizeof(*kept));

	kept->key = key;
	kept->fact.text = "";
	if (!tsearch(kept, &reader->kept, by_key))
		abort();
	return kept;
}

static char *make_key(struct reader *reader, char question, const char *format, va_list args)
{
	char *path = scratch_vprint(&reader->scratch, format, args);

	return scratch_print(&reader->scratch, "%c%s", question, path);
}

static enum fact_state state_of(int error)
{
	switch (error) {
	case 0:
		return FACT_KNOWN;
	case ENOENT:
	case ENOTDIR:
		return FACT_ABSENT;
	case EACCES:
	case EPERM:
		return FACT_DENIED;
	case EOPNOTSUPP:
		return FACT_NOT_APPLICABLE;
	case ENODATA:
		return FACT_UNRECORDED;
	case ENOSYS:
		return FACT_UNSUPPORTED;
	case EISDIR:
	case ELOOP:
	case ENODEV:
	case ENAMETOOLONG:
		return FACT_MALFORMED;
	default:
		return FACT_REFUSED;
	}
}

static void saw_link(void *arg, const char *link, const char *target)
{
	struct reader *reader = arg;
	char *key = scratch_print(&reader->scratch, "%c%s", ON_THE_WAY, link);
	struct kept *kept;

	if (find(reader, key))
		return;
	kept = keep(reader, key);
	kept->resolved = key + 1;
	kept->fact.text = scratch_copy(&reader->scratch, target, strlen(target));
	kept->fact.length = strlen(target);
}

/* Follows the links of a path. Most questions are about files of the directory that the one before was about. */
static int resolve(struct reader *reader, const char *path, const char **out)
{
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;
	char resolved[FILES_PATH_MAX];
	int rc;

	if (length && (!reader->last_directory || strlen(reader->last_directory) != length ||
		       memcmp(reader->last_directory, path, length) != 0)) {
		char *directory = scratch_copy(&reader->scratch, path, length);

		rc = files_resolve(&reader->files, directory, resolved, saw_link, reader);
		if (rc)
			return rc;
		reader->last_directory = directory;
		reader->last_resolved = scratch_copy(&reader->scratch, resolved, strlen(resolved));
	}
	path = length ? scratch_print(&reader->scratch, "%s%s", reader->last_resolved, slash)
		      : path;
	rc = files_resolve(&reader->files, path, resolved, saw_link, reader);
	if (rc)
		return rc;
	*out = scratch_copy(&reader->scratch, resolved, strlen(resolved));
	return 0;
}

static void fill(struct reader *reader, struct kept *kept, int rc, const struct builder *text,
		 bool truncated)
{
	struct fact *fact = &kept->fact;

	fact->error = -rc;
	fact->state = state_of(-rc);
	if (rc)
		return;
	fact->length = text->length;
	fact->truncated = truncated;
	while (fact->length && text->text[fact->length - 1] == '\n')
		fact->length--;
	fact->text = scratch_copy(&reader->scratch, text->text ? text->text : "", fact->length);
	if (strncmp(fact->text, "N/A", 3) == 0)
		fact->state = FACT_NOT_APPLICABLE;
}

static int read_at(struct reader *reader, const char *path, struct builder *text, bool *truncated)
{
	const struct tree_entry *entry;
	int rc;

	if (reader->live && strncmp(path, PROBE_ROOT, strlen(PROBE_ROOT)) == 0)
		return probe_ask(path + strlen(PROBE_ROOT), reader->pid, text);
	rc = files_read(&reader->files, path, text, truncated);
	/* An unpacked capture has the errors in a list. */
	entry = rc == -ENOENT ? tree_find(&reader->tree, path) : NULL;
	return entry && entry->kind == TREE_ERROR ? -entry->error : rc;
}

static const struct fact *read_fact(struct reader *reader, char *key, bool again)
{
	struct kept *kept = find(reader, key);
	struct builder text = { 0 };
	bool truncated = false;
	const char *from;
	int rc;

	if (kept)
		return &kept->fact;
	kept = keep(reader, key);
	kept->fact.path = kept->resolved = key + 1;
	rc = resolve(reader, key + 1, &kept->resolved);
	from = kept->resolved;
	if (again)
		kept->resolved =
			scratch_print(&reader->scratch, "%s%s", AGAIN_ROOT, kept->resolved);
	if (rc == 0)
		rc = read_at(reader, again && !reader->live ? kept->resolved : from, &text,
			     &truncated);
	fill(reader, kept, rc, &text, truncated);
	builder_free(&text);
	return &kept->fact;
}

const struct fact *reader_read(struct reader *reader, const char *format, ...)
{
	va_list args;
	char *key;

	va_start(args, format);
	key = make_key(reader, ASKED_READ, format, args);
	va_end(args);
	return read_fact(reader, key, false);
}

const struct fact *reader_again(struct reader *reader, const char *format, ...)
{
	va_list args;
	char *key;

	va_start(args, format);
	key = make_key(reader, ASKED_AGAIN, format, args);
	va_end(args);
	return read_fact(reader, key, true);
}

const struct fact *reader_link(struct reader *reader, const char *format, ...)
{
	char target[FILES_PATH_MAX];
	struct kept *kept;
	va_list args;
	char *key, *slash;
	int rc;

	va_start(args, format);
	key = make_key(reader, ASKED_LINK, format, args);
	va_end(args);
	kept = find(reader, key);
	if (kept)
		return &kept->fact;
	kept = keep(reader, key);
	kept->fact.path = kept->resolved = key + 1;
	slash = strrchr(key, '/');
	rc = resolve(reader, scratch_copy(&reader->scratch, key + 1, (size_t)(slash - key - 1)),
		     &kept->resolved);
	kept->resolved =
		scratch_print(&reader->scratch, "%s%s",
			      strcmp(kept->resolved, "/") == 0 ? "" : kept->resolved, slash);
	if (rc == 0)
		rc = files_link(&reader->files, kept->resolved, target);
	kept->fact.error = -rc;
	kept->fact.state = state_of(-rc);
	if (rc == 0) {
		kept->fact.text = scratch_copy(&reader->scratch, target, strlen(target));
		kept->fact.length = strlen(target);
	}
	return &kept->fact;
}

const struct fact *reader_real(struct reader *reader, const char *format, ...)
{
	struct kept *kept;
	va_list args;
	char *key;
	int rc;

	va_start(args, format);
	key = make_key(reader, ASKED_REAL, format, args);
	va_end(args);
	kept = find(reader, key);
	if (kept)
		return &kept->fact;
	kept = keep(reader, key);
	kept->fact.path = kept->resolved = key + 1;
	rc = resolve(reader, key + 1, &kept->resolved);
	kept->fact.error = -rc;
	kept->fact.state = state_of(-rc);
	if (rc == 0) {
		kept->fact.text = kept->resolved;
		kept->fact.length = strlen(kept->resolved);
	}
	return &kept->fact;
}

/* Names with digits in them in the order of the numbers: 10 after 9. */
static int by_version(const void *a, const void *b)
{
	return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

static void fill_names(struct reader *reader, struct kept *kept, const struct builder *list)
{
	struct names *names = &kept->names;
	char *copy = scratch_copy(&reader->scratch, list->text ? list->text : "", list->length);
	size_t at, i = 0;

	for (at = 0; at < list->length; at += strlen(copy + at) + 1)
		names->count++;
	names->name = scratch_alloc(&reader->scratch, (names->count + 1) * sizeof(names->name[0]));
	for (at = 0; at < list->length; at += strlen(copy + at) + 1)
		names->name[i++] = copy + at;
	if (names->count)
		qsort(names->name, names->count, sizeof(names->name[0]), by_version);
	/* The kind is the last byte of each. */
	kept->kinds = copy = scratch_alloc(&reader->scratch, names->count + 1);
	for (i = 0; i < names->count; i++) {
		char *name = (char *)names->name[i];
		size_t length = strlen(name);

		copy[i] = name[length - 1];
		name[length - 1] = '\0';
	}
}

const struct names *reader_list(struct reader *reader, const char *format, ...)
{
	struct builder list = { 0 };
	struct kept *kept;
	va_list args;
	char *key;
	int rc;

	va_start(args, format);
	key = make_key(reader, ASKED_LIST, format, args);
	va_end(args);
	kept = find(reader, key);
	if (kept)
		return &kept->names;
	kept = keep(reader, key);
	kept->resolved = key + 1;
	rc = resolve(reader, key + 1, &kept->resolved);
	if (rc == 0)
		rc = files_list(&reader->files, kept->resolved, &list);
	kept->names.error = kept->fact.error = -rc;
	kept->names.state = kept->fact.state = state_of(-rc);
	if (rc == 0)
		fill_names(reader, kept, &list);
	builder_free(&list);
	return &kept->names;
}

void reader_put(struct reader *reader, const char *path, const char *text)
{
	char *key = scratch_print(&reader->scratch, "%c%s", ASKED_READ, path);
	struct kept *kept = find(reader, key);

	if (!kept)
		kept = keep(reader, key);
	kept->resolved = kept->fact.path = key + 1;
	kept->fact.state = FACT_KNOWN;
	kept->fact.error = 0;
	kept->fact.text = scratch_copy(&reader->scratch, text, strlen(text));
	kept->fact.length = strlen(text);
}

bool fact_known(const struct fact *fact, const char **why)
{
	if (fact->state == FACT_KNOWN)
		return true;
	if (why)
		*why = fact_why(fact->state, fact->error);
	return false;
}

const char *fact_why(enum fact_state state, int error)
{
	switch (state) {
	case FACT_KNOWN:
		return "it is known";
	case FACT_ABSENT:
		return "there is no such file";
	case FACT_DENIED:
		return "it needs root";
	case FACT_REFUSED:
		return error == EINVAL ? "the kernel refuses the read (EINVAL)"
				       : "the kernel refuses the read";
	case FACT_NOT_APPLICABLE:
		return "the driver has no such value";
	case FACT_MALFORMED:
		return "it does not hold what such a file holds";
	case FACT_UNRECORDED:
		return "the capture has only its name";
	case FACT_UNSUPPORTED:
		return "this program was built without libmnl";
	}
	return "unknown";
}

struct scratch *reader_scratch(struct reader *reader)
{
	return &reader->scratch;
}

bool reader_live(const struct reader *reader)
{
	return reader->live;
}

long reader_pid(const struct reader *reader)
{
	return reader->pid;
}
