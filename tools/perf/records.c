/* SPDX-License-Identifier: BSD-3-Clause */
#include "records.h"

int perf_recv(struct control *control)
{
	int rc;

	do {
		rc = control_recv(control);
	} while (rc == 0 && control->kind == PERF_KIND_SENT);
	return rc;
}

int perf_expect(struct control *control, enum perf_kind kind)
{
	int rc = perf_recv(control);

	return rc == 0 && control->kind != (uint32_t)kind ? control_explain_nonsense(control) : rc;
}
