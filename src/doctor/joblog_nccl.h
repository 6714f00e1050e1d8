/* SPDX-License-Identifier: BSD-3-Clause */
/* joblog_nccl.h: one line of NCCL's, for the files that understand it. */
#ifndef DOCTOR_JOBLOG_NCCL_H
#define DOCTOR_JOBLOG_NCCL_H

#include "joblog.h"

struct joblog_context {
	struct joblog_stream *stream;
	struct joblog *log;
	/* process that wrote the line: its position, because the table may move */
	uint32_t process;
	long thread;
	/* the message */
	const char *text;
	/* the whole line, for its time */
	const char *whole;
	struct joblog_place place;
};

/* Returns what follows the first occurrence of the words, or null. */
const char *joblog_after(const char *text, const char *words);

/* joblog_failure.c: takes a line that reports a failure, a retry or a warning. */
void joblog_failure(struct joblog_context *c, bool warning);

#endif
