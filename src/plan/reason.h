/* SPDX-License-Identifier: BSD-3-Clause */
/* reason.h: why a scheme was chosen, for people. */
#ifndef PLAN_REASON_H
#define PLAN_REASON_H

#include "plan/plan.h"

/* Writes choice->reason, from all the rest of it. */
void plan_explain(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		  struct plan_choice *choice);

#endif
