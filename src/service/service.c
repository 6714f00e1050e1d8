/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes services, and gives other threads access to their contexts. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/zero.h"
#include "service/state.h"

#define DEFAULT_NAME "godwit"
/* Characters of a thread's name, with the final zero. */
#define THREAD_NAME 16

static bool attr_sane(const struct gw_service_attr *attr)
{
	return attr && attr->context && attr->threads <= GW_SERVICE_THREADS_MAX &&
	       !attr->cpus == !attr->cpu_count &&
	       (!attr->name ||
		strnlen(attr->name, GW_SERVICE_NAME_MAX + 1) <= GW_SERVICE_NAME_MAX) &&
	       array_is_zero(attr->reserved);
}

static int open_context(const struct gw_context_attr *attr, unsigned index, struct gw_context **out)
{
	struct gw_context_attr own = *attr;
	struct gw_faults faults;

	if (attr->faults) {
		faults = *attr->faults;
		faults.seed += index;
		own.faults = &faults;
	}
	return gw_context_open(&own, out);
}

static int open_member(struct member *member, const struct gw_service_attr *attr, unsigned index)
{
	pthread_mutexattr_t checked;
	int error;

	member->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (member->wake_fd < 0)
		return -errno;
	error = open_context(attr->context, index, &member->ctx);
	if (error) {
		close(member->wake_fd);
		return error;
	}
	/* An owner that enters again is told so and not deadlocked. */
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&member->owner, &checked);
	pthread_mutexattr_destroy(&checked);
	return 0;
}

static void close_member(struct member *member)
{
	gw_context_close(member->ctx);
	pthread_mutex_destroy(&member->owner);
	close(member->wake_fd);
}

static int start_thread(struct member *member, const struct gw_service_attr *attr, unsigned index)
{
	pthread_attr_t how;
	char name[THREAD_NAME];
	sigset_t all, before;
	cpu_set_t cpus;
	int error;

	pthread_attr_init(&how);
	if (attr->cpu_count) {
		int cpu = attr->cpus[index % attr->cpu_count];

		CPU_ZERO(&cpus);
		if (cpu >= 0 && cpu < CPU_SETSIZE)
			CPU_SET(cpu, &cpus);
		pthread_attr_setaffinity_np(&how, sizeof(cpus), &cpus);
	}
	/* Signals are for the application's threads. A new thread has the mask of the one that creates it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&member->thread, &how, member_serve, member);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&how);
	if (error)
		return -error;
	snprintf(name, sizeof(name), "%s/%u", attr->name ? attr->name : DEFAULT_NAME, index);
	pthread_setname_np(member->thread, name);
	return 0;
}

static void stop_threads(struct gw_service *service, unsigned count)
{
	atomic_store(&service->stop, true);
	for (unsigned i = 0; i < count; i++)
		member_wake(&service->members[i], NAPPING);
	for (unsigned i = 0; i < count; i++)
		pthread_join(service->members[i].thread, NULL);
}

int gw_service_open(const struct gw_service_attr *attr, struct gw_service **out)
{
	struct gw_service *service;
	unsigned threads, opened = 0, started = 0;
	int error;

	if (!attr_sane(attr) || !out)
		return -EINVAL;
	error = forks_count();
	if (error)
		return error;
	threads = attr->threads ? attr->threads : 1;
	service = aligned_alloc(CACHE_LINE, sizeof(*service) + threads * sizeof(struct member));
	if (!service)
		return -ENOMEM;
	memset(service, 0, sizeof(*service) + threads * sizeof(struct member));
	service->forks = forks();
	service->threads = threads;
	service->spin_ns = attr->spin_ns;
	for (; !error && opened < threads; opened += !error) {
		service->members[opened].service = service;
		error = open_member(&service->members[opened], attr, opened);
	}
	for (; !error && started < threads; started += !error)
		error = start_thread(&service->members[started], attr, started);
	if (!error) {
		*out = service;
		return 0;
	}
	stop_threads(service, started);
	while (opened)
		close_member(&service->members[--opened]);
	free(service);
	return error;
}

/* The member, or null and the reason: no such one, or a child of fork(). */
static struct member *find(struct gw_service *service, unsigned index, int *error)
{
	*error = -EINVAL;
	if (!service || index >= service->threads)
		return NULL;
	*error = service->forks == forks() ? 0 : -ESTALE;
	return *error ? NULL : &service->members[index];
}

/* Waits until the calling thread owns the context. -EDEADLK: it does already. */
static int own(struct member *member)
{
	int error = pthread_mutex_trylock(&member->owner);

	if (error) {
		/* The context's thread does not take it again while this is not 0. */
		atomic_fetch_add(&member->waiting, 1);
		error = pthread_mutex_lock(&member->owner);
		atomic_fetch_sub(&member->waiting, 1);
	}
	return -error;
}

int gw_service_close(struct gw_service *service)
{
	struct member *member;
	int error;

	if (!find(service, 0, &error))
		return error;
	/* A thread that owns a context cannot wait for its end: it may be the context's own. */
	for (unsigned i = 0; i < service->threads; i++) {
		error = own(&service->members[i]);
		if (error)
			return error;
		pthread_mutex_unlock(&service->members[i].owner);
	}
	stop_threads(service, service->threads);
	/* Work that the threads left, or posted to one another before they ended. */
	for (unsigned i = 0; i < service->threads; i++) {
		member = &service->members[i];
		pthread_mutex_lock(&member->owner);
		member_run_posted(member);
		pthread_mutex_unlock(&member->owner);
	}
	for (unsigned i = 0; i < service->threads; i++)
		close_member(&service->members[i]);
	free(service);
	return 0;
}

unsigned gw_service_threads(const struct gw_service *service)
{
	return service ? service->threads : 0;
}

struct gw_context *gw_service_context(const struct gw_service *service, unsigned index)
{
	return service && index < service->threads ? service->members[index].ctx : NULL;
}

int gw_service_post(struct gw_service *service, unsigned index, struct gw_service_work *work)
{
	struct member *member;
	int error;

	member = find(service, index, &error);
	if (!member)
		return error;
	if (!work || !work->run)
		return -EINVAL;
	if (atomic_load_explicit(&service->stop, memory_order_relaxed))
		return -ESHUTDOWN;
	posted_add(&member->posted, work);
	member_wake(member, NAPPING);
	return 0;
}

int gw_service_try_enter(struct gw_service *service, unsigned index)
{
	struct member *member;
	int error;

	member = find(service, index, &error);
	if (!member)
		return error;
	error = pthread_mutex_trylock(&member->owner);
	if (!error)
		member_run_posted(member);
	return -error;
}

int gw_service_enter(struct gw_service *service, unsigned index)
{
	struct member *member;
	int error;

	member = find(service, index, &error);
	if (!member)
		return error;
	error = own(member);
	if (!error)
		member_run_posted(member);
	return error;
}

int gw_service_leave(struct gw_service *service, unsigned index)
{
	struct member *member;
	int error;

	member = find(service, index, &error);
	if (!member)
		return error;
	error = pthread_mutex_unlock(&member->owner);
	if (error)
		return -error;
	atomic_fetch_add(&member->visits, 1);
	member_wake(member, posted_any(&member->posted) ? NAPPING : ASLEEP);
	return 0;
}

int gw_service_progress(struct gw_service *service, unsigned index)
{
	int work = gw_service_try_enter(service, index);

	if (work)
		return work;
	work = gw_progress(gw_service_context(service, index));
	gw_service_leave(service, index);
	return work;
}
