/* SPDX-License-Identifier: BSD-3-Clause */
/* How communicators of real processes over loopback end: closing, leaving, deaths and aborts. Nobody may wait for ever, or be told of what
 * did not happen. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include <godwit/collective.h>

#include "job.h"

/* Rank 2 is killed while all are at work. The others learn its name soon. */
static void killed(struct job *job)
{
	uint64_t total, start;
	int error;

	for (int i = 0; i < 20; i++)
		CHECK(job_sum(job->comm, 1, &total) == 0);
	if (job->rank == 2) {
		job_sleep_ms(200);
		kill(getpid(), SIGKILL);
	}
	start = job_clock_ns();
	error = job_sum_until_it_fails(job->comm);
	CHECK(error == -ECONNRESET || error == -ETIMEDOUT);
	CHECK(error == gw_comm_status(job->comm));
	CHECK(strstr(gw_comm_error(job->comm), "rank 2"));
	CHECK(job_clock_ns() - start < 3 * SECOND);
	CHECK(job_sum(job->comm, 1, &total) == error);
}

static void a_death_is_named(void **state)
{
	(void)state;
	job_run(4, 2, killed);
}

/* The same where it has a child, which has a copy of everything that is open. */
static void killed_with_a_child(struct job *job)
{
	if (job->rank == 2 && fork() == 0) {
		for (int i = 0; i < 100 && getppid() != 1; i++)
			job_sleep_ms(100);
		job_sleep_ms(5000);
		_exit(0);
	}
	killed(job);
}

static void the_death_of_a_parent_is_named(void **state)
{
	(void)state;
	job_run(4, 2, killed_with_a_child);
}

static void root_killed(struct job *job)
{

	if (job->rank == 0)
		kill(getpid(), SIGKILL);
	job_sum_until_it_fails(job->comm);
	CHECK(strstr(gw_comm_error(job->comm), "rank 0"));
}

static void the_death_of_rank_0_is_named(void **state)
{
	(void)state;
	job_run(4, 0, root_killed);
}

static void aborted(struct job *job)
{
	int error;

	if (job->rank == 1)
		CHECK(gw_comm_abort(job->comm, "the loss is not a number") == 0);
	error = job_sum_until_it_fails(job->comm);
	CHECK(error == -ECANCELED);
	CHECK(!strcmp(gw_comm_error(job->comm), "rank 1 aborted: the loss is not a number"));
}

static void an_abort_reaches_all(void **state)
{
	(void)state;
	job_run(4, 4, aborted);
}

/* One rank comes to the end two seconds later than the others, who wait for it. */
static void late_end(struct job *job)
{
	uint64_t total;

	CHECK(job_sum(job->comm, 1, &total) == 0);
	if (job->rank == 1)
		job_sleep_ms(2000);
	CHECK(job_sum(job->comm, 1, &total) == 0);
	if (job->rank == 2)
		job_sleep_ms(1500);
}

static void the_end_waits(void **state)
{
	(void)state;
	job_run(3, 3, late_end);
}

/* A rank computes for longer than the timeout before each operation: it is not dead. The second silence begins when the first was asked about
 * less than two timeouts ago. */
static void computing(struct job *job)
{
	struct gw_comm_attr attr = job_attr(job);
	uint64_t total;

	attr.peer_timeout_ns = 2 * SECOND;
	CHECK(gw_comm_open(&attr, &job->comm) == 0);
	for (int i = 0; i < 4; i++) {
		CHECK(job_sum(job->comm, 1, &total) == 0);
		if (job->rank == 1)
			job_sleep_ms(2700);
	}
}

static void a_rank_that_computes_lives(void **state)
{
	(void)state;
	job_run_unopened(3, 3, NULL, computing);
}

/* Operations that end before what was sent has arrived, and then the end: any number of them, since ranks agree on rates in between. */
static void many_then_close(struct job *job)
{
	static const unsigned counts[] = { 0, 1, 5, 8, 9, 10, 21, 22, 25 };

	for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		struct gw_comm_attr attr = job_attr(job);

		attr.flags = GW_COMM_SERVED;
		attr.port += (uint16_t)c;
		CHECK(gw_comm_open(&attr, &job->comm) == 0);
		for (unsigned i = 0; i < counts[c]; i++) {
			uint8_t values[64] = { [63] = job->rank ? 0 : (uint8_t)(i + 1) };
			struct gw_coll_attr what = { .send = values,
						     .recv = values,
						     .count = sizeof(values),
						     .type = GW_UINT8,
						     .algorithm = GW_ALGORITHM_RING };
			struct gw_coll *coll;

			CHECK(gw_broadcast(job->comm, &what, &coll) == 0);
			CHECK(gw_coll_wait(coll, 30 * SECOND) == 0);
			CHECK(values[63] == i + 1);
			gw_coll_close(coll);
		}
		CHECK(gw_comm_close(job->comm) == 0);
	}
	job->comm = NULL;
}

static void any_number_of_operations_then_the_end(void **state)
{
	(void)state;
	job_run_unopened(4, 4, NULL, many_then_close);
}

/* Rank 2 dies while the others wait for it to close. */
static void dying_at_the_end(struct job *job)
{
	uint64_t total, start;

	CHECK(job_sum(job->comm, 1, &total) == 0);
	if (job->rank == 2) {
		job_sleep_ms(500);
		kill(getpid(), SIGKILL);
	}
	start = job_clock_ns();
	CHECK(gw_comm_close(job->comm) == 0);
	job->comm = NULL;
	CHECK(job_clock_ns() - start < 3 * SECOND);
}

static void a_death_ends_the_end(void **state)
{
	(void)state;
	job_run(4, 2, dying_at_the_end);
}

static void do_nothing(int signal)
{
	(void)signal;
}

/* Rank 0 is done with a broadcast of which rank 2 has to get its part yet, and signals come while it closes. */
static void interrupted(struct job *job)
{
	struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
	struct sigaction action = { .sa_handler = do_nothing, .sa_flags = SA_RESTART };
	static uint8_t values[300000];
	struct gw_coll_attr what = { .send = values,
				     .recv = values,
				     .count = sizeof(values),
				     .type = GW_UINT8,
				     .algorithm = GW_ALGORITHM_RING };
	struct gw_coll *coll;
	uint64_t total;

	CHECK(job_sum(job->comm, 1, &total) == 0);
	if (job->rank == 2)
		job_sleep_ms(1500);
	CHECK(gw_broadcast(job->comm, &what, &coll) == 0);
	CHECK(gw_coll_wait(coll, 30 * SECOND) == 0);
	if (job->rank == 0) {
		sigaction(SIGALRM, &action, NULL);
		setitimer(ITIMER_REAL, &often, NULL);
	}
	gw_comm_close(job->comm);
	job->comm = NULL;
}

static void signals_do_not_end_the_end(void **state)
{
	(void)state;
	job_run(3, 3, interrupted);
}

/* Rank 1 closes while the others go on: they are told at once, by name. */
static void leaving(struct job *job)
{
	struct gw_comm_attr attr = job_attr(job);
	uint64_t start;
	int error;

	attr.peer_timeout_ns = 2 * SECOND;
	CHECK(gw_comm_open(&attr, &job->comm) == 0);
	if (job->rank == 1)
		return;
	/* Until then rank 1 waits for their end. */
	job_sleep_ms(3500);
	start = job_clock_ns();
	error = job_sum_until_it_fails(job->comm);
	CHECK(error == -ECONNRESET);
	CHECK(strstr(gw_comm_error(job->comm), "rank 1") &&
	      strstr(gw_comm_error(job->comm), "has closed"));
	CHECK(job_clock_ns() - start < SECOND);
}

static void who_closes_early_is_named(void **state)
{
	(void)state;
	job_run_unopened(3, 3, NULL, leaving);
}

/* Rank 1 has met the others and cannot use its fabric. */
static void unopened(struct job *job)
{
	struct gw_comm_attr attr = job_attr(job);
	uint64_t start = job_clock_ns();

	attr.threads = job->shared ? 3 : 1;
	if (job->rank == 1) {
		attr.fabric = "roce:192.0.2.1@0";
		CHECK(gw_comm_open(&attr, &job->comm) < 0);
		job->comm = NULL;
		return;
	}
	if (job->shared) {
		CHECK(gw_comm_open(&attr, &job->comm) < 0);
		job->comm = NULL;
	} else {
		CHECK(gw_comm_open(&attr, &job->comm) == 0);
		job_sum_until_it_fails(job->comm);
	}
	CHECK(strstr(gw_comm_error(job->comm), "rank 1 cannot open its fabric: roce:192.0.2.1@0"));
	CHECK(job_clock_ns() - start < 4 * SECOND);
}

static void a_rank_that_cannot_open_tells_the_others(void **state)
{
	(void)state;
	job_run_unopened(3, 3, NULL, unopened);
	/* With threads the others are told while they open theirs. */
	job_run_unopened(3, 3, &(int){ 1 }, unopened);
}

/* Rank 0, which relays the mail, dies. Others have a communicator without it, in which nobody would learn of a death any more. */
static void without_relay(struct job *job)
{
	struct gw_comm *sub;

	CHECK(gw_comm_split(job->comm, job->rank > 0, 0, &sub) == 0);
	if (job->rank == 0) {
		/* The others may still need answers of this rank for their part of the split. */
		for (uint64_t start = job_clock_ns(); job_clock_ns() - start < SECOND;)
			gw_comm_wait(job->comm, SECOND / 100);
		kill(getpid(), SIGKILL);
	}
	job_sum_until_it_fails(sub);
	CHECK(strstr(gw_comm_error(sub), "rank 0 of all ranks"));
	CHECK(gw_comm_close(sub) == 0);
}

static void the_death_of_the_relay_ends_all(void **state)
{
	(void)state;
	job_run(3, 0, without_relay);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_death_is_named),
		cmocka_unit_test(the_death_of_a_parent_is_named),
		cmocka_unit_test(the_death_of_rank_0_is_named),
		cmocka_unit_test(an_abort_reaches_all),
		cmocka_unit_test(the_end_waits),
		cmocka_unit_test(a_rank_that_computes_lives),
		cmocka_unit_test(any_number_of_operations_then_the_end),
		cmocka_unit_test(a_death_ends_the_end),
		cmocka_unit_test(signals_do_not_end_the_end),
		cmocka_unit_test(who_closes_early_is_named),
		cmocka_unit_test(a_rank_that_cannot_open_tells_the_others),
		cmocka_unit_test(the_death_of_the_relay_ends_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
