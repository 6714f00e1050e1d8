/* SPDX-License-Identifier: BSD-3-Clause */
#include "job.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include <godwit/rendezvous.h>

uint64_t job_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

void job_sleep_ms(unsigned ms)
{
	struct timespec time = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

uint16_t job_free_port(void)
{
	struct gw_rendezvous_attr attr = { .service = "port" };
	struct gw_rendezvous_listener *listener;
	static uint16_t tried;

	for (;;) {
		attr.port = (uint16_t)(20000 + ((unsigned)getpid() * 31 + tried++) % 12000);
		if (gw_rendezvous_listen(&attr, &listener) == 0) {
			gw_rendezvous_listener_close(listener);
			return attr.port;
		}
	}
}

struct gw_comm_attr job_attr(const struct job *job)
{
	return (struct gw_comm_attr){ .rank = job->rank,
				      .size = job->size,
				      .root = "127.0.0.1",
				      .port = job->port,
				      .peer_timeout_ns = 5 * SECOND };
}

static void open_job(struct job *job)
{
	struct gw_comm_attr attr = job_attr(job);

	CHECK(gw_comm_open(&attr, &job->comm) == 0);
}

static void run(struct job job, uint32_t dies, bool opens, job_fn *fn)
{
	pid_t pids[RANKS_MAX];

	job.port = job_free_port();
	fflush(NULL);
	for (uint32_t r = 0; r < job.size; r++) {
		pids[r] = fork();
		assert_true(pids[r] >= 0);
		if (pids[r] == 0) {
			job.rank = r;
			alarm(60);
			if (opens)
				open_job(&job);
			fn(&job);
			if (job.comm)
				gw_comm_close(job.comm);
			_exit(0);
		}
	}
	for (uint32_t r = 0; r < job.size; r++) {
		int status;

		assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
		if (r == dies)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		else
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

void job_run(uint32_t size, uint32_t dies, job_fn *fn)
{
	run((struct job){ .size = size }, dies, true, fn);
}

void job_run_unopened(uint32_t size, uint32_t dies, void *shared, job_fn *fn)
{
	run((struct job){ .size = size, .shared = shared }, dies, false, fn);
}

int job_sum(struct gw_comm *comm, uint64_t mine, uint64_t *out)
{
	struct gw_coll_attr attr = { .send = &mine, .recv = out, .count = 1, .type = GW_UINT64 };
	struct gw_coll *coll;
	int error = gw_allreduce(comm, &attr, &coll);

	if (error)
		return error;
	error = gw_coll_wait(coll, 30 * SECOND);
	gw_coll_close(coll);
	return error;
}

int job_sum_until_it_fails(struct gw_comm *comm)
{
	uint64_t total;
	int error;

	do {
		error = job_sum(comm, 1, &total);
	} while (!error);
	return error;
}
