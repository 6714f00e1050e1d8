/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults.c: the path that plan_path_init() and plan_path_paper() describe, and which figures are valid. */
#include "plan/plan.h"

#include <errno.h>
#include <math.h>

#include "constants/protocol.h"
#include "plan/loss.h"

#define PAYLOAD 4096

/* A report has about this many bytes on the wire; there is one for every REPORT_EVERY packets. */
#define REPORT_BYTES 200
/* Reports use at most this share of the rate. */
#define REPORT_MOST 0.01

/* Measured by bench/coding on one core; docs/results/coding.json names the processor. */
#define RS_BYTES_A_SECOND  50e9
#define XOR_BYTES_A_SECOND 80e9

#define PAPER_CHUNK    65536
#define PAPER_RTO_RTTS 3
#define RATE_MAX_BPS   UINT64_C(1000000000000000)
#define TIME_MAX_NS    UINT64_C(1000000000000)
#define SIZE_MAX_BYTES (UINT64_C(1) << 50)
#define PAYLOAD_MAX    (1u << 24)
/* A group is at most what loss_counts() takes. */
#define SYMBOLS_MAX LOSS_UNITS_MAX

double plan_report_share(uint32_t packet_bytes)
{
	return fmin(REPORT_MOST, (double)REPORT_BYTES / REPORT_EVERY / packet_bytes);
}

/* A round trip and 1 / share of it, but at least min_ns: what gw_qp_patience_ns() and gw_qp_answer_ns() return on a steady
 * path. (They return more during the first messages of a connection.) */
static uint64_t wait_ns(uint64_t rtt_ns, double share, uint64_t min_ns)
{
	uint64_t wait = (uint64_t)((1 + 1 / share) * (double)rtt_ns);

	return wait < min_ns ? min_ns : wait;
}

void plan_path_init(struct plan_path *path, uint64_t rtt_ns, uint64_t rate_bps, double loss)
{
	*path = (struct plan_path){
		.rtt_ns = rtt_ns,
		.rate_bps = rate_bps,
		.loss = loss,
		.burst = 1,
		.payload = PAYLOAD,
		.overhead = PACKET_OVERHEAD,
		.chunk = 1,
		.slack = SLACK_FIRST,
		.patience_ns = wait_ns(rtt_ns, PATIENCE_SHARE, PATIENCE_MIN_NS),
		.answer_ns = wait_ns(rtt_ns, ANSWER_SHARE, ANSWER_MIN_NS),
		.early_ns = second_copy_ns(rtt_ns),
		.ask_ns = second_copy_ns(rtt_ns),
		.result_wait_ns = rtt_ns / RESULT_WAIT_SHARE,
		.control_loss = loss,
		.rto_rtts = PAPER_RTO_RTTS,
		.rs_bytes_a_second = RS_BYTES_A_SECOND,
		.xor_bytes_a_second = XOR_BYTES_A_SECOND,
	};
	if (path->result_wait_ns > RESULT_WAIT_MAX_NS)
		path->result_wait_ns = RESULT_WAIT_MAX_NS;
	path->report_share = plan_report_share(path->payload + path->overhead);
}

void plan_path_paper(struct plan_path *path, uint64_t rtt_ns, uint64_t rate_bps, double loss)
{
	*path = (struct plan_path){
		.rtt_ns = rtt_ns,
		.rate_bps = rate_bps,
		.loss = loss,
		.burst = 1,
		.payload = PAPER_CHUNK,
		.chunk = 1,
		.patience_ns = rtt_ns,
		.answer_ns = rtt_ns,
		.rto_rtts = PAPER_RTO_RTTS,
		.fallback = true,
		.fallback_rtts = 1,
	};
}

static bool path_valid(const struct plan_path *path)
{
	/* Each comparison is false for not-a-number. */
	return path->rtt_ns <= TIME_MAX_NS && path->rate_bps >= 1 &&
	       path->rate_bps <= RATE_MAX_BPS && path->loss >= 0 && path->loss < PLAN_LOSS_MAX &&
	       path->burst >= 0 && path->burst <= 1e9 && path->payload >= 1 &&
	       path->payload <= PAYLOAD_MAX && path->overhead <= PAYLOAD_MAX && path->chunk >= 1 &&
	       path->chunk <= PAYLOAD_MAX && path->patience_ns <= TIME_MAX_NS &&
	       path->answer_ns <= TIME_MAX_NS && path->early_ns <= TIME_MAX_NS &&
	       path->ask_ns <= TIME_MAX_NS && path->result_wait_ns <= TIME_MAX_NS &&
	       path->control_loss >= 0 && path->control_loss < PLAN_LOSS_MAX &&
	       path->rto_rtts > 0 && path->rto_rtts <= 1000 && path->report_share >= 0 &&
	       path->report_share < 1 && path->rs_bytes_a_second >= 0 &&
	       path->xor_bytes_a_second >= 0 && path->fallback_rtts >= 0 &&
	       path->fallback_rtts <= 1000;
}

int plan_check(const struct plan_params *params, const struct plan_path *path, uint64_t size)
{
	if (!path_valid(path) || size < 1 || size > SIZE_MAX_BYTES)
		return -EINVAL;
	switch (params->scheme) {
	case PLAN_SR_RTO:
	case PLAN_SR_NACK:
		return 0;
	case PLAN_MDS:
	case PLAN_XOR:
		if (params->k < 1 || params->m < 1 || params->k > SYMBOLS_MAX ||
		    params->m > SYMBOLS_MAX - params->k || params->interleave > PLAN_INTERLEAVE_MAX)
			return -EINVAL;
		return params->scheme == PLAN_XOR && params->k % params->m ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}
