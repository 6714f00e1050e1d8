/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all controllers share: the table of names, and the caller's caps and the receiver's credit, which are laid over
 * whatever the controller says.
 */
#include <assert.h>
#include <string.h>

#include "congestion/cc.h"

#define DEFAULT_PACKET	       1500u
#define DEFAULT_WINDOW_PACKETS 32u

static const struct cc_ops *const controllers[] = { &cc_default, &cc_long_haul, &cc_swift,
						    &cc_none };

const struct cc_ops *cc_at(size_t i)
{
	return i < sizeof(controllers) / sizeof(controllers[0]) ? controllers[i] : NULL;
}

const struct cc_ops *cc_find(const char *name)
{
	const struct cc_ops *ops;

	for (size_t i = 0; (ops = cc_at(i)); i++)
		if (!strcmp(ops->name, name))
			return ops;
	return NULL;
}

void cc_init(struct cc *cc, const struct cc_ops *ops, const struct cc_attr *attr, uint64_t now_ns)
{
	assert(ops->state_size <= sizeof(cc->state));
	*cc = (struct cc){ .ops = ops, .attr = *attr, .credit_bytes = UINT64_MAX };
	if (!cc->attr.packet_bytes)
		cc->attr.packet_bytes = DEFAULT_PACKET;
	if (!cc->attr.link_rate_bps)
		cc->attr.link_rate_bps = CC_UNPACED;
	if (!cc->attr.max_window_bytes)
		cc->attr.max_window_bytes = UINT64_MAX;
	if (!cc->attr.initial_window_bytes)
		cc->attr.initial_window_bytes =
			(uint64_t)DEFAULT_WINDOW_PACKETS * cc->attr.packet_bytes;
	ops->init(cc->state, &cc->attr, now_ns);
}

void cc_sent(struct cc *cc, uint64_t bytes, uint64_t now_ns)
{
	if (cc->ops->sent)
		cc->ops->sent(cc->state, bytes, now_ns);
}

void cc_report(struct cc *cc, const struct cc_report *report, uint64_t now_ns)
{
	cc->ops->report(cc->state, report, now_ns);
}

void cc_cnp(struct cc *cc, uint64_t now_ns)
{
	if (cc->ops->cnp)
		cc->ops->cnp(cc->state, now_ns);
}

void cc_timeout(struct cc *cc, uint64_t now_ns)
{
	if (cc->ops->timeout)
		cc->ops->timeout(cc->state, now_ns);
}

void cc_credit(struct cc *cc, uint64_t window_bytes, uint64_t now_ns)
{
	cc->credit_bytes = window_bytes;
}

struct cc_limits cc_limits(const struct cc *cc)
{
	struct cc_limits limits;

	cc->ops->limits(cc->state, &limits);
	if (limits.rate_bps > cc->attr.link_rate_bps)
		limits.rate_bps = cc->attr.link_rate_bps;
	if (!limits.rate_bps)
		limits.rate_bps = 1;
	if (limits.window_bytes > cc->attr.max_window_bytes)
		limits.window_bytes = cc->attr.max_window_bytes;
	if (limits.window_bytes < cc->attr.packet_bytes)
		limits.window_bytes = cc->attr.packet_bytes;
	if (limits.window_bytes > cc->credit_bytes)
		limits.window_bytes = cc->credit_bytes;
	return limits;
}
