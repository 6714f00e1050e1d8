/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnosis.h: what was found, what could not be seen, and how both are told.
 *
 * A finding says what is wrong with which object, what was read and where, what is healthy, why it matters, and the
 * command that mends it. "Unknown" is a result of its own. Whoever has findings to tell (a host, a job's logs, a pair of
 * hosts) fills a diagnosis and prints it here, so that all of them look alike and the JSON has one schema.
 */
#ifndef DOCTOR_DIAGNOSIS_H
#define DOCTOR_DIAGNOSIS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "scratch.h"

/* Version of the JSON object: it grows by members; the number changes when a member goes or changes its meaning. */
#define DIAGNOSIS_SCHEMA 1

enum severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_ERROR };

/* Exit statuses. */
enum {
	DIAGNOSIS_HEALTHY = 0,
	DIAGNOSIS_WARNINGS = 1,
	DIAGNOSIS_ERRORS = 2,
	DIAGNOSIS_NOT_EXAMINED = 3
};

struct finding {
	/* stable word that names the check */
	const char *check;
	enum severity severity;
	/* rank among findings of one severity: 1 to 100, more hurts more */
	unsigned impact;
	/* what is wrong, in a few words, without the object's name */
	const char *title;
	/* what it is wrong with: "mlx5_0 port 1", "eth0"; "": the host */
	const char *object;
	/* what was read: a path, or "environment" */
	const char *where;
	/* its value, and what a healthy host has */
	const char *value;
	const char *healthy;
	/* what it does to a training job */
	const char *why;
	/* command that mends it */
	const char *fix;
	/* half a sentence for a summary: "node5 has MTU 1500"; null: title and object */
	const char *brief;
};

/* Something that a check could not see. */
struct unknown {
	const char *check;
	const char *object;
	const char *where;
	/* half a sentence: "it needs root" */
	const char *why;
};

/* Something worth knowing that is neither good nor bad: what NCCL will choose, what this host can do. */
struct note {
	/* stable word */
	const char *topic;
	const char *object;
	const char *text;
};

struct diagnosis {
	/* memory of the texts */
	struct scratch scratch;
	const char *host;
	/* a sentence that replaces the verdict's second half; null: none */
	const char *summary;
	/* a sentence below the verdict; null: none */
	const char *lead;
	/* what follows from all findings together, as the last paragraph; null: none */
	const char *conclusion;
	/* command to run next; null: none */
	const char *next;
	struct finding *findings;
	size_t finding_count;
	struct unknown *unknowns;
	size_t unknown_count;
	struct note *notes;
	size_t note_count;
	/* checks that ran, and those that do not concern this host */
	unsigned checks_run;
	unsigned checks_skipped;
	/* time between the two samples of the counters; 0: one sample */
	unsigned interval_ms;
};

/* Each adds one and returns it, for the caller to fill in or change. Texts must live as long as the diagnosis. */
struct finding *diagnosis_finding(struct diagnosis *diagnosis);
struct unknown *diagnosis_unknown(struct diagnosis *diagnosis);
struct note *diagnosis_note(struct diagnosis *diagnosis, const char *topic, const char *object,
			    const char *text);

/* Puts the findings in order: severity, impact, check, object. */
void diagnosis_sort(struct diagnosis *diagnosis);

unsigned diagnosis_count(const struct diagnosis *diagnosis, enum severity severity);

/* Returns the exit status that the findings ask for. */
int diagnosis_status(const struct diagnosis *diagnosis);

const char *severity_name(enum severity severity);

struct diagnosis_style {
	/* show every finding, remark and unknown in full */
	bool verbose;
	bool colour;
	/* columns of a line; 0: 80 */
	unsigned columns;
};

/* Prints: a verdict; at most five findings (all if verbose); what was not visible; what to run next. */
void diagnosis_print(const struct diagnosis *diagnosis, const struct diagnosis_style *style,
		     FILE *out);

/* Prints a paragraph, broken into lines, of which all but the first begin with `indent` blanks. */
void print_wrapped(FILE *out, unsigned indent, unsigned columns, const char *text);

/* Returns the JSON object that docs/doctor.md describes, or null if memory is short. */
json_t *diagnosis_json(const struct diagnosis *diagnosis);

void diagnosis_free(struct diagnosis *diagnosis);

#endif
