/* SPDX-License-Identifier: BSD-3-Clause */
/* draw.h: axes of `godwit plan`'s drawings, and the file they go to. */
#ifndef TOOLS_PLAN_DRAW_H
#define TOOLS_PLAN_DRAW_H

#include "job.h"
#include "tools/svg.h"

/* An axis of a swept quantity, or of time. Ticks are round numbers with units. */
void plan_axis_of(enum plan_quantity quantity, double low, double high, struct svg_axis *out);
void plan_axis_of_time(const char *label, double low_ns, double high_ns, struct svg_axis *out);

/* "128.0 MiB, 400 Gbit/s, round trip 25.0 ms": what stays as it is, into at least PLAN_SUBTITLE_SIZE bytes. */
#define PLAN_SUBTITLE_SIZE 256
void plan_subtitle(const struct plan_job *job, char *buffer);

/* Opens job->svg for writing and closes it again. -errno, told. */
int plan_draw_open(const struct plan_job *job, FILE **out);
int plan_draw_close(const struct plan_job *job, FILE *file);

#endif
