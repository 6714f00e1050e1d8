/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * default: two controllers, and the least round trip to choose by. Below SHORT_NS a delay target (swift), above it a
 * model of the path (long-haul), which also does the work until something was measured. The least is taken over a
 * period, so that a route that became longer is noticed, and it has to be well above before swift is left: a queue in
 * the building is not a long way.
 */
#include <assert.h>

#include "congestion/cc.h"

#define SHORT_NS  UINT64_C(3000000)
#define LEAVE_NS  (2 * SHORT_NS)
#define PERIOD_NS UINT64_C(10000000000)

struct chooser {
	const struct cc_ops *ops;
	struct cc_attr attr;
	uint64_t least_ns; /* of this period; UINT64_MAX: none yet */
	uint64_t period_at_ns;
	_Alignas(8) unsigned char state[CC_STATE_SIZE];
};

static_assert(sizeof(struct chooser) <= CC_STATE_SIZE + CC_CHOICE_SIZE, "struct cc is too small");

static void choose(struct chooser *chooser, const struct cc_ops *ops, uint64_t now_ns)
{
	struct cc_limits limits;

	if (chooser->ops == ops)
		return;
	/* The newcomer begins with what its predecessor had reached. */
	chooser->ops->limits(chooser->state, &limits);
	chooser->attr.initial_window_bytes = limits.window_bytes;
	chooser->ops = ops;
	ops->init(chooser->state, &chooser->attr, now_ns);
}

static void default_init(void *state, const struct cc_attr *attr, uint64_t now_ns)
{
	struct chooser *chooser = state;

	*chooser = (struct chooser){
		.ops = &cc_long_haul, .attr = *attr, .least_ns = UINT64_MAX, .period_at_ns = now_ns
	};
	chooser->ops->init(chooser->state, attr, now_ns);
}

static void default_sent(void *state, uint64_t bytes, uint64_t now_ns)
{
	struct chooser *chooser = state;

	if (chooser->ops->sent)
		chooser->ops->sent(chooser->state, bytes, now_ns);
}

static void default_report(void *state, const struct cc_report *report, uint64_t now_ns)
{
	struct chooser *chooser = state;

	if (report->rtt_ns && report->rtt_ns < chooser->least_ns)
		chooser->least_ns = report->rtt_ns;
	if (chooser->least_ns < SHORT_NS)
		choose(chooser, &cc_swift, now_ns);
	if (now_ns - chooser->period_at_ns > PERIOD_NS) {
		if (chooser->least_ns != UINT64_MAX && chooser->least_ns > LEAVE_NS)
			choose(chooser, &cc_long_haul, now_ns);
		chooser->least_ns = UINT64_MAX;
		chooser->period_at_ns = now_ns;
	}
	chooser->ops->report(chooser->state, report, now_ns);
}

static void default_cnp(void *state, uint64_t now_ns)
{
	struct chooser *chooser = state;

	if (chooser->ops->cnp)
		chooser->ops->cnp(chooser->state, now_ns);
}

static void default_timeout(void *state, uint64_t now_ns)
{
	struct chooser *chooser = state;

	if (chooser->ops->timeout)
		chooser->ops->timeout(chooser->state, now_ns);
}

static void default_limits(const void *state, struct cc_limits *out)
{
	const struct chooser *chooser = state;

	chooser->ops->limits(chooser->state, out);
}

static void default_sight(const void *state, struct cc_sight *out)
{
	const struct chooser *chooser = state;

	chooser->ops->sight(chooser->state, out);
	out->name = chooser->ops->name;
}

const struct cc_ops cc_default = {
	.name = "default",
	.state_size = sizeof(struct chooser),
	.init = default_init,
	.sent = default_sent,
	.report = default_report,
	.cnp = default_cnp,
	.timeout = default_timeout,
	.limits = default_limits,
	.sight = default_sight,
};
