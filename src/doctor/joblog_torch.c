/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What PyTorch's watchdog, torchrun and Slurm write between NCCL's lines.
 *
 * The watchdog names the collective that timed out by the group's own count (SeqNum), and says of each rank how many it has
 * begun ("last enqueued") and ended ("last completed"). A rank that began fewer than the others is the one that did not come.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "joblog_nccl.h"

static bool number_at(const char *at, long *out)
{
	char *end;

	if (!at)
		return false;
	*out = strtol(at, &end, 10);
	return end != at;
}

/*
 * Reads "[Rank 0]", "[PG 1 Rank 0]", "[PG ID 0 PG GUID 0(default_pg) Rank 0]". Sets *group to what stands before the rank,
 * or "". Returns whether a rank is there.
 */
static bool group_and_rank(struct joblog *log, const char *line, const char **group, long *rank)
{
	for (const char *open = line; (open = strchr(open, '[')); open++) {
		const char *close = strchr(open, ']'), *word = strstr(open, "Rank ");
		const char *begin = open + 1;

		if (!close || !word || word > close || !number_at(word + 5, rank) || *rank < 0)
			continue;
		if (strncmp(begin, "PG ", 3) != 0 && word != begin)
			continue;
		/* The number after "PG ID" counts a process' own groups; the GUID is the same on all of its ranks. */
		if (strncmp(begin, "PG ", 3) == 0) {
			const char *name = joblog_after(begin, "PG GUID ");

			begin = name && name < word ? name : begin + 3;
		}
		*group = joblog_text(log, begin, word > begin ? strcspn(begin, " ") : 0);
		return true;
	}
	return false;
}

/* The rank that a line without a group is about: the launcher's if it names one, because it is the same in every group. */
static long speaker(const char *line, long rank)
{
	long launcher = joblog_launcher_rank(line);

	return launcher >= 0 ? launcher : rank;
}

/* "WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=12000) ran for 12009 milliseconds" */
static void take_collective(struct joblog *log, const char *at, struct joblog_work *work)
{
	const char *word;

	number_at(joblog_after(at, "SeqNum="), &work->sequence);
	if ((word = joblog_after(at, "OpType=")))
		work->operation = joblog_text(log, word, strcspn(word, ",)"));
	if ((word = joblog_after(at, "NumelIn=")))
		work->elements = joblog_text(log, word, strcspn(word, ",)"));
	number_at(joblog_after(at, "ran for "), &work->ran_ms);
}

/* The group of a watchdog's line is not in it: it follows from the next line about the same collective on that rank. */
static void name_group(struct joblog_stream *stream, struct joblog_work *named, long speaker,
		       long sequence)
{
	struct joblog_work *nameless = joblog_work(stream, "", speaker);

	if (!nameless || nameless == named || nameless->sequence != sequence || named->timed_out)
		return;
	named->sequence = nameless->sequence;
	named->operation = nameless->operation;
	named->elements = nameless->elements;
	named->ran_ms = nameless->ran_ms;
	named->timed_out = nameless->timed_out;
	named->failed = nameless->failed;
	named->place = nameless->place;
	memcpy(named->when, nameless->when, sizeof(named->when));
	nameless->timed_out = nameless->failed = false;
	nameless->sequence = -1;
}

static bool take_status(struct joblog_stream *stream, const char *line)
{
	const char *enqueued = joblog_after(line, "ast enqueued "), *completed, *group = "";
	const char *at = joblog_after(line, "at work sequence id: ");
	struct joblog_work *work;
	long rank, sequence = -1;

	completed = enqueued ? joblog_after(enqueued, "last completed ") : NULL;
	if (!completed || !group_and_rank(stream->log, line, &group, &rank))
		return false;
	work = joblog_work(stream, group, rank);
	if (!work)
		return true;
	work->job_rank = speaker(line, rank);
	number_at(joblog_after(enqueued, "work: "), &work->enqueued);
	number_at(joblog_after(completed, "work: "), &work->completed);
	if (number_at(at ? at : joblog_after(line, "at work: "), &sequence) ||
	    number_at(joblog_after(line, "Timeout at NCCL work: "), &sequence))
		name_group(stream, work, speaker(line, rank), sequence);
	return true;
}

static bool take_watchdog(struct joblog_stream *stream, const char *line)
{
	const char *timeout = joblog_after(line, "Watchdog caught collective operation timeout: ");
	const char *failed = strstr(line, "raised the following async exception");
	const char *work_at = strstr(line, "WorkNCCL("), *group = "";
	struct joblog_work *work;
	long rank;

	if ((!timeout && !failed) || !work_at || !group_and_rank(stream->log, line, &group, &rank))
		return false;
	/* The exception that ends the process repeats it, behind the words of the process group. */
	if (strstr(line, "terminated with exception"))
		return true;
	rank = speaker(line, rank);
	work = joblog_work(stream, "", rank);
	/* Later collectives time out, too; the first one is the one that matters. */
	if (!work || work->timed_out)
		return true;
	work->job_rank = rank;
	take_collective(stream->log, work_at, work);
	work->timed_out = timeout != NULL;
	work->failed = failed != NULL;
	work->place = (struct joblog_place){ stream->file, stream->line };
	joblog_time(line, work->when);
	return true;
}

static void death(struct joblog_stream *stream, long rank, long status, const char *text,
		  const char *line, bool root)
{
	struct joblog_event *event =
		joblog_event(stream, EVENT_DEATH, status, JOBLOG_NONE, text, line);

	if (!event)
		return;
	if (rank >= 0)
		event->rank = rank;
	event->root |= root;
}

/* torchrun's report at its end: "rank      : 1 (local_rank: 1)", "exitcode  : -9 (pid: 684)", "Root Cause (first observed failure):" */
static bool take_torchrun(struct joblog_stream *stream, const char *line)
{
	const char *at = line + strspn(line, " ");
	char text[48];
	long status, pid = 0;

	if (strstr(line, "Root Cause (first observed failure)")) {
		stream->report_root = true;
		return true;
	}
	if (strncmp(at, "rank ", 5) == 0 && strstr(at, "(local_rank:")) {
		if (!number_at(joblog_after(at, ": "), &stream->report_rank))
			stream->report_rank = -1;
		return true;
	}
	if (strncmp(at, "exitcode ", 9) == 0 && number_at(joblog_after(at, ": "), &status)) {
		number_at(joblog_after(at, "(pid: "), &pid);
		snprintf(text, sizeof(text), "process %ld", pid);
		death(stream, stream->report_rank, status, text, line, stream->report_root);
		stream->report_root = false;
		stream->report_rank = -1;
		return true;
	}
	return false;
}

/* "srun: error: node3: task 5: Out Of Memory" */
static bool take_slurm(struct joblog_stream *stream, const char *line)
{
	const char *at = joblog_after(line, "srun: error: "), *task;
	long rank, status = 1;

	if (!at)
		return false;
	task = joblog_after(at, ": task ");
	if (!task || !number_at(task, &rank) || !strchr(task, ':'))
		return false;
	task = strchr(task, ':') + 2;
	if (strncmp(task, "Exited with exit code ", 22) == 0)
		number_at(task + 22, &status);
	else if (strncmp(task, "Killed", 6) == 0 || strncmp(task, "Out Of Memory", 13) == 0)
		status = -9;
	else if (strncmp(task, "Terminated", 10) == 0)
		status = -15;
	else if (strncmp(task, "Segmentation", 12) == 0)
		status = -11;
	death(stream, rank, status, at, line, false);
	return true;
}

static bool take_cuda(struct joblog_stream *stream, const char *line)
{
	const char *at = strstr(line, "CUDA out of memory");
	struct joblog_event *event;

	if (!at)
		at = strstr(line, "CUDA error: ");
	if (!at)
		return false;
	event = joblog_event(stream, EVENT_CUDA, 0, JOBLOG_NONE,
			     joblog_text(stream->log, at, strcspn(at, ".\n")), line);
	if (event && event->rank < 0)
		event->rank = joblog_launcher_rank(line);
	return true;
}

bool joblog_torch(struct joblog_stream *stream, const char *line)
{
	return take_watchdog(stream, line) || take_status(stream, line) ||
	       take_torchrun(stream, line) || take_slurm(stream, line) || take_cuda(stream, line);
}
