/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells a child of fork() from its parent without a system call: a handler counts in the child. */
#include "service/state.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint count;
static int error;

static void in_child(void)
{
	atomic_fetch_add(&count, 1);
}

static void install(void)
{
	error = -pthread_atfork(NULL, NULL, in_child);
}

int forks_count(void)
{
	pthread_once(&once, install);
	return error;
}

unsigned forks(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}
