/* SPDX-License-Identifier: BSD-3-Clause */
/* See trace.h. The file is line buffered and stays open until the process ends; threads share it line by line. */
#include "base/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define LINE_MAX_BYTES 1024

bool trace_enabled;
static FILE *file;

void trace_open(void)
{
	const char *name = file ? NULL : getenv("GODWIT_TRACE");

	if (!name || !*name)
		return;
	file = fopen(name, "ae");
	if (!file) {
		log_warn("GODWIT_TRACE: cannot open %s: %s; nothing is traced", name,
			 strerror(errno));
		return;
	}
	setvbuf(file, NULL, _IOLBF, 0);
	trace_enabled = true;
}

void trace_line(uint64_t now_ns, uint32_t who, const char *format, ...)
{
	char line[LINE_MAX_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(file, "%.6f %08x %s\n", (double)now_ns / 1e6, who, line);
}
