/* SPDX-License-Identifier: BSD-3-Clause */
/* A message that ends on time: what is there by then. A unit is there half a round trip after it left. */
#include "plan/plan.h"

#include <errno.h>

#include "plan/process.h"

int plan_bounded(const struct plan_path *path, uint64_t size, uint64_t deadline_ns,
		 struct plan_bounded *out)
{
	const struct plan_params params = { .scheme = PLAN_SR_NACK };
	struct process process;

	if (plan_check(&params, path, size))
		return -EINVAL;
	process_make(&params, path, size, &process);
	process_by(&process, (double)deadline_ns - (double)path->rtt_ns / 2, out);
	return 0;
}
