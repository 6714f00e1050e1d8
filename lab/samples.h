/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * samples.h: writes the bytes carried and queued on every link at equal intervals. This shows what the totals of the report
 * cannot: how fast a flow reacts to a change, and the queue that it causes meanwhile.
 */
#ifndef LAB_SAMPLES_H
#define LAB_SAMPLES_H

#include <stdint.h>

struct samples;
struct lab_link;

/* Returns 0, or -errno if the file cannot be created. */
int samples_open(const char *path, uint64_t interval_ns, struct samples **out);

/* Returns when the next sample is due, in ns after the start. */
uint64_t samples_next_ns(const struct samples *samples);

/* Writes one row for each link, with the time at which the sample was due. */
void samples_take(struct samples *samples, const struct lab_link *links, unsigned count,
		  uint64_t start_ns);

/* Closes the file. Returns 0, or -errno if anything could not be written. Does nothing for NULL. */
int samples_close(struct samples *samples);

#endif
