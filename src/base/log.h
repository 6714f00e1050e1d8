/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h: messages for people, one line each. Level and callback are global to the process. Nothing on
 * the data path logs.
 *
 * An error is logged once, where it is detected. The level may be changed at any time from any thread;
 * the callback should be set before other threads run.
 */
#ifndef GODWIT_BASE_LOG_H
#define GODWIT_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

/* Bytes of the longest message, including the final zero. */
#define LOG_MESSAGE_SIZE 512

/* The names are not LOG_ERROR etc., because <syslog.h> defines some of those. */
enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/*
 * Receives each message. `message` has no line break and at most LOG_MESSAGE_SIZE bytes; a longer one
 * was truncated and ends in "...". Control characters were replaced by spaces, so that text from a
 * peer cannot forge a line.
 */
typedef void (*log_fn)(void *arg, enum log_level level, const char *message);

/* Sends messages up to `level` to fn, or to stderr if fn is NULL. Until it is called, errors and
 * warnings go to stderr. */
void log_set(enum log_level level, log_fn fn, void *arg);

/* Parses "error", "warn", "warning", "info" or "debug", ignoring case; -EINVAL for anything else. */
int log_level_parse(const char *text, enum log_level *out);

/* Logs if the level is enabled. Preserves errno. */
void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

extern atomic_int log_current_level;

static inline bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_current_level, memory_order_relaxed);
}

/* Arguments are evaluated only if the level is enabled. */
#define log_when_enabled(level, ...)                                                               \
	do {                                                                                       \
		if (log_enabled(level))                                                            \
			log_at(level, __VA_ARGS__);                                                \
	} while (0)

#define log_error(...) log_when_enabled(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_when_enabled(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_when_enabled(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_when_enabled(LOG_LEVEL_DEBUG, __VA_ARGS__)

/*
 * Logs once. `flag` points to a bool that is false at first, is set when the message was logged, and
 * is used by one thread only. While the level is disabled nothing is logged and the flag stays false.
 */
#define log_once(flag, level, ...)                                                                 \
	do {                                                                                       \
		if (log_enabled(level) && !*(flag)) {                                              \
			*(flag) = true;                                                            \
			log_at(level, __VA_ARGS__);                                                \
		}                                                                                  \
	} while (0)

#endif
