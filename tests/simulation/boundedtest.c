/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boundedtest: bounded reductions on simulated networks, one scenario a seed: ranks, path, loss, bursts, ranks that come late, a
 * rank that dies, recoveries, deadlines, floors.
 *
 * Rank r gives 2^r in every element, so that the sum with zeros for what is missing says for each element which shares are in it. Every
 * operation must end; stage 1 by its deadline; all ranks of an allreduce have the same bits and the same report; the report says
 * what the result shows; and what lost nothing has the bits of a reduction in the order of ranks.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/bounded.h"
#include "collective/reduce.h"
#include "message/state.h"
#include "simulation/ranks.h"

#define US		UINT64_C(1000)
#define MS		UINT64_C(1000000)
#define SECOND		UINT64_C(1000000000)
#define OPERATIONS_MAX	10
#define RANKS_MAX	9
#define MARGIN		64
#define MARGIN_BYTE	0xa5
#define PEER_TIMEOUT_NS (20 * SECOND)

/* One operation, the same on all ranks. */
struct task_plan {
	bool scatters;
	/* an allgather, or a broadcast */
	bool gathers;
	bool broadcasts;
	bool exact;
	bool in_place;
	struct gw_coll_attr attr;
	struct gw_bounded_attr bounded;
};

struct scenario {
	uint64_t seed;
	struct ranks_attr attr;
	struct task_plan plans[OPERATIONS_MAX];
	unsigned count;
	uint64_t skew_ns;
	/* a rank that comes this much later, with this chance, to each operation; size: none */
	uint32_t straggler;
	uint64_t late_ns;
	double late_chance;
	/* a rank that dies; size: none */
	uint32_t victim;
	uint64_t fault_ns;
	/* after this operation, the digest of this rank is changed; size: none */
	uint32_t drifter;
};

/* An operation of one rank. */
struct part {
	struct run *run;
	uint32_t rank;
	unsigned number;
	uint64_t due_ns;
	bool posted;
	unsigned ended;
	int status;
	uint8_t *memory[2];
	uint8_t *send, *recv;
	size_t send_bytes, recv_bytes;
	/* the result, as it was at the end */
	uint8_t *result;
	struct gw_bounded_report report;
	uint64_t missing[RANKS_MAX];
};

struct run {
	const struct scenario *scenario;
	struct ranks ranks;
	struct part *parts;
	bool failed;
	char why[512];
};

#define FAIL(run, ...)                                                                             \
	do {                                                                                       \
		if (!(run)->failed)                                                                \
			snprintf((run)->why, sizeof((run)->why), __VA_ARGS__);                     \
		(run)->failed = true;                                                              \
	} while (0)

/* What was seen, over all scenarios. */
static struct {
	uint64_t operations, whole, lost, deadline, late, poor, diverged, deaths, holes, gathered;
} sights;

/* ---- scenarios -------------------------------------------------------------------------------------------------- */

static uint64_t spread(struct rng *rng, uint64_t low, uint64_t high)
{
	uint64_t value = low;

	while (value < high && rng_below(rng, 3))
		value *= 2;
	return value < high ? value + rng_below(rng, value + 1) : high;
}

static void draw_path(struct rng *rng, struct scenario *s)
{
	struct link_attr *edge = &s->attr.shape.edge;

	edge->rate_bps = spread(rng, 100000000, UINT64_C(20000000000));
	edge->delay_ns = spread(rng, 500, 5 * MS);
	if (rng_below(rng, 4))
		edge->loss = (double)rng_below(rng, 1000) / (rng_below(rng, 4) ? 20000 : 5000);
	if (!rng_below(rng, 3)) {
		edge->burst_enter = 0.002;
		edge->burst_leave = 0.1;
		edge->burst_loss = 0.8;
		edge->burst_max_ns = 10 * MS;
	}
	if (!rng_below(rng, 4)) {
		edge->reorder = 0.05;
		edge->reorder_ns = edge->delay_ns;
	}
	if (!rng_below(rng, 4))
		edge->jitter_ns = edge->delay_ns / 2;
	if (!rng_below(rng, 3))
		edge->queue_bytes = 200000 + rng_below(rng, 1000000);
}

static uint64_t draw_count(struct rng *rng)
{
	switch (rng_below(rng, 8)) {
	case 0:
		return rng_below(rng, 3);
	case 1:
		return 3 + rng_below(rng, 60);
	case 2:
		return 100000 + rng_below(rng, 100000);
	default:
		return spread(rng, 500, 60000);
	}
}

static void draw_plan(struct rng *rng, const struct scenario *s, struct task_plan *plan)
{
	static const enum gw_type types[] = { GW_FLOAT32, GW_FLOAT64, GW_FLOAT16, GW_BFLOAT16 };
	struct gw_bounded_attr *bounded = &plan->bounded;

	plan->scatters = !rng_below(rng, 5);
	plan->gathers = !plan->scatters && !rng_below(rng, 6);
	plan->broadcasts = !plan->scatters && !plan->gathers && !rng_below(rng, 10);
	plan->exact = !rng_below(rng, 8);
	plan->in_place = !rng_below(rng, 3);
	plan->attr.count = draw_count(rng);
	if (plan->scatters || plan->gathers)
		plan->attr.count = plan->attr.count / s->attr.shape.hosts + 1;
	plan->attr.root = (uint32_t)rng_below(rng, s->attr.shape.hosts);
	plan->attr.type = types[rng_below(rng, 2) ? 0 : rng_below(rng, 4)];
	plan->attr.reduction = (enum gw_reduction)rng_below(rng, rng_below(rng, 4) ? 2 : 4);
	bounded->recovery = (enum gw_recovery)rng_below(rng, GW_RECOVER_CODED + 1);
	if (bounded->recovery == GW_RECOVER_HADAMARD) {
		plan->attr.reduction = (enum gw_reduction)rng_below(rng, 2);
		plan->attr.type = rng_below(rng, 3) ? GW_FLOAT32 : GW_BFLOAT16;
	}
	if (rng_below(rng, 2))
		bounded->deadline_ns = spread(rng, 200 * US, SECOND);
	if (!rng_below(rng, 4)) {
		bounded->floor_ppm = 500000 + (uint32_t)rng_below(rng, 500001);
		bounded->flags = rng_below(rng, 2) ? GW_BOUNDED_REPAIR : 0;
	}
	if (plan->gathers || plan->broadcasts) {
		plan->exact = false;
		bounded->floor_ppm = bounded->flags = 0;
		bounded->recovery = rng_below(rng, 2) ? GW_RECOVER_PREVIOUS : GW_RECOVER_COUNT;
		plan->attr.type = (enum gw_type)rng_below(rng, GW_FLOAT64 + 1);
	}
}

static void draw(uint64_t seed, struct scenario *s)
{
	struct rng rng;
	uint32_t size;

	memset(s, 0, sizeof(*s));
	rng_seed(&rng, seed);
	s->seed = seed;
	size = 2 + (uint32_t)rng_below(&rng, rng_below(&rng, 3) ? 4 : RANKS_MAX - 1);
	s->attr.seed = seed + 1;
	s->attr.sim = (struct sim_attr){ .seed = seed + 2,
					 .payload = rng_below(&rng, 2) ? 4096 : 1024,
					 .start_ns = SECOND };
	s->attr.shape.shape = size == 2 ? SIM_PAIR : SIM_STAR;
	s->attr.shape.hosts = size;
	draw_path(&rng, s);
	if (!rng_below(&rng, 4))
		s->attr.host = (struct sim_host_attr){ .nic = true,
						       .fence_ns = 20 * US,
						       .read_ns = 10 * US,
						       .completion_ns = 10 * US,
						       .lifetime_ns = MS };
	s->attr.context =
		(struct gw_context_attr){ .max_qps = 256, .max_sends = 4096, .max_recvs = 4096 };
	s->attr.comm.tracks = 1 + (uint32_t)rng_below(&rng, 4);
	s->attr.comm.peer_timeout_ns = PEER_TIMEOUT_NS;
	s->attr.mail_ns = spread(&rng, 10 * US, 50 * MS);
	s->skew_ns = spread(&rng, US, 30 * MS);
	s->count = 1 + (unsigned)rng_below(&rng, OPERATIONS_MAX);
	for (unsigned i = 0; i < s->count; i++)
		draw_plan(&rng, s, &s->plans[i]);
	/* Deadlines adapt to operations of one size. */
	if (!rng_below(&rng, 3)) {
		s->count = OPERATIONS_MAX;
		for (unsigned i = 0; i < s->count; i++) {
			s->plans[i].attr.count = s->plans[0].attr.count;
			s->plans[i].bounded.deadline_ns = 0;
		}
	}
	s->straggler = rng_below(&rng, 2) ? size : (uint32_t)rng_below(&rng, size);
	s->late_ns = spread(&rng, MS, 2 * SECOND);
	s->late_chance = 0.1 + 0.9 * rng_unit(&rng);
	s->drifter = rng_below(&rng, 6) ? size : (uint32_t)rng_below(&rng, size);
	s->victim = size;
	if (size > 1 && !rng_below(&rng, 6)) {
		s->victim = (uint32_t)rng_below(&rng, size);
		s->fault_ns = SECOND + spread(&rng, US, 300 * MS);
	}
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static double number_at(enum gw_type type, const void *values, size_t i)
{
	uint16_t half;
	uint32_t word;
	float single;
	double value;

	switch (type) {
	case GW_FLOAT32:
		memcpy(&single, (const float *)values + i, sizeof(single));
		return (double)single;
	case GW_FLOAT64:
		memcpy(&value, (const double *)values + i, sizeof(value));
		return value;
	case GW_BFLOAT16:
		memcpy(&half, (const uint16_t *)values + i, sizeof(half));
		word = (uint32_t)half << 16;
		memcpy(&single, &word, sizeof(single));
		return (double)single;
	default:
		memcpy(&half, (const uint16_t *)values + i, sizeof(half));
		return half & 0x7c00 ? ldexp((half & 0x3ff) | 0x400, (half >> 10 & 31) - 25)
				     : ldexp(half & 0x3ff, -24);
	}
}

/* 2^rank: exact in every type. */
static void put_number(enum gw_type type, uint8_t *values, size_t i, uint32_t rank)
{
	float single = (float)(1u << rank);
	double value = (double)single;
	uint16_t half = (uint16_t)((rank + 15) << 10);
	uint32_t word;

	memcpy(&word, &single, sizeof(word));
	switch (type) {
	case GW_FLOAT32:
		memcpy(values + 4 * i, &single, 4);
		break;
	case GW_FLOAT64:
		memcpy(values + 8 * i, &value, 8);
		break;
	case GW_BFLOAT16:
		half = (uint16_t)(word >> 16);
		/* fall through */
	default:
		memcpy(values + 2 * i, &half, 2);
		break;
	}
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static const struct task_plan *plan_of(const struct part *part)
{
	return &part->run->scenario->plans[part->number];
}

static uint8_t *memory(size_t bytes, uint8_t **start)
{
	uint8_t *all = malloc(bytes + (size_t)2 * MARGIN);

	memset(all, MARGIN_BYTE, bytes + (size_t)2 * MARGIN);
	*start = all + MARGIN;
	return all;
}

static void done(struct gw_coll *coll, void *arg, const struct gw_coll_result *result)
{
	struct part *part = arg;

	part->ended++;
	part->status = result->status;
	memcpy(part->result, part->recv, part->recv_bytes);
	if (!plan_of(part)->exact && (!result->status || result->status == -EIO)) {
		if (gw_bounded_report(coll, &part->report))
			FAIL(part->run, "an operation that ended has no report");
		for (uint32_t r = 0; r < part->run->ranks.size; r++)
			if (gw_bounded_missing(coll, r, &part->missing[r]))
				FAIL(part->run,
				     "an operation that ended does not say what is missing");
	}
	gw_coll_close(coll);
}

/* Zeros: an earlier result that all ranks have. */
static const uint8_t previous[8 * 200001];

static void make_buffers(struct part *part)
{
	const struct task_plan *plan = plan_of(part);
	uint32_t size = part->run->ranks.size;
	size_t unit = gw_type_size(plan->attr.type), block = plan->attr.count * unit;

	part->recv_bytes = plan->gathers ? size * block : block;
	part->send_bytes = plan->scatters ? size * block : block;
	part->memory[0] = memory(part->send_bytes, &part->send);
	part->memory[1] = memory(part->recv_bytes, &part->recv);
	part->result = malloc(part->recv_bytes + 1);
	if (plan->in_place && plan->gathers)
		part->send = part->recv + part->rank * block;
	else if (plan->in_place)
		part->recv = plan->scatters ? part->send + part->rank * block : part->send;
	for (size_t i = 0; i < part->send_bytes / unit; i++)
		put_number(plan->attr.type, part->send, i, part->rank);
}

static void post(struct part *part)
{
	const struct task_plan *plan = plan_of(part);
	struct gw_comm *comm = part->run->ranks.rank[part->rank].comm;
	struct gw_coll_attr attr = plan->attr;
	struct gw_bounded_attr bounded = plan->bounded;
	struct gw_coll *coll;
	int error;

	make_buffers(part);
	attr.send = part->send;
	attr.recv = part->recv;
	attr.done = done;
	attr.arg = part;
	if (bounded.recovery == GW_RECOVER_PREVIOUS)
		bounded.previous = previous;
	if (plan->gathers)
		error = gw_bounded_allgather(comm, &attr, &bounded, &coll);
	else if (plan->broadcasts)
		error = gw_bounded_broadcast(comm, &attr, &bounded, &coll);
	else if (plan->exact)
		error = plan->scatters ? gw_reduce_scatter(comm, &attr, &coll)
				       : gw_allreduce(comm, &attr, &coll);
	else
		error = plan->scatters ? gw_bounded_reduce_scatter(comm, &attr, &bounded, &coll)
				       : gw_bounded_allreduce(comm, &attr, &bounded, &coll);
	part->posted = true;
	if (error && comm->status) {
		part->ended = 1;
		part->status = error;
	} else if (error) {
		FAIL(part->run, "rank %u cannot post operation %u: %s", part->rank, part->number,
		     strerror(-error));
	}
	ranks_touch(&part->run->ranks, part->rank);
}

static bool over(struct run *run)
{
	for (uint32_t i = 0; i < run->ranks.size * run->scenario->count; i++)
		if (!run->parts[i].ended && !run->ranks.rank[run->parts[i].rank].dead)
			return false;
	return true;
}

/* Posts what is due; returns when the next is. */
static uint64_t post_due(struct run *run)
{
	uint64_t next = UINT64_MAX, now = ranks_now(&run->ranks);

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		if (run->ranks.rank[r].dead)
			continue;
		for (unsigned i = 0; i < run->scenario->count; i++) {
			struct part *part = &run->parts[r * run->scenario->count + i];

			if (part->posted)
				continue;
			if (part->due_ns <= now) {
				post(part);
				continue;
			}
			if (part->due_ns < next)
				next = part->due_ns;
			break; /* in order */
		}
	}
	return next;
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

/* The reduction of all shares in the order of ranks. */
static void exact_result(const struct part *part, uint8_t *out)
{
	const struct task_plan *plan = plan_of(part);
	size_t count = plan->attr.count;
	uint8_t *share = malloc(part->recv_bytes + 1);

	for (uint32_t r = 0; r < part->run->ranks.size; r++) {
		for (size_t i = 0; i < count; i++)
			put_number(plan->attr.type, share, i, r);
		if (r)
			reduce_apply(plan->attr.type, plan->attr.reduction, out, out, share, count);
		else
			memcpy(out, share, part->recv_bytes);
	}
	if (plan->attr.reduction == GW_MEAN)
		reduce_scale(plan->attr.type, out, count, part->run->ranks.size);
	free(share);
}

static void check_whole(struct run *run, const struct part *part)
{
	const struct task_plan *plan = plan_of(part);
	uint8_t *exact = malloc(part->recv_bytes + 1);
	double worst = 0;

	exact_result(part, exact);
	if (plan->bounded.recovery != GW_RECOVER_HADAMARD || plan->exact) {
		if (memcmp(exact, part->result, part->recv_bytes) != 0)
			FAIL(run, "operation %u of rank %u lost nothing and is not exact",
			     part->number, part->rank);
	} else {
		for (size_t i = 0; i < plan->attr.count; i++) {
			double a = number_at(plan->attr.type, exact, i);

			worst = fmax(worst,
				     fabs(a - number_at(plan->attr.type, part->result, i)) / a);
		}
		if (worst > (plan->attr.type == GW_FLOAT32 ? 1e-4 : 0.2))
			FAIL(run, "operation %u of rank %u lost nothing and is off by %g",
			     part->number, part->rank, worst);
	}
	free(exact);
}

/* A sum with zeros for what is missing: which shares are in it is written in its bits. */
static void check_sum(struct run *run, const struct part *part)
{
	const struct task_plan *plan = plan_of(part);
	uint64_t missing[RANKS_MAX] = { 0 };
	size_t unit = gw_type_size(plan->attr.type);

	for (size_t i = 0; i < plan->attr.count; i++) {
		double value = number_at(plan->attr.type, part->result, i);
		uint32_t bits = (uint32_t)value;

		if (value != (double)bits || bits >> run->ranks.size) {
			FAIL(run, "operation %u of rank %u: element %zu is %g, no sum of shares",
			     part->number, part->rank, i, value);
			return;
		}
		for (uint32_t r = 0; r < run->ranks.size; r++)
			missing[r] += bits >> r & 1 ? 0 : unit;
	}
	for (uint32_t r = 0; r < run->ranks.size; r++)
		if (missing[r] != part->missing[r])
			FAIL(run,
			     "operation %u of rank %u: %llu bytes of rank %u are missing, and the report says %llu",
			     part->number, part->rank, (unsigned long long)missing[r], r,
			     (unsigned long long)part->missing[r]);
	sights.holes++;
}

/* A mean over some of the shares, or that times the number of ranks: every such number is known. */
static void check_counted(struct run *run, const struct part *part)
{
	const struct task_plan *plan = plan_of(part);
	uint32_t size = run->ranks.size;
	double means[1u << RANKS_MAX], last = -1;

	for (uint32_t set = 1; set < 1u << size; set++)
		means[set] = (double)set / __builtin_popcount(set) *
			     (plan->attr.reduction == GW_SUM ? size : 1);
	for (size_t i = 0; i < plan->attr.count; i++) {
		double value = number_at(plan->attr.type, part->result, i), near = INFINITY;

		if (value == last)
			continue;
		last = value;
		for (uint32_t set = 1; set < 1u << size; set++)
			near = fmin(near, fabs(value - means[set]) / means[set]);
		if (near > 1e-6)
			FAIL(run, "operation %u of rank %u: element %zu is %g, no mean of shares",
			     part->number, part->rank, i, value);
	}
}

/* A block is that of its rank, or, if that is late, zeros: nothing in between. */
static void check_gathered(struct run *run, const struct part *part)
{
	const struct task_plan *plan = plan_of(part);
	uint64_t block = plan->attr.count * gw_type_size(plan->attr.type), missing = 0;
	uint32_t blocks = plan->gathers ? run->ranks.size : 1;

	for (uint32_t r = 0; r < blocks; r++) {
		double wanted = (double)(1u << (plan->broadcasts ? plan->attr.root : r));

		if (part->missing[r] && part->missing[r] != block)
			FAIL(run, "operation %u of rank %u: a part of a block is missing",
			     part->number, part->rank);
		missing += part->missing[r];
		for (uint64_t i = 0; i < plan->attr.count; i++)
			if (number_at(plan->attr.type, part->result, r * plan->attr.count + i) !=
			    (part->missing[r] ? 0 : wanted))
				FAIL(run, "operation %u of rank %u: block %u is wrong",
				     part->number, part->rank, r);
	}
	if (part->report.expected != blocks * block ||
	    part->report.arrived + missing != part->report.expected)
		FAIL(run, "operation %u of rank %u: the report does not add up", part->number,
		     part->rank);
	sights.gathered++;
}

static bool margins_right(const uint8_t *all, size_t bytes)
{
	for (size_t i = 0; i < MARGIN; i++)
		if (all[i] != MARGIN_BYTE || all[MARGIN + bytes + i] != MARGIN_BYTE)
			return false;
	return true;
}

static void check_report(struct run *run, const struct part *part)
{
	const struct task_plan *plan = plan_of(part);
	const struct gw_bounded_report *report = &part->report;
	uint64_t missing = 0, all = plan->attr.count * gw_type_size(plan->attr.type);
	/* A NIC fences; results wait for nobody. */
	uint64_t slack = 2 * MS + (plan->bounded.flags ? 9 * report->deadline_ns : 0);

	for (uint32_t r = 0; r < run->ranks.size; r++)
		missing += part->missing[r];
	if (report->expected != all * (run->ranks.size - 1) ||
	    report->arrived + missing != report->expected)
		FAIL(run,
		     "operation %u of rank %u: %llu bytes arrived and %llu are missing of %llu (%llu)",
		     part->number, part->rank, (unsigned long long)report->arrived,
		     (unsigned long long)missing, (unsigned long long)report->expected,
		     (unsigned long long)all);
	if (missing ? report->end == GW_BOUNDED_END_WHOLE : report->end == GW_BOUNDED_END_LOST)
		FAIL(run, "operation %u of rank %u: %llu bytes are missing and the end is %u",
		     part->number, part->rank, (unsigned long long)missing, report->end);
	if ((report->late > 0) != (report->end == GW_BOUNDED_END_LATE))
		FAIL(run, "operation %u: %u ranks are late and the end is %u", part->number,
		     report->late, report->end);
	if (report->gathered_ns > report->deadline_ns + slack)
		FAIL(run, "operation %u of rank %u: stage 1 took %llu ns of %llu", part->number,
		     part->rank, (unsigned long long)report->gathered_ns,
		     (unsigned long long)report->deadline_ns);
	if (part->status == -EIO && !plan->bounded.floor_ppm)
		FAIL(run, "operation %u of rank %u failed below a floor that it has not",
		     part->number, part->rank);
	if (!plan->scatters && !part->status &&
	    report->arrived * PPM < report->expected * (uint64_t)plan->bounded.floor_ppm)
		FAIL(run, "operation %u of rank %u is below its floor and did not fail",
		     part->number, part->rank);
}

static void check_part(struct run *run, const struct part *part)
{
	const struct task_plan *plan = plan_of(part);
	bool sums = plan->attr.reduction == GW_SUM || plan->attr.reduction == GW_MEAN;

	if (!part->posted)
		return;
	if (!margins_right(part->memory[0], part->send_bytes) ||
	    !margins_right(part->memory[1], part->recv_bytes))
		FAIL(run, "operation %u of rank %u wrote outside of its buffer", part->number,
		     part->rank);
	if (run->ranks.rank[part->rank].dead)
		return;
	if (part->ended > 1)
		FAIL(run, "operation %u of rank %u ended %u times", part->number, part->rank,
		     part->ended);
	if (part->status && (part->status != -EIO || plan->exact)) {
		if (run->scenario->victim == run->ranks.size)
			FAIL(run, "operation %u of rank %u ended with %s and nothing was wrong: %s",
			     part->number, part->rank, strerror(-part->status),
			     run->ranks.rank[part->rank].comm->error);
		return;
	}
	if (memcmp(part->result, part->recv, part->recv_bytes) != 0)
		FAIL(run, "operation %u of rank %u changed after its end", part->number,
		     part->rank);
	if (plan->exact) {
		if (plan->attr.type == GW_FLOAT32)
			check_whole(run, part);
		return;
	}
	if (plan->gathers || plan->broadcasts) {
		check_gathered(run, part);
		return;
	}
	check_report(run, part);
	if (part->report.arrived == part->report.expected)
		check_whole(run, part);
	else if (plan->bounded.recovery == GW_RECOVER_ZERO && plan->attr.reduction == GW_SUM &&
		 plan->attr.type == GW_FLOAT32)
		check_sum(run, part);
	else if (sums && plan->attr.type == GW_FLOAT32 &&
		 (plan->bounded.recovery == GW_RECOVER_COUNT ||
		  plan->bounded.recovery == GW_RECOVER_CODED))
		check_counted(run, part);
}

/* All ranks of an allreduce have the same result, and tell the same of it. */
static void check_equal(struct run *run, unsigned number)
{
	const struct part *first = NULL;

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		const struct part *part = &run->parts[r * run->scenario->count + number];

		if (plan_of(part)->scatters || plan_of(part)->exact || run->ranks.rank[r].dead ||
		    !part->posted || (part->status && part->status != -EIO))
			continue;
		if (!first) {
			first = part;
			sights.operations++;
			sights.whole += part->report.end == GW_BOUNDED_END_WHOLE;
			sights.lost += part->report.end == GW_BOUNDED_END_LOST;
			sights.deadline += part->report.end == GW_BOUNDED_END_DEADLINE;
			sights.late += part->report.end == GW_BOUNDED_END_LATE;
			sights.poor += part->status == -EIO;
			sights.diverged += part->report.diverged > 0;
			continue;
		}
		if (memcmp(part->result, first->result, part->recv_bytes) != 0)
			FAIL(run, "operation %u differs between ranks %u and %u", number,
			     first->rank, r);
		if (part->status != first->status ||
		    part->report.expected != first->report.expected ||
		    part->report.arrived != first->report.arrived ||
		    part->report.end != first->report.end ||
		    part->report.late != first->report.late ||
		    part->report.diverged != first->report.diverged ||
		    part->report.deadline_ns != first->report.deadline_ns ||
		    memcmp(part->missing, first->missing, sizeof(part->missing)) != 0)
			FAIL(run, "ranks %u and %u report different things of operation %u",
			     first->rank, r, number);
	}
	if (first && first->report.diverged && run->scenario->drifter == run->ranks.size)
		FAIL(run, "operation %u reports a divergence that is none", number);
}

static void check_blame(struct run *run)
{
	char name[32];

	snprintf(name, sizeof(name), "rank %u", run->scenario->victim);
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		const struct gw_comm *comm = run->ranks.rank[r].comm;

		if (comm && comm->status && !strstr(comm->error, name))
			FAIL(run, "rank %u does not blame %s: %s", r, name, comm->error);
	}
}

static void check_pools(struct run *run)
{
	uint64_t limit = ranks_now(&run->ranks) + SECOND;

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		if (run->ranks.rank[r].comm)
			comm_destroy(run->ranks.rank[r].comm);
		run->ranks.rank[r].comm = NULL;
		ranks_touch(&run->ranks, r);
	}
	while (ranks_step(&run->ranks, limit))
		;
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		struct gw_context *ctx = run->ranks.world.hosts[r].ctx;

		if (ctx && (pool_used(&ctx->sends) || pool_used(&ctx->recvs) ||
			    pool_used(&ctx->qps) || pool_used(&ctx->mrs)))
			FAIL(run,
			     "rank %u has %u sends, %u receives, %u queue pairs and %u registrations left",
			     r, pool_used(&ctx->sends), pool_used(&ctx->recvs),
			     pool_used(&ctx->qps), pool_used(&ctx->mrs));
	}
}

static void stuck(struct run *run)
{
	char text[400] = "";

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		if (!run->ranks.rank[r].comm)
			continue;
		gw_comm_explain(run->ranks.rank[r].comm, text, sizeof(text));
		if (strcmp(text, "no operation is open"))
			FAIL(run, "an operation does not end: %s", text);
	}
}

/* What a rank that has drifted apart would say of its results. */
static void drift(struct run *run)
{
	const struct scenario *s = run->scenario;
	struct gw_comm *comm =
		s->drifter < run->ranks.size ? run->ranks.rank[s->drifter].comm : NULL;

	if (!comm || !comm->bounded || run->parts[s->drifter * s->count].ended != 1)
		return;
	comm->bounded->tracks[0].digest |= 1;
}

static void run_scenario(const struct scenario *s, struct run *run)
{
	uint64_t limit = SECOND + 600 * SECOND;
	struct rng rng;

	*run = (struct run){ .scenario = s };
	if (ranks_open(&run->ranks, &s->attr)) {
		FAIL(run, "the ranks cannot be opened");
		return;
	}
	run->ranks.timed = true;
	rng_seed(&rng, s->seed + 3);
	run->parts = calloc((size_t)run->ranks.size * s->count, sizeof(*run->parts));
	for (uint32_t r = 0; r < run->ranks.size; r++) {
		uint64_t due = SECOND;

		for (unsigned i = 0; i < s->count; i++) {
			due += rng_below(&rng, s->skew_ns + 1);
			if (r == s->straggler && rng_chance(&rng, s->late_chance))
				due += rng_below(&rng, s->late_ns + 1);
			run->parts[r * s->count + i] =
				(struct part){ .run = run, .rank = r, .number = i, .due_ns = due };
		}
	}
	while (!run->failed && !over(run)) {
		uint64_t next = post_due(run);
		bool struck = s->victim == run->ranks.size || run->ranks.rank[s->victim].dead;

		drift(run);
		if (!struck && ranks_now(&run->ranks) >= s->fault_ns)
			ranks_kill(&run->ranks, s->victim);
		else if (!struck && s->fault_ns < next)
			next = s->fault_ns;
		if (!ranks_step(&run->ranks, next < limit ? next : limit) &&
		    ranks_now(&run->ranks) >= limit)
			stuck(run);
	}
	for (uint32_t i = 0; !run->failed && i < run->ranks.size * s->count; i++)
		check_part(run, &run->parts[i]);
	for (unsigned i = 0; !run->failed && i < s->count; i++)
		check_equal(run, i);
	if (s->victim < run->ranks.size) {
		check_blame(run);
		sights.deaths++;
	}
	if (!run->failed)
		check_pools(run);
	ranks_close(&run->ranks);
	for (uint32_t i = 0; i < run->ranks.size * s->count; i++) {
		free(run->parts[i].memory[0]);
		free(run->parts[i].memory[1]);
		free(run->parts[i].result);
	}
	free(run->parts);
}

static void no_log(void *arg, enum gw_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int main(int argc, char **argv)
{
	uint64_t first = 1, last = 1000;
	char *end;

	if (argc > 2 && !strcmp(argv[1], "--seeds")) {
		first = last = strtoull(argv[2], &end, 10);
		if (*end == '-')
			last = strtoull(end + 1, &end, 10);
		if (*end || last < first)
			argc = 0;
	} else if (argc > 1) {
		argc = 0;
	}
	if (!argc) {
		fputs("usage: boundedtest [--seeds A-B]\n", stderr);
		return 2;
	}
	gw_log_set(GW_LOG_ERROR, no_log, NULL);
	for (uint64_t seed = first; seed <= last; seed++) {
		struct scenario scenario;
		struct run run;

		draw(seed, &scenario);
		run_scenario(&scenario, &run);
		if (run.failed) {
			fprintf(stderr, "seed %llu: %s\nreplay: boundedtest --seeds %llu\n",
				(unsigned long long)seed, run.why, (unsigned long long)seed);
			return 1;
		}
	}
	/* A test that meets nothing shows nothing. */
	if (last - first >= 99 &&
	    (!sights.whole || !sights.lost || !sights.deadline || !sights.late || !sights.poor ||
	     !sights.diverged || !sights.holes)) {
		fprintf(stderr,
			"no operation was whole, lost packets, was cut, was late, was poor, or found a divergence: "
			"%llu %llu %llu %llu %llu %llu\n",
			(unsigned long long)sights.whole, (unsigned long long)sights.lost,
			(unsigned long long)sights.deadline, (unsigned long long)sights.late,
			(unsigned long long)sights.poor, (unsigned long long)sights.diverged);
		return 1;
	}
	printf("%llu scenarios, %llu with a rank that died\n",
	       (unsigned long long)(last - first + 1), (unsigned long long)sights.deaths);
	printf("%llu operations: %llu whole, %llu with losses, %llu cut by the deadline, %llu with late ranks; %llu below the floor, "
	       "%llu with a divergence; holes of %llu results compared with the report; %llu allgathers and broadcasts\n",
	       (unsigned long long)sights.operations, (unsigned long long)sights.whole,
	       (unsigned long long)sights.lost, (unsigned long long)sights.deadline,
	       (unsigned long long)sights.late, (unsigned long long)sights.poor,
	       (unsigned long long)sights.diverged, (unsigned long long)sights.holes,
	       (unsigned long long)sights.gathered);
	return 0;
}
