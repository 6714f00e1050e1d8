/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor.h: what the kinds of examination share on the command line. */
#ifndef TOOLS_DOCTOR_DOCTOR_H
#define TOOLS_DOCTOR_DOCTOR_H

#include <stdbool.h>

#include "doctor/exam.h"

struct doctor_job {
	struct exam_attr exam;
	bool json;
	bool verbose;
};

/* Complains about the command line or a file. Returns DIAGNOSIS_NOT_EXAMINED. */
int doctor_usage(const char *what, const char *value);

/* Prints the diagnosis as the options ask. Returns the exit status. */
int doctor_show(const struct doctor_job *job, struct diagnosis *diagnosis);

/* Each examines and prints; returns the exit status. */
int doctor_logs(const struct doctor_job *job, char **paths, int count);
int doctor_cluster(const struct doctor_job *job, const char *directory);

#endif
