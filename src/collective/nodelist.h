/* SPDX-License-Identifier: BSD-3-Clause */
/* nodelist.h: Slurm's way to write lists of hosts, "node[03-07,12],x9". Pure. */
#ifndef COLLECTIVE_NODELIST_H
#define COLLECTIVE_NODELIST_H

#include <stddef.h>

/* Writes the first host of a list. Several brackets in one name are allowed, "r[1-2]n[01-16]". -EINVAL: not a list, or the name
 * does not fit. */
int nodelist_first(const char *list, char *out, size_t size);

#endif
