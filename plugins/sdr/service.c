/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service.c: the thread that makes progress on a context, and the lock that it shares with calling threads.
 *
 * A Godwit context is used by one thread at a time. The service thread sleeps in gw_wait() with the lock held, because only
 * there it is woken by packets at once. A thread that wants the lock therefore wakes it with a signal, and the service
 * thread does not take the lock again before all waiting threads have had it. A signal that arrives just before the sleep
 * is lost, so it is sent repeatedly until the lock is free.
 *
 * A program that polls in a loop makes progress with every call, and nearly always has the lock. The service thread then sleeps
 * between two looks whether the lock is free: if it waited on a processor, it would take one that the program or its peer needs.
 *
 * The signal is SIGURG, which is ignored by default, and is sent to that thread only.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "state.h"

#define WAKE_SIGNAL SIGURG
/* Longest sleep, and so the longest wait of a call if signals do not arrive. */
#define SLEEP_NS      UINT64_C(20000000)
#define WAKE_AGAIN_NS 200000
#define NS_PER_SECOND 1000000000
/* How often the service thread yields to callers before it sleeps, and for how long it then sleeps each time. */
#define YIELDS_MAX 16
#define LEAVE_NS   100000

static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

/* Does nothing: the signal only interrupts a system call. */
static void on_signal(int signal)
{
	(void)signal;
}

/* Installs a handler unless the application has one, which wakes the thread just as well. */
static void install_handler(void)
{
	struct sigaction old, action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	if (sigaction(WAKE_SIGNAL, NULL, &old) || old.sa_flags & SA_SIGINFO)
		return;
	if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN)
		sigaction(WAKE_SIGNAL, &action, NULL);
}

/* Returns when no caller has the lock or waits for it. */
static void wait_for_callers(const struct sdr_context *ctx)
{
	for (int yields = 0; atomic_load(&ctx->callers); yields++) {
		if (yields < YIELDS_MAX)
			sched_yield();
		else
			nanosleep(&(struct timespec){ .tv_nsec = LEAVE_NS }, NULL);
	}
}

static void *serve(void *arg)
{
	struct sdr_context *ctx = arg;

	while (!atomic_load(&ctx->stop)) {
		wait_for_callers(ctx);
		pthread_mutex_lock(&ctx->lock);
		atomic_store(&ctx->asleep, true);
		if (!atomic_load(&ctx->callers) && !atomic_load(&ctx->stop))
			gw_wait(ctx->gw, SLEEP_NS);
		atomic_store(&ctx->asleep, false);
		pthread_mutex_unlock(&ctx->lock);
	}
	return NULL;
}

int service_start(struct sdr_context *ctx)
{
	sigset_t blocked, before;
	int error;

	pthread_once(&handler_once, install_handler);
	/* The service thread takes no other signal, so that the application's threads get them. */
	sigfillset(&blocked);
	sigdelset(&blocked, WAKE_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	error = pthread_create(&ctx->service, NULL, serve, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

void service_stop(struct sdr_context *ctx)
{
	service_enter(ctx);
	atomic_store(&ctx->stop, true);
	service_leave(ctx, false);
	pthread_join(ctx->service, NULL);
}

void service_enter(struct sdr_context *ctx)
{
	atomic_fetch_add(&ctx->callers, 1);
	if (!pthread_mutex_trylock(&ctx->lock))
		return;
	for (;;) {
		struct timespec until;

		if (atomic_load(&ctx->asleep))
			pthread_kill(ctx->service, WAKE_SIGNAL);
		/* pthread_mutex_timedlock() takes the time of day. */
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += WAKE_AGAIN_NS;
		if (until.tv_nsec >= NS_PER_SECOND) {
			until.tv_nsec -= NS_PER_SECOND;
			until.tv_sec++;
		}
		if (!pthread_mutex_timedlock(&ctx->lock, &until))
			return;
	}
}

void service_leave(struct sdr_context *ctx, bool push)
{
	if (push)
		gw_progress(ctx->gw);
	pthread_mutex_unlock(&ctx->lock);
	atomic_fetch_sub(&ctx->callers, 1);
}
