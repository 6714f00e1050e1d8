/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tar files: ustar, and GNU's two records for longer names and link targets, which every tar of today reads. Sizes and
 * sums are octal digits in fields of fixed width; contents are padded to blocks of 512 bytes; two empty blocks end it.
 */
#include "tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 512u

struct tar_header {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char checksum[8];
	char type;
	char link[100];
	char magic[6];
	char version[2];
	char user[32];
	char group[32];
	char major[8];
	char minor[8];
	char prefix[155];
	char padding[12];
};

_Static_assert(sizeof(struct tar_header) == BLOCK, "a tar header is one block");

enum {
	TYPE_FILE = '0',
	TYPE_LINK = '2',
	TYPE_DIRECTORY = '5',
	TYPE_LONG_LINK = 'K',
	TYPE_LONG_NAME = 'L'
};

static unsigned checksum(const struct tar_header *header)
{
	const unsigned char *bytes = (const unsigned char *)header;
	const size_t from = offsetof(struct tar_header, checksum);
	unsigned sum = 0;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= from && i < from + sizeof(header->checksum) ? ' ' : bytes[i];
	return sum;
}

/* Returns the number in an octal field, or UINT64_MAX if it holds none. */
static uint64_t octal(const char *field, size_t width)
{
	uint64_t value = 0;
	size_t i = 0;
	bool digits = false;

	while (i < width && field[i] == ' ')
		i++;
	for (; i < width && field[i] >= '0' && field[i] <= '7'; i++) {
		value = value * 8 + (uint64_t)(field[i] - '0');
		digits = true;
	}
	return digits ? value : UINT64_MAX;
}

static char *field_text(struct scratch *scratch, const char *field, size_t width)
{
	return scratch_copy(scratch, field, strnlen(field, width));
}

/* Returns a path from the root: "./sys/x" and "sys/x" are "/sys/x". */
static char *absolute(struct scratch *scratch, const char *name)
{
	while (strncmp(name, "./", 2) == 0)
		name += 2;
	while (name[0] == '/')
		name++;
	if (strcmp(name, ".") == 0)
		name++;
	return scratch_print(scratch, "/%s", name);
}

/* Names and targets that a record before the header gave. */
struct long_names {
	char *name;
	char *link;
};

static void take_member(struct tree *tree, const struct tar_header *header, const char *bytes,
			size_t size, struct long_names *given)
{
	struct scratch *scratch = &tree->scratch;
	char *name = field_text(scratch, header->name, sizeof(header->name));
	char *link = field_text(scratch, header->link, sizeof(header->link));

	if (header->prefix[0] && memcmp(header->magic, "ustar", 6) == 0)
		name = scratch_print(scratch, "%.*s/%s", (int)sizeof(header->prefix),
				     header->prefix, name);
	if (given->name)
		name = given->name;
	if (given->link)
		link = given->link;
	name = absolute(scratch, name);
	if (header->type == TYPE_FILE || header->type == '\0')
		tree_add(tree, name, TREE_FILE, bytes, size, 0);
	else if (header->type == TYPE_LINK)
		tree_add(tree, name, TREE_LINK, link, strlen(link), 0);
	else if (header->type == TYPE_DIRECTORY)
		tree_add(tree, name, TREE_DIRECTORY, "", 0, 0);
	/* A device or a FIFO is there and cannot be read. */
	else
		tree_add(tree, name, TREE_ERROR, "", 0, ENODEV);
}

int tree_add_tar(struct tree *tree, const char *bytes, size_t length)
{
	struct long_names given = { 0 };
	size_t at = 0;

	while (length - at >= BLOCK) {
		struct tar_header header;
		uint64_t size;

		memcpy(&header, bytes + at, BLOCK);
		if (header.name[0] == '\0')
			return at > 0 ? 0 : -EINVAL;
		size = octal(header.size, sizeof(header.size));
		if (octal(header.checksum, sizeof(header.checksum)) != checksum(&header))
			return -EINVAL;
		at += BLOCK;
		if (header.type == TYPE_LINK || header.type == TYPE_DIRECTORY)
			size = 0;
		if (size > length - at)
			return -EINVAL;
		if (header.type == TYPE_LONG_NAME)
			given.name = scratch_copy(&tree->scratch, bytes + at, (size_t)size);
		else if (header.type == TYPE_LONG_LINK)
			given.link = scratch_copy(&tree->scratch, bytes + at, (size_t)size);
		else {
			take_member(tree, &header, bytes + at, (size_t)size, &given);
			given = (struct long_names){ 0 };
		}
		at += ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
		if (at > length)
			return -EINVAL;
	}
	return -EINVAL;
}

static int put(FILE *file, const void *bytes, size_t length)
{
	static const char zeros[BLOCK];
	size_t padding = (BLOCK - length % BLOCK) % BLOCK;

	if (fwrite(bytes, 1, length, file) != length || fwrite(zeros, 1, padding, file) != padding)
		return -errno;
	return 0;
}

static int put_header(FILE *file, const char *name, char type, size_t size, const char *link)
{
	struct tar_header header = { .magic = "ustar", .version = { '0', '0' } };
	unsigned mode = type == TYPE_DIRECTORY ? 0755 : 0644;

	/* Fields are filled to the last byte if need be: no zero byte has to follow. */
	memcpy(header.name, name, strnlen(name, sizeof(header.name)));
	memcpy(header.link, link, strnlen(link, sizeof(header.link)));
	snprintf(header.mode, sizeof(header.mode), "%07o", mode);
	snprintf(header.uid, sizeof(header.uid), "%07o", 0);
	snprintf(header.gid, sizeof(header.gid), "%07o", 0);
	snprintf(header.size, sizeof(header.size), "%011llo", (unsigned long long)size);
	snprintf(header.mtime, sizeof(header.mtime), "%011o", 0);
	header.type = type;
	snprintf(header.checksum, sizeof(header.checksum), "%06o", checksum(&header) & 0777777);
	header.checksum[7] = ' ';
	return put(file, &header, sizeof(header));
}

/* A text that does not fit its field goes into a member of its own before. */
static int put_long(FILE *file, char type, const char *text, size_t field)
{
	size_t length = strlen(text);
	int rc;

	if (length <= field)
		return 0;
	rc = put_header(file, "././@LongLink", type, length + 1, "");
	return rc ? rc : put(file, text, length + 1);
}

static int put_entry(FILE *file, const struct tree_entry *entry)
{
	const char *name = entry->path + (entry->path[0] == '/');
	const char *link = entry->kind == TREE_LINK ? entry->text : "";
	size_t size = entry->kind == TREE_FILE ? entry->length : 0;
	char type = entry->kind == TREE_LINK	    ? TYPE_LINK
		    : entry->kind == TREE_DIRECTORY ? TYPE_DIRECTORY
						    : TYPE_FILE;
	int rc;

	if (name[0] == '\0' || entry->kind == TREE_ERROR)
		return 0;
	rc = put_long(file, TYPE_LONG_NAME, name, sizeof(((struct tar_header *)0)->name));
	if (rc == 0)
		rc = put_long(file, TYPE_LONG_LINK, link, sizeof(((struct tar_header *)0)->link));
	if (rc == 0)
		rc = put_header(file, name, type, size, link);
	return rc || size == 0 ? rc : put(file, entry->text, size);
}

int tree_write_tar(const struct tree *tree, const char *path)
{
	static const char end[2 * BLOCK];
	bool to_stdout = strcmp(path, "-") == 0;
	FILE *file = to_stdout ? stdout : fopen(path, "wbe");
	int rc = 0;

	if (!file)
		return -errno;
	for (size_t i = 0; i < tree->count && rc == 0; i++)
		rc = put_entry(file, &tree->entries[i]);
	if (rc == 0)
		rc = put(file, end, sizeof(end));
	if (fflush(file) != 0 && rc == 0)
		rc = -errno;
	if (!to_stdout && fclose(file) != 0 && rc == 0)
		rc = -errno;
	return rc;
}
