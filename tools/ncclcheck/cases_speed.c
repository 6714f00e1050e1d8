/* SPDX-License-Identifier: BSD-3-Clause */
/* Throughput and latency. They cannot fail by a number: what is fast depends on the path. */
#include <stdlib.h>
#include <string.h>

#include "case.h"

#define SLICE	      ((size_t)1 << 20)
#define DEPTH	      8
#define MEASURE_NS    UINT64_C(1500000000)
#define PING_BYTES    8
#define PINGS	      1000
#define NS_PER_US     1000.0
#define NS_PER_SECOND 1e9

/* Rank 1 sends slices as NCCL's proxy does, for a while; a slice of one byte is the last. */
static void run_throughput(struct worker *w)
{
	void *request[DEPTH] = { NULL };
	uint64_t begin = 0, bytes = 0;
	struct pair pair;
	struct area area;
	bool last = false;

	worker_begin(w);
	worker_connect(w, &pair);
	area_open(w, &pair, DEPTH * SLICE, &area);
	memset(area.data, 1, area.size);
	worker_step(w, "throughput");
	if (w->rank == 1) {
		begin = net_now_ns();
		for (unsigned i = 0; !last || i % DEPTH; i++) {
			unsigned slot = i % DEPTH;

			if (request[slot])
				worker_wait(w, request[slot]);
			/* Once the time is over, a round of last slices fills the ring. */
			last = last || (slot == 0 && net_now_ns() - begin > MEASURE_NS);
			request[slot] = worker_send(w, pair.sender, area.data + slot * SLICE,
						    last ? 1 : SLICE, area.sender_handle);
		}
		for (unsigned slot = 0; slot < DEPTH; slot++)
			worker_wait(w, request[slot]);
	} else {
		unsigned ends = 0;

		for (unsigned slot = 0; slot < DEPTH; slot++)
			request[slot] = worker_recv(w, pair.receiver, area.data + slot * SLICE,
						    SLICE, area.receiver_handle);
		for (unsigned i = 0; ends < DEPTH; i++) {
			unsigned slot = i % DEPTH;
			size_t size = worker_wait(w, request[slot]);

			if (!begin)
				begin = net_now_ns();
			else if (size == SLICE)
				bytes += size;
			ends += size == 1;
			if (ends == 1 && size == 1)
				begin = net_now_ns() - begin;
			if (!ends)
				request[slot] =
					worker_recv(w, pair.receiver, area.data + slot * SLICE,
						    SLICE, area.receiver_handle);
		}
		worker_metric(w, "throughput_bps",
			      (double)bytes * 8 * NS_PER_SECOND / (double)begin);
		worker_note(w, "%.2f Gbit/s in slices of 1 MiB, 8 at a time",
			    (double)bytes * 8 / (double)begin);
	}
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
	worker_check(w, "finalize", net_finalize(&w->net));
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void run_latency(struct worker *w)
{
	uint64_t *took = calloc(PINGS, sizeof(*took));
	struct pair pair;
	struct area area;
	unsigned pings = PINGS;
	void *earlier = NULL;

	worker_begin(w);
	worker_connect(w, &pair);
	area_open(w, &pair, 4096, &area);
	worker_step(w, "latency");
	for (unsigned i = 0; took && i < pings; i++) {
		uint64_t begin = net_now_ns();
		void *r = worker_recv(w, pair.receiver, area.data, 2048, area.receiver_handle), *s;

		if (w->rank == 0) {
			s = worker_send(w, pair.sender, area.data + 2048, PING_BYTES,
					area.sender_handle);
			worker_wait(w, r);
		} else {
			worker_wait(w, r);
			s = worker_send(w, pair.sender, area.data + 2048, PING_BYTES,
					area.sender_handle);
		}
		took[i] = (net_now_ns() - begin) / 2;
		/* That a send ended is known a round trip later. */
		if (earlier)
			worker_wait(w, earlier);
		earlier = s;
		/* On a long path, fewer. Both ranks have to agree. */
		if (i == 9 && w->rank == 0) {
			qsort(took, 10, sizeof(*took), compare);
			pings = took[5] > 2000000 ? 50 : PINGS;
			worker_tell(w, &pings, sizeof(pings));
		} else if (i == 9) {
			worker_hear(w, &pings, sizeof(pings));
		}
	}
	if (earlier)
		worker_wait(w, earlier);
	if (w->rank == 0 && took) {
		unsigned middle = pings / 2, late = pings * 99 / 100;

		qsort(took, pings, sizeof(*took), compare);
		worker_metric(w, "latency_us", (double)took[middle] / NS_PER_US);
		worker_metric(w, "latency_p99_us", (double)took[late] / NS_PER_US);
		worker_note(w, "8 bytes: %.1f us (median of %u halves of a round trip)",
			    (double)took[middle] / NS_PER_US, pings);
	}
	free(took);
	area_close(w, &pair, &area);
	worker_disconnect(w, &pair);
	worker_check(w, "finalize", net_finalize(&w->net));
}

const struct check_case cases_speed[] = {
	{ "throughput", "slices of 1 MiB in one direction", 2, CASE_ONCE, 20, run_throughput },
	{ "latency", "8 bytes there and back", 2, CASE_ONCE, 20, run_latency },
	{ 0 },
};
