/* SPDX-License-Identifier: BSD-3-Clause */
/* A tree as a manifest: what tree_add_manifest() reads. */
#include <string.h>

#include "tree.h"

static void escape(const char *text, size_t length, struct builder *out)
{
	for (size_t i = 0; i < length; i++) {
		char c = text[i];

		if (c == '\n')
			builder_print(out, "\\n");
		else if (c < ' ' || c > '~' || c == '\\' || (i == 0 && (c == '-' || c == '!')))
			builder_print(out, "\\x%02x", (unsigned char)c);
		else
			builder_add(out, &c, 1);
	}
}

void tree_print(const struct tree *tree, struct builder *out)
{
	for (size_t i = 0; i < tree->count; i++) {
		const struct tree_entry *entry = &tree->entries[i];

		if (strpbrk(entry->path, " \n"))
			continue;
		builder_print(out, "%s", entry->path);
		if (entry->kind == TREE_DIRECTORY) {
			builder_print(out, "/");
		} else if (entry->kind == TREE_LINK) {
			builder_print(out, " -> %.*s", (int)entry->length, entry->text);
		} else if (entry->kind == TREE_ERROR) {
			builder_print(out, " !%s",
				      errno_name(entry->error) ? errno_name(entry->error) : "EIO");
		} else if (entry->length) {
			builder_print(out, " ");
			escape(entry->text, entry->length, out);
		}
		builder_add(out, "\n", 1);
	}
}
