/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of the command line of `godwit coll`: the names of operations, types, reductions and algorithms. */
#ifndef TOOLS_COLL_WORDS_H
#define TOOLS_COLL_WORDS_H

#include <stddef.h>

struct report;

/* In the order of their enums, and a null pointer. */
extern const char *const coll_operations[];
extern const char *const coll_types[];
extern const char *const coll_reductions[];
extern const char *const coll_algorithms[];

/* Writes "a, b or c". */
void coll_list_words(const char *const *words, char *text, size_t size);

/* Finds a value among words, however people write it. -EINVAL, and the words are in the report. */
int coll_word(struct report *report, const char *option, const char *value,
	      const char *const *words, int *out);

#endif
