/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of a job's logs: arrays that double, each with an index from a hash to a position, and a limit. What finds its
 * table full is counted as dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "joblog.h"

#define HASH_BASIS UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)

static uint64_t mix(uint64_t value)
{
	value ^= value >> 32;
	value *= UINT64_C(0x9e3779b97f4a7c15);
	return value ^ value >> 29;
}

/*
 * FNV-1a. The seed is mixed first, so that seed 0 and byte 1 differ from seed 1 and byte 0; the result is mixed because the
 * tables use its low bits. Zero means "empty" there.
 */
uint64_t joblog_hash(uint64_t seed, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	uint64_t hash = mix(seed + 1) ^ HASH_BASIS;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * HASH_PRIME;
	hash = mix(hash);
	return hash ? hash : 1;
}

static size_t slot_of(const struct joblog_index *index, uint64_t key)
{
	size_t slot = key & (index->room - 1);

	while (index->keys[slot] && index->keys[slot] != key)
		slot = (slot + 1) & (index->room - 1);
	return slot;
}

uint32_t joblog_get(const struct joblog_index *index, uint64_t key)
{
	size_t slot;

	if (!index->room)
		return JOBLOG_NONE;
	slot = slot_of(index, key);
	return index->keys[slot] ? index->values[slot] : JOBLOG_NONE;
}

static void grow_index(struct joblog *log, struct joblog_index *index)
{
	struct joblog_index larger = { .room = index->room ? index->room * 2 : 64 };

	larger.keys = scratch_alloc(&log->scratch, larger.room * sizeof(larger.keys[0]));
	larger.values = scratch_alloc(&log->scratch, larger.room * sizeof(larger.values[0]));
	for (size_t i = 0; i < index->room; i++) {
		size_t slot;

		if (!index->keys[i])
			continue;
		slot = slot_of(&larger, index->keys[i]);
		larger.keys[slot] = index->keys[i];
		larger.values[slot] = index->values[i];
		larger.count++;
	}
	*index = larger;
}

void joblog_set(struct joblog *log, struct joblog_index *index, uint64_t key, uint32_t value)
{
	size_t slot;

	/* The indices of threads and pointers have no table of their own: their limit is here. */
	if (joblog_get(index, key) == JOBLOG_NONE && index->count >= JOBLOG_MEMBERS_MAX) {
		log->dropped++;
		return;
	}
	if (index->count * 2 >= index->room)
		grow_index(log, index);
	slot = slot_of(index, key);
	index->count += !index->keys[slot];
	index->keys[slot] = key;
	index->values[slot] = value;
}

/* Returns a new place at the end of an array that doubles when its count reaches a power of two, or null beyond `most`. */
static void *append(struct joblog *log, void *entries, uint32_t *count, uint32_t most, size_t size)
{
	void **array = entries;
	char *all = *array;

	if (*count >= most) {
		log->dropped++;
		return NULL;
	}
	if ((*count & (*count - 1)) == 0) {
		all = scratch_alloc(&log->scratch, (*count ? (size_t)*count * 2 : 1) * size);
		if (*count)
			memcpy(all, *array, *count * size);
		*array = all;
	}
	return all + (size_t)(*count)++ * size;
}

const char *joblog_text(struct joblog *log, const char *text, size_t length)
{
	uint64_t key;
	uint32_t at;
	const char **place;

	if (length > JOBLOG_TEXT_MAX)
		length = JOBLOG_TEXT_MAX;
	key = joblog_hash(7, text, length);
	at = joblog_get(&log->text_index, key);
	if (at != JOBLOG_NONE)
		return log->texts[at];
	place = append(log, &log->texts, &log->text_count, JOBLOG_TEXTS_MAX, sizeof(*place));
	if (!place)
		return "(too many different values)";
	*place = scratch_copy(&log->scratch, text, length);
	joblog_set(log, &log->text_index, key, log->text_count - 1);
	return *place;
}

struct joblog_process *joblog_process(struct joblog *log, const char *host, size_t length, long pid)
{
	uint64_t key = joblog_hash((uint64_t)pid, host, length);
	uint32_t at = joblog_get(&log->process_index, key);
	struct joblog_process *process;

	if (at != JOBLOG_NONE)
		return &log->processes[at];
	process = append(log, &log->processes, &log->process_count, JOBLOG_PROCESSES_MAX,
			 sizeof(*process));
	if (!process)
		return NULL;
	*process = (struct joblog_process){ .host = joblog_text(log, host, length),
					    .pid = pid,
					    .launcher_rank = -1,
					    .rank = -1,
					    .ranks = -1 };
	joblog_set(log, &log->process_index, key, log->process_count - 1);
	return process;
}

uint32_t joblog_process_number(const struct joblog *log, const struct joblog_process *process)
{
	return (uint32_t)(process - log->processes);
}

static uint32_t communicator_number(struct joblog *log, uint64_t key, const char *name, long ranks)
{
	uint32_t at = joblog_get(&log->communicator_index, key);
	struct joblog_communicator *communicator;

	if (at != JOBLOG_NONE)
		return at;
	communicator = append(log, &log->communicators, &log->communicator_count,
			      JOBLOG_MEMBERS_MAX, sizeof(*communicator));
	if (!communicator)
		return JOBLOG_NONE;
	*communicator = (struct joblog_communicator){
		.key = key, .name = name, .ranks = ranks, .member = JOBLOG_NONE
	};
	joblog_set(log, &log->communicator_index, key, log->communicator_count - 1);
	return log->communicator_count - 1;
}

static uint64_t member_key(uint32_t communicator, long rank)
{
	return joblog_hash(communicator, &rank, sizeof(rank));
}

struct joblog_member *joblog_member(struct joblog *log, uint64_t communicator, const char *name,
				    long ranks, long rank, uint32_t process)
{
	uint32_t number = communicator_number(log, communicator, name, ranks), at;
	struct joblog_member *member;

	if (number == JOBLOG_NONE)
		return NULL;
	at = joblog_get(&log->member_index, member_key(number, rank));
	if (at != JOBLOG_NONE)
		return &log->members[at];
	member =
		append(log, &log->members, &log->member_count, JOBLOG_MEMBERS_MAX, sizeof(*member));
	if (!member)
		return NULL;
	*member = (struct joblog_member){ .communicator = number,
					  .process = process,
					  .rank = rank,
					  .next = log->communicators[number].member,
					  .bootstrap_s = -1 };
	log->communicators[number].member = log->member_count - 1;
	joblog_set(log, &log->member_index, member_key(number, rank), log->member_count - 1);
	return member;
}

const struct joblog_member *joblog_member_of(const struct joblog *log, uint32_t communicator,
					     long rank)
{
	uint32_t at = communicator == JOBLOG_NONE
			      ? JOBLOG_NONE
			      : joblog_get(&log->member_index, member_key(communicator, rank));

	return at == JOBLOG_NONE ? NULL : &log->members[at];
}

struct joblog_pair *joblog_pair(struct joblog *log, uint32_t communicator, uint32_t process,
				long from, long to)
{
	/* Without a communicator, ranks are those of the process that speaks. */
	const struct {
		uint64_t communicator;
		uint64_t process;
		int64_t from;
		int64_t to;
	} name = { communicator, communicator == JOBLOG_NONE ? process : 0, from, to };
	uint64_t key = joblog_hash(11, &name, sizeof(name));
	uint32_t at = joblog_get(&log->pair_index, key);
	struct joblog_pair *pair;

	if (at != JOBLOG_NONE)
		return &log->pairs[at];
	pair = append(log, &log->pairs, &log->pair_count, JOBLOG_PAIRS_MAX, sizeof(*pair));
	if (!pair)
		return NULL;
	*pair = (struct joblog_pair){
		.communicator = communicator, .process = process, .from = from, .to = to
	};
	joblog_set(log, &log->pair_index, key, log->pair_count - 1);
	return pair;
}

struct joblog_event *joblog_event(struct joblog_stream *stream, enum joblog_kind kind, long number,
				  uint32_t process, const char *text, const char *line)
{
	struct joblog *log = stream->log;
	const struct {
		uint64_t kind;
		int64_t number;
		uint64_t process;
		uint64_t text;
	} name = { kind, number, process, joblog_hash(5, text, strlen(text)) };
	uint64_t key = joblog_hash(13, &name, sizeof(name));
	uint32_t at = joblog_get(&log->event_index, key);
	struct joblog_event *event;

	if (at != JOBLOG_NONE) {
		log->events[at].count++;
		return &log->events[at];
	}
	event = append(log, &log->events, &log->event_count, JOBLOG_EVENTS_MAX, sizeof(*event));
	if (!event)
		return NULL;
	*event = (struct joblog_event){ .kind = kind,
					.number = number,
					.process = process,
					.rank = -1,
					.text = joblog_text(log, text, strlen(text)),
					.peer = "",
					.device = "",
					.count = 1,
					.place = { stream->file, stream->line } };
	joblog_time(line, event->when);
	joblog_set(log, &log->event_index, key, log->event_count - 1);
	return event;
}

struct joblog_work *joblog_work(struct joblog_stream *stream, const char *group, long rank)
{
	struct joblog *log = stream->log;
	uint64_t key = joblog_hash((uint64_t)rank + 17, group, strlen(group));
	uint32_t at = joblog_get(&log->work_index, key);
	struct joblog_work *work;

	if (at != JOBLOG_NONE)
		return &log->works[at];
	work = append(log, &log->works, &log->work_count, JOBLOG_PROCESSES_MAX, sizeof(*work));
	if (!work)
		return NULL;
	*work = (struct joblog_work){ .group = group,
				      .rank = rank,
				      .job_rank = rank,
				      .sequence = -1,
				      .operation = "",
				      .elements = "",
				      .enqueued = -2,
				      .completed = -2,
				      .place = { stream->file, stream->line } };
	joblog_set(log, &log->work_index, key, log->work_count - 1);
	return work;
}

const char *joblog_variable(const struct joblog_process *process, const char *name)
{
	for (const struct joblog_variable *v = process->variables; v; v = v->next) {
		if (strcmp(v->name, name) == 0)
			return v->value;
	}
	return NULL;
}

const char *joblog_process_name(struct scratch *scratch, const struct joblog *log, uint32_t process)
{
	const struct joblog_process *p;

	if (process >= log->process_count)
		return "a process";
	p = &log->processes[process];
	if (p->rank >= 0)
		return scratch_print(scratch, "rank %ld (%s)", p->rank, p->host);
	return scratch_print(scratch, "%s process %ld", p->host, p->pid);
}

/* A process may have several ranks (one for each GPU): in its largest communicator, the rank there is the job's. */
const char *joblog_rank_name(struct scratch *scratch, const struct joblog *log,
			     uint32_t communicator, long rank)
{
	const struct joblog_member *member = joblog_member_of(log, communicator, rank);
	const struct joblog_process *process;

	if (!member)
		return scratch_print(scratch, "rank %ld", rank);
	process = &log->processes[member->process];
	if (log->communicators[communicator].ranks != process->ranks)
		return joblog_process_name(scratch, log, member->process);
	return scratch_print(scratch, "rank %ld (%s)", rank, process->host);
}

const char *joblog_host_of(const struct joblog *log, const char *address)
{
	size_t length = strlen(address);

	for (uint32_t i = 0; length && i < log->process_count; i++) {
		const char *bootstrap = log->processes[i].bootstrap;
		const char *at = bootstrap ? strstr(bootstrap, address) : NULL;

		if (at && at > bootstrap && at[-1] == ':' && at[length] == '<')
			return log->processes[i].host;
	}
	return NULL;
}

const char *joblog_place_name(struct scratch *scratch, const struct joblog_place *place)
{
	return scratch_print(scratch, "%s:%lu", place->file ? place->file : "?", place->line);
}

bool joblog_same_host(const struct joblog_process *one, const struct joblog_process *two)
{
	if (strcmp(one->host, two->host) != 0)
		return false;
	return !one->host_id || !two->host_id || strcmp(one->host_id, two->host_id) == 0;
}

void joblog_free(struct joblog *log)
{
	scratch_free(&log->scratch);
	*log = (struct joblog){ 0 };
}
