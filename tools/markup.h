/* SPDX-License-Identifier: BSD-3-Clause */
/* markup.h: text in files of HTML and SVG. */
#ifndef TOOLS_MARKUP_H
#define TOOLS_MARKUP_H

#include <stdio.h>

/* Writes text so that it stands for itself, in an element or in an attribute with double quotes; '?' for control characters. */
void markup_text(FILE *file, const char *text);

#endif
