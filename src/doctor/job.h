/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h: checks on a job's logs (joblog.h). They are rows of the same table as those on a host, with SCOPE_JOB; these are
 * the words that they share: lists of ranks, and what most ranks have against the rest.
 */
#ifndef DOCTOR_JOB_H
#define DOCTOR_JOB_H

#include "exam.h"
#include "joblog.h"

/* Examines sealed logs and fills *diagnosis, which is empty. Returns 0, or -EINVAL as exam_run(). */
int job_run(struct joblog *log, const struct exam_attr *attr, struct diagnosis *diagnosis);

/* The sentence that names the findings of most weight; null if there is none of weight. At most `most` of them. */
const char *diagnosis_causes(struct diagnosis *diagnosis, unsigned most);

/* Adds a finding of the running check, with the check's words. `object` lives as long as the diagnosis. */
struct finding *job_found(struct exam *exam, const char *object, const struct joblog_place *place,
			  const char *value, ...) __attribute__((format(printf, 4, 5)));

void job_unseen(struct exam *exam, const char *object, const struct joblog_place *place,
		const char *why);

/* A set of numbers that prints as "0-3, 7". */
struct number_set {
	struct builder numbers;
	size_t count;
};

void number_set_add(struct number_set *set, long number);
/* Returns the text, which lives as long as the scratch, and empties the set. At most `most` ranges are named. */
const char *number_set_text(struct number_set *set, struct scratch *scratch, unsigned most);

/* Ranks that a predicate chooses, as "rank 3 (node1)", "ranks 0-3 (node1, node2)" or "all 8 ranks"; null if none. */
const char *job_ranks(struct exam *exam,
		      bool (*chosen)(const struct joblog *log, const struct joblog_process *process,
				     const void *arg),
		      const void *arg, uint32_t *count);

/* Values of one thing on several processes. */
#define JOB_VALUES_MAX 8u

struct job_values {
	/* shared texts: equal ones have one address */
	const char *value[JOB_VALUES_MAX];
	uint32_t count[JOB_VALUES_MAX];
	unsigned different;
	uint32_t total;
};

void job_values_add(struct job_values *values, const char *value);
/* Position of the value that most have. */
unsigned job_values_most(const struct job_values *values);

/*
 * Compares a text of every process; null means that the process does not say. If they differ, returns the text "14 of 16
 * ranks have X, rank 3 (node1) has Y" and sets *minority to the ranks without the majority's value and *place to one of
 * them; otherwise null.
 */
const char *job_differs(struct exam *exam,
			const char *(*get)(const struct joblog_process *process, const void *arg),
			const void *arg, const char **minority, struct joblog_place *place);

/* What the connections of a job use: one row for each transport. */
struct job_transport {
	const char *name;
	uint32_t pairs;
	/* both ends known, and on different hosts */
	uint32_t between_hosts;
	const struct joblog_pair *example;
};

#define JOB_TRANSPORTS_MAX 16u

struct job_transports {
	struct job_transport row[JOB_TRANSPORTS_MAX];
	unsigned count;
	uint32_t net_pairs;
};

void job_transports(const struct joblog *log, struct job_transports *out);

/* Processes at the two ends, JOBLOG_NONE if not known. */
void job_pair_ends(const struct joblog *log, const struct joblog_pair *pair, uint32_t *from,
		   uint32_t *to);
/* "rank 0 (node1) -> rank 8 (node2)" */
const char *job_pair_name(struct exam *exam, const struct joblog_pair *pair);

/* "rank 3 (node1)" */
const char *job_rank_name(struct exam *exam, uint32_t communicator, long rank);

bool job_is_socket(const char *transport);

/* Most ranks that one of the job's communicators has, and the hosts seen. */
long job_size(const struct joblog *log);
unsigned job_hosts(const struct joblog *log);

#endif
