/* SPDX-License-Identifier: BSD-3-Clause */
/* Examines a job's logs: runs the checks, and says what the ranks use, in a sentence and pair by pair. */
#include <string.h>

#include "job.h"

/* Pairs that are told one by one. */
#define PAIRS_TOLD 2048u
#define CAUSES	   3u
#define CAUSES_MAX 8u
/* Findings of less weight are consequences of others. */
#define CAUSE_IMPACT 40u

const char *diagnosis_causes(struct diagnosis *diagnosis, unsigned most)
{
	struct builder text = { 0 };
	const char *causes[CAUSES_MAX], *result, *last = "";
	unsigned told = 0;

	for (size_t i = 0; i < diagnosis->finding_count && told < most && told < CAUSES_MAX; i++) {
		const struct finding *f = &diagnosis->findings[i];

		if (f->severity == SEVERITY_INFO)
			break;
		/* One thing on many objects is one cause; what only follows from others is none. */
		if (strcmp(f->check, last) == 0 || (told && f->impact < CAUSE_IMPACT))
			continue;
		last = f->check;
		causes[told++] = f->brief	? f->brief
				 : f->object[0] ? scratch_print(&diagnosis->scratch, "%s (%s)",
								f->title, f->object)
						: f->title;
	}
	for (unsigned i = 0; i < told; i++)
		builder_print(&text, "%s%s",
			      i == 0	     ? ""
			      : i + 1 < told ? "; "
					     : "; and ",
			      causes[i]);
	result = told ? scratch_copy(&diagnosis->scratch, text.text, text.length) : NULL;
	builder_free(&text);
	return result;
}

static void note_transports(struct exam *exam)
{
	struct job_transports transports;

	job_transports(exam->job, &transports);
	for (unsigned i = 0; i < transports.count; i++) {
		const struct job_transport *row = &transports.row[i];

		diagnosis_note(exam->diagnosis, "transport", say(exam, "%s", row->name),
			       say(exam,
				   "%u pair%s of ranks, %u of them known to be on different hosts",
				   row->pairs, row->pairs == 1 ? "" : "s", row->between_hosts));
	}
}

static void note_pairs(struct exam *exam)
{
	const struct joblog *log = exam->job;
	uint32_t told = log->pair_count < PAIRS_TOLD ? log->pair_count : PAIRS_TOLD;

	for (uint32_t i = 0; i < told; i++) {
		const struct joblog_pair *pair = &log->pairs[i];
		const char *name = pair->communicator == JOBLOG_NONE
					   ? "unknown"
					   : log->communicators[pair->communicator].name;

		diagnosis_note(exam->diagnosis, "pair", job_pair_name(exam, pair),
			       say(exam, "%s%s%s, %u channel%s, communicator %s", pair->transport,
				   pair->second ? " and " : "", pair->second ? pair->second : "",
				   pair->channels, pair->channels == 1 ? "" : "s", name));
	}
	if (told < log->pair_count)
		diagnosis_note(exam->diagnosis, "pairs", "",
			       say(exam, "%u more pairs are not listed", log->pair_count - told));
}

static const char *common(struct exam *exam,
			  const char *(*get)(const struct joblog_process *process))
{
	struct job_values values = { 0 };

	for (uint32_t i = 0; i < exam->job->process_count; i++) {
		const char *value = get(&exam->job->processes[i]);

		if (value)
			job_values_add(&values, value);
	}
	return values.different ? values.value[job_values_most(&values)] : NULL;
}

static const char *version_of(const struct joblog_process *process)
{
	return process->version;
}

static const char *network_of(const struct joblog_process *process)
{
	return process->network;
}

static const char *plugin_of(const struct joblog_process *process)
{
	return process->plugin;
}

static void note_job(struct exam *exam)
{
	const char *version = common(exam, version_of), *network = common(exam, network_of);
	const char *plugin = common(exam, plugin_of);
	unsigned complete = 0;

	if (!version)
		version = exam->job->version;
	if (version || network)
		diagnosis_note(exam->diagnosis, "nccl", "",
			       say(exam, "version %s, network %s%s%s",
				   version ? version : "unknown", network ? network : "unknown",
				   plugin ? ", plugin " : "", plugin ? plugin : ""));
	if (exam->job->several_runs)
		diagnosis_note(
			exam->diagnosis, "runs", "",
			"these logs are of several runs: a finding may be of an earlier one");
	for (uint32_t i = 0; i < exam->job->communicator_count; i++)
		complete += exam->job->communicators[i].completed ==
			    (uint32_t)exam->job->communicators[i].ranks;
	if (exam->job->communicator_count)
		diagnosis_note(exam->diagnosis, "ranks", "",
			       say(exam, "%u communicator%s, %u complete on all of their ranks",
				   exam->job->communicator_count,
				   exam->job->communicator_count == 1 ? "" : "s", complete));
}

/* The sentence below the verdict. */
static const char *lead(struct exam *exam)
{
	const char *causes = diagnosis_causes(exam->diagnosis, CAUSES);
	struct job_transports transports;
	const struct job_transport *most = NULL;

	if (causes)
		return say(exam, "Fix first: %s.", causes);
	job_transports(exam->job, &transports);
	for (unsigned i = 0; i < transports.count; i++) {
		const struct job_transport *row = &transports.row[i];

		if (strncmp(row->name, "NET/", 4) == 0 && (!most || row->pairs > most->pairs))
			most = row;
	}
	if (most)
		return say(exam, "Nothing is wrong in these logs: ranks on different hosts use %s.",
			   most->name);
	return "Nothing is wrong in these logs.";
}

int job_run(struct joblog *log, const struct exam_attr *attr, struct diagnosis *diagnosis)
{
	struct exam exam = { .diagnosis = diagnosis, .job = log };
	unsigned hosts = job_hosts(log);
	int rc = exam_perform(&exam, attr);

	if (rc)
		return rc;
	diagnosis->host = say(&exam, "job of %ld rank%s (%u process%s on %u host%s in %u log%s)",
			      job_size(log), job_size(log) == 1 ? "" : "s", log->process_count,
			      log->process_count == 1 ? "" : "es", hosts, hosts == 1 ? "" : "s",
			      log->files, log->files == 1 ? "" : "s");
	diagnosis->lead = lead(&exam);
	note_job(&exam);
	note_transports(&exam);
	note_pairs(&exam);
	return 0;
}
