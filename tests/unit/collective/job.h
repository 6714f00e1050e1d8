/* SPDX-License-Identifier: BSD-3-Clause */
/* job.h: what a process does that plays a rank in a test, where cmocka's assertions would not reach the test. */
#ifndef COLLECTIVE_JOB_H
#define COLLECTIVE_JOB_H

#include <stdio.h>
#include <unistd.h>

/* Ends the process of `job`, which has a rank and a communicator, unless the condition holds. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "rank %u, %s:%d: not true: %s; %s\n", job->rank, __FILE__, \
				__LINE__, #condition, gw_comm_error(job->comm));                   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#endif
