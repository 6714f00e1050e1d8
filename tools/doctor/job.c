/* SPDX-License-Identifier: BSD-3-Clause */
/* `godwit doctor --nccl-log FILE...`: what the logs of a job say. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "doctor/job.h"
#include "tools/doctor/doctor.h"

static const char *next_step(struct diagnosis *diagnosis)
{
	if (!diagnosis->finding_count || diagnosis->findings[0].severity == SEVERITY_INFO)
		return "--verbose lists every pair of ranks; godwit doctor examines each host";
	return scratch_print(&diagnosis->scratch,
			     "godwit doctor --explain %s; --verbose lists every pair of ranks",
			     diagnosis->findings[0].check);
}

int doctor_logs(const struct doctor_job *job, char **paths, int count)
{
	struct joblog log = { 0 };
	struct diagnosis diagnosis = { 0 };
	int rc = 0, status = DIAGNOSIS_NOT_EXAMINED;

	for (int i = 0; i < count && rc == 0; i++) {
		rc = joblog_read(&log, paths[i]);
		if (rc)
			status = doctor_usage(strerror(-rc), paths[i]);
	}
	if (rc == 0 && !log.nccl_lines && !log.torch_lines) {
		rc = -ENODATA;
		status = doctor_usage(
			"no line of NCCL or PyTorch in these files: run the job with NCCL_DEBUG=INFO",
			NULL);
	}
	if (rc == 0) {
		joblog_seal(&log);
		rc = job_run(&log, &job->exam, &diagnosis);
		if (rc)
			status = doctor_usage(
				"no such check in --only or --skip (--list shows them)", NULL);
	}
	if (rc == 0 && !diagnosis.checks_run) {
		rc = -EINVAL;
		status = doctor_usage(
			"no check that is left looks at logs (--list shows them: log-...)", NULL);
	}
	if (rc == 0) {
		diagnosis.next = next_step(&diagnosis);
		status = doctor_show(job, &diagnosis);
	}
	diagnosis_free(&diagnosis);
	joblog_free(&log);
	return status;
}
