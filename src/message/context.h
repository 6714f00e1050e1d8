/* SPDX-License-Identifier: BSD-3-Clause */
/* context.h: a context on a fabric that is open already, for the fabrics' own front doors and for simulation. */
#ifndef MESSAGE_CONTEXT_H
#define MESSAGE_CONTEXT_H

#include <godwit/godwit.h>

#include "fabric/fabric.h"

/* Takes the fabric over, also on failure. The attributes' fabric and faults are not looked at. */
int context_open_on(struct fabric *fabric, const struct gw_context_attr *attr,
		    struct gw_context **out);

/* When gw_progress() has to be called again even if nothing arrives; UINT64_MAX: never. */
uint64_t context_deadline_ns(const struct gw_context *ctx);

/* Whether gw_progress() would find nothing to do now if nothing has arrived since it was called last. */
bool context_quiet(const struct gw_context *ctx);

#endif
