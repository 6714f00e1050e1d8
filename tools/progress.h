/* SPDX-License-Identifier: BSD-3-Clause */
/* A bar with rate and remaining time, for a person who watches: on stderr, and only if it is a terminal. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	/* there is a terminal to draw on */
	bool shown;
	/* a bar is on the line */
	bool drawn;
	uint64_t total;
	uint64_t started_ns;
	uint64_t drawn_ns;
};

/* Shows nothing if `quiet` or if there is no terminal. */
void progress_start(struct progress *progress, bool quiet, uint64_t total, uint64_t now_ns);

/* Redraws, at most ten times a second. */
void progress_update(struct progress *progress, uint64_t done, uint64_t now_ns);

/* The same for work of no known size: a line of text in place of the bar. */
void progress_note(struct progress *progress, const char *text, uint64_t now_ns);

/* Whether a redraw would show anything now, for callers whose text takes time to make. */
bool progress_due(const struct progress *progress, uint64_t now_ns);

/* Wipes the bar away, so that what is printed next starts on an empty line. */
void progress_clear(struct progress *progress);

#endif
