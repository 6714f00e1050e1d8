/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages for people: one line each, process-wide, off the data path.
 *
 * An error is logged once, where it is born. The level may be changed at any time from any thread;
 * the callback should be set before other threads run.
 */
#ifndef GODWIT_BASE_LOG_H
#define GODWIT_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#define LOG_MESSAGE_SIZE 512 /* the longest message, its final zero included */

/* Not LOG_ERROR and so on: <syslog.h> has some of those. */
enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/*
 * `message` has no line break and ends within LOG_MESSAGE_SIZE bytes; a longer one was cut and ends
 * in
 * "...". Control characters have become spaces: text from a peer cannot forge a line.
 */
typedef void (*log_fn)(void *arg, enum log_level level, const char *message);

/* Messages up to `level` go to fn. With fn NULL they go to stderr; from the start, warnings and
 * errors do. */
void log_set(enum log_level level, log_fn fn, void *arg);

/* "error", "warn", "warning", "info" or "debug", in any case; -EINVAL for anything else. */
int log_level_parse(const char *text, enum log_level *out);

/* Logs if the level is on. Keeps errno. */
void log_at(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

extern atomic_int log_current_level;

static inline bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_current_level, memory_order_relaxed);
}

/* Arguments are evaluated only if the level is on. */
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
 * Logs the first time only; `flag` points to a bool, false at first, that belongs to one thread.
 * While the level is off the first time is still to come.
 */
#define log_once(flag, level, ...)                                                                 \
	do {                                                                                       \
		if (log_enabled(level) && !*(flag)) {                                              \
			*(flag) = true;                                                            \
			log_at(level, __VA_ARGS__);                                                \
		}                                                                                  \
	} while (0)

#endif
