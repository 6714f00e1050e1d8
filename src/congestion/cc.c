/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cc.c: what all controllers share: the table of names; the caller's limits and the receiver's credit, which bound what the
 * controller says; and the choice that `default` makes between two controllers.
 *
 * `default` compares the minimum round-trip time with SHORT_NS. It is taken over a period, so that a route that became
 * longer is noticed. swift is left only above LEAVE_NS, because a queue inside a data centre may also exceed SHORT_NS.
 * long-haul runs until something was measured.
 *
 * Controllers compare round-trip times with their minimum, and call the difference a queue. On a slow link most of the
 * difference may be the size of the packets: at 4 Mbit/s one of 1500 bytes takes 3 ms for each hop, the last one of a message,
 * with a few bytes, takes none. So a controller is told the round-trip times of packets of about one size, the largest in use.
 */
#include <assert.h>
#include <string.h>

#include "congestion/cc.h"

#define DEFAULT_PACKET	   1500u
#define DEFAULT_WAKE_NS	   50000
#define WINDOW_PACKETS	   32u
#define WINDOW_PACKETS_FEW 10u
#define WINDOW_BYTES	   (64u << 10)
#define SHORT_NS	   UINT64_C(3000000)
#define LEAVE_NS	   (2 * SHORT_NS)
#define PERIOD_NS	   UINT64_C(10000000000)
/* Samples of smaller packets in a row after which the larger ones count as no longer in use. */
#define SMALLER_MOST 64u

const struct cc_ops cc_default = { .name = "default" };

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

/* Returns the window before the first measurement: 32 packets, but no more than a short queue holds unless that is less than 10. */
static uint64_t initial_window(uint64_t packet_bytes)
{
	uint64_t bytes = WINDOW_PACKETS * packet_bytes;
	uint64_t few = WINDOW_PACKETS_FEW * packet_bytes;

	if (bytes < WINDOW_BYTES)
		return bytes;
	return few > WINDOW_BYTES ? few : WINDOW_BYTES;
}

/* What the controller allows changes with its state only, and is asked for more often. */
static void refresh(struct cc *cc)
{
	cc->ops->limits(cc->state, &cc->limits);
}

void cc_init(struct cc *cc, const struct cc_ops *ops, const struct cc_attr *attr, uint64_t now_ns)
{
	*cc = (struct cc){ .ops = ops == &cc_default ? &cc_long_haul : ops,
			   .choosing = ops == &cc_default,
			   .least_ns = UINT64_MAX,
			   .period_at_ns = now_ns,
			   .attr = *attr,
			   .credit_bytes = UINT64_MAX };
	assert(cc->ops->state_size <= sizeof(cc->state));
	if (!cc->attr.packet_bytes)
		cc->attr.packet_bytes = DEFAULT_PACKET;
	if (!cc->attr.link_rate_bps)
		cc->attr.link_rate_bps = CC_UNPACED;
	if (!cc->attr.max_window_bytes)
		cc->attr.max_window_bytes = UINT64_MAX;
	if (!cc->attr.initial_window_bytes)
		cc->attr.initial_window_bytes = initial_window(cc->attr.packet_bytes);
	if (!cc->attr.wake_ns)
		cc->attr.wake_ns = DEFAULT_WAKE_NS;
	cc->ops->init(cc->state, &cc->attr, now_ns);
	refresh(cc);
}

void cc_sent(struct cc *cc, uint64_t bytes, uint64_t now_ns)
{
	if (!cc->ops->sent)
		return;
	cc->ops->sent(cc->state, bytes, now_ns);
	refresh(cc);
}

/* Runs another controller from now on, with the window that the present one reached. */
static void replace(struct cc *cc, const struct cc_ops *ops, uint64_t now_ns)
{
	struct cc_attr attr = cc->attr;

	if (cc->ops == ops)
		return;
	attr.initial_window_bytes = cc->limits.window_bytes;
	memset(cc->state, 0, sizeof(cc->state));
	cc->ops = ops;
	ops->init(cc->state, &attr, now_ns);
	refresh(cc);
}

/* Chooses between swift and long-haul. */
static void choose(struct cc *cc, uint64_t rtt_ns, uint64_t now_ns)
{
	if (rtt_ns && rtt_ns < cc->least_ns)
		cc->least_ns = rtt_ns;
	if (cc->least_ns < SHORT_NS)
		replace(cc, &cc_swift, now_ns);
	if (now_ns - cc->period_at_ns > PERIOD_NS) {
		if (cc->least_ns != UINT64_MAX && cc->least_ns > LEAVE_NS)
			replace(cc, &cc_long_haul, now_ns);
		cc->least_ns = UINT64_MAX;
		cc->period_at_ns = now_ns;
	}
}

/* Leaves a round-trip time out of a report if it does not compare with others, since its packet was much smaller; sets `larger`
 * if the others do not compare with it. */
static void compare_sizes(struct cc *cc, struct cc_report *report)
{
	uint64_t bytes = report->rtt_bytes;

	report->larger = 0;
	if (!report->rtt_ns || !bytes)
		return;
	if (4 * bytes < (uint64_t)3 * cc->sample_bytes && ++cc->smaller < SMALLER_MOST) {
		report->rtt_ns = report->return_ns = 0;
		return;
	}
	if (cc->sample_bytes && 3 * bytes > (uint64_t)4 * cc->sample_bytes)
		report->larger = report->rtt_bytes - cc->sample_bytes;
	if (report->larger)
		cc->least_ns = UINT64_MAX;
	if (!cc->sample_bytes || report->larger || cc->smaller >= SMALLER_MOST)
		cc->sample_bytes = report->rtt_bytes;
	cc->smaller = 0;
}

void cc_report(struct cc *cc, const struct cc_report *report, uint64_t now_ns)
{
	struct cc_report known = *report;

	cc->is_saved = false;
	if (known.return_ns >= known.rtt_ns)
		known.return_ns = 0;
	compare_sizes(cc, &known);
	if (cc->choosing)
		choose(cc, known.rtt_ns - known.return_ns, now_ns);
	/* A window that the receiver's credit does not let the sender use says nothing about a larger one. */
	known.app_limited |= cc->credit_bytes < cc->limits.window_bytes;
	cc->ops->report(cc->state, &known, now_ns);
	refresh(cc);
}

bool cc_follow(struct cc *cc, const struct cc *other)
{
	uint64_t credit_bytes = cc->credit_bytes;

	if (cc->choosing != other->choosing || (!cc->choosing && cc->ops != other->ops))
		return false;
	*cc = *other;
	cc->credit_bytes = credit_bytes;
	/* A timeout was that of the other's packets. */
	cc->is_saved = false;
	return true;
}

void cc_cnp(struct cc *cc, uint64_t now_ns)
{
	if (cc->ops->cnp)
		cc->ops->cnp(cc->state, now_ns);
	refresh(cc);
}

void cc_timeout(struct cc *cc, uint64_t now_ns)
{
	if (!cc->is_saved) {
		cc->is_saved = true;
		memcpy(cc->saved, cc->state, sizeof(cc->saved));
	}
	if (cc->ops->timeout)
		cc->ops->timeout(cc->state, now_ns);
	refresh(cc);
}

void cc_undo_timeout(struct cc *cc)
{
	if (!cc->is_saved)
		return;
	/* The controller is the same: another takes over with a report only. */
	memcpy(cc->state, cc->saved, sizeof(cc->state));
	cc->is_saved = false;
	refresh(cc);
}

void cc_credit(struct cc *cc, uint64_t window_bytes, uint64_t now_ns)
{
	cc->credit_bytes = window_bytes;
}

struct cc_limits cc_limits(const struct cc *cc)
{
	struct cc_limits limits = cc->limits;

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
