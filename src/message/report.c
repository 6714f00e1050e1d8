/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a receiver reports what landed: after so many packets, or so much time. Reports are paid for by data, one per cent of the bytes that
 * landed; who has nothing to pay with reports later.
 */
#include "constants/protocol.h"
#include "message/state.h"

#define REPORT_BUDGET_MAX (4 * REPORT_COST)

static uint64_t report_delay(const struct feedback *f)
{
	uint64_t delay = f->rtt_ns / 4;

	if (f->budget < REPORT_COST * 100)
		return REPORT_DELAY_POOR_NS;
	if (delay < REPORT_DELAY_MIN_NS)
		return REPORT_DELAY_MIN_NS;
	return delay > REPORT_DELAY_MAX_NS ? REPORT_DELAY_MAX_NS : delay;
}

/* Packets after which a report is due. */
static uint32_t report_every(const struct feedback *f)
{
	return f->rtt_ns && f->rtt_ns < NEAR_NS ? REPORT_EVERY_NEAR : REPORT_EVERY;
}

void feedback_landed(struct gw_qp *qp, uint32_t msn, uint32_t packet, uint32_t packets,
		     uint64_t bytes, bool ce)
{
	struct feedback *f = &qp->feedback;

	f->landed += packets;
	qp->ctx->counters[COUNT_LANDED_BYTES] += bytes;
	if (ce)
		f->ce += packets;
	credit_used(qp);
	f->echo_msn = msn;
	f->echo_packet = packet;
	f->echo_time = qp->ctx->arrived;
	f->echo_valid = true;
	f->unreported += packets;
	/* In hundredths of a byte, so that small packets count too. */
	if (bytes < (uint64_t)(REPORT_BUDGET_MAX * 100 - f->budget))
		f->budget += (int32_t)bytes;
	else
		f->budget = REPORT_BUDGET_MAX * 100;
	if (f->unreported >= f->advertised / 4 ||
	    (f->unreported >= report_every(f) && f->budget >= REPORT_COST * 100)) {
		qp_owe(qp, OWE_REPORT);
	} else if (qp->ctx->now + report_delay(f) < f->report_at) {
		f->report_at = qp->ctx->now + report_delay(f);
		qp_arm(qp);
	}
}

/* A report is about to leave: settles the account. */
void feedback_reporting(struct gw_qp *qp)
{
	struct feedback *f = &qp->feedback;

	f->unreported = 0;
	f->report_at = NEVER;
	f->budget -= REPORT_COST * 100;
	if (f->budget < 0)
		f->budget = 0;
}
