/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.h: `godwit doctor HOST` and `godwit doctor --serve`. */
#ifndef TOOLS_DOCTOR_PAIR_H
#define TOOLS_DOCTOR_PAIR_H

#include <stdbool.h>

#include "doctor/diagnosis.h"
#include "tools/options.h"
#include "tools/report.h"

/* Examines the path to options->host, fills an empty diagnosis, and sets *figures to a JSON object of what was measured.
 * Returns 0, or -errno with the reason in the report. */
int pair_call(struct report *report, const struct options *options, const char *only,
	      const char *skip, struct diagnosis *diagnosis, json_t **figures);

/* Waits for callers, one after the other, until a signal comes; `once`: for one. Returns the exit status. */
int pair_serve(struct report *report, const struct options *options, bool once);

#endif
