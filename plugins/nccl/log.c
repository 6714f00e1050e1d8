/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines for NCCL's log. Every one begins with NET/Godwit, as those of NCCL's own networks do. */
#include <stdarg.h>
#include <stdio.h>

#include "state.h"

#define LINE_BYTES 1024

static void say(int level, const char *format, va_list args)
{
	nccl_log_fn *log = atomic_load(&process.log);
	char line[LINE_BYTES];

	vsnprintf(line, sizeof(line), format, args);
	if (log)
		log(level, NCCL_LOG_INIT | NCCL_LOG_NET, __func__, __LINE__, "NET/Godwit : %s",
		    line);
}

void say_warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(NCCL_LOG_WARN, format, args);
	va_end(args);
}

void say_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(NCCL_LOG_INFO, format, args);
	va_end(args);
}

static void from_library(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	/* What the library warns about, a peer that is gone for example, is told with the request that it ends. */
	if (level <= GW_LOG_ERROR)
		say_warn("%s", line);
	else
		say_info("%s", line);
}

void say_begin(nccl_log_fn *log)
{
	atomic_store(&process.log, log);
	gw_log_set((enum gw_log_level)process.settings.log_level, from_library, NULL);
}
