/* SPDX-License-Identifier: BSD-3-Clause */
/* What nearly every case does: connect two ranks, register memory, post, wait. */
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>

#include "worker.h"

/* Bytes on either side of an area, and what they hold. */
#define GUARD	   4096
#define GUARD_BYTE 0xc5

void *worker_connect_to(struct worker *w, void *handle)
{
	void *sender = NULL;

	for (;;) {
		worker_check(w, "connect", net_connect(&w->net, w->dev, handle, &sender));
		if (sender)
			return sender;
		worker_alive(w);
		sched_yield();
	}
}

void *worker_accept_from(struct worker *w, void *listener)
{
	void *receiver = NULL;

	for (;;) {
		worker_check(w, "accept", net_accept(&w->net, listener, &receiver));
		if (receiver)
			return receiver;
		worker_alive(w);
		sched_yield();
	}
}

void worker_connect(struct worker *w, struct pair *pair)
{
	uint8_t mine[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES];

	memset(pair, 0, sizeof(*pair));
	worker_step(w, "connection");
	worker_check(w, "listen", net_listen(&w->net, w->dev, mine, &pair->listener));
	if (!pair->listener)
		worker_fail(w, "listen returned success and no listener");
	if (w->link >= 0) {
		worker_tell(w, mine, sizeof(mine));
		worker_hear(w, theirs, sizeof(theirs));
	} else {
		memcpy(theirs, mine, sizeof(mine));
	}
	while (!pair->sender || !pair->receiver) {
		if (!pair->sender)
			worker_check(w, "connect",
				     net_connect(&w->net, w->dev, theirs, &pair->sender));
		if (!pair->receiver)
			worker_check(w, "accept",
				     net_accept(&w->net, pair->listener, &pair->receiver));
		worker_alive(w);
		sched_yield();
	}
}

void worker_disconnect(struct worker *w, struct pair *pair)
{
	worker_step(w, "close");
	if (pair->sender)
		worker_check(w, "closeSend", net_close_send(&w->net, pair->sender));
	if (pair->receiver)
		worker_check(w, "closeRecv", net_close_recv(&w->net, pair->receiver));
	if (pair->listener)
		worker_check(w, "closeListen", net_close_listen(&w->net, pair->listener));
	memset(pair, 0, sizeof(*pair));
}

/* Bytes of the mapping: the area ends where its second guard begins, so the first is longer by what is left of a page. */
static size_t mapping(size_t size)
{
	return (size + 3 * GUARD - 1) / GUARD * GUARD;
}

void area_open(struct worker *w, const struct pair *pair, size_t size, struct area *area)
{
	uint8_t *base = mmap(NULL, mapping(size), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		worker_fail(w, "no memory for a buffer of %zu bytes", size);
	memset(area, 0, sizeof(*area));
	area->data = base + GUARD;
	area->size = size;
	memset(base, GUARD_BYTE, GUARD);
	memset(area->data + size, GUARD_BYTE, mapping(size) - GUARD - size);
	if (pair->sender)
		worker_check(w, "regMr",
			     net_register(&w->net, pair->sender, area->data, size,
					  &area->sender_handle));
	if (pair->receiver)
		worker_check(w, "regMr",
			     net_register(&w->net, pair->receiver, area->data, size,
					  &area->receiver_handle));
}

void area_check(struct worker *w, const struct area *area)
{
	const uint8_t *base = area->data - GUARD;

	for (size_t i = 0; i < mapping(area->size); i++) {
		if (base + i == area->data)
			i += area->size;
		if (i < mapping(area->size) && base[i] != GUARD_BYTE)
			worker_fail(w, "%s: a byte %s the buffer was overwritten", w->step,
				    base + i < area->data ? "in front of" : "behind");
	}
}

void area_close(struct worker *w, const struct pair *pair, struct area *area)
{
	area_check(w, area);
	if (pair->sender)
		worker_check(w, "deregMr",
			     net_deregister(&w->net, pair->sender, area->sender_handle));
	if (pair->receiver)
		worker_check(w, "deregMr",
			     net_deregister(&w->net, pair->receiver, area->receiver_handle));
	munmap(area->data - GUARD, mapping(area->size));
	area->data = NULL;
}

void *worker_send(struct worker *w, void *sender, void *data, size_t size, void *handle)
{
	void *request = NULL;

	for (;;) {
		worker_check(w, "isend", net_isend(&w->net, sender, data, size, handle, &request));
		if (request)
			return request;
		worker_alive(w);
		sched_yield();
	}
}

void *worker_recv(struct worker *w, void *receiver, void *data, size_t size, void *handle)
{
	void *request = NULL;

	for (;;) {
		worker_check(w, "irecv",
			     net_irecv(&w->net, receiver, data, size, handle, &request));
		if (request)
			return request;
		worker_alive(w);
		sched_yield();
	}
}

int worker_end(struct worker *w, void *request)
{
	for (;;) {
		int done = 0, size = 0, result = net_test(&w->net, request, &done, &size);

		if (result != NCCL_SUCCESS || done)
			return result;
		worker_alive(w);
		sched_yield();
	}
}

size_t worker_wait(struct worker *w, void *request)
{
	for (;;) {
		int done = 0, size = -1;

		worker_check(w, "test", net_test(&w->net, request, &done, &size));
		if (done && size < 0)
			worker_fail(w, "%s: test says done and sets no size", w->step);
		if (done)
			return (size_t)size;
		worker_alive(w);
		sched_yield();
	}
}

/* A step of SplitMix64. */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void pattern_fill(uint64_t seed, uint8_t *data, size_t length)
{
	for (size_t at = 0; at < length; at += 8) {
		uint64_t word = mix(seed ^ at << 1);

		memcpy(data + at, &word, length - at < 8 ? length - at : 8);
	}
}

size_t pattern_check(uint64_t seed, const uint8_t *data, size_t length)
{
	for (size_t at = 0; at < length; at += 8) {
		uint64_t word = mix(seed ^ at << 1);

		if (memcmp(data + at, &word, length - at < 8 ? length - at : 8) != 0)
			return at;
	}
	return length;
}
