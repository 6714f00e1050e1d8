/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a reader has its files from, and the file into which it writes all that it read. */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader_state.h"

/* A capture has a few megabytes; a file beyond this is none. */
#define CAPTURE_MAX (UINT64_C(1) << 30)

/* The tree that a walk over what was kept fills; twalk() has no argument for it. */
static struct tree *capturing;
static struct builder *capture_errors;

static void capture_names(const struct kept *kept)
{
	struct scratch *scratch = &capturing->scratch;

	tree_add(capturing, kept->resolved, TREE_DIRECTORY, "", 0, 0);
	for (size_t i = 0; i < kept->names.count; i++) {
		char *path = scratch_print(scratch, "%s/%s", kept->resolved, kept->names.name[i]);

		if (kept->kinds[i] == 'd')
			tree_add(capturing, path, TREE_DIRECTORY, "", 0, 0);
		/* One that is read or followed stands there already, or replaces this. */
		else if (kept->kinds[i] == 'f' && strncmp(path, "/proc/", 6) != 0)
			builder_print(capture_errors, "ENODATA %s\n", path);
	}
}

static void capture_one(const struct kept *kept)
{
	const struct fact *fact = &kept->fact;
	const char *name;

	if (kept->key[0] == ASKED_LIST && fact->error == 0) {
		capture_names(kept);
	} else if (kept->key[0] == ON_THE_WAY || (kept->key[0] == ASKED_LINK && fact->error == 0)) {
		tree_add(capturing, kept->resolved, TREE_LINK, fact->text, fact->length, 0);
	} else if (kept->key[0] == ASKED_READ || kept->key[0] == ASKED_AGAIN) {
		if (fact->error == 0)
			tree_add(capturing, kept->resolved, TREE_FILE, fact->text, fact->length, 0);
		else if (fact->error != ENOENT && fact->error != ENOTDIR &&
			 (name = errno_name(fact->error)))
			builder_print(capture_errors, "%s %s\n", name, kept->resolved);
	}
}

static void capture_visit(const void *node, VISIT order, int depth)
{
	if (order == postorder || order == leaf)
		capture_one(*(const struct kept *const *)node);
}

/* Fills an empty tree with all that was read, and `errors` with the reads that failed. */
static void capture(struct reader *reader, struct tree *tree, struct builder *errors)
{
	capturing = tree;
	capture_errors = errors;
	twalk(reader->kept, capture_visit);
}

int reader_capture(struct reader *reader, const char *file)
{
	static const char version[] = "godwit " GODWIT_VERSION "\n";
	struct builder list = { 0 };
	struct tree tree = { 0 };
	int rc;

	capture(reader, &tree, &list);
	tree_add(&tree, PROBE_ROOT "version", TREE_FILE, version, sizeof(version) - 1, 0);
	tree_add(&tree, PROBE_ROOT "errors", TREE_FILE, list.text ? list.text : "", list.length, 0);
	tree_seal(&tree);
	rc = tree_write_tar(&tree, file);
	tree_free(&tree);
	builder_free(&list);
	return rc;
}

void reader_manifest(struct reader *reader, struct builder *out)
{
	struct builder list = { 0 };
	struct tree tree = { 0 };

	capture(reader, &tree, &list);
	tree_seal(&tree);
	if (list.length)
		tree_add_errors(&tree, list.text, list.length);
	tree_seal(&tree);
	tree_print(&tree, out);
	tree_free(&tree);
	builder_free(&list);
}

/* Loads what stands for a host: a tar file, or a manifest if it begins like one. */
static int load_bytes(struct reader *reader, const char *bytes, size_t length)
{
	unsigned line;

	if (length && (bytes[0] == '#' || bytes[0] == '['))
		return tree_add_manifest(&reader->tree, bytes, length, &line);
	return tree_add_tar(&reader->tree, bytes, length);
}

static int load_file(struct reader *reader, int fd)
{
	struct builder bytes = { 0 };
	char chunk[16384];
	ssize_t n;
	int rc;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0 && bytes.length < CAPTURE_MAX)
		builder_add(&bytes, chunk, (size_t)n);
	rc = n < 0 ? -errno : load_bytes(reader, bytes.text ? bytes.text : "", bytes.length);
	builder_free(&bytes);
	return rc;
}

/* Adds the errors that a copy lists beside its files. In a directory they stand over the files. */
static void load_errors(struct reader *reader)
{
	struct builder text = { 0 };
	bool truncated;

	if (reader->files.root_fd < 0)
		tree_seal(&reader->tree);
	if (files_read(&reader->files, PROBE_ROOT "errors", &text, &truncated) == 0 && text.length)
		tree_add_errors(&reader->tree, text.text, text.length);
	builder_free(&text);
	tree_seal(&reader->tree);
}

static int open_root(struct reader *reader, const char *root)
{
	struct stat status;
	int fd = open(root, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int rc;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) != 0) {
		rc = -errno;
	} else if (S_ISDIR(status.st_mode)) {
		reader->files.root_fd = fd;
		return 0;
	} else {
		rc = S_ISREG(status.st_mode) ? load_file(reader, fd) : -EINVAL;
	}
	close(fd);
	return rc;
}

static struct reader *new_reader(void)
{
	struct reader *reader = calloc(1, sizeof(*reader));

	if (reader)
		reader->files = (struct files){ .root_fd = -1, .tree = &reader->tree };
	return reader;
}

int reader_open(const struct reader_attr *attr, struct reader **out)
{
	struct reader *reader = new_reader();
	int rc;

	if (!reader)
		return -ENOMEM;
	reader->live = !attr->root;
	reader->pid = attr->pid;
	rc = open_root(reader, attr->root ? attr->root : "/");
	if (rc) {
		reader_close(reader);
		return rc;
	}
	if (!reader->live)
		load_errors(reader);
	*out = reader;
	return 0;
}

int reader_open_bytes(const char *bytes, size_t length, struct reader **out)
{
	struct reader *reader = new_reader();
	int rc;

	if (!reader)
		return -ENOMEM;
	rc = load_bytes(reader, bytes, length);
	if (rc) {
		reader_close(reader);
		return rc;
	}
	load_errors(reader);
	*out = reader;
	return 0;
}

int reader_open_text(const char *const *manifests, unsigned count, struct reader **out)
{
	struct reader *reader = new_reader();
	unsigned line;

	if (!reader)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		int rc =
			tree_add_manifest(&reader->tree, manifests[i], strlen(manifests[i]), &line);

		if (rc) {
			reader_close(reader);
			return rc;
		}
	}
	load_errors(reader);
	*out = reader;
	return 0;
}

static void keep_nothing(void *node)
{
	/* What was kept lies in the scratch memory. */
}

void reader_close(struct reader *reader)
{
	if (!reader)
		return;
	tdestroy(reader->kept, keep_nothing);
	if (reader->files.root_fd >= 0)
		close(reader->files.root_fd);
	tree_free(&reader->tree);
	scratch_free(&reader->scratch);
	free(reader);
}
