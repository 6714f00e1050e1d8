/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * none: no control of our own. As fast as the interface takes it, as much in flight as the receiver buffers. For a
 * private link, where nobody else can be hurt, and as the thing that others are measured against.
 */
#include "congestion/cc.h"

static void none_init(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
}

static void none_report(void *state, const struct cc_report *report, uint64_t now_ns)
{
}

static void none_limits(const void *state, struct cc_limits *out)
{
	*out = (struct cc_limits){ .rate_bps = CC_UNPACED, .window_bytes = UINT64_MAX };
}

static void none_status(const void *state, struct cc_status *out)
{
	*out = (struct cc_status){ .doing = "not controlled" };
}

const struct cc_ops cc_none = {
	.name = "none",
	.init = none_init,
	.report = none_report,
	.limits = none_limits,
	.status = none_status,
};
