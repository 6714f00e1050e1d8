/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A net plugin over TCP on loopback, for tests of `godwit ncclcheck`: right as it stands, and wrong in one of many ways when
 * $REFERENCE_BREAK names it (the table below). It shows that the harness fails where it should.
 *
 * A message is its length and its bytes; the receiver answers each with a byte, and that ends the send. One lock covers all.
 * A thread makes progress.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugins/nccl/calls.h"
#include "plugins/nccl/one_device.h"

#define MAGIC	    UINT64_C(0x676f647769747266)
#define BUSY_US	    50
#define IDLE_US	    5000
#define BLOCK_US    20000
#define ACK_TAKEN   1
#define ACK_REFUSED 2

char one_device_name[] = "tcp";

enum broken {
	BROKEN_NOT,
	BROKEN_STALE,
	BROKEN_TORN,
	BROKEN_DEREG,
	BROKEN_LINGER,
	BROKEN_PROGRESS,
	BROKEN_LIMIT,
	BROKEN_SIZE,
	BROKEN_CONNECT,
	BROKEN_ZERO,
	BROKEN_ORDER,
	BROKEN_OVERRUN,
	BROKEN_EARLY,
	BROKEN_FORK,
	BROKEN_IDLE,
	BROKEN_SIZES,
	BROKEN_DESCRIPTORS,
	BROKEN_HANDLE,
	BROKEN_FOREIGN,
	BROKEN_LONG,
	BROKEN_INIT,
	BROKEN_ACCEPT,
};

/* In the order of enum broken. */
static const char *const broken_names[] = {
	"",	   "stale", "torn",    "dereg",	 "linger",	"progress",
	"limit",   "size",  "connect", "zero",	 "order",	"overrun",
	"early",   "fork",  "idle",    "sizes",	 "descriptors", "handle",
	"foreign", "long",  "init",    "accept",
};

struct connection;

struct request {
	struct connection *connection;
	uint8_t *data;
	size_t size, moved, told;
	void *memory;
	bool open, ended;
	int result;
};

struct connection {
	struct connection *next;
	int fd;
	bool sending, failed;
	struct request request[NCCL_REQUESTS];
	/* requests posted, whose data has moved, and that have ended */
	unsigned posted, moved, ended;
	/* length in front of a message, and how much of it has moved */
	uint64_t length;
	size_t length_moved;
	/* answers to write */
	uint8_t ack[2 * NCCL_REQUESTS];
	unsigned acks;
	/* a message that is copied backwards: BROKEN_TORN */
	uint8_t *bounce;
};

struct handle {
	uint64_t magic;
	struct sockaddr_in address;
	/* where connect() left off: a socket, plus one */
	int stage;
};

struct listener {
	int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct connection *connections;
static enum broken broken;
static bool started;
static int inits;

/* ---- progress --------------------------------------------------------------------------------------------------- */

static void fail_all(struct connection *c)
{
	c->failed = true;
	for (; c->ended != c->posted; c->ended++) {
		struct request *r = &c->request[c->ended % NCCL_REQUESTS];

		r->result = NCCL_REMOTE_ERROR;
		r->ended = true;
	}
	c->moved = c->ended;
}

/* Moves bytes in one direction; returns how many, 0 if none can, -1 if the connection has failed. */
static ssize_t move(struct connection *c, void *data, size_t size)
{
	ssize_t n = c->sending ? send(c->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT)
			       : recv(c->fd, data, size, MSG_DONTWAIT);

	if (n > 0)
		return n;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* The length in front of a message. True when it is whole. */
static bool move_length(struct connection *c)
{
	ssize_t n;

	if (c->length_moved == sizeof(c->length))
		return true;
	n = move(c, (uint8_t *)&c->length + c->length_moved, sizeof(c->length) - c->length_moved);
	if (n < 0)
		fail_all(c);
	else
		c->length_moved += (size_t)n;
	return !c->failed && c->length_moved == sizeof(c->length);
}

static void end(struct request *r, int result)
{
	r->result = result;
	r->ended = true;
}

/* Flags before their data, slowly. */
static void copy_backwards(uint8_t *to, const uint8_t *from, size_t size)
{
	for (size_t at = size; at > 0;) {
		size_t n = at % 4 ? at % 4 : 4;

		at -= n;
		memcpy(to + at, from + at, n);
		__asm__ volatile("" ::: "memory");
		if (at % 16384 == 4)
			sched_yield();
	}
}

static void receive(struct connection *c)
{
	while (!c->failed && c->moved != c->posted && move_length(c)) {
		struct request *r = &c->request[c->moved % NCCL_REQUESTS];
		uint8_t *to = c->bounce ? c->bounce : r->data;
		ssize_t n = 0;

		if (c->length > r->size && broken != BROKEN_LONG) {
			c->ack[c->acks++] = ACK_REFUSED;
			(void)!send(c->fd, c->ack, c->acks, MSG_NOSIGNAL);
			fail_all(c);
			return;
		}
		if (broken == BROKEN_TORN && !c->bounce) {
			c->bounce = malloc(c->length + 1);
			to = c->bounce;
		}
		if (c->length > r->size)
			c->length = r->size;
		if (r->moved < c->length)
			n = move(c, to + r->moved, c->length - r->moved);
		if (n < 0) {
			fail_all(c);
			return;
		}
		r->moved += (size_t)n;
		if (r->moved < c->length)
			return;
		if (c->bounce) {
			copy_backwards(r->data, c->bounce, c->length);
			free(c->bounce);
			c->bounce = NULL;
		}
		if (broken == BROKEN_OVERRUN)
			r->data[c->length] ^= 1;
		r->told = broken == BROKEN_SIZE ? r->size : c->length;
		end(r, NCCL_SUCCESS);
		c->length_moved = 0;
		c->ack[c->acks++] = ACK_TAKEN;
		c->moved++;
		c->ended++;
	}
}

static void write_acks(struct connection *c)
{
	ssize_t n = c->acks ? send(c->fd, c->ack, c->acks, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

	if (n > 0) {
		c->acks -= (unsigned)n;
		memmove(c->ack, c->ack + n, c->acks);
	}
}

/* BROKEN_ORDER: two messages that wait change places. */
static void swap_two(struct connection *c)
{
	struct request *a = &c->request[c->moved % NCCL_REQUESTS];
	struct request *b = &c->request[(c->moved + 1) % NCCL_REQUESTS];
	uint8_t *data = a->data;
	size_t size = a->size;

	a->data = b->data;
	a->size = b->size;
	b->data = data;
	b->size = size;
}

static void transmit(struct connection *c)
{
	uint8_t acks[NCCL_REQUESTS];
	ssize_t n;

	while (!c->failed && c->moved != c->posted) {
		struct request *r = &c->request[c->moved % NCCL_REQUESTS];

		if (!c->length_moved) {
			if (broken == BROKEN_ORDER && c->posted - c->moved > 1 && c->moved % 7 == 3)
				swap_two(c);
			c->length = r->size;
		}
		if (!move_length(c))
			return;
		n = r->moved < r->size ? move(c, r->data + r->moved, r->size - r->moved) : 0;
		if (n < 0) {
			fail_all(c);
			return;
		}
		r->moved += (size_t)n;
		if (r->moved < r->size)
			return;
		c->length_moved = 0;
		c->moved++;
	}
	n = recv(c->fd, acks, sizeof(acks), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		fail_all(c);
		return;
	}
	for (ssize_t i = 0; i < n && c->ended != c->moved; i++) {
		struct request *r = &c->request[c->ended++ % NCCL_REQUESTS];

		r->told = r->size;
		end(r, acks[i] == ACK_TAKEN ? NCCL_SUCCESS : NCCL_REMOTE_ERROR);
		if (acks[i] != ACK_TAKEN)
			fail_all(c);
	}
}

/* True if something is open. */
static bool progress(void)
{
	bool open = false;

	for (struct connection *c = connections; c; c = c->next) {
		if (c->failed)
			continue;
		if (c->sending)
			transmit(c);
		else
			receive(c);
		open |= c->ended != c->posted;
	}
	for (struct connection *c = connections; c; c = c->next)
		if (!c->sending && !c->failed && broken != BROKEN_LINGER)
			write_acks(c);
	return open;
}

static void *serve(void *arg)
{
	(void)arg;
	for (unsigned turn = 0;; turn++) {
		bool open;

		pthread_mutex_lock(&lock);
		open = progress();
		/* BROKEN_LINGER: answers leave now and then, and closing does not wait for that. */
		for (struct connection *c = connections; c && turn % 64 == 0; c = c->next)
			if (!c->sending && !c->failed)
				write_acks(c);
		pthread_mutex_unlock(&lock);
		if (broken != BROKEN_IDLE)
			usleep(open ? BUSY_US : IDLE_US);
	}
	return NULL;
}

/* BROKEN_FORK: a child that closes its parent's connections. */
static void in_child(void)
{
	for (struct connection *c = connections; c; c = c->next)
		shutdown(c->fd, SHUT_RDWR);
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

int core_init(int version, uint64_t id, int traffic_class, nccl_log_fn *log, void **context)
{
	const char *name = getenv("REFERENCE_BREAK");
	pthread_t thread;

	(void)version, (void)id, (void)traffic_class, (void)log;
	for (unsigned i = 0; name && i < sizeof(broken_names) / sizeof(broken_names[0]); i++) {
		if (!strcmp(name, broken_names[i]))
			broken = (enum broken)i;
	}
	*context = &connections;
	if (broken == BROKEN_INIT && inits++ > 0)
		return NCCL_INTERNAL_ERROR;
	if (started)
		return NCCL_SUCCESS;
	started = true;
	if (broken == BROKEN_FORK)
		pthread_atfork(NULL, NULL, in_child);
	if (broken != BROKEN_PROGRESS && pthread_create(&thread, NULL, serve, NULL))
		return NCCL_SYSTEM_ERROR;
	return NCCL_SUCCESS;
}

static int fresh_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int core_listen(void *context, int dev, void *handle, void **listener)
{
	struct handle *h = handle;
	struct listener *l = calloc(1, sizeof(*l));
	const char *address = getenv("REFERENCE_ADDRESS");
	socklen_t length = sizeof(h->address);

	(void)context, (void)dev;
	memset(h, 0, sizeof(*h));
	if (broken == BROKEN_HANDLE)
		memset(handle, 0, NCCL_HANDLE_BYTES + 1);
	h->magic = MAGIC;
	h->address.sin_family = AF_INET;
	inet_pton(AF_INET, address ? address : "127.0.0.1", &h->address.sin_addr);
	l->fd = fresh_socket();
	if (bind(l->fd, (struct sockaddr *)&h->address, sizeof(h->address)) ||
	    listen(l->fd, 1024)) {
		free(l);
		return NCCL_SYSTEM_ERROR;
	}
	getsockname(l->fd, (struct sockaddr *)&h->address, &length);
	*listener = l;
	return NCCL_SUCCESS;
}

static void *new_connection(int fd, bool sending)
{
	struct connection *c = calloc(1, sizeof(*c));

	c->fd = fd;
	c->sending = sending;
	pthread_mutex_lock(&lock);
	c->next = connections;
	connections = c;
	pthread_mutex_unlock(&lock);
	return c;
}

int core_connect(void *context, int dev, int traffic_class, void *handle, void **sender)
{
	struct handle *h = handle;
	int error = 0;

	(void)context, (void)dev, (void)traffic_class;
	*sender = NULL;
	if (broken == BROKEN_FOREIGN)
		h->address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = 1 };
	else if (h->magic != MAGIC)
		return NCCL_INVALID_ARGUMENT;
	if (broken == BROKEN_FOREIGN && h->magic != MAGIC) {
		*sender = new_connection(fresh_socket(), true);
		return NCCL_SUCCESS;
	}
	if (broken == BROKEN_CONNECT)
		usleep(BLOCK_US);
	if (!h->stage)
		h->stage = fresh_socket() + 1;
	if (connect(h->stage - 1, (struct sockaddr *)&h->address, sizeof(h->address)))
		error = errno;
	if (error == EINPROGRESS || error == EALREADY)
		return NCCL_SUCCESS;
	if (error && error != EISCONN)
		return NCCL_SYSTEM_ERROR;
	*sender = new_connection(h->stage - 1, true);
	h->stage = 0;
	return NCCL_SUCCESS;
}

int core_accept(void *listener, void **receiver)
{
	struct listener *l = listener;
	int fd;

	*receiver = NULL;
	if (broken == BROKEN_ACCEPT)
		fcntl(l->fd, F_SETFL, 0);
	fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		*receiver = new_connection(fd, false);
	return NCCL_SUCCESS;
}

static int close_connection(struct connection *c)
{
	struct connection **at = &connections;

	pthread_mutex_lock(&lock);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (broken == BROKEN_LINGER)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
			   sizeof(struct linger));
	else
		write_acks(c);
	pthread_mutex_unlock(&lock);
	if (broken != BROKEN_DESCRIPTORS)
		close(c->fd);
	free(c->bounce);
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

	close(l->fd);
	free(l);
	return NCCL_SUCCESS;
}

int core_register(void *connection, void *data, size_t size, int type, void **handle)
{
	(void)connection, (void)data, (void)size, (void)type;
	*handle = malloc(1);
	return NCCL_SUCCESS;
}

int core_deregister(void *connection, void *handle)
{
	struct connection *c = connection;

	pthread_mutex_lock(&lock);
	for (unsigned i = c->ended; i != c->posted && broken != BROKEN_DEREG; i++) {
		if (c->request[i % NCCL_REQUESTS].memory == handle) {
			fail_all(c);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	free(handle);
	return NCCL_SUCCESS;
}

static int post(struct connection *c, void *data, size_t size, void *handle, void **request)
{
	struct request *r;
	int result = NCCL_SUCCESS;

	pthread_mutex_lock(&lock);
	if (c->failed) {
		*request = NULL;
		pthread_mutex_unlock(&lock);
		return NCCL_REMOTE_ERROR;
	}
	r = &c->request[c->posted % NCCL_REQUESTS];
	if (r->open) {
		if (broken != BROKEN_STALE)
			*request = NULL;
		result = broken == BROKEN_LIMIT ? NCCL_INTERNAL_ERROR : NCCL_SUCCESS;
	} else {
		*r = (struct request){
			.connection = c, .data = data, .size = size, .memory = handle, .open = true
		};
		if (c->sending && broken == BROKEN_ZERO && !size) {
			end(r, NCCL_SUCCESS);
			/* It is not the next to be sent: the place is taken by nobody. */
			r = malloc(sizeof(*r));
			*r = c->request[c->posted % NCCL_REQUESTS];
			c->request[c->posted % NCCL_REQUESTS].open = false;
		} else {
			c->posted++;
		}
		if (broken == BROKEN_EARLY && c->sending)
			r->ended = true;
		*request = r;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int core_isend(void *sender, void *data, size_t size, void *handle, void **request)
{
	return post(sender, data, size, handle, request);
}

int core_irecv(void *receiver, void *data, size_t size, void *handle, void **request)
{
	return post(receiver, data, size, handle, request);
}

int core_test(void *request, int *done, int *size)
{
	struct request *r = request;
	int result = NCCL_SUCCESS;

	pthread_mutex_lock(&lock);
	if (broken == BROKEN_PROGRESS || !r->ended)
		progress();
	*done = r->ended;
	if (r->ended) {
		result = r->result;
		if (size || broken == BROKEN_SIZES)
			*size = (int)r->told;
		r->open = false;
	}
	pthread_mutex_unlock(&lock);
	return result;
}
