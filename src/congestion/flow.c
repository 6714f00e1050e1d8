/* SPDX-License-Identifier: BSD-3-Clause */
/* flow.c: a governor for one queue pair of the user; see flow.h. */
#include <errno.h>
#include <stdlib.h>

#include <godwit/flow.h>

#include "base/zero.h"
#include "congestion/governor.h"

struct gw_flow {
	struct governor governor;
};

const char *gw_congestion_name(unsigned index)
{
	const struct cc_ops *ops = cc_at(index);

	return ops ? ops->name : NULL;
}

int gw_flow_open(struct gw_qp *qp, const struct gw_flow_attr *attr, struct gw_flow **out)
{
	static const struct gw_flow_attr none = { 0 };
	const struct cc_ops *ops;
	struct gw_flow *flow;
	int status;

	if (!qp || !out)
		return -EINVAL;
	if (!attr)
		attr = &none;
	ops = cc_find(attr->congestion ? attr->congestion : "default");
	if (!ops || !array_is_zero(attr->reserved))
		return -EINVAL;
	status = gw_qp_status(qp);
	if (status)
		return status;
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return -ENOMEM;
	governor_init(&flow->governor, NULL);
	governor_open(&flow->governor, ops, attr->rate_bps ? attr->rate_bps : GW_RATE_UNLIMITED,
		      &qp, 1, gw_qp_now_ns(qp));
	*out = flow;
	return 0;
}

int gw_flow_close(struct gw_flow *flow)
{
	if (!flow)
		return -EINVAL;
	governor_close(&flow->governor);
	free(flow);
	return 0;
}

int gw_flow_set_rate(struct gw_flow *flow, uint64_t bits_per_second)
{
	if (!flow)
		return -EINVAL;
	governor_cap(&flow->governor, bits_per_second, gw_qp_now_ns(flow->governor.side[0].qp));
	return 0;
}

int gw_flow_stats(const struct gw_flow *flow, struct gw_flow_stats *out)
{
	if (!flow || !out)
		return -EINVAL;
	*out = (struct gw_flow_stats){
		.rate_bps = flow->governor.pacer.bucket.rate_bps,
		.window_bytes = cc_limits(&flow->governor.cc).window_bytes,
		.in_flight_bytes = governor_in_flight(&flow->governor),
	};
	return 0;
}

int gw_flow_explain(const struct gw_flow *flow, char *text, size_t size)
{
	if (!flow || !text || !size)
		return -EINVAL;
	return (int)cc_explain(&flow->governor.cc, text, size);
}
