/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * none.c: no congestion control: no pacing, and as much in flight as the receiver can buffer. For a private link without
 * other traffic, and as a reference for measurements.
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
