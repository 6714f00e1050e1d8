/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small operations as NCCL runs them: an allreduce of two ranks, again and again. An operation has two steps on every channel, each
 * of two slices; what is received in the first step is reduced and sent in the second. NCCL's thread keeps to an order that a
 * plugin must know of:
 *
 *	- the receives of an operation are posted when it begins, so that no receive waits for its first messages;
 *	- a connection begins with an operation when all of its requests of the one before have ended. A send that ends only when it
 *	  was delivered holds up the next operation for half a round trip;
 *	- a slice is at least 32 KiB: where there is less to send, the second one is empty.
 *
 * The time of an operation is compared with the floor: a one-way delay for each step.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

#define AREA_SLICE ((size_t)512 << 10)
#define SLICE_MIN  ((size_t)32 << 10)
/* Slices in an operation, in a step, and in flight on a connection. */
#define SLICES	   4
#define STEP	   2
#define DEPTH	   4
#define WARM	   8
#define COUNT_MIN  8
#define COUNT_MAX  5000
#define MEASURE_NS UINT64_C(400000000)
#define NS_PER_US  1000.0

/* Requests of one connection; slice i is in place i mod DEPTH. */
struct line {
	void *request[DEPTH];
	uint64_t posted, ended;
};

struct channel {
	struct pair pair;
	struct area area;
	struct line send, receive;
};

struct job {
	struct worker *w;
	struct channel *channel;
	unsigned channels;
	/* bytes in the slices of a step */
	size_t bytes[STEP];
	/* operations begun, all sizes together */
	uint64_t begun;
};

/* Whether a connection may post its next slice: the operation has begun, and all requests of the one before have ended. */
static bool in_turn(const struct job *job, const struct line *line)
{
	return line->posted / SLICES < job->begun && line->posted / SLICES == line->ended / SLICES;
}

static bool post_receive(struct job *job, struct channel *c)
{
	struct line *line = &c->receive;
	size_t place = line->posted % DEPTH;

	if (!in_turn(job, line))
		return false;
	worker_check(job->w, "irecv",
		     net_irecv(&job->w->net, c->pair.receiver, c->area.data + place * AREA_SLICE,
			       AREA_SLICE, c->area.receiver_handle, &line->request[place]));
	line->posted += line->request[place] != NULL;
	return line->request[place];
}

static bool post_send(struct job *job, struct channel *c)
{
	struct line *line = &c->send;
	size_t place = line->posted % DEPTH;

	if (!in_turn(job, line))
		return false;
	/* The second step sends what the first has received. */
	if (line->posted % SLICES >= STEP && c->receive.ended + STEP <= line->posted)
		return false;
	worker_check(job->w, "isend",
		     net_isend(&job->w->net, c->pair.sender,
			       c->area.data + (DEPTH + place) * AREA_SLICE,
			       job->bytes[line->posted % STEP], c->area.sender_handle,
			       &line->request[place]));
	line->posted += line->request[place] != NULL;
	return line->request[place];
}

/* Tests the oldest request; true if it has ended. */
static bool end_one(struct job *job, struct line *line, bool receiving)
{
	int done = 0, size = 0;

	if (line->ended == line->posted)
		return false;
	worker_check(job->w, "test",
		     net_test(&job->w->net, line->request[line->ended % DEPTH], &done, &size));
	if (done && receiving && (size_t)size != job->bytes[line->ended % STEP])
		worker_fail(job->w, "%d bytes received, %zu were sent", size,
			    job->bytes[line->ended % STEP]);
	line->ended += done != 0;
	return done;
}

/* One round over all channels; true when all of them have received the operation. */
static bool go_round(struct job *job)
{
	bool moved = false, over = true;

	for (unsigned i = 0; i < job->channels; i++) {
		struct channel *c = &job->channel[i];

		moved |= post_receive(job, c);
		moved |= end_one(job, &c->receive, true);
		moved |= post_send(job, c);
		moved |= end_one(job, &c->send, false);
		over = over && c->receive.ended == job->begun * SLICES &&
		       c->send.posted == job->begun * SLICES;
	}
	if (!moved) {
		worker_alive(job->w);
		sched_yield();
	}
	return over;
}

static void operate(struct job *job, unsigned count, uint64_t *took)
{
	uint64_t begin = net_now_ns(), now;

	for (unsigned i = 0; i < count; i++, begin = now) {
		job->begun++;
		while (!go_round(job))
			;
		now = net_now_ns();
		took[i] = now - begin;
	}
}

/* What was sent and has not ended: the other rank may be done by then, so that the sizes do not follow each other. */
static void drain(struct job *job)
{
	for (unsigned i = 0; i < job->channels; i++) {
		struct channel *c = &job->channel[i];

		while (c->send.ended < c->send.posted) {
			if (!end_one(job, &c->send, false))
				worker_alive(job->w);
		}
	}
	worker_meet(job->w);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Times operations of a size, as many as rank 0 finds fit after some; returns the median in us. */
static double measure(struct job *job, size_t bytes, uint64_t *took)
{
	size_t chunk = bytes / job->channels / 2, slice = chunk / STEP;
	unsigned count = 0;

	if (slice < SLICE_MIN)
		slice = SLICE_MIN < chunk ? SLICE_MIN : chunk;
	job->bytes[0] = slice;
	job->bytes[1] = chunk - slice;
	operate(job, WARM, took);
	if (job->w->rank == 0) {
		qsort(took, WARM, sizeof(*took), compare);
		count = (unsigned)(MEASURE_NS / (took[WARM / 2] + 1));
		count = count < COUNT_MIN ? COUNT_MIN : count > COUNT_MAX ? COUNT_MAX : count;
		worker_tell(job->w, &count, sizeof(count));
	} else {
		worker_hear(job->w, &count, sizeof(count));
	}
	drain(job);
	operate(job, count, took);
	drain(job);
	qsort(took, count, sizeof(*took), compare);
	return (double)took[count / 2] / NS_PER_US;
}

static void job_open(struct worker *w, struct job *job)
{
	worker_begin(w);
	job->w = w;
	job->channels = w->channels;
	job->channel = calloc(job->channels, sizeof(*job->channel));
	if (!job->channel)
		worker_fail(w, "no memory");
	for (unsigned i = 0; i < job->channels; i++) {
		struct channel *c = &job->channel[i];

		worker_connect(w, &c->pair);
		area_open(w, &c->pair, 2 * DEPTH * AREA_SLICE, &c->area);
		memset(c->area.data, 1, c->area.size);
	}
	worker_meet(w);
}

static void job_close(struct job *job)
{
	for (unsigned i = 0; i < job->channels; i++) {
		area_close(job->w, &job->channel[i].pair, &job->channel[i].area);
		worker_disconnect(job->w, &job->channel[i].pair);
	}
	free(job->channel);
	worker_check(job->w, "finalize", net_finalize(&job->w->net));
}

static void run_operations(struct worker *w)
{
	static const unsigned kib[] = { 4, 16, 64, 256, 1024 };
	uint64_t *took = calloc(COUNT_MAX, sizeof(*took));
	struct job job = { 0 };
	char text[256] = "", name[32];
	size_t used = 0;

	if (!took)
		worker_fail(w, "no memory");
	job_open(w, &job);
	worker_step(w, "operations one after the other");
	for (size_t i = 0; i < sizeof(kib) / sizeof(kib[0]); i++) {
		double us = measure(&job, (size_t)kib[i] << 10, took);

		snprintf(name, sizeof(name), "operation_%uk_us", kib[i]);
		if (w->rank == 0)
			worker_metric(w, name, us);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u KiB %.0f us",
					 i ? ", " : "", kib[i], us);
	}
	if (w->rank == 0)
		worker_note(w, "allreduces on %u channels: %s", job.channels, text);
	free(took);
	job_close(&job);
}

const struct check_case cases_operations[] = {
	{ "operations", "small allreduces, one after the other", 2, CASE_ONCE, 20, run_operations },
	{ 0 },
};
