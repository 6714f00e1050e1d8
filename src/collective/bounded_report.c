/* SPDX-License-Identifier: BSD-3-Clause */
/* What a bounded operation tells of itself: to its caller, and to the next operation. */
#include <errno.h>
#include <string.h>

#include "collective/bounded.h"

uint64_t report_digest(uint64_t seed, const uint8_t *bytes, uint64_t length)
{
	uint64_t hash = seed ^ length, word = 0;

	for (; length >= sizeof(word); bytes += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	word = 0;
	if (length)
		memcpy(&word, bytes, length);
	return (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

/* A block of an operation that reduces nothing is there, or its rank is late. */
static void count_block(struct bounded *run, uint32_t shard)
{
	uint64_t bytes =
		layout_offset(&run->layout, shard + 1) - layout_offset(&run->layout, shard);
	bool late = run->coll->task.operation == OPERATION_ALLGATHER && !run->peers[shard].present;

	run->report.expected += bytes;
	run->report.arrived += late ? 0 : bytes;
	run->missing[shard] += late ? bytes : 0;
}

int report_make(struct bounded *run)
{
	struct gw_bounded_report *report = &run->report;
	uint32_t first = bounded_scatters(run) ? run->comm->rank : 0;
	uint32_t end = bounded_scatters(run) ? first + 1 : run->layout.chunks;
	bool poor = false;

	for (uint32_t s = first; s < end && bounded_gathers(run); s++)
		count_block(run, s);
	for (uint32_t s = first; s < end && !bounded_gathers(run); s++) {
		const struct summary *summary = bounded_summary(run, s);

		report->expected += summary->expected;
		report->arrived += summary->arrived;
		if (summary->end > report->end)
			report->end = summary->end;
		poor = poor || summary->poor;
		for (uint32_t r = 0; r < run->comm->size; r++)
			run->missing[r] += summary->missing[r];
	}
	for (uint32_t r = 0; r < run->comm->size; r++)
		report->late += !run->peers[r].present;
	if (report->late)
		report->end = GW_BOUNDED_END_LATE;
	report->deadline_ns = run->plan.deadline_ns;
	report->waited_ns = run->planned_ns - run->start_ns;
	report->elapsed_ns = gw_now_ns(run->comm->office->ctx) - run->start_ns;
	report->diverged = run->plan.diverged;
	report->incast = run->plan.incast;
	return poor ? -EIO : 0;
}

int gw_bounded_report(const struct gw_coll *coll, struct gw_bounded_report *out)
{
	if (!coll || !coll->bounded || !out)
		return -EINVAL;
	if (!coll->ended)
		return -EAGAIN;
	*out = coll->bounded->report;
	return 0;
}

int gw_bounded_missing(const struct gw_coll *coll, uint32_t rank, uint64_t *bytes)
{
	if (!coll || !coll->bounded || !bytes || rank >= coll->comm->size)
		return -EINVAL;
	if (!coll->ended)
		return -EAGAIN;
	*bytes = coll->bounded->missing[rank];
	return 0;
}
