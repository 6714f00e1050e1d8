/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A direction is a ring of slots, one for each request that may be open. The i-th message uses slot i mod depth. Receives are
 * as large as the largest message, as NCCL's are: what was sent is told by test().
 */
#include "traffic.h"

#include <sched.h>
#include <string.h>

#include "base/rng.h"

/* What a receive's memory holds before, to see what was written. */
#define UNTOUCHED 0x5a
/* Bytes between two slots, which nobody may write to. */
#define GAP 64

struct slot {
	void *request;
	uint8_t *data;
};

struct direction {
	bool receiving;
	struct area area;
	struct slot slot[NCCL_REQUESTS];
	unsigned posted;
	unsigned ended;
};

/* The size of message i that `rank` sends. */
static size_t size_of(const struct traffic *t, int rank, unsigned i)
{
	struct rng rng;
	unsigned bits = 0;

	rng_seed(&rng, t->seed ^ (uint64_t)rank << 40 ^ i);
	if (t->empty && rng_below(&rng, 8) == 0)
		return 0;
	while (t->max >> bits > 1)
		bits++;
	/* A power of two, then anything up to it. */
	bits = (unsigned)rng_below(&rng, bits + 1);
	return 1 + rng_below(&rng, (size_t)1 << bits);
}

static uint64_t seed_of(const struct traffic *t, int rank, unsigned i)
{
	return t->seed * 31 + (uint64_t)rank * 7919 + i;
}

static void open_direction(struct worker *w, const struct pair *pair, const struct traffic *t,
			   struct direction *d)
{
	size_t stride = t->max + 2 * GAP;

	area_open(w, pair, stride * t->depth, &d->area);
	for (unsigned i = 0; i < t->depth; i++)
		d->slot[i].data = d->area.data + stride * i + GAP - (t->unaligned ? 2 * i + 1 : 0);
}

static bool post(struct worker *w, const struct pair *pair, const struct traffic *t,
		 struct direction *d)
{
	struct slot *slot = &d->slot[d->posted % t->depth];

	slot->request = NULL;
	if (d->receiving) {
		memset(slot->data, UNTOUCHED, t->max);
		worker_check(w, "irecv",
			     net_irecv(&w->net, pair->receiver, slot->data, t->max,
				       d->area.receiver_handle, &slot->request));
	} else {
		size_t size = size_of(t, w->rank, d->posted);

		pattern_fill(seed_of(t, w->rank, d->posted), slot->data, size);
		worker_check(w, "isend",
			     net_isend(&w->net, pair->sender, slot->data, size,
				       d->area.sender_handle, &slot->request));
	}
	if (!slot->request)
		return false;
	d->posted++;
	return true;
}

static void look(struct worker *w, const struct traffic *t, const struct direction *d, int told)
{
	int rank = w->link >= 0 ? !w->rank : w->rank;
	size_t size = size_of(t, rank, d->ended), at;
	const struct slot *slot = &d->slot[d->ended % t->depth];

	if (!t->no_sizes && (size_t)told != size)
		worker_fail(w, "%s: test tells %d bytes of message %u, which has %zu", w->step,
			    told, d->ended, size);
	at = pattern_check(seed_of(t, rank, d->ended), slot->data, size);
	if (at < size)
		worker_fail(w, "%s: message %u of %zu bytes is wrong from byte %zu on", w->step,
			    d->ended, size, at);
	for (at = size; at < t->max && at < size + GAP; at++) {
		if (slot->data[at] != UNTOUCHED)
			worker_fail(w, "%s: byte %zu of message %u, which has %zu, was written",
				    w->step, at, d->ended, size);
	}
}

/* Tests the oldest request. True if it has ended. */
static bool ended(struct worker *w, const struct traffic *t, struct direction *d)
{
	struct slot *slot = &d->slot[d->ended % t->depth];
	int done = 0, size = -1;

	worker_check(w, "test",
		     net_test(&w->net, slot->request, &done, t->no_sizes ? NULL : &size));
	if (!done)
		return false;
	if (d->receiving)
		look(w, t, d, size);
	else if (t->overwrite)
		memset(slot->data, 0xee, t->max);
	d->ended++;
	return true;
}

void traffic_run(struct worker *w, const struct pair *pair, const struct traffic *t)
{
	struct direction sending = { 0 }, receiving = { .receiving = true };
	struct direction *both[2] = { &receiving, &sending };

	for (int i = 0; i < 2; i++) {
		struct direction *d = both[i];

		if (d->receiving ? t->send_only : t->recv_only)
			d->posted = d->ended = t->count;
		else
			open_direction(w, pair, t, d);
	}
	while (sending.ended < t->count || receiving.ended < t->count) {
		bool moved = false;

		for (int i = 0; i < 2; i++) {
			struct direction *d = both[i];

			if (d->posted < t->count && d->posted - d->ended < t->depth)
				moved |= post(w, pair, t, d);
			if (d->ended < d->posted)
				moved |= ended(w, t, d);
		}
		if (!moved) {
			if (net_now_ns() >= w->deadline_ns)
				worker_fail(
					w,
					"%s: %u of %u messages sent and %u received when the time was over",
					w->step, sending.ended, t->count, receiving.ended);
			sched_yield();
		}
	}
	for (int i = 0; i < 2; i++) {
		if (both[i]->area.data)
			area_close(w, pair, &both[i]->area);
	}
}

void traffic_short(struct worker *w, const struct pair *pair, uint64_t seed)
{
	traffic_run(w, pair,
		    &(struct traffic){ .seed = seed, .count = 20, .depth = 4, .max = 20000 });
}
