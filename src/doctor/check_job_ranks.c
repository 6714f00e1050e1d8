/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks on a job's logs: whether all ranks came, and who did not enter a collective. */
#include <string.h>

#include "job.h"

#define NAMES_SHOWN 8u
/* A rank that keeps the others waiting for this long is worth a word. */
#define LATE_S		   30.0
#define COMMUNICATORS_TOLD 4u
/* Most absent ranks that are counted. */
#define ABSENT_MAX 65536u

/* Ranks of a communicator that never began, and those that began and did not end. */
static void split_members(const struct joblog *log, const struct joblog_communicator *communicator,
			  struct number_set *absent, struct number_set *waiting)
{
	uint32_t number = (uint32_t)(communicator - log->communicators);

	for (uint32_t at = communicator->member; at != JOBLOG_NONE; at = log->members[at].next) {
		if (!log->members[at].completed)
			number_set_add(waiting, log->members[at].rank);
	}
	for (long rank = 0; rank < communicator->ranks && absent->count < ABSENT_MAX; rank++) {
		if (!joblog_member_of(log, number, rank))
			number_set_add(absent, rank);
	}
}

static void tell_incomplete(struct exam *exam, const struct joblog_communicator *communicator)
{
	struct scratch *scratch = &exam->diagnosis->scratch;
	struct number_set absent = { 0 }, waiting = { 0 };
	const char *missing, *stuck;
	size_t absent_count, waiting_count;
	struct finding *finding;

	split_members(exam->job, communicator, &absent, &waiting);
	absent_count = absent.count;
	waiting_count = waiting.count;
	missing = number_set_text(&absent, scratch, NAMES_SHOWN);
	stuck = number_set_text(&waiting, scratch, NAMES_SHOWN);
	if (absent_count) {
		finding = job_found(
			exam, say(exam, "rank%s %s", absent_count == 1 ? "" : "s", missing),
			&communicator->first,
			"communicator %s: no Init START from rank%s %s; rank%s %s wait%s",
			communicator->name, absent_count == 1 ? "" : "s", missing,
			waiting_count == 1 ? "" : "s", stuck, waiting_count == 1 ? "s" : "");
		finding->brief = say(exam, "rank%s %s never came to initialize communicator %s",
				     absent_count == 1 ? "" : "s", missing, communicator->name);
		return;
	}
	finding = job_found(
		exam, say(exam, "rank%s %s", waiting_count == 1 ? "" : "s", stuck),
		&communicator->first, "communicator %s: all %ld ranks began, rank%s %s did not end",
		communicator->name, communicator->ranks, waiting_count == 1 ? "" : "s", stuck);
	finding->title = "the initialization of a communicator did not end";
	finding->fix =
		"the errors above; without any: connections between these ranks (godwit doctor HOST, godwit mesh), and py-spy dump of one of them";
	finding->brief = say(exam, "the initialization of communicator %s hangs on rank%s %s",
			     communicator->name, waiting_count == 1 ? "" : "s", stuck);
}

static void check_init(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	unsigned told = 0;

	for (uint32_t i = 0; i < log->communicator_count && told < COMMUNICATORS_TOLD; i++) {
		const struct joblog_communicator *communicator = &log->communicators[i];

		if (communicator->completed >= communicator->started)
			continue;
		told++;
		tell_incomplete(exam, communicator);
	}
	for (uint32_t i = 0; i < log->process_count && told < COMMUNICATORS_TOLD; i++) {
		const struct joblog_process *process = &log->processes[i];

		if (!process->initializing)
			continue;
		told++;
		job_found(
			exam, joblog_process_name(&exam->diagnosis->scratch, log, i),
			&process->network_place,
			"began to initialize (Using network %s) and wrote nothing of a communicator",
			process->network)
			->title = "the initialization of a communicator did not end";
	}
}

static void check_late(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;

	for (uint32_t i = 0; i < log->communicator_count; i++) {
		const struct joblog_member *late = NULL, *waited = NULL;

		for (uint32_t at = log->communicators[i].member; at != JOBLOG_NONE;
		     at = log->members[at].next) {
			const struct joblog_member *member = &log->members[at];

			if (member->bootstrap_s < 0)
				continue;
			if (!late || member->bootstrap_s < late->bootstrap_s)
				late = member;
			if (!waited || member->bootstrap_s > waited->bootstrap_s)
				waited = member;
		}
		if (!late || waited->bootstrap_s - late->bootstrap_s < LATE_S)
			continue;
		job_found(exam, job_rank_name(exam, i, late->rank), &late->place,
			  "came about %.0f s after %s: %.1f s in the bootstrap against %.1f s",
			  waited->bootstrap_s - late->bootstrap_s,
			  job_rank_name(exam, i, waited->rank), late->bootstrap_s,
			  waited->bootstrap_s)
			->brief =
			say(exam, "%s was %.0f s late", job_rank_name(exam, i, late->rank),
			    waited->bootstrap_s - late->bootstrap_s);
		return;
	}
}

/* The first collective of a group that failed, and what its ranks say about it. */
struct stall {
	const struct joblog_work *first;
	struct number_set timed_out;
	struct number_set absent;
	const struct joblog_work *other;
	long reported;
};

static void gather_stall(const struct joblog *log, const char *group, struct stall *stall)
{
	for (uint32_t i = 0; i < log->work_count; i++) {
		const struct joblog_work *work = &log->works[i];

		if (work->group != group || work->sequence < 0 ||
		    (!work->timed_out && !work->failed))
			continue;
		if (!stall->first || work->sequence < stall->first->sequence)
			stall->first = work;
	}
	if (!stall->first)
		return;
	for (uint32_t i = 0; i < log->work_count; i++) {
		const struct joblog_work *work = &log->works[i];

		if (work->group != group)
			continue;
		if (work->sequence >= 0 || work->enqueued > -2)
			stall->reported++;
		/* One that gave up a later collective has ended this one. */
		if (work->sequence == stall->first->sequence) {
			number_set_add(&stall->timed_out, work->job_rank);
			if (strcmp(work->operation, stall->first->operation) != 0 ||
			    strcmp(work->elements, stall->first->elements) != 0)
				stall->other = work;
		} else if (work->enqueued > -2 && work->enqueued < stall->first->sequence) {
			number_set_add(&stall->absent, work->job_rank);
		}
	}
}

static void tell_stall(struct exam *exam, struct stall *stall)
{
	struct scratch *scratch = &exam->diagnosis->scratch;
	const struct joblog_work *first = stall->first;
	size_t late = stall->absent.count;
	const char *absent = number_set_text(&stall->absent, scratch, NAMES_SHOWN);
	const char *stuck = number_set_text(&stall->timed_out, scratch, NAMES_SHOWN);
	struct finding *finding;

	finding = job_found(
		exam,
		late ? say(exam, "rank%s %s", late == 1 ? "" : "s", absent)
		     : say(exam, "rank %s", stuck),
		&first->place, "SeqNum %ld, %s of %s elements%s%s: %s on rank %s%s%s; %s",
		first->sequence, first->operation, first->elements[0] ? first->elements : "?",
		first->group[0] ? ", group " : "", first->group,
		first->timed_out ? say(exam, "timed out after %.0f s", (double)first->ran_ms / 1e3)
				 : "failed",
		stuck, first->when[0] ? " at " : "", first->when,
		late ? say(exam, "rank%s %s did not enter it", late == 1 ? "" : "s", absent)
		: stall->reported < job_size(exam->job)
			? say(exam, "%ld of %ld ranks say nothing about it",
			      job_size(exam->job) - stall->reported, job_size(exam->job))
			: "all ranks entered it: the network or a GPU stopped");
	if (!first->timed_out) {
		finding->title = "a collective failed";
		finding->impact = 38;
	}
	if (late) {
		finding->fix = say(
			exam,
			"look at rank %s first: py-spy dump, its data loader, checkpoint or an exception; the others only wait",
			absent);
		finding->brief =
			say(exam, "rank%s %s did not enter %s number %ld", late == 1 ? "" : "s",
			    absent, first->operation, first->sequence);
	}
}

static void check_watchdog(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	const char *told[16];
	unsigned count = 0;

	for (uint32_t i = 0; i < log->work_count && count < 16; i++) {
		const struct joblog_work *work = &log->works[i];
		struct stall stall = { 0 };
		unsigned j = 0;

		if (!work->timed_out && !work->failed)
			continue;
		while (j < count && told[j] != work->group)
			j++;
		if (j < count)
			continue;
		told[count++] = work->group;
		gather_stall(log, work->group, &stall);
		if (stall.first)
			tell_stall(exam, &stall);
		builder_free(&stall.timed_out.numbers);
		builder_free(&stall.absent.numbers);
	}
}

static void check_collective(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;

	for (uint32_t i = 0; i < log->work_count; i++) {
		struct stall stall = { 0 };
		bool other;

		if (!log->works[i].timed_out)
			continue;
		gather_stall(log, log->works[i].group, &stall);
		other = stall.first && stall.other;
		if (other)
			job_found(exam,
				  say(exam, "ranks %ld and %ld", stall.first->job_rank,
				      stall.other->job_rank),
				  &stall.other->place,
				  "SeqNum %ld: %s of %s elements against %s of %s",
				  stall.first->sequence, stall.first->operation,
				  stall.first->elements, stall.other->operation,
				  stall.other->elements)
				->brief = say(exam, "ranks %ld and %ld call different collectives",
					      stall.first->job_rank, stall.other->job_rank);
		builder_free(&stall.timed_out.numbers);
		builder_free(&stall.absent.numbers);
		if (other)
			return;
	}
}

static void check_abort(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	const struct joblog_communicator *first = NULL;
	unsigned count = 0;

	for (uint32_t i = 0; i < log->communicator_count; i++) {
		if (!log->communicators[i].aborted)
			continue;
		count++;
		if (!first)
			first = &log->communicators[i];
	}
	if (first)
		job_found(exam, say(exam, "communicator %s", first->name), &first->first,
			  "aborted on %u of %ld ranks; %u communicator%s in all", first->aborted,
			  first->ranks, count, count == 1 ? "" : "s");
}

static void check_coverage(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	const struct joblog_communicator *largest = NULL;
	unsigned long info = 0;

	for (uint32_t i = 0; i < log->communicator_count; i++) {
		if (!largest || log->communicators[i].ranks > largest->ranks)
			largest = &log->communicators[i];
	}
	for (uint32_t i = 0; i < log->process_count; i++)
		info += log->processes[i].info_lines;
	if (!info)
		job_unseen(exam, "", NULL,
			   "the logs have no lines of level INFO: run with NCCL_DEBUG=INFO");
	else if (!largest)
		job_unseen(exam, "", NULL,
			   "no communicator in these logs: NCCL_DEBUG_SUBSYS must have INIT");
	else if (largest->completed == largest->started && (long)largest->started < largest->ranks)
		job_unseen(exam, "", &largest->first,
			   say(exam, "logs of %ld of %ld ranks are not here",
			       largest->ranks - (long)largest->started, largest->ranks));
	if (log->unreadable)
		job_unseen(exam, "", NULL, say(exam, "cannot be read: %s", log->unreadable));
	if (log->dropped)
		job_unseen(exam, "", NULL,
			   say(exam, "%lu entries were too many for the tables", log->dropped));
}

static const struct check checks[] = {
	{ "log-init", SEVERITY_ERROR, 83, SCOPE_JOB, GATE_NONE,
	  "ranks never came to initialize a communicator", "every Init START has its Init COMPLETE",
	  "All other ranks of the communicator wait for them.",
	  "the logs of these ranks: an exception before the first collective, a host that did not start, a rank that takes another branch",
	  "NCCL logs Init START when a rank enters and Init COMPLETE when all are connected. Ranks without either died earlier, are late, or their log is not among these.",
	  check_init },
	{ "log-late", SEVERITY_WARNING, 55, SCOPE_JOB, GATE_NONE,
	  "a rank came late to a communicator", "all ranks within half a minute",
	  "The others wait: every restart of the job takes that much longer.",
	  "what that host does before: loading of data or checkpoints, a slow file system, a container that is pulled",
	  "The rank that spends the least time in the bootstrap came last (Init timings, NCCL 2.22 and later).",
	  check_late },
	{ "log-collective", SEVERITY_ERROR, 82, SCOPE_JOB, GATE_NONE,
	  "ranks call different collectives", "the same collectives in the same order",
	  "The collective never ends; the network is not at fault.",
	  "the place in the model where these ranks take different branches; TORCH_DISTRIBUTED_DEBUG=DETAIL checks every call",
	  "A condition that depends on the rank, uneven data, an exception that one rank catches.",
	  check_collective },
	{ "log-watchdog", SEVERITY_ERROR, 81, SCOPE_JOB, GATE_NONE, "a collective timed out",
	  "no timeout", "PyTorch ends the job when a collective takes longer than its limit.",
	  "errors of more weight first; without any: py-spy dump of a rank that hangs, TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (TORCH_FR_BUFFER_SIZE) for the flight recorder",
	  "The watchdog names the collective by its number in the group. A rank whose last enqueued number is lower never entered it: that one is the cause. If all entered, the network, a GPU or a mismatch is.",
	  check_watchdog },
	{ "log-abort", SEVERITY_WARNING, 15, SCOPE_JOB, GATE_NONE, "communicators were aborted",
	  "communicators end with Destroy",
	  "A consequence of a failure, most often the watchdog's.", "the finding of most weight",
	  "ncclCommAbort() is how a framework gives a communicator up that hangs.", check_abort },
	{ "log-coverage", SEVERITY_INFO, 5, SCOPE_JOB, GATE_NONE,
	  "parts of the job are not in these logs", "INFO lines of every rank",
	  "What is not in the logs is not judged.",
	  "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV NCCL_DEBUG_FILE=nccl.%h.%p on all ranks",
	  "Logs of one rank show its own connections only.", check_coverage },
};

const struct check_group checks_job_ranks = CHECK_GROUP(checks);
