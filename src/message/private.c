/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that libgodwit-sim makes into this library; see private.h. */
#include "message/private.h"

#include "message/context.h"

int gw_private_context_open(struct fabric *fabric, const struct gw_context_attr *attr,
			    struct gw_context **out)
{
	return context_open_on(fabric, attr, out);
}

uint64_t gw_private_deadline_ns(const struct gw_context *ctx)
{
	return context_deadline_ns(ctx);
}

bool gw_private_quiet(const struct gw_context *ctx)
{
	return context_quiet(ctx);
}
