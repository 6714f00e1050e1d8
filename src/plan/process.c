/* SPDX-License-Identifier: BSD-3-Clause */
/* process.c: turns a scheme, a path and a size into a process. */
#include "plan/process.h"

#include <math.h>

#include "constants/protocol.h"

#define NS_A_SECOND 1e9

/* Probability that a second or later retransmission is sent twice: only the first few of a message are. */
static double leaves_twice(const struct process *p)
{
	double lost_twice = (double)p->data * p->loss.mean * p->loss.mean;
	double most = fmin(SPARE_RUNS, (double)p->data / SPARE_SHARE + 1);

	return lost_twice > most ? most / lost_twice : 1;
}

/* Sets the time on the wire, and the waits of the two kinds of Selective Repeat. */
static void set_times(const struct plan_params *params, const struct plan_path *path, uint64_t size,
		      struct process *out)
{
	double rtt_ns = (double)path->rtt_ns;
	uint64_t packets = (size + path->payload - 1) / path->payload;
	double wire_bytes = (double)size + (double)packets * path->overhead;
	double rate = (double)path->rate_bps * (1 - path->report_share) / 8 / NS_A_SECOND;

	out->data = (packets + path->chunk - 1) / path->chunk;
	/* The last packet may be short: the time of the whole message is divided evenly among its units. */
	out->unit_ns = wire_bytes / rate / (double)out->data;
	out->end_ns = rtt_ns + (double)path->result_wait_ns;
	out->ideal_ns = wire_bytes / rate + rtt_ns;
	out->rto_ns = path->rto_rtts * rtt_ns;
	out->control_loss = path->control_loss;
	out->early_ns = (double)path->early_ns;
	out->announce_ns = (double)path->patience_ns;
	out->result_ns = (double)path->patience_ns;
	if (params->scheme == PLAN_SR_RTO) {
		out->first_ns = out->again_ns = out->unheard_ns = out->later_ns = out->rto_ns;
		return;
	}
	out->first_ns = rtt_ns + path->slack * out->unit_ns / path->chunk;
	out->again_ns = out->unheard_ns = out->later_ns = (double)path->patience_ns;
	out->tail_ns = rtt_ns + (double)path->answer_ns;
	out->tail_waits = true;
	out->request_loss = out->tail_loss = path->control_loss;
	if (params->scheme == PLAN_SR_NACK && path->slack && path->early_ns > 0) {
		/* Requests are sent twice, and the sender reports when the retransmissions have left. From the second
		 * retransmission on each is sent twice, early_ns / 2 apart. */
		out->again_ns = out->tail_ns = rtt_ns + (double)path->ask_ns;
		out->unheard_ns = (double)path->answer_ns;
		out->later_ns = out->again_ns + (double)path->early_ns / 2;
		out->request_loss *= path->control_loss;
		out->twice = leaves_twice(out);
		out->tail_waits = false;
	} else if (params->scheme == PLAN_SR_NACK && path->slack) {
		/* The sender reports when the retransmissions leave. The receiver then waits for half of answer_ns, and
		 * for all of it in later rounds. */
		out->again_ns = rtt_ns + (double)path->answer_ns / 2;
		out->unheard_ns = (double)path->answer_ns;
		out->later_ns = rtt_ns + (double)path->answer_ns;
	}
	out->first_ns += (double)path->jitter_ns;
	out->again_ns += (double)path->jitter_ns;
	out->unheard_ns += (double)path->jitter_ns;
	out->later_ns += (double)path->jitter_ns;
	out->tail_ns += (double)path->jitter_ns;
	/* Without slack (SDR-RDMA's best case) the end of the message is like the rest. */
	out->tail = path->slack ? (path->slack + path->chunk - 1) / path->chunk : 0;
}

static void shape_repeat(struct process *out)
{
	out->groups = out->units = out->data;
	out->size = out->spread = out->turn = 1;
	out->lead = 0;
	if (out->tail > out->groups)
		out->tail = (unsigned)out->groups;
}

static void shape_code(const struct plan_params *params, bool parity_last, struct process *out)
{
	unsigned rows = params->scheme == PLAN_XOR ? params->m : 1;
	unsigned parity = params->m / rows, interleave = params->interleave;
	uint64_t whole = out->data / params->k;
	unsigned rest = (unsigned)(out->data % params->k);

	if (interleave < 1)
		interleave = 1;
	out->group_data = params->k / rows;
	out->groups = whole * rows;
	out->size = out->group_data + parity;
	out->spare = parity;
	out->spread = rows * interleave;
	out->turn = parity_last ? parity : out->size;
	out->lead = parity_last ? out->data : 0;
	out->units = out->groups * out->size;
	if (rest > 0) {
		/* Rows of an incomplete group differ by one unit; all are taken to have the larger number. A row without data is not
		 * sent. */
		out->last_groups = rest < rows ? rest : rows;
		out->last_size = (rest + out->last_groups - 1) / out->last_groups + parity;
		out->units += (uint64_t)out->last_groups * out->last_size;
	}
	/* No unit waits for later ones to prove it lost: the sender says when it has sent everything. */
	out->tail = 0;
}

/* Coding overlaps with sending, so it costs time only if it is slower than the wire, and for decoding the last group. */
static void add_coding(const struct plan_params *params, const struct plan_path *path,
		       struct process *out)
{
	bool plain = params->scheme == PLAN_XOR;
	double speed = plain ? path->xor_bytes_a_second : path->rs_bytes_a_second;
	double rows = plain ? 1 : params->m;
	double bytes = (double)path->payload * path->chunk * params->k, group_ns, rebuilt;

	if (speed <= 0)
		return;
	group_ns = bytes * rows / speed * NS_A_SECOND;
	rebuilt = fmin(rows, params->k * out->loss.mean);
	out->unit_ns = fmax(out->unit_ns, group_ns / (params->k + params->m));
	out->end_ns += bytes * rebuilt / speed * NS_A_SECOND;
}

void process_make(const struct plan_params *params, const struct plan_path *path, uint64_t size,
		  struct process *out)
{
	struct loss_model packets = loss_model(path->loss, path->burst);

	*out = (struct process){ .loss = loss_of_chunks(&packets, path->chunk) };
	set_times(params, path, size, out);
	if (params->scheme == PLAN_SR_RTO || params->scheme == PLAN_SR_NACK) {
		shape_repeat(out);
		return;
	}
	shape_code(params, !path->fallback, out);
	add_coding(params, path, out);
	out->fallback = path->fallback;
	out->fallback_ns = (1 + path->fallback_rtts) * (double)path->rtt_ns;
}

double process_least_ns(const struct plan_params *params, const struct plan_path *path,
			uint64_t size)
{
	struct process p;

	process_make(params, path, size, &p);
	return (double)(p.lead ? p.lead : p.units) * p.unit_ns + p.end_ns;
}

double process_told_ns(const struct process *process, double again_ns, unsigned tries)
{
	bool early = process->early_ns > 0 && tries > 0;
	unsigned waits = tries - early, doubled = waits < BACKOFF_LIMIT ? waits : BACKOFF_LIMIT;
	double backed_off =
		(double)(1u << doubled) - 1 + (double)(waits - doubled) * (1u << BACKOFF_LIMIT);

	return (early ? process->early_ns : 0) + again_ns * backed_off;
}

double process_result_loss(const struct process *process, unsigned attempt)
{
	double lost = process->control_loss;
	bool asked = attempt > (process->early_ns > 0 ? 1 : 0);

	return asked ? lost * (1 - (1 - lost) * (1 - lost)) : lost;
}

struct process process_of_fallback(const struct process *process, uint64_t units)
{
	struct process out = *process;

	out.data = units;
	out.first_ns = out.again_ns = out.unheard_ns = out.later_ns = process->rto_ns;
	out.fallback = false;
	out.control_loss = out.request_loss = out.tail_loss = 0;
	out.twice = 0;
	out.last_groups = 0;
	out.spare = 0;
	shape_repeat(&out);
	return out;
}

int process_compare_times(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}
