/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.h: counters of ports and interfaces, sampled once or twice.
 *
 * The management counters of a port stop at their largest value (4, 8, 16 or 32 bits), those of queue pairs wrap at 32
 * bits, and some drivers write "N/A". A difference exists only if both samples are numbers and neither is a value at
 * which the counter stops.
 */
#ifndef DOCTOR_COUNTER_H
#define DOCTOR_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reader.h"

struct counter {
	const char *name;
	/* where it was read */
	const char *path;
	/* why it is unknown, if it is */
	enum fact_state state;
	int error;
	uint64_t first;
	uint64_t second;
	bool has_second;
	/* at the value at which it stops: nothing can be said of changes */
	bool saturated;
};

struct counters {
	struct counter *counter;
	size_t count;
	size_t room;
};

/* Adds the files of a directory, or the lines of a text ("name value"). */
void counters_add_directory(struct counters *counters, struct reader *reader, const char *path);
void counters_add_text(struct counters *counters, struct reader *reader, const struct fact *fact);

/* Reads them again. */
void counters_again_directory(struct counters *counters, struct reader *reader, const char *path);
void counters_again_text(struct counters *counters, const struct fact *fact);

/* Returns null if there is none of this name. */
const struct counter *counters_find(const struct counters *counters, const char *name);

/* Returns whether the counter's value is known, and sets *out. A saturated value is known as "at least". */
bool counter_value(const struct counter *counter, uint64_t *out);

/* Returns whether the change between the samples is known, and sets *out. */
bool counter_delta(const struct counter *counter, uint64_t *out);

/* The largest value of the management counter of this name; 0: it does not stop. */
uint64_t counter_limit(const char *name);

#endif
