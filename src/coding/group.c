/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c: the checks that every code makes before it accesses memory. */
#include "coding/group.h"

#include <limits.h>

bool coding_group_valid(const struct coding_group *group, unsigned k)
{
	/* ISA-L takes lengths as int. */
	return group->count >= 1 && group->count <= k && group->length >= 1 &&
	       group->length <= INT_MAX && group->last >= 1 && group->last <= group->length;
}

bool coding_erased_valid(const struct coding_group *group, const uint8_t *erased, unsigned erasures)
{
	for (unsigned i = 0; i < erasures; i++) {
		if (erased[i] >= group->count || (i > 0 && erased[i] <= erased[i - 1]))
			return false;
	}
	return true;
}
