/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.c: the state is a level, which every log statement reads, and a callback (the sink). A message
 * is formatted on the stack, control characters are removed, and the sink gets it as one line.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void log_to_stderr(void *arg, enum log_level level, const char *message);

atomic_int log_current_level = LOG_LEVEL_WARN;
static log_fn sink = log_to_stderr;
static void *sink_arg;

static const char *const level_names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARN] = "warning",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

static void log_to_stderr(void *arg, enum log_level level, const char *message)
{
	(void)arg;
	fprintf(stderr, "godwit: %s: %s\n", level_names[level], message);
}

void log_set(enum log_level level, log_fn fn, void *arg)
{
	sink = fn ? fn : log_to_stderr;
	sink_arg = fn ? arg : NULL;
	atomic_store_explicit(&log_current_level, (int)level, memory_order_relaxed);
}

int log_level_parse(const char *text, enum log_level *out)
{
	if (strcasecmp(text, "warn") == 0) {
		*out = LOG_LEVEL_WARN;
		return 0;
	}
	for (int i = LOG_LEVEL_ERROR; i <= LOG_LEVEL_DEBUG; i++) {
		if (strcasecmp(text, level_names[i]) == 0) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* Ends a truncated message with "...", without leaving part of a UTF-8 character before it. */
static void mark_cut(char *message)
{
	static const char mark[] = "...";
	size_t at = LOG_MESSAGE_SIZE - sizeof(mark);

	while (at > 0 && ((unsigned char)message[at] & 0xc0) == 0x80)
		at--;
	memcpy(message + at, mark, sizeof(mark));
}

/* Replaces control characters by spaces. */
static void flatten(char *message)
{
	for (; *message; message++) {
		if ((unsigned char)*message < ' ' || *message == 0x7f)
			*message = ' ';
	}
}

void log_at(enum log_level level, const char *format, ...)
{
	char message[LOG_MESSAGE_SIZE];
	int saved_errno = errno;
	va_list args;
	int length;

	if (!log_enabled(level))
		return;
	va_start(args, format);
	length = vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (length < 0)
		strcpy(message, "(a message that could not be formatted)");
	else if ((size_t)length >= sizeof(message))
		mark_cut(message);
	flatten(message);
	sink(sink_arg, level, message);
	errno = saved_errno;
}
