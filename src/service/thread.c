/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread of a member: turns of progress while there is something to do, then sleep.
 *
 * It sleeps without owning the context, on the context's descriptors and on an eventfd. Two things end a sleep besides packets
 * and timers. Posted work: a thread that posts adds the item first and looks at the state of sleep then; this thread sets
 * the state first and looks for items then. So one of them sees the other. And a thread that has owned the context during the
 * sleep: timers or descriptors may be others now.
 *
 * A thread that polls in a loop (gw_service_progress()) would wake this one for every packet. So when others have
 * owned the context since the last look, this thread leaves it to them and naps, without the context's descriptors, at first for
 * so short a time that a single visit costs nothing, then for longer.
 */
#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "service/state.h"

#define NS_PER_SECOND 1000000000
#define NAP_MIN_NS    10000
#define NAP_MAX_NS    500000

void member_wake(struct member *member, enum sleep_state least)
{
	uint64_t one = 1;
	ssize_t ignored;

	if (atomic_load(&member->state) < (int)least)
		return;
	/* Of several threads, one makes the system call. */
	if (atomic_exchange(&member->state, AWAKE) == AWAKE)
		return;
	ignored = write(member->wake_fd, &one, sizeof(one));
	(void)ignored;
}

void member_run_posted(struct member *member)
{
	struct gw_service_work *work, *next;

	if (!posted_any(&member->posted))
		return;
	for (work = posted_take(&member->posted); work; work = next) {
		next = work->next;
		work->run(work, member->ctx);
	}
}

/* Sleeps on the first `count` descriptors. The state of sleep is set already: what is posted or said after this looks for it
 * wakes the thread. */
static void sleep_on(struct member *member, unsigned count, uint64_t length_ns)
{
	struct timespec timeout = { .tv_sec = (time_t)(length_ns / NS_PER_SECOND),
				    .tv_nsec = (long)(length_ns % NS_PER_SECOND) };
	uint64_t times;
	ssize_t ignored;

	member->fds[0] = (struct pollfd){ .fd = member->wake_fd, .events = POLLIN };
	if (!atomic_load(&member->service->stop) &&
	    ppoll(member->fds, count, length_ns == UINT64_MAX ? NULL : &timeout, NULL) > 0 &&
	    member->fds[0].revents) {
		ignored = read(member->wake_fd, &times, sizeof(times));
		(void)ignored;
	}
}

/* Leaves the context to others for a while. If one of them owns it now, posted work is left to it as well: it looks for
 * that when it leaves. */
static void nap(struct member *member, bool owned)
{
	atomic_store(&member->state, NAPPING);
	if (owned || !posted_any(&member->posted))
		sleep_on(member, 1, member->nap_ns);
	atomic_store(&member->state, AWAKE);
	if (member->nap_ns < NAP_MAX_NS)
		member->nap_ns *= 2;
}

/* Whether other threads have owned the context since the last look, or wait for it. */
static bool visited(struct member *member)
{
	unsigned visits = atomic_load(&member->visits);
	bool any = visits != member->visits_seen || atomic_load(&member->waiting);

	member->visits_seen = visits;
	return any;
}

/* Whether there was something to do less than spin_ns ago. */
static bool spins(struct member *member, int work)
{
	uint64_t spin_ns = member->service->spin_ns, now;

	if (!spin_ns || spin_ns == UINT64_MAX)
		return work > 0 || spin_ns;
	now = gw_now_ns(member->ctx);
	if (work > 0)
		member->busy_ns = now;
	return now - member->busy_ns < spin_ns;
}

/* One turn, by the owner. Returns how long to sleep, or 0; `watched` is then set. */
static uint64_t turn(struct member *member)
{
	uint64_t until_ns, now;
	int count;

	if (member->watched)
		gw_watched(member->ctx, member->fds + 1, member->watched);
	member->watched = 0;
	member_run_posted(member);
	if (spins(member, gw_progress(member->ctx)))
		return 0;
	count = gw_watch(member->ctx, member->fds + 1, GW_WATCH_MAX, &until_ns);
	if (count <= 0)
		return 0;
	now = gw_now_ns(member->ctx);
	if (until_ns <= now)
		return 0;
	member->watched = (unsigned)count;
	return until_ns == UINT64_MAX ? UINT64_MAX : until_ns - now;
}

void *member_serve(void *arg)
{
	struct member *member = arg;
	uint64_t length_ns;
	bool left_alone;

	/* A sleep ends on time, and not up to 50 us later so that several timers can share an interrupt. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	while (!atomic_load(&member->service->stop)) {
		left_alone = !visited(member);
		if (!left_alone || pthread_mutex_trylock(&member->owner)) {
			nap(member, left_alone);
			continue;
		}
		member->nap_ns = NAP_MIN_NS;
		length_ns = turn(member);
		/* Set by the owner: whoever owns the context next finds it. */
		if (length_ns)
			atomic_store(&member->state, ASLEEP);
		pthread_mutex_unlock(&member->owner);
		if (length_ns && !posted_any(&member->posted))
			sleep_on(member, 1 + member->watched, length_ns);
		atomic_store(&member->state, AWAKE);
	}
	return NULL;
}
