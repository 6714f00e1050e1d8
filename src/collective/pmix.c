/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective/pmix.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <time.h>

#include "base/clock.h"

#define NS_PER_MS     UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)
/* Pause before asking again for what the server says it has not. */
#define PAUSE_NS (50 * NS_PER_MS)

static const char library_name[] = "libpmix.so.2";
static const char key[] = "godwit.root";

typedef void pmix_value_fn(int status, struct pmix_text *value, void *arg);

struct pmix {
	int (*init)(struct pmix_process *self, void *info, size_t infos);
	int (*finalize)(const void *info, size_t infos);
	int (*put)(uint8_t scope, const char *key, struct pmix_text *value);
	int (*commit)(void);
	int (*get)(const struct pmix_process *process, const char *key, const void *info,
		   size_t infos, pmix_value_fn *answer, void *arg);
};

/* An answer to a question, which comes in a thread of the library, maybe after nobody waits for it any more. Whoever of the two is
 * last frees it. */
struct answer {
	pthread_mutex_t mutex;
	pthread_cond_t come;
	unsigned users;
	bool done;
	int status;
	char text[512];
};

static int (*finalize)(const void *info, size_t infos);
/* process that has come to the server: a child of it has not the library's thread, and would wait for it */
static pid_t guest;

static void say_goodbye(void)
{
	if (getpid() == guest)
		finalize(NULL, 0);
}

static void *symbol(void *library, const char *name, bool *missing)
{
	void *found = dlsym(library, name);

	*missing |= !found;
	return found;
}

static int load(struct pmix *out)
{
	void *library = dlopen(library_name, RTLD_NOW | RTLD_GLOBAL);
	bool missing = false;

	if (!library)
		return -ENOENT;
	*(void **)&out->init = symbol(library, "PMIx_Init", &missing);
	*(void **)&out->finalize = symbol(library, "PMIx_Finalize", &missing);
	*(void **)&out->put = symbol(library, "PMIx_Put", &missing);
	*(void **)&out->commit = symbol(library, "PMIx_Commit", &missing);
	*(void **)&out->get = symbol(library, "PMIx_Get_nb", &missing);
	return missing ? -EPROTO : 0;
}

static void answer_release(struct answer *answer)
{
	bool last = --answer->users == 0;

	pthread_mutex_unlock(&answer->mutex);
	if (!last)
		return;
	pthread_cond_destroy(&answer->come);
	pthread_mutex_destroy(&answer->mutex);
	free(answer);
}

static void take_answer(int status, struct pmix_text *value, void *arg)
{
	struct answer *answer = arg;

	pthread_mutex_lock(&answer->mutex);
	answer->status = status;
	if (status == 0 && value && value->type == PMIX_TYPE_STRING && value->data.string)
		snprintf(answer->text, sizeof(answer->text), "%s", value->data.string);
	answer->done = true;
	pthread_cond_signal(&answer->come);
	answer_release(answer);
}

/* Asks once. Returns PMIx's status, or -ETIMEDOUT, -ENOMEM; these are no numbers that it has for "ask again". */
static int ask(const struct pmix *pmix, const struct pmix_process *root, uint64_t deadline_ns,
	       char *text, size_t size)
{
	struct timespec until = { .tv_sec = (time_t)(deadline_ns / NS_PER_SECOND),
				  .tv_nsec = (long)(deadline_ns % NS_PER_SECOND) };
	struct answer *answer = calloc(1, sizeof(*answer));
	pthread_condattr_t monotonic;
	int status;

	if (!answer)
		return -ENOMEM;
	answer->users = 2;
	pthread_mutex_init(&answer->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&answer->come, &monotonic);
	pthread_condattr_destroy(&monotonic);
	status = pmix->get(root, key, NULL, 0, take_answer, answer);
	pthread_mutex_lock(&answer->mutex);
	/* The library will not call. */
	if (status) {
		answer->users--;
		answer_release(answer);
		return status;
	}
	while (!answer->done && status != ETIMEDOUT)
		status = pthread_cond_timedwait(&answer->come, &answer->mutex, &until);
	status = answer->done ? answer->status : -ETIMEDOUT;
	if (answer->done)
		snprintf(text, size, "%s", answer->text);
	answer_release(answer);
	return status;
}

static int get_text(const struct pmix *pmix, struct pmix_process process, uint64_t deadline_ns,
		    char *text, size_t size)
{
	const struct timespec pause = { .tv_nsec = (long)PAUSE_NS };
	int status;

	process.rank = 0;
	/* A server gives up after a while of its own. */
	for (;;) {
		status = ask(pmix, &process, deadline_ns, text, size);
		if (status == 0)
			return text[0] ? 0 : -EPROTO;
		if (clock_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		if (status != PMIX_STATUS_TIMEOUT && status != PMIX_STATUS_NOT_FOUND)
			return -EPROTO;
		nanosleep(&pause, NULL);
	}
}

int pmix_share(uint32_t rank, char *text, size_t size, uint64_t wait_ns)
{
	uint64_t now = clock_now_ns();
	uint64_t deadline = wait_ns > UINT64_MAX - now ? UINT64_MAX : now + wait_ns;
	struct pmix_text value = { .type = PMIX_TYPE_STRING, .data.string = text };
	struct pmix_process self = { 0 };
	struct pmix pmix = { 0 };
	int rc = load(&pmix);

	if (rc)
		return rc;
	if (pmix.init(&self, NULL, 0))
		return -EPROTO;
	/* A process that has come to the server and does not leave it is taken for one that crashed. */
	if (!finalize) {
		guest = getpid();
		finalize = pmix.finalize;
		atexit(say_goodbye);
	} else {
		pmix.finalize(NULL, 0);
	}
	if (self.rank != rank)
		return -EPROTO;
	if (rank != 0)
		return get_text(&pmix, self, deadline, text, size);
	return pmix.put(PMIX_SCOPE_GLOBAL, key, &value) || pmix.commit() ? -EPROTO : 0;
}
