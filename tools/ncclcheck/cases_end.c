/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about ends: memory taken back while it is in use, connections closed early, peers that stop or die. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "traffic.h"

#define LARGE	     ((size_t)8 << 20)
#define SMALL	     4096
#define MARK	     0xa5
#define CLOSE_ROUNDS 20
#define DEREG_ROUNDS 3
#define STOP_SECONDS 15
/* Bytes of a receive of `close-send`; how long its sends may end before there is one, and how long there is none then. */
#define SLOT	      ((size_t)512 << 10)
#define EARLY_NS      UINT64_C(300000000)
#define LATE_MS	      200
#define NS_PER_SECOND UINT64_C(1000000000)

/* Closes without a look at results: after an abort they may be anything. */
static void drop(struct worker *w, struct pair *pair)
{
	net_close_send(&w->net, pair->sender);
	net_close_recv(&w->net, pair->receiver);
	net_close_listen(&w->net, pair->listener);
}

/* Rank 0 takes the memory of an open receive back; rank 1 sends into it all the same. */
static void run_dereg_recv(struct worker *w)
{
	worker_begin(w);
	for (int turn = 0; turn < 2; turn++) {
		struct pair pair;
		struct area area;

		worker_connect(w, &pair);
		area_open(w, &pair, LARGE, &area);
		if (w->rank == 0) {
			worker_step(w, "deregMr with an open receive");
			worker_recv(w, pair.receiver, area.data, LARGE, area.receiver_handle);
			/* The peer's data arrives before or while the memory is taken back. */
			if (turn == 1) {
				worker_meet(w);
				worker_sleep_ms(2);
			}
			net_deregister(&w->net, pair.sender, area.sender_handle);
			net_deregister(&w->net, pair.receiver, area.receiver_handle);
			worker_step(w, "memory that deregMr gave back");
			memset(area.data, MARK, LARGE);
			if (turn == 0)
				worker_meet(w);
			worker_sleep_ms(300);
			for (size_t i = 0; i < LARGE; i++) {
				if (area.data[i] != MARK)
					worker_fail(w, "byte %zu was written after deregMr", i);
			}
			if (mprotect(area.data, LARGE, PROT_NONE))
				worker_fail(w, "mprotect failed");
			worker_sleep_ms(50);
			worker_meet(w);
			drop(w, &pair);
		} else {
			void *request = NULL;

			worker_step(w, "a send to memory that was taken back");
			memset(area.data, 0x11, LARGE);
			worker_meet(w);
			for (int i = 0; i < 250 && !request; i++) {
				if (net_isend(&w->net, pair.sender, area.data, LARGE,
					      area.sender_handle, &request))
					break;
				worker_sleep_ms(1);
			}
			for (int i = 0, done = 0; request && i < 250 && !done; i++) {
				int size;

				if (net_test(&w->net, request, &done, &size))
					break;
				worker_sleep_ms(1);
			}
			worker_meet(w);
			net_deregister(&w->net, pair.sender, area.sender_handle);
			net_deregister(&w->net, pair.receiver, area.receiver_handle);
			drop(w, &pair);
		}
	}
}

/* Rank 0 takes the memory of an open send back; rank 1's receive must not end well with other bytes. */
static void dereg_send(struct worker *w)
{
	struct pair pair;
	struct area area;

	worker_connect(w, &pair);
	area_open(w, &pair, LARGE, &area);
	if (w->rank == 0) {
		worker_step(w, "deregMr with an open send");
		pattern_fill(77, area.data, LARGE);
		worker_meet(w);
		worker_send(w, pair.sender, area.data, LARGE, area.sender_handle);
		net_deregister(&w->net, pair.sender, area.sender_handle);
		net_deregister(&w->net, pair.receiver, area.receiver_handle);
		worker_step(w, "memory that deregMr gave back");
		memset(area.data, MARK, LARGE);
		worker_sleep_ms(200);
		if (mprotect(area.data, LARGE, PROT_NONE))
			worker_fail(w, "mprotect failed");
		worker_sleep_ms(100);
		drop(w, &pair);
		worker_meet(w);
	} else {
		void *request;
		int done = 0, size = 0, result = NCCL_SUCCESS;

		worker_step(w, "a receive whose send lost its memory");
		request = worker_recv(w, pair.receiver, area.data, LARGE, area.receiver_handle);
		worker_meet(w);
		for (int i = 0; i < 2000 && result == NCCL_SUCCESS && !done; i++) {
			result = net_test(&w->net, request, &done, &size);
			worker_sleep_ms(1);
		}
		if (done && result == NCCL_SUCCESS &&
		    (size != (int)LARGE || pattern_check(77, area.data, LARGE) < LARGE))
			worker_fail(w, "the receive ended well with bytes that were not sent");
		net_deregister(&w->net, pair.sender, area.sender_handle);
		net_deregister(&w->net, pair.receiver, area.receiver_handle);
		drop(w, &pair);
		worker_meet(w);
	}
}

/* Several times: a plugin may by chance have read all of it before. */
static void run_dereg_send(struct worker *w)
{
	worker_begin(w);
	for (int i = 0; i < DEREG_ROUNDS; i++)
		dereg_send(w);
}

/* Closes the receiver as soon as the last receive has ended. The sender must still hear that its sends arrived. */
static void run_close_recv(struct worker *w)
{
	worker_begin(w);
	for (int i = 0; i < CLOSE_ROUNDS; i++) {
		struct pair pair;

		worker_connect(w, &pair);
		worker_step(w, "closeRecv right after the last receive");
		traffic_run(w, &pair,
			    &(struct traffic){ .seed = 300 + (uint64_t)i,
					       .count = 8,
					       .depth = 8,
					       .max = i % 4 == 3 ? 3000 : 1000000,
					       .send_only = w->rank == 1,
					       .recv_only = w->rank == 0 });
		worker_disconnect(w, &pair);
	}
}

/*
 * Closes the sender as soon as its sends have ended, and ends the process. A plugin may end a send when it has copied the message,
 * before there is a receive; the message arrives all the same. The note says how many sends ended so.
 */
static void run_close_send(struct worker *w)
{
	static const size_t sizes[] = { 8, 3000, 0, 64u << 10, 1 };
	enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
	void *request[COUNT];
	struct pair pair;
	struct area area;
	unsigned early = 0;
	uint64_t begin;
	int done = 0;

	worker_begin(w);
	worker_connect(w, &pair);
	area_open(w, &pair, COUNT * SLOT, &area);
	w->lonely = true;
	worker_step(w, "closeSend right after the last send");
	worker_meet(w);
	if (w->rank == 1) {
		for (unsigned i = 0; i < COUNT; i++) {
			pattern_fill(500 + i, area.data + i * SLOT, sizes[i]);
			request[i] = worker_send(w, pair.sender, area.data + i * SLOT, sizes[i],
						 area.sender_handle);
		}
		begin = net_now_ns();
		for (; early < COUNT && net_now_ns() - begin < EARLY_NS; early += done != 0)
			worker_check(w, "test", net_test(&w->net, request[early], &done, NULL));
		worker_tell(w, &early, sizeof(early));
		for (unsigned i = early; i < COUNT; i++)
			worker_wait(w, request[i]);
	} else {
		worker_hear(w, &early, sizeof(early));
		worker_metric(w, "sends_before_receives", early);
		worker_note(w, "%u of %u sends ended before there was a receive", early,
			    (unsigned)COUNT);
		worker_sleep_ms(LATE_MS);
		for (unsigned i = 0; i < COUNT; i++) {
			request[i] = worker_recv(w, pair.receiver, area.data + i * SLOT, SLOT,
						 area.receiver_handle);
			if (worker_wait(w, request[i]) != sizes[i] ||
			    pattern_check(500 + i, area.data + i * SLOT, sizes[i]) < sizes[i])
				worker_fail(w, "message %u arrived with other bytes", i);
		}
	}
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
	/* With the plugin's destructors. */
	if (w->rank == 1)
		exit(EXIT_SUCCESS);
}

/* Both ranks close everything in the middle of transfers, memory first, as NCCL does on an abort. */
static void run_abort(struct worker *w)
{
	worker_begin(w);
	for (int i = 0; i < 5; i++) {
		struct pair pair;
		struct area area;
		void *request;

		worker_connect(w, &pair);
		area_open(w, &pair, 2 * LARGE, &area);
		worker_step(w, "close with transfers in flight");
		worker_meet(w);
		/* The other rank may have closed already, or have no buffer: all results are fine. */
		net_irecv(&w->net, pair.receiver, area.data, LARGE, area.receiver_handle, &request);
		net_isend(&w->net, pair.sender, area.data + LARGE, LARGE, area.sender_handle,
			  &request);
		worker_sleep_ms((unsigned)i * 2);
		net_deregister(&w->net, pair.sender, area.sender_handle);
		net_deregister(&w->net, pair.receiver, area.receiver_handle);
		munmap(area.data, area.size);
		drop(w, &pair);
		worker_meet(w);
	}
}

static void run_killed(struct worker *w)
{
	struct pair pair;
	struct area area;
	uint64_t begin;
	void *request;
	int result;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "a peer that dies");
	traffic_short(w, &pair, 400);
	if (w->rank == 1) {
		worker_meet(w);
		worker_sleep_ms(20);
		kill(getpid(), SIGKILL);
	}
	area_open(w, &pair, 2 * SMALL, &area);
	request = worker_recv(w, pair.receiver, area.data, SMALL, area.receiver_handle);
	worker_meet(w);
	w->lonely = true;
	begin = net_now_ns();
	w->deadline_ns = begin + w->silence_ns;
	result = worker_end(w, request);
	if (result == NCCL_SUCCESS)
		worker_fail(w, "a receive from a dead peer ended well");
	worker_note(w, "%s after %.1f s", net_result_name(result),
		    (double)(net_now_ns() - begin) / (double)NS_PER_SECOND);
	worker_metric(w, "peer_death_s", (double)(net_now_ns() - begin) / (double)NS_PER_SECOND);
	worker_step(w, "close after the peer's death");
	net_deregister(&w->net, pair.sender, area.sender_handle);
	net_deregister(&w->net, pair.receiver, area.receiver_handle);
	drop(w, &pair);
}

/* True if the process is stopped by a signal. */
static bool is_stopped(pid_t process)
{
	char path[64], state = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", process);
	stat = fopen(path, "r");
	if (!stat)
		return false;
	if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(stat);
	return state == 'T';
}

/* Starts a process that waits until this one has stopped, and wakes it STOP_SECONDS later. */
static pid_t start_waker(void)
{
	pid_t parent = getpid(), waker = fork();

	if (waker)
		return waker;
	while (getppid() == parent && !is_stopped(parent))
		worker_sleep_ms(50);
	worker_sleep_ms(STOP_SECONDS * 1000);
	kill(parent, SIGCONT);
	_exit(0);
}

static void run_stopped(struct worker *w)
{
	struct pair pair;
	pid_t helper = -1;

	/* Before the plugin has threads. */
	if (w->rank == 1)
		helper = start_waker();
	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "a peer that is stopped for 15 s");
	traffic_short(w, &pair, 410);
	if (w->rank == 1)
		kill(getpid(), SIGSTOP);
	traffic_run(w, &pair,
		    &(struct traffic){ .seed = 411, .count = 40, .depth = 8, .max = 300000 });
	worker_disconnect(w, &pair);
	if (helper > 0)
		waitpid(helper, NULL, 0);
}

const struct check_case cases_end[] = {
	{ "dereg-recv", "deregMr of an open receive: nothing is written to its memory any more", 2,
	  0, 0, run_dereg_recv },
	{ "dereg-send", "deregMr of an open send: nothing is read from its memory any more", 2, 0,
	  0, run_dereg_send },
	{ "close-recv", "closeRecv right after the last receive: the sends still end well", 2, 0, 0,
	  run_close_recv },
	{ "close-send", "closeSend right after the last send: what was sent still arrives", 2,
	  CASE_DEADLY, 0, run_close_send },
	{ "abort", "connections closed with transfers in flight", 2, 0, 0, run_abort },
	{ "peer-killed", "a dead peer becomes an error", 2, CASE_ONCE | CASE_SLOW | CASE_DEADLY,
	  150, run_killed },
	{ "peer-stopped", "a peer that is stopped for 15 s is waited for", 2, CASE_ONCE | CASE_SLOW,
	  30, run_stopped },
	{ 0 },
};
