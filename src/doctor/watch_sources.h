/* SPDX-License-Identifier: BSD-3-Clause */
/* watch_sources.h: which counters make up which metric. */
#ifndef DOCTOR_WATCH_SOURCES_H
#define DOCTOR_WATCH_SOURCES_H

#include "watch.h"

#define WATCH_SOURCE_NAMES 10u
#define WATCH_PRIORITIES   8u

/* Counters of a metric, those of ethtool with an @; the first group of which the port has one counts. */
struct watch_source {
	enum watch_metric metric;
	/* kinds of ports that it is for: bits */
	unsigned kinds;
	/* bits or packets of one count */
	unsigned unit;
	const char *names[WATCH_SOURCE_NAMES];
};

extern const struct watch_source watch_sources[];
extern const size_t watch_source_count;

/* Returns the port's counter; null if it has none, or the driver says so. */
const struct counter *watch_counter(const struct watch_port *port, const char *name);

/* Returns whether some counter of the group exists. */
bool watch_source_has(const struct watch_source *source, const struct watch_port *port);

/* The counter of microseconds for which a priority was paused; WATCH_PRIORITIES: all traffic. Returns `out`. */
const char *watch_pause_name(unsigned priority, char out[48]);

#endif
