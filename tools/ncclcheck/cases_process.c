/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about the process that a plugin lives in: its threads, its forks, its descriptors, its memory, its time. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "traffic.h"

#define LARGE	      ((size_t)16 << 20)
#define NS_PER_MS     UINT64_C(1000000)
#define CALL_LIMIT_NS NS_PER_MS
#define CALL_ROUNDS   20
#define COMMUNICATORS 64
#define IDLE_MS	      1000
/* Share of one processor that an idle plugin may use. */
#define IDLE_SHARE 0.05
/* Descriptors that may stay open after many connections, for what a plugin keeps. */
#define DESCRIPTORS_KEPT 16

/* Both ranks post and then call nothing at all: the data has to arrive. */
static void run_no_test(struct worker *w)
{
	struct pair pair;
	struct area area;
	void *request;

	worker_begin(w);
	worker_connect(w, &pair);
	area_open(w, &pair, LARGE, &area);
	worker_step(w, "a transfer while neither end calls test");
	if (w->rank == 0) {
		volatile uint8_t *last = area.data + LARGE - 1;
		uint64_t until = net_now_ns() / 2 + w->deadline_ns / 2;

		memset(area.data, 0, LARGE);
		request = worker_recv(w, pair.receiver, area.data, LARGE, area.receiver_handle);
		worker_meet(w);
		while (*last != 0x7f && net_now_ns() < until)
			worker_sleep_ms(1);
		if (*last != 0x7f)
			worker_fail(w, "nothing moves unless test is called");
	} else {
		memset(area.data, 0x7f, LARGE);
		worker_meet(w);
		request = worker_send(w, pair.sender, area.data, LARGE, area.sender_handle);
	}
	worker_meet(w);
	worker_wait(w, request);
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
}

/* Children as PyTorch's data loaders make them: one leaves through exit handlers, one does not. */
static void run_fork(struct worker *w)
{
	struct pair pair;

	worker_begin(w);
	worker_connect(w, &pair);
	for (int i = 0; i < 4; i++) {
		pid_t child;

		worker_step(w, "fork");
		child = fork();
		if (child == 0) {
			/* The case's own streams are not the child's. */
			close(w->link);
			close(w->result);
			if (i % 2)
				_exit(0);
			exit(0);
		}
		worker_step(w, "messages after a fork");
		traffic_short(w, &pair, 500 + (uint64_t)i);
		if (child > 0)
			waitpid(child, NULL, 0);
		worker_step(w, "messages after the end of a child");
		traffic_short(w, &pair, 510 + (uint64_t)i);
	}
	worker_disconnect(w, &pair);
}

struct other_thread {
	struct worker *w;
	struct pair pair;
};

static void *set_up(void *arg)
{
	struct other_thread *other = arg;

	worker_connect(other->w, &other->pair);
	return NULL;
}

static void *tear_down(void *arg)
{
	struct other_thread *other = arg;

	worker_disconnect(other->w, &other->pair);
	return NULL;
}

static void run_threads(struct worker *w)
{
	struct other_thread other = { .w = w };
	pthread_t thread;

	worker_begin(w);
	for (int i = 0; i < 3; i++) {
		if (pthread_create(&thread, NULL, set_up, &other))
			worker_fail(w, "no thread");
		pthread_join(thread, NULL);
		worker_step(w, "messages from another thread than connect's");
		traffic_short(w, &other.pair, 520);
		if (pthread_create(&thread, NULL, tear_down, &other))
			worker_fail(w, "no thread");
		pthread_join(thread, NULL);
	}
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* Resident memory in bytes. */
static uint64_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long long pages = 0;

	if (file) {
		if (fscanf(file, "%*u %llu", &pages) != 1)
			pages = 0;
		fclose(file);
	}
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void run_connections(struct worker *w)
{
	struct pair *pair = calloc(w->connections, sizeof(*pair));
	unsigned before, open;
	uint64_t memory;

	if (!pair) {
		worker_fail(w, "no memory");
		return;
	}
	worker_begin(w);
	/* What the plugin needs once is there after the first. */
	worker_connect(w, &pair[0]);
	traffic_short(w, &pair[0], 530);
	worker_disconnect(w, &pair[0]);
	worker_meet(w);
	before = open_descriptors();
	memory = resident();
	for (unsigned i = 0; i < w->connections; i++) {
		worker_connect(w, &pair[i]);
		worker_check(w, "closeListen", net_close_listen(&w->net, pair[i].listener));
		pair[i].listener = NULL;
	}
	worker_step(w, "messages on many connections");
	for (unsigned i = 0; i < w->connections; i += 1 + w->connections / 20)
		traffic_short(w, &pair[i], 540 + i);
	open = open_descriptors();
	memory = resident() - memory;
	for (unsigned i = 0; i < w->connections; i++)
		worker_disconnect(w, &pair[i]);
	worker_meet(w);
	worker_sleep_ms(500);
	worker_step(w, "descriptors after the last close");
	worker_metric(w, "descriptors_per_connection", (double)(open - before) / w->connections);
	worker_metric(w, "kib_per_connection", (double)memory / 1024 / w->connections);
	worker_note(w, "%u connections in each direction: %.1f descriptors and %.0f KiB each",
		    w->connections, (double)(open - before) / w->connections,
		    (double)memory / 1024 / w->connections);
	if (open_descriptors() > before + DESCRIPTORS_KEPT)
		worker_fail(w, "%u descriptors stay open after %u connections were closed",
			    open_descriptors() - before, w->connections);
	free(pair);
}

static void run_communicators(struct worker *w)
{
	unsigned before = 0;

	for (unsigned i = 0; i < COMMUNICATORS; i++) {
		struct pair pair;

		worker_begin(w);
		worker_connect(w, &pair);
		traffic_run(w, &pair,
			    &(struct traffic){ .seed = 550, .count = 2, .depth = 2, .max = 5000 });
		worker_disconnect(w, &pair);
		worker_check(w, "finalize", net_finalize(&w->net));
		if (i == 0)
			before = open_descriptors();
	}
	worker_meet(w);
	worker_sleep_ms(500);
	worker_step(w, "descriptors after the last communicator");
	if (open_descriptors() > before + DESCRIPTORS_KEPT)
		worker_fail(w, "%u descriptors stay open after %u communicators",
			    open_descriptors() - before, COMMUNICATORS);
}

/* Longest call of each kind in a connection's life; the least of several lives, since a busy machine delays any of them. */
static void run_call_time(struct worker *w)
{
	uint64_t least[CALL_COUNT];

	memset(least, 0xff, sizeof(least));
	worker_begin(w);
	w->net.strict = true;
	for (int i = 0; i < CALL_ROUNDS; i++) {
		struct pair pair;

		for (int c = 0; c < CALL_COUNT; c++)
			atomic_store(&w->net.slowest_ns[c], 0);
		worker_connect(w, &pair);
		traffic_run(
			w, &pair,
			&(struct traffic){ .seed = 560, .count = 50, .depth = 4, .max = 1 << 20 });
		worker_disconnect(w, &pair);
		for (int c = 0; c < CALL_COUNT; c++) {
			uint64_t slowest = atomic_load(&w->net.slowest_ns[c]);

			least[c] = slowest < least[c] ? slowest : least[c];
		}
	}
	worker_step(w, "time of calls");
	for (int c = CALL_LISTEN; c < CALL_COUNT; c++) {
		if (least[c] > CALL_LIMIT_NS)
			worker_fail(
				w,
				"%s took %.1f ms in each of %d connections; NCCL's thread serves every connection and must not wait",
				net_call_name(c), (double)least[c] / 1e6, CALL_ROUNDS);
	}
}

static double cpu_seconds(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static void run_idle(struct worker *w)
{
	struct pair pair;
	double used;

	worker_begin(w);
	worker_connect(w, &pair);
	traffic_short(w, &pair, 570);
	worker_step(w, "a second without requests");
	worker_sleep_ms(300);
	used = cpu_seconds();
	worker_sleep_ms(IDLE_MS);
	used = (cpu_seconds() - used) * 1000 / IDLE_MS;
	worker_metric(w, "idle_cpu", used);
	worker_note(w, "%.1f %% of a processor", used * 100);
	if (used > IDLE_SHARE)
		worker_fail(w, "an idle connection uses %.0f %% of a processor", used * 100);
	worker_disconnect(w, &pair);
}

const struct check_case cases_process[] = {
	{ "no-test", "data moves while nobody calls test", 2, CASE_ONCE, 0, run_no_test },
	{ "fork", "children that end do no harm", 2, CASE_ONCE, 0, run_fork },
	{ "threads", "set-up in one thread, data in another", 2, CASE_ONCE, 0, run_threads },
	{ "connections", "many connections: descriptors and memory", 2, CASE_ONCE, 60,
	  run_connections },
	{ "communicators", "64 communicators, one after the other", 2, CASE_ONCE, 30,
	  run_communicators },
	{ "call-time", "no call takes more than 1 ms", 2, CASE_ONCE, 0, run_call_time },
	{ "idle", "an idle connection uses no processor", 2, CASE_ONCE, 0, run_idle },
	{ 0 },
};
