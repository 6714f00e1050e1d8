/* SPDX-License-Identifier: BSD-3-Clause */
#include "words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "job.h"

const char *const coll_operations[] = { "barrier",   "broadcast", "allgather", "reduce_scatter",
					"allreduce", "alltoall",  NULL };
const char *const coll_types[] = { "float32", "float16", "bfloat16", "float64", "int8", "uint8",
				   "int32",   "uint32",	 "int64",    "uint64",	NULL };
const char *const coll_reductions[] = { "sum", "mean", "min", "max", NULL };
const char *const coll_algorithms[] = { "auto",	  "ring",      "doubling", "tree",
					"direct", "multicast", NULL };

const char *coll_operation_name(enum coll_operation operation)
{
	return coll_operations[operation];
}

const char *coll_type_name(enum gw_type type)
{
	return coll_types[type];
}

const char *coll_reduction_name(enum gw_reduction reduction)
{
	return coll_reductions[reduction];
}

const char *coll_algorithm_name(enum gw_algorithm algorithm)
{
	return coll_algorithms[algorithm];
}

void coll_list_words(const char *const *words, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; words[i] && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s",
					 !i		? ""
					 : words[i + 1] ? ", "
							: " or ",
					 words[i]);
}

/* Whether two words are the same but for case, '-' and '_': people write allreduce, all_reduce and all-reduce. */
static bool same_word(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "-_");
		b += strspn(b, "-_");
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
			return false;
		if (!*a)
			return true;
	}
}

/* What nccl-tests call some of them. */
static const char *meant(const char *value)
{
	static const char *const others[][2] = {
		{ "half", "float16" },
		{ "float", "float32" },
		{ "double", "float64" },
		{ "avg", "mean" },
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (same_word(value, others[i][0]))
			return others[i][1];
	}
	return value;
}

int coll_word(struct report *report, const char *option, const char *value,
	      const char *const *words, int *out)
{
	char all[160];

	for (int i = 0; words[i]; i++) {
		if (same_word(meant(value), words[i])) {
			*out = i;
			return 0;
		}
	}
	coll_list_words(words, all, sizeof(all));
	return report_usage(report, "%s \"%s\" is not %s", option, value, all);
}
