/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lingering: who receives batches, or answers that come soon, looks for the next for a moment before sleeping.
 *
 * A receiver that is a little faster than its sender has nothing to do after each batch. If it sleeps, the sender wakes it
 * with the next one, and pays for that: to wake an idle processor takes several microseconds, in a virtual machine above all,
 * of the 15 or 20 that a batch takes. So the sender becomes slower by the wake-ups, and the receiver sleeps even more often.
 *
 * A small message and its answer are alike: each end waits for the other, and most of the time of both is what it takes to wake
 * them. So who mostly waits for less than LINGER_NS looks, too. The kernel's time stamp says when that came which ended a
 * wait, so that the time to wake up is no part of it. Who sends batches is left out: it waits for reports, and nobody waits for it.
 *
 * Looking again is given up after LINGER_NS. Then the next one, three, seven waits and so on, 63 at most, are slept through at
 * once: where batches come seldom, or the sender needs this very processor, lingering is soon tried no more than now and then.
 */
#include <sched.h>

#include "fabric/roce/endpoint.h"

/* About what it costs both ends if this one sleeps and is woken, and as much again: so it is longer than an answer takes whose
 * sender had to be woken. */
#define LINGER_NS    UINT64_C(30000)
#define LINGER_SKIPS 63u
/* Reads after one with a batch from which on no batch is expected: ends of messages and control come between batches. */
#define LINGER_HOPE 3u
/* Short waits more than long ones, without a batch meanwhile, from which on the next is expected to be short: more than it takes
 * two ends to get to know each other. */
#define LINGER_SHORTS 8u

/* Counts the wait that ended now, if there was one. Returns whether most of the latest waits were short. */
static bool waits_are_short(struct lingering *l, uint64_t came_ns)
{
	if (l->waits_ns && came_ns < l->waits_ns + LINGER_NS)
		l->shorts += l->shorts < LINGER_SHORTS;
	else if (l->waits_ns)
		l->shorts -= l->shorts > 0;
	return l->shorts == LINGER_SHORTS;
}

void linger_read(struct roce_endpoint *endpoint, bool batches, uint64_t came_ns)
{
	struct lingering *l = &endpoint->lingering;

	if (batches)
		l->shorts = 0;
	if (batches || waits_are_short(l, came_ns)) {
		l->hope = LINGER_HOPE;
		if (l->since_ns)
			l->skips = 0;
	} else if (l->hope) {
		l->hope--;
	}
	l->since_ns = l->waits_ns = 0;
}

void linger_wrote(struct roce_endpoint *endpoint)
{
	endpoint->lingering.shorts = 0;
}

bool linger(struct roce_endpoint *endpoint)
{
	struct lingering *l = &endpoint->lingering;

	if (!l->waits_ns)
		l->waits_ns = endpoint->now_ns;
	if (!l->hope)
		return false;
	if (l->left) {
		l->left--;
		l->hope = 0;
		return false;
	}
	if (!l->since_ns)
		l->since_ns = endpoint->now_ns;
	if (endpoint->now_ns - l->since_ns < LINGER_NS) {
		sched_yield();
		return true;
	}
	l->skips = l->skips < LINGER_SKIPS ? 2 * l->skips + 1 : LINGER_SKIPS;
	l->left = l->skips;
	l->hope = 0;
	l->since_ns = 0;
	return false;
}
