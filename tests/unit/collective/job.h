/* SPDX-License-Identifier: BSD-3-Clause */
/* job.h: processes that play ranks over loopback. What one of them finds wrong ends it with 1, since cmocka's assertions would not reach
 * the test. */
#ifndef COLLECTIVE_JOB_H
#define COLLECTIVE_JOB_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <godwit/collective.h>

#define SECOND	  UINT64_C(1000000000)
#define RANKS_MAX 16

struct job {
	uint32_t rank;
	uint32_t size;
	uint16_t port;
	/* shared by the processes; null unless the test sets it */
	void *shared;
	struct gw_comm *comm;
};

typedef void job_fn(struct job *job);

/* Ends the process of `job` unless the condition holds. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "rank %u, %s:%d: not true: %s; %s\n", job->rank, __FILE__, \
				__LINE__, #condition, gw_comm_error(job->comm));                   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

uint64_t job_clock_ns(void);
void job_sleep_ms(unsigned ms);

/* A port that was free a moment ago, and that no connection gets meanwhile: below those that the system gives to them. */
uint16_t job_free_port(void);

/* What a rank opens its communicator with; the silence after which others are dead is 5 s. */
struct gw_comm_attr job_attr(const struct job *job);

/* Runs a function in a process for each rank, with a communicator that is closed after it unless it is null then. `dies`: the rank that
 * is to end by SIGKILL; `size`: none. */
void job_run(uint32_t size, uint32_t dies, job_fn *fn);
/* The same where the function opens the communicator. */
void job_run_unopened(uint32_t size, uint32_t dies, void *shared, job_fn *fn);

/* The sum of one number of each rank: 0 or an error. */
int job_sum(struct gw_comm *comm, uint64_t mine, uint64_t *out);
/* Sums until the communicator fails; returns its error. */
int job_sum_until_it_fails(struct gw_comm *comm);

#endif
