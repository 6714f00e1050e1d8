/* SPDX-License-Identifier: BSD-3-Clause */
/* One sentence a thread; see refuse.h. */
#include <stdarg.h>
#include <stdio.h>

#include "fabric/refuse.h"

static _Thread_local char refusal[256];

int open_refuse(enum log_level level, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(refusal, sizeof(refusal), format, arguments);
	va_end(arguments);
	if (log_enabled(level))
		log_at(level, "%s", refusal);
	return error;
}

const char *open_refusal(void)
{
	return refusal;
}
