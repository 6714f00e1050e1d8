/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * samples.h: a table of what every link had carried and what waited for it, taken at equal intervals. It shows what the
 * totals of the report cannot: how soon a flow follows a change, and what it does to the queue meanwhile.
 */
#ifndef LAB_SAMPLES_H
#define LAB_SAMPLES_H

#include <stdint.h>

struct samples;
struct wire;

/* -errno if the file cannot be written. */
int samples_open(const char *path, uint64_t interval_ns, struct samples **out);

/* When the next row is due, after the start. */
uint64_t samples_next_ns(const struct samples *samples);

/* A row a link, for the time that was due. */
void samples_take(struct samples *samples, const struct wire *wires, unsigned count,
		  uint64_t start_ns);

/* -errno if anything could not be written. Takes NULL too. */
int samples_close(struct samples *samples);

#endif
