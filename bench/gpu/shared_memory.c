/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A net plugin over shared memory between processes of one host, as the ceiling of bench/gpu: NCCL copies to host memory, posts
 * and tests as with any network, and the network is two copies. It has no threads; test() moves bytes.
 *
 * A connection is a ring of bytes that one process writes and the other reads. A message is its length in 8 bytes and its data.
 * A send has ended when all of it is in the ring, a receive when all of it was copied out. A listener takes one connection,
 * which is all that NCCL asks of one. Only for NCCL_PROTO=Simple: copies are not made for a reader that polls the data.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "plugins/nccl/calls.h"
#include "plugins/nccl/one_device.h"

#define MAGIC UINT64_C(0x676f647769746e75)
/* Four slices of NCCL's default buffer; small, because /dev/shm of a container may have 64 MiB. */
#define RING_BYTES (UINT64_C(2) << 20)
/* Bytes moved before the other end is told: small enough for both to copy at the same time. */
#define STRIDE UINT64_C(131072)
#define LINE   64

char one_device_name[] = "shared-memory";

struct ring {
	/* bytes written and bytes read since the start */
	_Alignas(LINE) _Atomic uint64_t written;
	_Alignas(LINE) _Atomic uint64_t read;
	/* the sender has opened the ring; an end has closed it */
	_Alignas(LINE) _Atomic bool connected;
	_Atomic bool closed;
	_Alignas(4096) uint8_t data[RING_BYTES];
};

struct handle {
	uint64_t magic;
	/* random part of the name of the shared memory */
	uint64_t name;
};

struct listener {
	struct ring *ring;
	uint64_t name;
};

struct request {
	struct connection *connection;
	uint8_t *data;
	/* bytes: of the buffer, of the message, and moved so far */
	uint64_t size, length, moved;
	/* the length in front of the message has moved */
	bool begun;
	bool open, ended;
	int result;
};

struct connection {
	struct ring *ring;
	bool sending;
	struct request request[NCCL_REQUESTS];
	/* requests posted and ended since the start */
	unsigned posted, ended;
};

static void name_of(uint64_t name, char text[40])
{
	snprintf(text, 40, "/godwit-ceiling-%016llx", (unsigned long long)name);
}

/* Maps the ring of a name, creating it if asked. Returns null and errno on failure. */
static struct ring *map_ring(uint64_t name, bool create)
{
	char text[40];
	struct ring *ring = MAP_FAILED;
	int fd;

	name_of(name, text);
	fd = shm_open(text, O_RDWR | (create ? O_CREAT | O_EXCL : 0), 0600);
	if (fd < 0)
		return NULL;
	/* Allocated now: a file system without room is an error here and a signal later. */
	if (!create || !posix_fallocate(fd, 0, sizeof(*ring)))
		ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    fd, 0);
	close(fd);
	return ring == MAP_FAILED ? NULL : ring;
}

static void unlink_ring(uint64_t name)
{
	char text[40];

	name_of(name, text);
	shm_unlink(text);
}

/* ---- moving bytes ----------------------------------------------------------------------------------------------- */

static void copy_in(struct ring *ring, uint64_t at, const void *from, uint64_t bytes)
{
	uint64_t offset = at % RING_BYTES, first = RING_BYTES - offset;

	if (first > bytes)
		first = bytes;
	memcpy(ring->data + offset, from, first);
	memcpy(ring->data, (const uint8_t *)from + first, bytes - first);
}

static void copy_out(const struct ring *ring, uint64_t at, void *to, uint64_t bytes)
{
	uint64_t offset = at % RING_BYTES, first = RING_BYTES - offset;

	if (first > bytes)
		first = bytes;
	memcpy(to, ring->data + offset, first);
	memcpy((uint8_t *)to + first, ring->data, bytes - first);
}

/* Moves up to `bytes` in the connection's direction; returns how many. All or nothing if `whole`. */
static uint64_t move(struct connection *c, void *data, uint64_t bytes, bool whole)
{
	struct ring *ring = c->ring;
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_acquire);
	uint64_t read = atomic_load_explicit(&ring->read, memory_order_acquire);
	uint64_t room = c->sending ? RING_BYTES - (written - read) : written - read;

	if (room < bytes && whole)
		return 0;
	if (bytes > room)
		bytes = room;
	if (c->sending) {
		copy_in(ring, written, data, bytes);
		atomic_store_explicit(&ring->written, written + bytes, memory_order_release);
	} else {
		copy_out(ring, read, data, bytes);
		atomic_store_explicit(&ring->read, read + bytes, memory_order_release);
	}
	return bytes;
}

static void end(struct connection *c, struct request *r, int result)
{
	r->result = result;
	r->ended = true;
	c->ended++;
}

/* Moves what can be moved of one request; true when it has ended. */
static bool work_on(struct connection *c, struct request *r)
{
	/* Looked at before the ring: what the other end wrote before it closed is still read. */
	bool closed = atomic_load(&c->ring->closed);
	uint64_t bytes;

	if (!r->begun) {
		if (!move(c, &r->length, sizeof(r->length), true)) {
			if (closed)
				end(c, r, NCCL_REMOTE_ERROR);
			return r->ended;
		}
		r->begun = true;
		if (r->length > r->size) {
			end(c, r, NCCL_INTERNAL_ERROR);
			return true;
		}
	}
	while (r->moved < r->length) {
		bytes = r->length - r->moved < STRIDE ? r->length - r->moved : STRIDE;
		bytes = move(c, r->data + r->moved, bytes, false);
		r->moved += bytes;
		if (!bytes) {
			if (closed)
				end(c, r, NCCL_REMOTE_ERROR);
			return r->ended;
		}
	}
	end(c, r, NCCL_SUCCESS);
	return true;
}

static void progress(struct connection *c)
{
	while (c->ended != c->posted && work_on(c, &c->request[c->ended % NCCL_REQUESTS]))
		;
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

int core_init(int version, uint64_t id, int traffic_class, nccl_log_fn *log, void **context)
{
	static int any;

	(void)version, (void)id, (void)traffic_class, (void)log;
	*context = &any;
	return NCCL_SUCCESS;
}

int core_listen(void *context, int dev, void *handle, void **listener)
{
	struct handle *h = handle;
	struct listener *l = calloc(1, sizeof(*l));

	(void)context, (void)dev;
	*h = (struct handle){ .magic = MAGIC };
	if (!l || getrandom(&h->name, sizeof(h->name), 0) != (ssize_t)sizeof(h->name)) {
		free(l);
		return NCCL_SYSTEM_ERROR;
	}
	l->name = h->name;
	l->ring = map_ring(l->name, true);
	if (!l->ring) {
		free(l);
		return NCCL_SYSTEM_ERROR;
	}
	*listener = l;
	return NCCL_SUCCESS;
}

static void *new_connection(struct ring *ring, bool sending)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (c) {
		c->ring = ring;
		c->sending = sending;
	}
	return c;
}

int core_connect(void *context, int dev, int traffic_class, void *handle, void **sender)
{
	const struct handle *h = handle;
	struct ring *ring;

	(void)context, (void)dev, (void)traffic_class;
	*sender = NULL;
	if (h->magic != MAGIC)
		return NCCL_INVALID_ARGUMENT;
	ring = map_ring(h->name, false);
	if (!ring)
		return NCCL_SYSTEM_ERROR;
	*sender = new_connection(ring, true);
	atomic_store(&ring->connected, true);
	return *sender ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;
}

int core_accept(void *listener, void **receiver)
{
	struct listener *l = listener;

	*receiver = NULL;
	if (!l->ring || !atomic_load(&l->ring->connected))
		return NCCL_SUCCESS;
	*receiver = new_connection(l->ring, false);
	if (!*receiver)
		return NCCL_SYSTEM_ERROR;
	unlink_ring(l->name);
	l->ring = NULL;
	return NCCL_SUCCESS;
}

static int close_connection(struct connection *c)
{
	atomic_store(&c->ring->closed, true);
	munmap(c->ring, sizeof(*c->ring));
	free(c);
	return NCCL_SUCCESS;
}

int core_close_send(void *sender)
{
	return close_connection(sender);
}

int core_close_recv(void *receiver)
{
	return close_connection(receiver);
}

int core_close_listen(void *listener)
{
	struct listener *l = listener;

	if (l->ring) {
		unlink_ring(l->name);
		munmap(l->ring, sizeof(*l->ring));
	}
	free(l);
	return NCCL_SUCCESS;
}

int core_register(void *connection, void *data, size_t size, int type, void **handle)
{
	(void)data, (void)size, (void)type;
	*handle = connection;
	return NCCL_SUCCESS;
}

int core_deregister(void *connection, void *handle)
{
	(void)connection, (void)handle;
	return NCCL_SUCCESS;
}

static int post(struct connection *c, void *data, size_t size, void **request)
{
	struct request *r = &c->request[c->posted % NCCL_REQUESTS];

	*request = NULL;
	if (r->open)
		return NCCL_SUCCESS;
	*r = (struct request){ .connection = c, .data = data, .size = size, .open = true };
	if (c->sending)
		r->length = size;
	c->posted++;
	*request = r;
	progress(c);
	return NCCL_SUCCESS;
}

int core_isend(void *sender, void *data, size_t size, void *handle, void **request)
{
	(void)handle;
	return post(sender, data, size, request);
}

int core_irecv(void *receiver, void *data, size_t size, void *handle, void **request)
{
	(void)handle;
	return post(receiver, data, size, request);
}

int core_test(void *request, int *done, int *size)
{
	struct request *r = request;

	progress(r->connection);
	*done = r->ended;
	if (!r->ended)
		return NCCL_SUCCESS;
	if (size)
		*size = (int)r->length;
	r->open = false;
	return r->result;
}
