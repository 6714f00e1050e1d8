/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about messages: their order, their sizes, how many may be open, and what the calls write where. */
#include <string.h>

#include "case.h"
#include "traffic.h"

#define SMALL	4096
#define TRIES	300
#define RUBBISH ((void *)(uintptr_t)0xdeadbeef)
/* How long a later send may take to fail. */
#define LATER_NS UINT64_C(5000000000)
#define OPTIONAL ((void *)(uintptr_t)NCCL_COMPLETION_OPTIONAL)

static void run_bulk(struct worker *w)
{
	struct pair pair;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "messages of all sizes in both directions");
	traffic_run(w, &pair,
		    &(struct traffic){ .seed = 200, .count = 150, .depth = 8, .max = 4 << 20 });
	worker_disconnect(w, &pair);
}

static void run_order(struct worker *w)
{
	struct pair pair;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "small and large messages in turn");
	traffic_run(w, &pair,
		    &(struct traffic){ .seed = 201,
				       .count = 400,
				       .depth = NCCL_REQUESTS,
				       .max = 128 << 10,
				       .empty = true });
	worker_disconnect(w, &pair);
}

static void run_zero(struct worker *w)
{
	struct pair pair;
	struct area area;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "a message without bytes");
	area_open(w, &pair, SMALL, &area);
	for (int i = 0; i < 20; i++) {
		void *r = worker_recv(w, pair.receiver, area.data, i % 2 ? SMALL / 2 : 0,
				      area.receiver_handle);
		void *s = worker_send(w, pair.sender, area.data + SMALL / 2, 0, area.sender_handle);
		size_t size = worker_wait(w, r);

		if (size)
			worker_fail(w, "test tells %zu bytes of a message that has none", size);
		worker_wait(w, s);
	}
	area_close(w, &pair, &area);
	worker_step(w, "messages without bytes among others");
	traffic_run(w, &pair,
		    &(struct traffic){
			    .seed = 202, .count = 100, .depth = 8, .max = SMALL, .empty = true });
	worker_disconnect(w, &pair);
}

static void run_short(struct worker *w)
{
	static const size_t sizes[] = { 1, 7, 1000, 4096, 70000, 1000000 };
	size_t room = 2 << 20;
	struct pair pair;
	struct area area;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "messages shorter than their receives");
	area_open(w, &pair, 2 * room, &area);
	pattern_fill(9, area.data + room, room);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *r = worker_recv(w, pair.receiver, area.data, room, area.receiver_handle);
		void *s =
			worker_send(w, pair.sender, area.data + room, sizes[i], area.sender_handle);
		size_t size = worker_wait(w, r);

		if (size != sizes[i])
			worker_fail(w, "test tells %zu bytes of a message of %zu", size, sizes[i]);
		if (pattern_check(9, area.data, size) < size)
			worker_fail(w, "a message of %zu bytes arrived with other bytes", size);
		worker_wait(w, s);
	}
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
}

/* Sends until a send fails; returns its result. A plugin may end a send when it has copied the message, and then fails a later
 * one. Success: none failed for so long that none will. */
static int send_until_failure(struct worker *w, const struct pair *pair, const struct area *area)
{
	uint64_t end_ns = net_now_ns() + LATER_NS;
	int result = NCCL_SUCCESS;

	while (result == NCCL_SUCCESS && net_now_ns() < end_ns) {
		void *request = NULL;
		int done = 0;

		result = net_isend(&w->net, pair->sender, area->data, area->size,
				   area->sender_handle, &request);
		while (result == NCCL_SUCCESS && request && !done && net_now_ns() < end_ns)
			result = net_test(&w->net, request, &done, NULL);
	}
	return result;
}

static void run_long(struct worker *w)
{
	static const size_t sizes[] = { 1000, 100000 };

	worker_begin(w);
	for (int i = 0; i < 2; i++) {
		struct pair pair;
		struct area area;
		void *request = NULL;
		int result = NCCL_SUCCESS;

		worker_connect(w, &pair);
		worker_step(w, "a message longer than its receive");
		if (w->rank == 0) {
			/* The area ends where the receive does, so that one byte too many is seen. */
			area_open(w, &pair, sizes[i], &area);
			request = worker_recv(w, pair.receiver, area.data, sizes[i],
					      area.receiver_handle);
		} else {
			area_open(w, &pair, 2 * sizes[i], &area);
			result = send_until_failure(w, &pair, &area);
		}
		if (request)
			result = worker_end(w, request);
		area_check(w, &area);
		if (result == NCCL_SUCCESS)
			worker_fail(w, "%zu bytes were sent into a receive of %zu, and %s",
				    2 * sizes[i], sizes[i],
				    w->rank ? "no send failed" : "the receive ended well");
		worker_meet(w);
		/* What NCCL does after an error: it releases everything. Results no longer matter. */
		net_deregister(&w->net, pair.sender, area.sender_handle);
		net_deregister(&w->net, pair.receiver, area.receiver_handle);
		net_close_send(&w->net, pair.sender);
		net_close_recv(&w->net, pair.receiver);
		net_close_listen(&w->net, pair.listener);
	}
}

static void run_no_sizes(struct worker *w)
{
	struct pair pair;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "test without a place for sizes");
	traffic_run(
		w, &pair,
		&(struct traffic){
			.seed = 203, .count = 30, .depth = 4, .max = 100000, .no_sizes = true });
	worker_disconnect(w, &pair);
}

static void run_unaligned(struct worker *w)
{
	struct pair pair;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "buffers at odd addresses");
	traffic_run(
		w, &pair,
		&(struct traffic){
			.seed = 204, .count = 100, .depth = 8, .max = 200000, .unaligned = true });
	worker_disconnect(w, &pair);
}

static void run_reuse(struct worker *w)
{
	struct pair pair;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "buffers overwritten as soon as they are free");
	traffic_run(
		w, &pair,
		&(struct traffic){
			.seed = 205, .count = 200, .depth = 4, .max = 200000, .overwrite = true });
	worker_disconnect(w, &pair);
}

/* Rank 1 posts 32 receives, rank 0 sends 32 without a look at any. Then both try more. */
static void run_outstanding(struct worker *w)
{
	void *request[NCCL_REQUESTS], *more = NULL;
	unsigned extra = 0;
	struct pair pair;
	struct area area;

	worker_begin(w);
	worker_connect(w, &pair);
	area_open(w, &pair, (size_t)SMALL * NCCL_REQUESTS, &area);
	for (int turn = 0; turn < 2; turn++) {
		bool receiving = turn == 0 ? w->rank == 1 : w->rank == 0;

		worker_step(w, "32 open requests");
		if (!receiving)
			worker_meet(w);
		for (unsigned i = 0; i < NCCL_REQUESTS; i++) {
			uint8_t *data = area.data + (size_t)SMALL * i;

			if (receiving) {
				request[i] = worker_recv(w, pair.receiver, data, SMALL,
							 area.receiver_handle);
			} else {
				pattern_fill(i, data, SMALL);
				request[i] = worker_send(w, pair.sender, data, SMALL,
							 area.sender_handle);
			}
		}
		/* More is no error. A receiver tries while none of its requests can have ended. */
		worker_step(w, "the 33rd open request");
		if (receiving) {
			for (int i = 0; i < TRIES && !more; i++)
				worker_check(w, "irecv",
					     net_irecv(&w->net, pair.receiver, area.data, SMALL,
						       area.receiver_handle, &more));
			extra = more != NULL;
			worker_meet(w);
		}
		worker_tell(w, &extra, sizeof(extra));
		if (!receiving)
			worker_hear(w, &extra, sizeof(extra));
		else
			worker_hear(w, &(unsigned){ 0 }, sizeof(extra));
		worker_step(w, "the end of 32 requests");
		for (unsigned i = 0; i < NCCL_REQUESTS; i++) {
			size_t size = worker_wait(w, request[i]);

			if (receiving &&
			    (size != SMALL ||
			     pattern_check(i, area.data + (size_t)SMALL * i, SMALL) < SMALL))
				worker_fail(w, "message %u of 32 is wrong", i);
		}
		/* A receive beyond the 32nd was taken: it needs its message. */
		if (extra && !receiving)
			worker_wait(w, worker_send(w, pair.sender, area.data, SMALL,
						   area.sender_handle));
		if (extra && receiving)
			worker_wait(w, more);
		more = NULL;
		extra = 0;
		worker_meet(w);
	}
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
}

/* What stands in *request on entry is not a request, and must not be taken for the answer. */
static void run_stale(struct worker *w)
{
	unsigned open = 0, busy = 0, theirs;
	void *request[TRIES];
	struct pair pair;
	struct area area;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "rubbish in *request");
	area_open(w, &pair, SMALL, &area);
	if (w->rank == 0) {
		for (int i = 0; i < 4 * NCCL_REQUESTS; i++) {
			void *before = i % 2 ? RUBBISH : OPTIONAL;

			request[open] = before;
			worker_check(w, "irecv",
				     net_irecv(&w->net, pair.receiver, area.data, 64,
					       area.receiver_handle, &request[open]));
			if (request[open] == before)
				worker_fail(
					w,
					"irecv left what was in *request (%p): NCCL would take it for a request",
					before);
			if (request[open])
				open++;
			else
				busy++;
		}
		worker_tell(w, &open, sizeof(open));
		for (unsigned i = 0; i < open; i++)
			worker_wait(w, request[i]);
		worker_note(w, "%u receives taken, %u refused for now", open, busy);
	} else {
		worker_hear(w, &theirs, sizeof(theirs));
		for (unsigned i = 0; i < theirs;) {
			for (open = 0; open < theirs - i && open < NCCL_REQUESTS; open++) {
				request[open] = RUBBISH;
				worker_check(w, "isend",
					     net_isend(&w->net, pair.sender, area.data, 64,
						       area.sender_handle, &request[open]));
				if (request[open] == RUBBISH)
					worker_fail(
						w,
						"isend left what was in *request: NCCL would take it for a request");
				if (!request[open])
					break;
			}
			for (unsigned j = 0; j < open; j++)
				worker_wait(w, request[j]);
			i += open;
			worker_alive(w);
		}
	}
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
}

static void run_flush(struct worker *w)
{
	struct pair pair;
	struct area area;
	int size = SMALL;

	worker_begin(w);
	worker_connect(w, &pair);
	worker_step(w, "iflush");
	area_open(w, &pair, 2 * SMALL, &area);
	for (int i = 0; i < 10; i++) {
		void *r = worker_recv(w, pair.receiver, area.data, SMALL, area.receiver_handle);
		void *s = worker_send(w, pair.sender, area.data + SMALL, SMALL, area.sender_handle);
		void *data = area.data, *flush = RUBBISH;

		worker_wait(w, r);
		worker_check(w, "iflush",
			     w->net.iflush(pair.receiver, 1, &data, &size, &area.receiver_handle,
					   &flush));
		if (flush == RUBBISH)
			worker_fail(w, "iflush left what was in *request");
		if (flush && worker_end(w, flush) != NCCL_SUCCESS)
			worker_fail(w, "a flush ended with an error");
		worker_wait(w, s);
	}
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
}

const struct check_case cases_data[] = {
	{ "bulk", "messages of 1 byte to 4 MiB in both directions, every byte checked", 2, 0, 0,
	  run_bulk },
	{ "mixed-versions", "the newest version at one end, the oldest at the other", 2,
	  CASE_ONCE | CASE_MIXED, 0, run_bulk },
	{ "order", "the i-th send lands in the i-th receive, whatever their sizes", 2, 0, 0,
	  run_order },
	{ "zero-bytes", "messages without bytes arrive", 2, 0, 0, run_zero },
	{ "short-send", "test tells the size of what was sent, not of the receive", 2, 0, 0,
	  run_short },
	{ "long-send", "a message longer than its receive fails at both ends", 2, 0, 0, run_long },
	{ "no-sizes", "test takes a null pointer for sizes", 2, 0, 0, run_no_sizes },
	{ "unaligned", "buffers at odd addresses, and nothing beside them is written", 2, 0, 0,
	  run_unaligned },
	{ "reuse", "a send that ended no longer reads its buffer", 2, 0, 0, run_reuse },
	{ "outstanding", "32 requests can be open, and the 33rd is no error", 2, 0, 0,
	  run_outstanding },
	{ "stale-request", "*request is written by every call", 2, 0, 0, run_stale },
	{ "flush", "iflush of a receive in host memory", 2, 0, 0, run_flush },
	{ 0 },
};
