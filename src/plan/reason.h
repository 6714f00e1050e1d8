/* SPDX-License-Identifier: BSD-3-Clause */
/* reason.h: says why a scheme was chosen. */
#ifndef PLAN_REASON_H
#define PLAN_REASON_H

#include "plan/plan.h"

/* Writes choice->reason from the other members. */
void plan_explain(const struct plan_path *path, uint64_t size, enum plan_goal goal,
		  struct plan_choice *choice);

#endif
