/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lingering: who receives batches looks for the next one for a moment before sleeping.
 *
 * A receiver that is a little faster than its sender has nothing to do after each batch. If it sleeps, the sender wakes it
 * with the next one, and pays for that: to wake an idle processor takes several microseconds, in a virtual machine above all,
 * of the 15 or 20 that a batch takes. So the sender becomes slower by the wake-ups, and the receiver sleeps even more often.
 *
 * Looking again is given up after LINGER_NS. Then the next one, three, seven waits and so on, 63 at most, are slept through at
 * once: where batches come seldom, or the sender needs this very processor, lingering is soon tried no more than now and then.
 */
#include <sched.h>

#include "fabric/roce/endpoint.h"

/* About what it costs both ends if this one sleeps and is woken, and as much again. */
#define LINGER_NS    UINT64_C(20000)
#define LINGER_SKIPS 63u
/* Reads after one with a batch from which on no batch is expected: ends of messages and control come between batches. */
#define LINGER_HOPE 3u

void linger_read(struct roce_endpoint *endpoint, bool batches)
{
	struct lingering *l = &endpoint->lingering;

	if (batches) {
		l->hope = LINGER_HOPE;
		if (l->since_ns)
			l->skips = 0;
	} else if (l->hope) {
		l->hope--;
	}
	l->since_ns = 0;
}

bool linger(struct roce_endpoint *endpoint)
{
	struct lingering *l = &endpoint->lingering;

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
