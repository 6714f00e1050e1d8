/* SPDX-License-Identifier: BSD-3-Clause */
#include "markup.h"

void markup_text(FILE *file, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", file);
			break;
		case '>':
			fputs("&gt;", file);
			break;
		case '&':
			fputs("&amp;", file);
			break;
		case '"':
			fputs("&quot;", file);
			break;
		default:
			fputc((unsigned char)*text < ' ' ? '?' : *text, file);
		}
	}
}
