/* SPDX-License-Identifier: BSD-3-Clause */
/* Words about ranks: lists of them, what most of them have, and which connections they use. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

#define RANGES_SHOWN 8u
#define HOSTS_SHOWN  4u

struct finding *job_found(struct exam *exam, const char *object, const struct joblog_place *place,
			  const char *value, ...)
{
	struct finding *finding = check_finding(exam->check, exam->diagnosis);
	va_list args;

	va_start(args, value);
	finding->value = scratch_vprint(&exam->diagnosis->scratch, value, args);
	va_end(args);
	finding->object = object;
	if (place && place->file)
		finding->where = joblog_place_name(&exam->diagnosis->scratch, place);
	return finding;
}

void job_unseen(struct exam *exam, const char *object, const struct joblog_place *place,
		const char *why)
{
	struct unknown *unknown = diagnosis_unknown(exam->diagnosis);

	unknown->check = exam->check->id;
	unknown->object = object;
	unknown->why = why;
	if (place && place->file)
		unknown->where = joblog_place_name(&exam->diagnosis->scratch, place);
}

void number_set_add(struct number_set *set, long number)
{
	builder_add(&set->numbers, &number, sizeof(number));
	set->count++;
}

static int by_number(const void *a, const void *b)
{
	const long *one = a, *two = b;

	return (*one > *two) - (*one < *two);
}

const char *number_set_text(struct number_set *set, struct scratch *scratch, unsigned most)
{
	long *numbers = (long *)(void *)set->numbers.text;
	struct builder text = { 0 };
	unsigned ranges = 0;
	const char *result;

	if (set->count)
		qsort(numbers, set->count, sizeof(numbers[0]), by_number);
	for (size_t i = 0, next; i < set->count; i = next) {
		next = i + 1;
		while (next < set->count && numbers[next] <= numbers[next - 1] + 1)
			next++;
		if (ranges++ == most) {
			builder_print(&text, " and others");
			break;
		}
		builder_print(&text, "%s%ld", i ? ", " : "", numbers[i]);
		if (numbers[next - 1] != numbers[i])
			builder_print(&text, "%s%ld",
				      numbers[next - 1] > numbers[i] + 1 ? "-" : ", ",
				      numbers[next - 1]);
	}
	result = scratch_print(scratch, "%s", text.text ? text.text : "");
	builder_free(&text);
	builder_free(&set->numbers);
	*set = (struct number_set){ 0 };
	return result;
}

/* Up to HOSTS_SHOWN different names. */
struct host_list {
	const char *name[HOSTS_SHOWN + 1];
	unsigned count;
};

static void add_host(struct host_list *hosts, const char *name)
{
	for (unsigned i = 0; i < hosts->count; i++) {
		if (hosts->name[i] == name)
			return;
	}
	if (hosts->count <= HOSTS_SHOWN)
		hosts->name[hosts->count++] = name;
}

/* Adds the ranks of a process: one, or those that it has in its largest communicator. */
static void add_ranks(const struct joblog *log, const struct joblog_process *process,
		      struct number_set *set)
{
	size_t before = set->count;

	for (unsigned i = 0; i < process->recent_count; i++) {
		const struct joblog_member *member = &log->members[process->recent[i]];

		if (log->communicators[member->communicator].ranks == process->ranks)
			number_set_add(set, member->rank);
	}
	if (set->count == before && process->rank >= 0)
		number_set_add(set, process->rank);
}

const char *job_ranks(struct exam *exam,
		      bool (*chosen)(const struct joblog *log, const struct joblog_process *process,
				     const void *arg),
		      const void *arg, uint32_t *count)
{
	const struct joblog *log = exam->job;
	struct number_set set = { 0 };
	struct host_list hosts = { 0 };
	struct builder where = { 0 };
	const char *numbers, *result;
	uint32_t found_count = 0;

	for (uint32_t i = 0; i < log->process_count; i++) {
		const struct joblog_process *process = &log->processes[i];

		if (!chosen(log, process, arg))
			continue;
		found_count++;
		add_host(&hosts, process->host);
		add_ranks(log, process, &set);
	}
	if (count)
		*count = found_count;
	for (unsigned i = 0; i < hosts.count && i < HOSTS_SHOWN; i++)
		builder_print(&where, "%s%s", i ? ", " : "", hosts.name[i]);
	if (hosts.count > HOSTS_SHOWN)
		builder_print(&where, " and others");
	if (found_count == 0)
		result = NULL;
	else if (found_count == log->process_count && found_count > 1)
		result = set.count == 2 ? "both ranks"
			 : set.count	? say(exam, "all %zu ranks", set.count)
					: say(exam, "all %u processes", found_count);
	else if (set.count == 0)
		result = say(exam, "%u process%s on %s", found_count, found_count == 1 ? "" : "es",
			     where.text);
	else {
		size_t ranks = set.count;

		numbers = number_set_text(&set, &exam->diagnosis->scratch, RANGES_SHOWN);
		result = say(exam, "rank%s %s (%s)", ranks == 1 ? "" : "s", numbers, where.text);
	}
	builder_free(&where);
	builder_free(&set.numbers);
	return result;
}

void job_values_add(struct job_values *values, const char *value)
{
	values->total++;
	for (unsigned i = 0; i < values->different; i++) {
		if (values->value[i] == value) {
			values->count[i]++;
			return;
		}
	}
	if (values->different == JOB_VALUES_MAX)
		return;
	values->value[values->different] = value;
	values->count[values->different++] = 1;
}

unsigned job_values_most(const struct job_values *values)
{
	unsigned most = 0;

	for (unsigned i = 1; i < values->different; i++) {
		if (values->count[i] > values->count[most])
			most = i;
	}
	return most;
}

struct wanted {
	const char *(*get)(const struct joblog_process *process, const void *arg);
	const void *arg;
	const char *value;
	bool others;
};

static bool has_value(const struct joblog *log, const struct joblog_process *process,
		      const void *arg)
{
	const struct wanted *wanted = arg;
	const char *value = wanted->get(process, wanted->arg);

	return value && (value == wanted->value) != wanted->others;
}

const char *job_differs(struct exam *exam,
			const char *(*get)(const struct joblog_process *process, const void *arg),
			const void *arg, const char **minority, struct joblog_place *place)
{
	struct wanted wanted = { .get = get, .arg = arg };
	struct job_values values = { 0 };
	struct builder text = { 0 };
	const char *result;
	unsigned most;

	for (uint32_t i = 0; i < exam->job->process_count; i++) {
		const char *value = get(&exam->job->processes[i], arg);

		if (value)
			job_values_add(&values, value);
	}
	if (values.different < 2)
		return NULL;
	most = job_values_most(&values);
	builder_print(&text, "%u of %u ranks: %s", values.count[most], values.total,
		      values.value[most]);
	for (unsigned i = 0; i < values.different; i++) {
		if (i == most)
			continue;
		wanted.value = values.value[i];
		builder_print(&text, "; %s: %s", job_ranks(exam, has_value, &wanted, NULL),
			      values.value[i]);
	}
	wanted.value = values.value[most];
	wanted.others = true;
	*minority = job_ranks(exam, has_value, &wanted, NULL);
	for (uint32_t i = exam->job->process_count; i-- > 0;) {
		if (has_value(exam->job, &exam->job->processes[i], &wanted))
			*place = exam->job->processes[i].first;
	}
	result = say(exam, "%s", text.text);
	builder_free(&text);
	return result;
}

void job_pair_ends(const struct joblog *log, const struct joblog_pair *pair, uint32_t *from,
		   uint32_t *to)
{
	const struct joblog_member *a = joblog_member_of(log, pair->communicator, pair->from);
	const struct joblog_member *b = joblog_member_of(log, pair->communicator, pair->to);

	*from = a ? a->process : JOBLOG_NONE;
	*to = b ? b->process : JOBLOG_NONE;
}

const char *job_rank_name(struct exam *exam, uint32_t communicator, long rank)
{
	return joblog_rank_name(&exam->diagnosis->scratch, exam->job, communicator, rank);
}

const char *job_pair_name(struct exam *exam, const struct joblog_pair *pair)
{
	return say(exam, "%s -> %s", job_rank_name(exam, pair->communicator, pair->from),
		   job_rank_name(exam, pair->communicator, pair->to));
}

bool job_is_socket(const char *transport)
{
	return strncmp(transport, "NET/Socket", 10) == 0;
}

void job_transports(const struct joblog *log, struct job_transports *out)
{
	*out = (struct job_transports){ 0 };
	for (uint32_t i = 0; i < log->pair_count; i++) {
		const struct joblog_pair *pair = &log->pairs[i];
		unsigned row = 0;
		uint32_t from, to;

		while (row < out->count && out->row[row].name != pair->transport)
			row++;
		if (row == JOB_TRANSPORTS_MAX)
			continue;
		if (row == out->count)
			out->row[out->count++] =
				(struct job_transport){ .name = pair->transport, .example = pair };
		out->row[row].pairs++;
		out->net_pairs += strncmp(pair->transport, "NET/", 4) == 0;
		job_pair_ends(log, pair, &from, &to);
		if (from != JOBLOG_NONE && to != JOBLOG_NONE &&
		    !joblog_same_host(&log->processes[from], &log->processes[to]))
			out->row[row].between_hosts++;
	}
}

long job_size(const struct joblog *log)
{
	long size = 0;

	for (uint32_t i = 0; i < log->communicator_count; i++) {
		if (log->communicators[i].ranks > size)
			size = log->communicators[i].ranks;
	}
	for (uint32_t i = 0; i < log->process_count; i++) {
		if (log->processes[i].launcher_rank >= size)
			size = log->processes[i].launcher_rank + 1;
	}
	if (log->groups_only && (long)log->process_count > size)
		size = (long)log->process_count;
	return size ? size : (long)log->process_count;
}

unsigned job_hosts(const struct joblog *log)
{
	struct joblog copy = { 0 };
	struct joblog_index index = { 0 };
	unsigned count = 0;

	for (uint32_t i = 0; i < log->process_count; i++) {
		const char *host = log->processes[i].host;
		uint64_t key = joblog_hash(3, host, strlen(host));

		if (joblog_get(&index, key) != JOBLOG_NONE)
			continue;
		joblog_set(&copy, &index, key, 1);
		count++;
	}
	scratch_free(&copy.scratch);
	return count;
}
