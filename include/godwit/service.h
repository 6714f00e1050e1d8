/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * service.h: contexts that have threads of their own.
 *
 * A context is used by one thread at a time. A service is a group of contexts on one fabric, with a thread for each that
 * makes progress on it, so that an application can use several processors and need not call gw_progress() itself.
 *
 * At any time a context of a service has one owner or none. Its thread owns it for a turn of progress, and not while it
 * sleeps. Any other thread may own it for a while (gw_service_enter()), for example to post a message without waiting for
 * another thread to be scheduled. Only the owner may make calls on the context and on what was opened in it. Callbacks,
 * therefore, run on the thread that owns the context at that time, which is not always the same.
 *
 * Or a thread hands over a work item (gw_service_post()), which the owner of the context runs soon. That neither blocks nor
 * allocates, and makes no system call unless the context's thread is asleep.
 *
 * The threads block all signals. A child of fork() has none of these threads: there every call answers -ESTALE, and nothing of
 * the service may be used.
 */
#ifndef GODWIT_SERVICE_H
#define GODWIT_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include <godwit/godwit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_SERVICE_THREADS_MAX 64

/* Characters of a service's name at most. */
#define GW_SERVICE_NAME_MAX 12

struct gw_service;

struct gw_service_attr {
	/* Attributes of every context; must be given. They share the UDP port if the fabric names one or none; with port 0 each
	 * has its own. Of faults, each context has its own seed: that of the attributes plus the context's number. */
	const struct gw_context_attr *context;
	/* Threads, and contexts; default 1. */
	uint32_t threads;
	/* Entries in `cpus`. */
	uint32_t cpu_count;
	/* Processors to run on: thread i on cpus[i modulo cpu_count] only. Null: wherever the system likes. */
	const int *cpus;
	/* Time in ns that a thread polls after it last had something to do, before it sleeps; default 0. UINT64_MAX: it never
	 * sleeps. */
	uint64_t spin_ns;
	/* Name of the threads, which are called NAME/0, NAME/1 and so on; default "godwit". */
	const char *name;
	uint64_t reserved[6];
};

/*
 * Opens the contexts and starts their threads.
 * -EINVAL  a bad attribute, or a processor that this process may not use
 * -EAGAIN  the system allows no more threads
 * and as gw_context_open(); gw_context_error(NULL) then has the reason in a sentence.
 */
GW_API int gw_service_open(const struct gw_service_attr *attr, struct gw_service **out);

/*
 * Ends the threads, runs the work that is still posted, and closes the contexts. No other call on the service may be under way
 * in a thread of the application, nor follow. Work and callbacks that run meanwhile cannot post any more (-ESHUTDOWN).
 * -EDEADLK from a thread that owns one of the contexts.
 */
GW_API int gw_service_close(struct gw_service *service);

/* How many contexts it has. */
GW_API unsigned gw_service_threads(const struct gw_service *service);

/* One of its contexts, to be used by its owner; NULL past the last. */
GW_API struct gw_context *gw_service_context(const struct gw_service *service, unsigned index);

/* Something to do with a context. Embed it in an object of your own. */
struct gw_service_work {
	/* Called once for each gw_service_post(), by the owner of the context, outside of gw_progress(). It must not sleep. The
	 * item is the caller's again: it may be freed, or posted anew, for the next turn. */
	void (*run)(struct gw_service_work *work, struct gw_context *ctx);
	/* The library's. */
	struct gw_service_work *next;
};

/* Hands over an item, which stays posted until its `run` is called. Items of one context are run in the order of posting, and
 * before anything that a thread does which enters later. Any thread may post. -ESHUTDOWN while the service is being closed. */
GW_API int gw_service_post(struct gw_service *service, unsigned index,
			   struct gw_service_work *work);

/*
 * gw_service_enter() makes the calling thread the owner of a context, and waits for at most as long as the present owner
 * keeps it: a turn of progress, if that is the context's thread. Then it runs posted work. gw_service_try_enter() answers
 * -EBUSY in place of waiting. gw_service_leave() gives the context back.
 *
 * What was posted on the context meanwhile leaves with the next turn of progress: call gw_progress() before leaving, or
 * leave that to the context's thread, which wakes up for it.
 *
 * -EDEADLK from gw_service_enter(): the thread owns it already.
 */
GW_API int gw_service_enter(struct gw_service *service, unsigned index);
GW_API int gw_service_try_enter(struct gw_service *service, unsigned index);
GW_API int gw_service_leave(struct gw_service *service, unsigned index);

/*
 * Enters if nobody owns the context, makes one turn of progress and leaves; for a thread that polls for an end, so that
 * no other has to be scheduled first. While a thread calls this in a loop, the context's thread sleeps, half a millisecond at a
 * time. Returns what gw_progress() does; -EBUSY if another thread owns the context and makes progress.
 */
GW_API int gw_service_progress(struct gw_service *service, unsigned index);

#ifdef __cplusplus
}
#endif
#endif
