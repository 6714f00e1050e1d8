/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of the reports of bounded operations. */
#include <errno.h>

#include "bounded.h"

int coll_losses_add(struct coll_losses *losses, const struct gw_coll *coll, int status)
{
	struct gw_bounded_report report;

	if (gw_bounded_report(coll, &report))
		return 0;
	losses->operations++;
	losses->expected += report.expected;
	losses->arrived += report.arrived;
	losses->late += report.end == GW_BOUNDED_END_LATE;
	losses->cut += report.end == GW_BOUNDED_END_DEADLINE;
	losses->poor += status == -EIO;
	losses->diverged += report.diverged > 0;
	losses->deadline_ns = report.deadline_ns;
	return report.arrived == report.expected;
}

double coll_losses_arrived(const struct coll_losses *losses)
{
	return losses->expected ? (double)losses->arrived / (double)losses->expected : 1;
}

json_t *coll_losses_json(const struct coll_losses *losses)
{
	return json_pack(
		"{s:I s:I s:I s:I s:I s:I s:I s:f}", "operations", (json_int_t)losses->operations,
		"expected_bytes", (json_int_t)losses->expected, "arrived_bytes",
		(json_int_t)losses->arrived, "late", (json_int_t)losses->late, "deadline",
		(json_int_t)losses->cut, "below_floor", (json_int_t)losses->poor, "diverged",
		(json_int_t)losses->diverged, "deadline_us", (double)losses->deadline_ns / 1e3);
}
