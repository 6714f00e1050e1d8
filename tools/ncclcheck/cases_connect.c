/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about connections: who comes first, who never comes, and handles that are not what they should be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "case.h"
#include "traffic.h"

/* Calls of connect() or accept() while the other end does nothing. */
#define EARLY_CALLS 200
#define NS_PER_MS   UINT64_C(1000000)
/* A call that takes longer than this has blocked. */
#define BLOCKED_NS (1000 * NS_PER_MS)

static void run_listen(struct worker *w)
{
	uint8_t handle[3][2 * NCCL_HANDLE_BYTES];
	void *listener[3] = { NULL };

	worker_begin(w);
	worker_step(w, "listen");
	memset(handle, 0xa7, sizeof(handle));
	for (int i = 0; i < 3; i++) {
		worker_check(w, "listen", net_listen(&w->net, w->dev, handle[i], &listener[i]));
		if (!listener[i])
			worker_fail(w, "listen returned success and no listener");
		for (int j = NCCL_HANDLE_BYTES; j < 2 * NCCL_HANDLE_BYTES; j++) {
			if (handle[i][j] != 0xa7)
				worker_fail(w, "listen wrote beyond the %d bytes of the handle",
					    NCCL_HANDLE_BYTES);
		}
	}
	if (!memcmp(handle[0], handle[1], NCCL_HANDLE_BYTES))
		worker_fail(w, "two listeners have the same handle");
	for (int i = 0; i < 3; i++)
		worker_check(w, "closeListen", net_close_listen(&w->net, listener[i]));
}

/* Rank 0 listens and sends its handle. */
static void *listen_and_tell(struct worker *w)
{
	uint8_t handle[NCCL_HANDLE_BYTES] = { 0 };
	void *listener = NULL;

	worker_check(w, "listen", net_listen(&w->net, w->dev, handle, &listener));
	worker_tell(w, handle, sizeof(handle));
	return listener;
}

static void run_connect_first(struct worker *w)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	struct pair pair = { 0 };

	worker_begin(w);
	worker_step(w, "connect before accept");
	if (w->rank == 0) {
		pair.listener = listen_and_tell(w);
		worker_meet(w);
		pair.receiver = worker_accept_from(w, pair.listener);
	} else {
		worker_hear(w, handle, sizeof(handle));
		for (int i = 0; i < EARLY_CALLS && !pair.sender; i++) {
			worker_check(w, "connect",
				     net_connect(&w->net, w->dev, handle, &pair.sender));
			worker_sleep_ms(1);
		}
		worker_meet(w);
		if (!pair.sender)
			pair.sender = worker_connect_to(w, handle);
	}
	traffic_run(w, &pair,
		    &(struct traffic){ .seed = 1,
				       .count = 20,
				       .depth = 4,
				       .max = 20000,
				       .send_only = w->rank == 1,
				       .recv_only = w->rank == 0 });
	worker_disconnect(w, &pair);
}

static void run_accept_first(struct worker *w)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	struct pair pair = { 0 };

	worker_begin(w);
	worker_step(w, "accept before connect");
	if (w->rank == 0) {
		pair.listener = listen_and_tell(w);
		for (int i = 0; i < EARLY_CALLS; i++) {
			worker_check(w, "accept",
				     net_accept(&w->net, pair.listener, &pair.receiver));
			if (pair.receiver)
				worker_fail(w, "accept returned a connection that nobody made");
			worker_sleep_ms(1);
		}
		worker_meet(w);
		pair.receiver = worker_accept_from(w, pair.listener);
	} else {
		worker_hear(w, handle, sizeof(handle));
		worker_meet(w);
		pair.sender = worker_connect_to(w, handle);
	}
	traffic_run(w, &pair,
		    &(struct traffic){ .seed = 2,
				       .count = 20,
				       .depth = 4,
				       .max = 20000,
				       .send_only = w->rank == 1,
				       .recv_only = w->rank == 0 });
	worker_disconnect(w, &pair);
}

/* Calls connect() for two seconds. Returns its last result; fails if it gives a connection, or blocks. */
static int connect_in_vain(struct worker *w, void *handle)
{
	uint64_t until = net_now_ns() + 2000 * NS_PER_MS;
	void *sender = NULL;
	int result;

	do {
		uint64_t begin = net_now_ns();

		result = net_connect(&w->net, w->dev, handle, &sender);
		if (net_now_ns() - begin > BLOCKED_NS)
			worker_fail(w, "%s: connect blocked for %llu ms", w->step,
				    (unsigned long long)((net_now_ns() - begin) / NS_PER_MS));
		if (result == NCCL_SUCCESS && sender)
			worker_fail(w, "%s: connect returned a connection", w->step);
		worker_sleep_ms(1);
	} while (result == NCCL_SUCCESS && net_now_ns() < until);
	return result;
}

static void run_foreign_handle(struct worker *w)
{
	uint8_t handle[NCCL_HANDLE_BYTES] = { 0 };
	void *listener = NULL;
	int result;

	worker_begin(w);
	worker_step(w, "a handle of zeros");
	connect_in_vain(w, handle);
	worker_step(w, "a handle of random bytes");
	pattern_fill(7, handle, sizeof(handle));
	result = connect_in_vain(w, handle);
	worker_step(w, "a handle that was changed on the way");
	memset(handle, 0, sizeof(handle));
	worker_check(w, "listen", net_listen(&w->net, w->dev, handle, &listener));
	for (int i = 0; i < NCCL_HANDLE_BYTES; i++)
		handle[i] = (uint8_t)~handle[i];
	connect_in_vain(w, handle);
	worker_check(w, "closeListen", net_close_listen(&w->net, listener));
	worker_note(w, "connect %s%s", result == NCCL_SUCCESS ? "" : "returns ",
		    result == NCCL_SUCCESS ? "goes on trying" : net_result_name(result));
}

static void run_dead_peer(struct worker *w)
{
	uint8_t handle[NCCL_HANDLE_BYTES] = { 0 };
	char byte;
	int result;

	worker_begin(w);
	worker_step(w, "connect to a process that has ended");
	if (w->rank == 1) {
		listen_and_tell(w);
		return;
	}
	w->lonely = true;
	worker_hear(w, handle, sizeof(handle));
	while (recv(w->link, &byte, 1, MSG_DONTWAIT) != 0)
		worker_sleep_ms(1), worker_alive(w);
	result = connect_in_vain(w, handle);
	worker_note(w, "connect %s%s", result == NCCL_SUCCESS ? "" : "returns ",
		    result == NCCL_SUCCESS ? "goes on trying" : net_result_name(result));
}

/* Rank 1 has a setting that rank 0 does not have. Both connect, and both must be refused: who goes on waiting hangs in NCCL. */
static void run_mismatch(struct worker *w)
{
	uint8_t handle[NCCL_HANDLE_BYTES] = { 0 };
	const char *differ = getenv(WORKER_DIFFER);
	char name[128];
	void *listener;
	int result;

	if (!differ) {
		worker_skip(
			w,
			"needs a setting that must be the same at both ends: --differ NAME=VALUE");
		return;
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(differ, "="), differ);
	worker_begin(w);
	worker_step(w, "connect to a process with another setting");
	listener = listen_and_tell(w);
	worker_hear(w, handle, sizeof(handle));
	result = connect_in_vain(w, handle);
	if (result == NCCL_SUCCESS)
		worker_fail(w, "connect goes on trying although %s differs", name);
	if (!strstr(w->said, name))
		worker_fail(w, "connect returned %s, and no warning names %s",
			    net_result_name(result), name);
	worker_meet(w);
	worker_check(w, "closeListen", net_close_listen(&w->net, listener));
	worker_note(w, "connect returns %s, and the warning names %s", net_result_name(result),
		    name);
}

/* Which of two senders does a receiver belong to? The first byte tells. */
static void run_two_accepts(struct worker *w)
{
	uint8_t handle[2][NCCL_HANDLE_BYTES];
	struct pair pair[2] = { { 0 }, { 0 } };
	struct area area[2];
	void *request[2];
	uint8_t seen = 0;

	worker_begin(w);
	worker_step(w, "two connections to one listener");
	if (w->rank == 0) {
		pair[0].listener = listen_and_tell(w);
		for (int i = 0; i < 2; i++)
			pair[i].receiver = worker_accept_from(w, pair[0].listener);
	} else {
		worker_hear(w, handle[0], sizeof(handle[0]));
		memcpy(handle[1], handle[0], sizeof(handle[0]));
		while (!pair[0].sender || !pair[1].sender) {
			for (int i = 0; i < 2; i++) {
				if (!pair[i].sender)
					worker_check(w, "connect",
						     net_connect(&w->net, w->dev, handle[i],
								 &pair[i].sender));
			}
			worker_alive(w);
		}
	}
	/* Both at once: which receiver is whose is not known. */
	for (int i = 0; i < 2; i++) {
		area_open(w, &pair[i], 1000, &area[i]);
		if (w->rank == 0) {
			request[i] = worker_recv(w, pair[i].receiver, area[i].data, 1000,
						 area[i].receiver_handle);
			continue;
		}
		area[i].data[0] = (uint8_t)i;
		pattern_fill(5, area[i].data + 1, 999);
		request[i] =
			worker_send(w, pair[i].sender, area[i].data, 1000, area[i].sender_handle);
	}
	for (int i = 0; i < 2; i++) {
		worker_wait(w, request[i]);
		if (w->rank == 0 && (area[i].data[0] > 1 || seen & 1u << area[i].data[0] ||
				     pattern_check(5, area[i].data + 1, 999) < 999))
			worker_fail(w, "a connection received what was sent on the other");
		seen |= (uint8_t)(1u << area[i].data[0]);
		area_close(w, &pair[i], &area[i]);
	}
	worker_disconnect(w, &pair[0]);
	worker_disconnect(w, &pair[1]);
}

static void run_close_listen(struct worker *w)
{
	struct pair pair;

	worker_begin(w);
	for (int i = 0; i < 5; i++) {
		worker_connect(w, &pair);
		worker_step(w, "closeListen right after accept");
		worker_check(w, "closeListen", net_close_listen(&w->net, pair.listener));
		pair.listener = NULL;
		traffic_short(w, &pair, 30 + (uint64_t)i);
		worker_disconnect(w, &pair);
	}
}

static void run_abandoned(struct worker *w)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	struct pair pair = { 0 };
	void *listener, *sender = NULL;

	worker_begin(w);
	worker_step(w, "a connect that is never finished");
	if (w->rank == 0) {
		listener = listen_and_tell(w);
		worker_meet(w);
		/* The listener is closed while a connection may be half made. */
		worker_check(w, "closeListen", net_close_listen(&w->net, listener));
	} else {
		worker_hear(w, handle, sizeof(handle));
		worker_check(w, "connect", net_connect(&w->net, w->dev, handle, &sender));
		worker_sleep_ms(20);
		worker_meet(w);
		if (sender)
			worker_check(w, "closeSend", net_close_send(&w->net, sender));
	}
	worker_connect(w, &pair);
	worker_step(w, "another connection after that");
	traffic_short(w, &pair, 40);
	worker_disconnect(w, &pair);
}

static void run_self(struct worker *w)
{
	struct pair pair;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "messages to itself");
	traffic_run(w, &pair,
		    &(struct traffic){ .seed = 50, .count = 100, .depth = 8, .max = 300000 });
	worker_disconnect(w, &pair);
}

const struct check_case cases_connect[] = {
	{ "listen", "listen gives a listener and a handle of 128 bytes", 1, 0, 0, run_listen },
	{ "connect-first", "connect is called long before accept", 2, 0, 0, run_connect_first },
	{ "accept-first", "accept is called long before connect", 2, 0, 0, run_accept_first },
	{ "foreign-handle", "connect refuses a handle that is none", 1, CASE_ONCE, 0,
	  run_foreign_handle },
	{ "mismatch", "a setting that must be the same and is not is refused and named (--differ)",
	  2, CASE_ONCE, 0, run_mismatch },
	{ "dead-peer", "connect to a process that has ended does not block", 2,
	  CASE_ONCE | CASE_DEADLY, 0, run_dead_peer },
	{ "two-accepts", "two connections to one listener are kept apart", 2, 0, 0,
	  run_two_accepts },
	{ "close-listen", "a connection survives its listener", 2, 0, 0, run_close_listen },
	{ "abandoned", "a connect that is given up disturbs nobody", 2, CASE_ONCE, 0,
	  run_abandoned },
	{ "self", "a process connects to itself", 1, CASE_ONCE, 0, run_self },
	{ 0 },
};
