/* SPDX-License-Identifier: BSD-3-Clause */
/* open.h: fabrics by name. */
#ifndef FABRIC_OPEN_H
#define FABRIC_OPEN_H

#include "fabric/fabric.h"

struct fabric_faults {
	double drop;
	double duplicate;
	double reorder;
	uint64_t seed;
};

/* "roce:ADDRESS[@PORT]", "roce:INTERFACE[@PORT]", "verbs:DEVICE..." (verbs.h) or "auto". Says why it failed in the log;
 * -EINVAL, or as gw_context_open(). Faults may be null. */
int fabric_open(const char *name, const struct fabric_faults *faults, struct fabric **out);

#endif
