/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traffic as a ring of NCCL's makes it: some channels, each with a connection in either direction, all served by one thread that
 * posts and tests by turns. Receives are as large as a slice of the buffer, whatever is sent. `channels` has the ring full of
 * slices, as a large operation does; in `steps` a rank sends when it has received, as a small one does.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "case.h"

#define SLICE	   ((size_t)512 << 10)
#define DEPTH	   8
#define MEASURE_NS UINT64_C(1500000000)
#define STEP_BYTES ((size_t)16 << 10)
/* Durations of steps that are kept; the first ones, during which paths are learnt, do not count. */
#define STEPS_MAX  300000
#define STEPS_WARM 20
#define NS_PER_US  1000.0

/* Requests of one connection, the i-th in slot i mod DEPTH. */
struct queue {
	void *request[DEPTH];
	unsigned posted, ended;
	/* the last message was posted, or has ended */
	bool last_posted, last_ended;
};

struct channel {
	struct pair pair;
	struct area area;
	struct queue send, receive;
	/* time at which the last receive ended */
	uint64_t received_ns;
};

struct ring {
	struct worker *w;
	struct channel *channel;
	unsigned channels;
	/* a rank sends when it has received; false: as fast as it can */
	bool steps;
	/* time of the last send; in steps it is rank 0's, and rank 1 answers it with its own last one */
	uint64_t end_ns;
	/* bytes received, and times of the first and the last receive that ended */
	uint64_t bytes, first_ns, last_ns;
	/* durations of steps in ns, all channels; null: not wanted */
	uint64_t *took;
	unsigned taken;
};

/* What a rank tells the other at the end. */
struct share {
	/* bytes a second that it received */
	double rate;
	uint64_t bytes;
	/* processor time of the process, and of the thread that plays NCCL's */
	uint64_t cpu_ns, caller_ns;
};

static uint64_t cpu_ns(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000 +
	       ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000;
}

static bool post_receive(struct ring *ring, struct channel *c)
{
	struct queue *q = &c->receive;
	unsigned slot = q->posted % DEPTH;

	if (q->last_ended || q->posted - q->ended == DEPTH)
		return false;
	worker_check(ring->w, "irecv",
		     net_irecv(&ring->w->net, c->pair.receiver, c->area.data + slot * SLICE, SLICE,
			       c->area.receiver_handle, &q->request[slot]));
	q->posted += q->request[slot] != NULL;
	return q->request[slot];
}

static bool post_send(struct ring *ring, struct channel *c)
{
	struct queue *q = &c->send;
	unsigned slot = q->posted % DEPTH;
	size_t size = ring->steps ? STEP_BYTES : SLICE;
	bool last =
		ring->steps && ring->w->rank ? c->receive.last_ended : net_now_ns() >= ring->end_ns;

	if (q->last_posted || q->posted - q->ended == DEPTH)
		return false;
	if (ring->steps && q->posted > c->receive.ended)
		return false;
	worker_check(ring->w, "isend",
		     net_isend(&ring->w->net, c->pair.sender, c->area.data + (DEPTH + slot) * SLICE,
			       last ? 1 : size, c->area.sender_handle, &q->request[slot]));
	q->posted += q->request[slot] != NULL;
	q->last_posted = last && q->request[slot];
	return q->request[slot];
}

/* Tests the oldest request; true if it has ended. */
static bool ended(struct ring *ring, struct queue *q, int *size)
{
	int done = 0;

	if (q->ended == q->posted)
		return false;
	worker_check(ring->w, "test",
		     net_test(&ring->w->net, q->request[q->ended % DEPTH], &done, size));
	q->ended += done != 0;
	return done;
}

static void received(struct ring *ring, struct channel *c, int size)
{
	uint64_t now = net_now_ns();

	if (size == 1)
		c->receive.last_ended = true;
	else if (ring->first_ns)
		ring->bytes += (uint64_t)size;
	if (!ring->first_ns)
		ring->first_ns = now;
	if (ring->took && c->received_ns && c->receive.ended > STEPS_WARM &&
	    ring->taken < STEPS_MAX)
		ring->took[ring->taken++] = now - c->received_ns;
	c->received_ns = ring->last_ns = now;
}

/* One round over all channels, as NCCL's thread makes; true while there is something left to do. */
static bool go_round(struct ring *ring)
{
	bool moved = false, left = false;

	for (unsigned i = 0; i < ring->channels; i++) {
		struct channel *c = &ring->channel[i];
		int size = 0;

		moved |= post_receive(ring, c);
		if (ended(ring, &c->receive, &size)) {
			moved = true;
			received(ring, c, size);
		}
		moved |= post_send(ring, c);
		moved |= ended(ring, &c->send, &size);
		left |= !c->receive.last_ended || !c->send.last_posted ||
			c->send.ended != c->send.posted;
	}
	if (!moved) {
		worker_alive(ring->w);
		sched_yield();
	}
	return left;
}

static void ring_open(struct worker *w, struct ring *ring)
{
	worker_begin(w);
	ring->w = w;
	ring->channels = w->channels;
	ring->channel = calloc(ring->channels, sizeof(*ring->channel));
	if (!ring->channel)
		worker_fail(w, "no memory");
	for (unsigned i = 0; i < ring->channels; i++) {
		struct channel *c = &ring->channel[i];

		worker_connect(w, &c->pair);
		area_open(w, &c->pair, 2 * DEPTH * SLICE, &c->area);
		memset(c->area.data, 1, c->area.size);
	}
	worker_meet(w);
}

/* Runs until all that was sent has been received. Receives that nobody sends to stay open: closing ends them. */
static void ring_run(struct ring *ring)
{
	ring->end_ns = net_now_ns() + MEASURE_NS;
	while (go_round(ring))
		;
}

static void ring_close(struct ring *ring)
{
	worker_meet(ring->w);
	for (unsigned i = 0; i < ring->channels; i++) {
		area_close(ring->w, &ring->channel[i].pair, &ring->channel[i].area);
		worker_disconnect(ring->w, &ring->channel[i].pair);
	}
	free(ring->channel);
	worker_check(ring->w, "finalize", net_finalize(&ring->w->net));
}

static void run_channels(struct worker *w)
{
	struct ring ring = { .steps = false };
	struct share mine = { 0 }, its;
	uint64_t cpu, caller;
	double bytes;

	ring_open(w, &ring);
	worker_step(w, "slices on several channels");
	cpu = cpu_ns(RUSAGE_SELF);
	caller = cpu_ns(RUSAGE_THREAD);
	ring_run(&ring);
	mine.bytes = ring.bytes;
	mine.rate = (double)ring.bytes * 1e9 / (double)(ring.last_ns - ring.first_ns);
	mine.cpu_ns = cpu_ns(RUSAGE_SELF) - cpu;
	mine.caller_ns = cpu_ns(RUSAGE_THREAD) - caller;
	worker_tell(w, &mine, sizeof(mine));
	worker_hear(w, &its, sizeof(its));
	bytes = (double)(mine.bytes + its.bytes);
	if (w->rank == 0) {
		double rate = (mine.rate + its.rate) / 2;
		double cpu_s = (double)(mine.cpu_ns + its.cpu_ns) / bytes;
		double caller_s = (double)(mine.caller_ns + its.caller_ns) / bytes;

		worker_metric(w, "channels_bps", rate * 8);
		worker_metric(w, "channels_cpu_s_per_gb", cpu_s);
		worker_metric(w, "channels_caller_s_per_gb", caller_s);
		worker_note(
			w,
			"%.2f GB/s each way on %u channels; CPU %.2f s/GB, of which %.2f in the calling thread",
			rate / 1e9, ring.channels, cpu_s, caller_s);
	}
	ring_close(&ring);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void run_steps(struct worker *w)
{
	struct ring ring = { .steps = true, .took = calloc(STEPS_MAX, sizeof(uint64_t)) };

	ring_open(w, &ring);
	worker_step(w, "steps on several channels");
	ring_run(&ring);
	if (w->rank == 0 && ring.took && ring.taken) {
		size_t middle = ring.taken / 2, nearly_last = (size_t)ring.taken * 99 / 100;
		double median, late;

		qsort(ring.took, ring.taken, sizeof(*ring.took), compare);
		median = (double)ring.took[middle] / NS_PER_US;
		late = (double)ring.took[nearly_last] / NS_PER_US;
		worker_metric(w, "step_us", median);
		worker_metric(w, "step_p99_us", late);
		worker_metric(w, "steps", ring.taken);
		worker_note(w, "16 KiB each way on %u channels: %.1f us a step, 99 %% within %.0f",
			    ring.channels, median, late);
	}
	free(ring.took);
	ring_close(&ring);
}

const struct check_case cases_ring[] = {
	{ "channels", "slices of 512 KiB both ways on several channels", 2, CASE_ONCE, 20,
	  run_channels },
	{ "steps", "16 KiB both ways on several channels, step by step", 2, CASE_ONCE, 20,
	  run_steps },
	{ 0 },
};
