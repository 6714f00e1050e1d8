/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs of a job that a stranger sent, cut, interleaved or made up: read, examined and told, as text and as JSON. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>

#include "doctor/job.h"

#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *sink;
	const struct exam_attr attr = { 0 };
	const struct diagnosis_style brief = { .colour = true }, all = { .verbose = true };
	struct diagnosis diagnosis = { 0 };
	struct joblog log = { 0 };
	json_t *object;

	if (size > INPUT_MAX)
		return 0;
	if (!sink)
		sink = fopen("/dev/null", "we");
	/* Two files: what the first says about a process stays. */
	joblog_read_bytes(&log, "first", (const char *)data, size / 2);
	joblog_read_bytes(&log, "second", (const char *)data + size / 2, size - size / 2);
	joblog_seal(&log);
	assert(job_run(&log, &attr, &diagnosis) == 0);
	diagnosis_print(&diagnosis, &brief, sink);
	diagnosis_print(&diagnosis, &all, sink);
	object = diagnosis_json(&diagnosis);
	assert(object);
	json_decref(object);
	diagnosis_free(&diagnosis);
	joblog_free(&log);
	return 0;
}
