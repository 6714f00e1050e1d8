/* SPDX-License-Identifier: BSD-3-Clause */
/* `godwit doctor --cluster DIR`: captures, logs and results of the mesh together. */
#include <errno.h>
#include <string.h>

#include "doctor/cluster.h"
#include "tools/doctor/doctor.h"

static const char *next_step(struct diagnosis *diagnosis)
{
	if (!diagnosis->finding_count || diagnosis->findings[0].severity == SEVERITY_INFO)
		return "godwit mesh measures the network under load; --verbose shows everything";
	return scratch_print(&diagnosis->scratch,
			     "godwit doctor --explain %s; --verbose shows everything",
			     diagnosis->findings[0].check);
}

int doctor_cluster(const struct doctor_job *job, const char *directory)
{
	struct cluster cluster = { 0 };
	struct diagnosis diagnosis = { 0 };
	int status = DIAGNOSIS_NOT_EXAMINED;
	int rc = cluster_load(&cluster, directory, &job->exam);

	if (rc == -EINVAL) {
		doctor_usage("no such check in --only or --skip (--list shows them)", NULL);
	} else if (rc) {
		doctor_usage(strerror(-rc), directory);
	} else if (!cluster.host_count && !cluster.logs && !cluster.meshed) {
		doctor_usage("no capture, no log and no result of godwit mesh in this directory",
			     directory);
	} else if (cluster_run(&cluster, &job->exam, &diagnosis) != 0) {
		doctor_usage("no such check in --only or --skip (--list shows them)", NULL);
	} else {
		diagnosis.next = next_step(&diagnosis);
		status = doctor_show(job, &diagnosis);
	}
	diagnosis_free(&diagnosis);
	cluster_free(&cluster);
	return status;
}
