/* SPDX-License-Identifier: BSD-3-Clause */
/* Examines a cluster: what each host has alone, where hosts differ, what logs and the mesh say; and the sentence at the end. */
#include <errno.h>
#include <string.h>

#include "cluster.h"
#include "job.h"

#define CAUSES 4u

static void take_hosts(struct exam *exam)
{
	const struct cluster *cluster = exam->cluster;

	for (size_t i = 0; i < cluster->finding_count; i++) {
		const struct cluster_finding *from = &cluster->findings[i];
		struct finding *to = diagnosis_finding(exam->diagnosis);
		const char *hosts =
			say(exam, "%s%s", from->hosts.text,
			    from->count > 8 ? say(exam, " and %u more", from->count - 8) : "");

		*to = from->finding;
		to->value = say(exam, "%s%s%s%s", from->finding.object,
				from->finding.object[0] ? ": " : "", from->finding.value,
				from->count > 1 ? " (on the first of them)" : "");
		to->title = say(exam, "%s", from->finding.title);
		to->healthy = say(exam, "%s", from->finding.healthy);
		to->why = say(exam, "%s", from->finding.why);
		to->fix = say(exam, "%s", from->finding.fix);
		to->where = say(exam, "%s", from->finding.where);
		to->object = hosts;
		to->brief = say(exam, "%s on %u of %zu hosts (%s; %s)", from->finding.title,
				from->count, cluster->host_count, hosts, to->value);
	}
}

static int take_logs(struct exam *exam, const struct exam_attr *attr)
{
	struct diagnosis own = { 0 };
	int rc = exam->cluster->logs ? job_run(&exam->cluster->log, attr, &own) : 0;

	for (size_t i = 0; rc == 0 && i < own.finding_count; i++) {
		const struct finding *from = &own.findings[i];
		struct finding *to = diagnosis_finding(exam->diagnosis);

		*to = *from;
		to->title = say(exam, "%s", from->title);
		to->object = say(exam, "%s", from->object);
		to->value = say(exam, "%s", from->value);
		to->where = say(exam, "%s", from->where);
		to->fix = say(exam, "%s", from->fix);
		to->brief = from->brief ? say(exam, "%s", from->brief) : NULL;
	}
	for (size_t i = 0; rc == 0 && i < own.unknown_count; i++) {
		struct unknown *to = diagnosis_unknown(exam->diagnosis);

		*to = own.unknowns[i];
		to->object = say(exam, "%s", to->object);
		to->where = say(exam, "%s", to->where);
		to->why = say(exam, "%s", to->why);
	}
	for (size_t i = 0; rc == 0 && i < own.note_count; i++) {
		const struct note *note = &own.notes[i];

		if (strcmp(note->topic, "pair") != 0)
			diagnosis_note(exam->diagnosis, note->topic, say(exam, "%s", note->object),
				       say(exam, "%s", note->text));
	}
	exam->diagnosis->checks_run += own.checks_run;
	diagnosis_free(&own);
	return rc;
}

static void note_sources(struct exam *exam)
{
	const struct cluster *cluster = exam->cluster;

	if (cluster->host_count)
		diagnosis_note(exam->diagnosis, "hosts", "",
			       say(exam, "%zu captures; %zu things were not visible in them",
				   cluster->host_count, cluster->unknown_count));
	if (cluster->logs)
		diagnosis_note(exam->diagnosis, "logs", "",
			       say(exam, "%u files, %lu lines of NCCL", cluster->log.files,
				   cluster->log.nccl_lines));
	if (cluster->meshed)
		diagnosis_note(exam->diagnosis, "mesh", say(exam, "%s", cluster->mesh.file),
			       say(exam, "%u hosts, %u pairs", cluster->mesh.host_count,
				   cluster->mesh.pair_count));
	if (cluster->strange_count)
		diagnosis_note(exam->diagnosis, "files", say(exam, "%s", cluster->strange),
			       say(exam, "%u file%s neither capture nor log nor result of the mesh",
				   cluster->strange_count,
				   cluster->strange_count == 1 ? " is" : "s are"));
}

/* What is not there cannot be judged; what to do about it. */
static void say_missing(struct exam *exam)
{
	const struct cluster *cluster = exam->cluster;
	const struct {
		bool missing;
		const char *check;
		const char *why;
	} rows[] = {
		{ cluster->host_count < 2, "hosts",
		  "fewer than two captures (godwit doctor --capture HOST.tar on each host)" },
		{ !cluster->logs, "logs", "no logs of the job (NCCL_DEBUG=INFO)" },
		{ !cluster->meshed, "mesh", "no results of godwit mesh" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct unknown *unknown;

		if (!rows[i].missing)
			continue;
		unknown = diagnosis_unknown(exam->diagnosis);
		unknown->check = rows[i].check;
		unknown->why = rows[i].why;
	}
}

static const char *conclude(struct exam *exam)
{
	const struct cluster *cluster = exam->cluster;
	const char *causes = diagnosis_causes(exam->diagnosis, CAUSES);
	struct builder text = { 0 };
	const char *result;

	if (causes)
		return say(exam, "We are not hitting our scaling targets because %s.", causes);
	builder_print(&text, "Nothing here keeps this cluster from its scaling targets:");
	if (cluster->host_count > 1)
		builder_print(&text, " %zu hosts are set up alike and healthy",
			      cluster->host_count);
	else if (cluster->host_count)
		builder_print(&text, " the host is healthy");
	if (cluster->meshed)
		builder_print(&text, "%s %u pairs of hosts are alike",
			      cluster->host_count ? "," : "", cluster->mesh.pair_count);
	if (cluster->logs)
		builder_print(&text, "%s the job's logs are clean",
			      cluster->host_count || cluster->meshed ? "," : "");
	builder_print(&text, ".");
	result = say(exam, "%s", text.text);
	builder_free(&text);
	return result;
}

int cluster_run(struct cluster *cluster, const struct exam_attr *attr, struct diagnosis *diagnosis)
{
	struct exam exam = { .diagnosis = diagnosis, .cluster = cluster };
	int rc;

	take_hosts(&exam);
	rc = take_logs(&exam, attr);
	if (rc == 0)
		rc = exam_perform(&exam, attr);
	if (rc)
		return rc;
	say_missing(&exam);
	note_sources(&exam);
	diagnosis->host = say(&exam, "cluster of %zu host%s",
			      cluster->host_count > cluster->mesh.host_count
				      ? cluster->host_count
				      : (size_t)cluster->mesh.host_count,
			      cluster->host_count == 1 && cluster->mesh.host_count < 2 ? "" : "s");
	diagnosis->conclusion = conclude(&exam);
	return 0;
}
