/* SPDX-License-Identifier: BSD-3-Clause */
/* What must hold of bounded operations that have ended: the results, the reports, and that all ranks have the same ones. */
#include "simulation/bounded_check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collective/bounded.h"
#include "collective/reduce.h"
#include "simulation/bounded_scenario.h"
#include "tools/coll/values.h"

struct bounded_sights bounded_sights;

int bounded_given(uint32_t rank, uint64_t index)
{
	(void)index;
	return 1 << rank;
}

/* Rows of an operation's grid; 1: it has none. */
static uint32_t rows_of(const struct coll_plan *plan)
{
	return plan->is_bounded && plan->bounded.rows ? plan->bounded.rows : 1;
}

/* Adds a share to a reduction; the first one begins it. */
static void add_share(const struct coll_part *part, uint8_t *out, const uint8_t *share, bool first)
{
	const struct coll_plan *plan = part->plan;

	if (first)
		memcpy(out, share, part->recv_bytes);
	else
		reduce_apply(plan->attr.type, plan->attr.reduction, out, out, share,
			     plan->attr.count);
}

/* The reduction of all shares in the order of ranks; in a grid, of the rows and then of these. */
static void exact_result(const struct coll_part *part, uint8_t *out)
{
	const struct coll_plan *plan = part->plan;
	size_t count = plan->attr.count;
	uint32_t rows = rows_of(plan), columns = part->run->ranks.size / rows;
	uint8_t *share = malloc(part->recv_bytes + 1), *row = malloc(part->recv_bytes + 1);

	for (uint32_t r = 0; r < rows * columns; r++) {
		for (size_t i = 0; i < count; i++)
			value_put(plan->attr.type, share, i, bounded_given(r, i));
		add_share(part, row, share, r % columns == 0);
		if (r % columns != columns - 1)
			continue;
		if (plan->attr.reduction == GW_MEAN)
			reduce_scale(plan->attr.type, row, count, columns);
		add_share(part, out, row, r < columns);
	}
	if (plan->attr.reduction == GW_MEAN)
		reduce_scale(plan->attr.type, out, count, rows);
	free(share);
	free(row);
}

static void check_whole(struct coll_run *run, const struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	uint8_t *exact = malloc(part->recv_bytes + 1);
	double worst = 0;

	exact_result(part, exact);
	/* Coefficients are added with the owner's share first: short numbers of many ranks are rounded in another order. */
	if (plan->bounded.recovery != GW_RECOVER_HADAMARD || !plan->is_bounded ||
	    (plan->bounded.flags & GW_BOUNDED_TRANSFORMED && plan->attr.type == GW_FLOAT32)) {
		if (memcmp(exact, part->result, part->recv_bytes) != 0)
			FAIL(run, "operation %u of rank %u lost nothing and is not exact",
			     part->number, part->rank);
	} else {
		for (size_t i = 0; i < plan->attr.count; i++) {
			double a = value_get(plan->attr.type, exact, i);

			worst = fmax(worst,
				     fabs(a - value_get(plan->attr.type, part->result, i)) / a);
		}
		if (worst > (plan->attr.type == GW_FLOAT32 ? 1e-4 : 0.2))
			FAIL(run, "operation %u of rank %u lost nothing and is off by %g",
			     part->number, part->rank, worst);
	}
	free(exact);
}

/* A sum with zeros for what is missing: which shares are in it is written in its bits. */
static void check_sum(struct coll_run *run, const struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	uint64_t missing[COLL_RANKS_MAX] = { 0 };
	bool grid = rows_of(plan) > 1;
	size_t unit = gw_type_size(plan->attr.type);

	for (size_t i = 0; i < plan->attr.count; i++) {
		double value = value_get(plan->attr.type, part->result, i);
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
		/* What both rounds of a grid lost is counted twice. */
		if (grid ? missing[r] > part->missing[r] || !missing[r] != !part->missing[r]
			 : missing[r] != part->missing[r])
			FAIL(run,
			     "operation %u of rank %u: %llu bytes of rank %u are missing, and the report says %llu",
			     part->number, part->rank, (unsigned long long)missing[r], r,
			     (unsigned long long)part->missing[r]);
	bounded_sights.holes++;
}

/* The mean that a set of shares has: in a grid that of the rows' means. */
static double mean_of(const struct coll_plan *plan, uint32_t size, uint32_t set)
{
	uint32_t rows = rows_of(plan), columns = size / rows, some = 0;
	double sum = 0;

	for (uint32_t i = 0; i < rows; i++) {
		uint32_t row = set & ((1u << columns) - 1) << i * columns;

		if (!row)
			continue;
		sum += (double)row / __builtin_popcount(row);
		some++;
	}
	return sum / some * (plan->attr.reduction == GW_SUM ? size : 1);
}

/* A mean over some of the shares, or that times the number of ranks: every such number is known. */
static void check_counted(struct coll_run *run, const struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	uint32_t size = run->ranks.size;
	double means[1u << COLL_RANKS_MAX], last = -1;

	for (uint32_t set = 1; set < 1u << size; set++)
		means[set] = mean_of(plan, size, set);
	for (size_t i = 0; i < plan->attr.count; i++) {
		double value = value_get(plan->attr.type, part->result, i), near = INFINITY;

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

/* A sum in which a part of an earlier one stands for each number that is missing. */
static void check_previous(struct coll_run *run, const struct coll_part *part)
{
	for (size_t i = 0; i < part->plan->attr.count; i++) {
		double value = value_get(part->plan->attr.type, part->result, i);
		uint32_t whole = (uint32_t)value, given = whole % COLL_PREVIOUS;

		if (value != (double)whole ||
		    (uint32_t)__builtin_popcount(given) + whole / COLL_PREVIOUS !=
			    run->ranks.size) {
			FAIL(run,
			     "operation %u of rank %u: element %zu is %g, no sum with earlier numbers",
			     part->number, part->rank, i, value);
			return;
		}
	}
	bounded_sights.previous++;
}

/* Coefficients of the caller's, all equal: each block is scaled by what arrived of it, so that its mean over the block is that of the
 * shares of which something arrived. */
static void check_transformed(struct coll_run *run, const struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	uint32_t size = run->ranks.size;

	/* Sums of a row with holes are not equal. */
	if (rows_of(plan) > 1)
		return;
	for (size_t block = 0; block < plan->attr.count; block += GW_BOUNDED_BLOCK) {
		double sum = 0, near = INFINITY;

		for (size_t i = block; i < block + GW_BOUNDED_BLOCK; i++)
			sum += value_get(plan->attr.type, part->result, i) / GW_BOUNDED_BLOCK;
		for (uint32_t set = 1; set < 1u << size; set++) {
			double mean = mean_of(plan, size, set);

			near = fmin(near, fabs(sum - mean) / mean);
		}
		if (near > 1e-5)
			FAIL(run,
			     "operation %u of rank %u: the mean of block %zu is %g, no mean of shares",
			     part->number, part->rank, block / GW_BOUNDED_BLOCK, sum);
	}
	bounded_sights.transformed++;
}

/* A block is that of its rank, or, if that is late, zeros: nothing in between. */
static void check_gathered(struct coll_run *run, const struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	uint64_t block = plan->attr.count * gw_type_size(plan->attr.type), missing = 0;
	uint32_t blocks = plan->operation == OPERATION_ALLGATHER ? run->ranks.size : 1;

	for (uint32_t r = 0; r < blocks; r++) {
		double wanted =
			(double)(1u
				 << (plan->operation == OPERATION_BROADCAST ? plan->attr.root : r));

		if (part->missing[r] && part->missing[r] != block)
			FAIL(run, "operation %u of rank %u: a part of a block is missing",
			     part->number, part->rank);
		missing += part->missing[r];
		for (uint64_t i = 0; i < plan->attr.count; i++)
			if (value_get(plan->attr.type, part->result, r * plan->attr.count + i) !=
			    (part->missing[r] ? 0 : wanted))
				FAIL(run, "operation %u of rank %u: block %u is wrong",
				     part->number, part->rank, r);
	}
	if (part->report.expected != blocks * block ||
	    part->report.arrived + missing != part->report.expected)
		FAIL(run, "operation %u of rank %u: the report does not add up", part->number,
		     part->rank);
	bounded_sights.gathered++;
}

static void check_report(struct coll_run *run, const struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	const struct gw_bounded_report *report = &part->report;
	uint64_t missing = 0, all = plan->attr.count * gw_type_size(plan->attr.type);
	/* A NIC fences; results wait for nobody. */
	uint64_t slack =
		2 * MS + (plan->bounded.flags & GW_BOUNDED_REPAIR ? 9 * report->deadline_ns : 0);

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
	if (report->gathered_ns > (rows_of(plan) > 1 ? 2 : 1) * (report->deadline_ns + slack))
		FAIL(run, "operation %u of rank %u: stage 1 took %llu ns of %llu", part->number,
		     part->rank, (unsigned long long)report->gathered_ns,
		     (unsigned long long)report->deadline_ns);
	if (part->status == -EIO && !plan->bounded.floor_ppm)
		FAIL(run, "operation %u of rank %u failed below a floor that it has not",
		     part->number, part->rank);
	if (plan->operation != OPERATION_REDUCE_SCATTER && !part->status &&
	    report->arrived * PPM < report->expected * (uint64_t)plan->bounded.floor_ppm)
		FAIL(run, "operation %u of rank %u is below its floor and did not fail",
		     part->number, part->rank);
}

static void check_part(struct coll_run *run, struct coll_part *part)
{
	const struct coll_plan *plan = part->plan;
	bool sums = plan->attr.reduction == GW_SUM || plan->attr.reduction == GW_MEAN;

	if (!coll_check_end(part, plan->is_bounded ? -EIO : 0))
		return;
	if (!plan->is_bounded) {
		if (plan->attr.type == GW_FLOAT32)
			check_whole(run, part);
		return;
	}
	if (bounded_plan_gathers(plan)) {
		check_gathered(run, part);
		return;
	}
	check_report(run, part);
	bounded_sights.grids += rows_of(plan) > 1 && part->report.arrived < part->report.expected;
	if (part->report.arrived == part->report.expected)
		check_whole(run, part);
	else if (plan->bounded.recovery == GW_RECOVER_ZERO && plan->attr.reduction == GW_SUM &&
		 plan->attr.type == GW_FLOAT32)
		check_sum(run, part);
	else if (coll_previous_counts(plan))
		check_previous(run, part);
	else if (sums && plan->attr.type == GW_FLOAT32 &&
		 (plan->bounded.recovery == GW_RECOVER_COUNT ||
		  plan->bounded.recovery == GW_RECOVER_CODED))
		check_counted(run, part);
	else if (plan->bounded.flags & GW_BOUNDED_TRANSFORMED && plan->attr.type == GW_FLOAT32)
		check_transformed(run, part);
}

/* All ranks of an allreduce have the same result, and tell the same of it. */
static void check_equal(struct coll_run *run, unsigned number)
{
	const struct coll_part *first = NULL;

	for (uint32_t r = 0; r < run->ranks.size; r++) {
		const struct coll_part *part = coll_part_of(run, r, number);

		if (part->plan->operation == OPERATION_REDUCE_SCATTER || !part->plan->is_bounded ||
		    run->ranks.rank[r].dead || !part->posted ||
		    (part->status && part->status != -EIO))
			continue;
		if (!first) {
			first = part;
			bounded_sights.operations++;
			bounded_sights.whole += part->report.end == GW_BOUNDED_END_WHOLE;
			bounded_sights.lost += part->report.end == GW_BOUNDED_END_LOST;
			bounded_sights.deadline += part->report.end == GW_BOUNDED_END_DEADLINE;
			bounded_sights.late += part->report.end == GW_BOUNDED_END_LATE;
			bounded_sights.poor += part->status == -EIO;
			bounded_sights.diverged += part->report.diverged > 0;
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

void bounded_check_run(struct coll_run *run)
{
	for (uint32_t i = 0; !run->failed && i < run->ranks.size * run->scenario->count; i++)
		check_part(run, &run->parts[i]);
	for (unsigned i = 0; !run->failed && i < run->scenario->count; i++)
		check_equal(run, i);
}
