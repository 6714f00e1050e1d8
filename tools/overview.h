/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_OVERVIEW_H
#define TOOLS_OVERVIEW_H

#include <stdio.h>

/* Prints what this host can do, and what to try. Returns 0 or -errno. */
int overview_print(FILE *out);

#endif
