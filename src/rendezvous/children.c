/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that children of fork() do not keep. A list of them, and a handler that closes their sockets in a child: the other end
 * would not hear of this process's end while a child holds a copy. Closing the copy sends nothing.
 */
#include <pthread.h>
#include <unistd.h>

#include "connection.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list kept = { &kept, &kept };
static int error;

static void before(void)
{
	pthread_mutex_lock(&mutex);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
	struct list *node;

	list_for_each (node, &kept) {
		struct gw_rendezvous *r = container_of(node, struct gw_rendezvous, children);

		if (r->fd >= 0)
			close(r->fd);
		r->fd = -1;
	}
	pthread_mutex_unlock(&mutex);
}

static void install(void)
{
	error = -pthread_atfork(before, in_parent, in_child);
}

int gw_rendezvous_leave_children(struct gw_rendezvous *r)
{
	pthread_once(&once, install);
	if (error)
		return error;
	pthread_mutex_lock(&mutex);
	if (list_empty(&r->children))
		list_add_tail(&kept, &r->children);
	pthread_mutex_unlock(&mutex);
	return 0;
}

void children_forget(struct gw_rendezvous *r)
{
	pthread_mutex_lock(&mutex);
	list_del(&r->children);
	pthread_mutex_unlock(&mutex);
}
