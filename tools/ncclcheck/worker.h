/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that plays one rank of a case. It has the plugin, a byte stream to the other rank, and a pipe on which it tells
 * what it does. Any failure ends the process: worker_fail() says why, to the harness and to the other rank.
 */
#ifndef TOOLS_NCCLCHECK_WORKER_H
#define TOOLS_NCCLCHECK_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net.h"

/* Environment variable of both processes: NAME=VALUE that rank 1 sets before it loads the plugin. */
#define WORKER_DIFFER "NCCLCHECK_DIFFER"

struct worker {
	struct net net;
	const char *plugin;
	/* 0, or 1 for the other process */
	int rank;
	/* stream to the other rank; -1 in a case of one rank */
	int link;
	/* pipe to the harness */
	int result;
	/* device that the case uses */
	int dev;
	/* time after which anything that is waited for has failed */
	uint64_t deadline_ns;
	/* longest that the plugin may take to report a dead peer */
	uint64_t silence_ns;
	/* connections of the case `connections` */
	uint32_t connections;
	/* channels of the cases `channels`, `steps` and `operations` */
	uint32_t channels;
	/* step in progress, for messages */
	const char *step;
	/* the plugin's last warning */
	char said[512];
	/* the other rank dies on purpose: its end is no failure */
	bool lonely;
};

/* A connection in both directions, as each rank sees it. */
struct pair {
	void *listener;
	void *sender;
	void *receiver;
};

/* Memory with a guard on either side, registered with both directions of a pair. */
struct area {
	uint8_t *data;
	size_t size;
	void *sender_handle;
	void *receiver_handle;
};

/* The end of a case. */
_Noreturn void worker_fail(struct worker *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
_Noreturn void worker_skip(struct worker *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A remark beside "pass"; the last one counts. */
void worker_note(struct worker *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A number for the report. */
void worker_metric(struct worker *w, const char *name, double value);
/* What is being done: the harness names it when the case hangs or the process dies. `what` stays valid. */
void worker_step(struct worker *w, const char *what);

/* Fails if the result is not success. `call` is the function's name. */
void worker_check(struct worker *w, const char *call, int result);
/* Fails when the case's time is over, with the step. */
void worker_alive(struct worker *w);
/* Sleeps for some milliseconds. */
void worker_sleep_ms(unsigned ms);

/* Messages between the ranks. worker_meet() returns when both ranks have called it. */
void worker_tell(struct worker *w, const void *data, size_t length);
void worker_hear(struct worker *w, void *data, size_t length);
void worker_meet(struct worker *w);

/* The log function given to the plugin. */
nccl_log_fn worker_log;

/* Initializes the plugin and checks that there is a device; skips the case if there is none. */
void worker_begin(struct worker *w);
/* Listens, exchanges handles, connects and accepts, as NCCL does: by turns, until both are there. */
void worker_connect(struct worker *w, struct pair *pair);
/* Goes on until there is a connection. */
void *worker_connect_to(struct worker *w, void *handle);
void *worker_accept_from(struct worker *w, void *listener);
void worker_disconnect(struct worker *w, struct pair *pair);

void area_open(struct worker *w, const struct pair *pair, size_t size, struct area *area);
/* Fails if something was written beside the area. */
void area_check(struct worker *w, const struct area *area);
void area_close(struct worker *w, const struct pair *pair, struct area *area);

/* Posts until there is a request. */
void *worker_send(struct worker *w, void *sender, void *data, size_t size, void *handle);
void *worker_recv(struct worker *w, void *receiver, void *data, size_t size, void *handle);
/* Tests until the request has ended well; returns the size. */
size_t worker_wait(struct worker *w, void *request);
/* Tests until the request has ended, well or not; returns the result of test(). */
int worker_end(struct worker *w, void *request);

/* Bytes that a seed determines, and the first offset at which memory differs from them; `length` if none. */
void pattern_fill(uint64_t seed, uint8_t *data, size_t length);
size_t pattern_check(uint64_t seed, const uint8_t *data, size_t length);

/* Runs the case in this process; returns the exit status. */
int worker_main(int argc, char **argv);

#endif
