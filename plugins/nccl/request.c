/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests, and the memory that they use.
 *
 * A request goes QUEUED -> OPEN -> ENDED -> FREE. NCCL's thread queues it and then tries to own the context: if it can, it
 * posts the request itself and its packets leave at once; if another thread has the context, that one is handed the queue.
 * Either way requests reach the channel in the order of the calls.
 *
 * A small send ends when it was copied, and its connection is kept until it was delivered. NCCL begins with an operation on a
 * connection when all requests of the one before have ended: a send that ended when it was delivered would hold that up for half a
 * round trip.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

/* How long deregMr() waits for requests to end before it closes the connection. */
#define CANCEL_NS UINT64_C(100000000)

/* The engine may be napping, because NCCL's thread made progress: packets would wait for the end of that. */
static void note_size(struct connection *c, uint64_t bytes)
{
	if (mover_note(&c->mover, bytes, process.settings.inline_bytes))
		requests_flush_later(c);
}

static void request_end(struct request *r, int status, uint64_t told)
{
	if (!status && !r->connection->sending)
		note_size(r->connection, told);
	r->status = status;
	r->told = told;
	r->op = NULL;
	atomic_store_explicit(&r->state, REQUEST_ENDED, memory_order_release);
}

static void flush(struct connection *c);

static void op_done(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct request *r = arg;

	gw_op_close(op);
	request_end(r, result->status, result->length);
	flush(r->connection);
}

static int post(struct connection *c, struct request *r)
{
	struct gw_op_attr attr = { .addr = r->data,
				   .length = atomic_load_explicit(&r->size, memory_order_relaxed),
				   .mr = r->memory ? r->memory->mr : NULL,
				   .done = op_done,
				   .arg = r,
				   .flags = c->sending ? GW_OP_BUFFERED : 0 };
	int error;

	error = c->sending ? gw_channel_send(c->channel, &attr, &r->op)
			   : gw_channel_recv(c->channel, &attr, &r->op);
	if (!error)
		atomic_store_explicit(&r->state, REQUEST_OPEN, memory_order_relaxed);
	return error;
}

/* Posts what is queued, as far as the channel takes it: its numbers may be in use at the other end for a while longer. Whoever
 * finds something left tries again: the end of another request, test(), the keeper. The caller owns the context. */
static void flush(struct connection *c)
{
	unsigned taken = atomic_load_explicit(&c->taken, memory_order_relaxed);

	while (taken != atomic_load_explicit(&c->queued, memory_order_acquire)) {
		struct request *r = c->queue[taken % NCCL_REQUESTS];
		int error = c->channel ? post(c, r) : -ECANCELED;

		if (error == -ENOBUFS)
			break;
		if (error)
			request_end(r, error, 0);
		atomic_store_explicit(&c->taken, ++taken, memory_order_release);
	}
}

static void flush_work(struct gw_service_work *work, struct gw_context *ctx)
{
	struct connection *c =
		(struct connection *)((char *)work - offsetof(struct connection, work));

	(void)ctx;
	atomic_store(&c->work_posted, false);
	flush(c);
}

void requests_open(struct connection *c)
{
	c->work.run = flush_work;
	for (unsigned i = 0; i < NCCL_REQUESTS; i++)
		c->request[i].connection = c;
}

bool requests_are_queued(struct connection *c)
{
	return atomic_load_explicit(&c->queued, memory_order_relaxed) !=
	       atomic_load_explicit(&c->taken, memory_order_relaxed);
}

void requests_flush_later(struct connection *c)
{
	if (atomic_exchange(&c->work_posted, true))
		return;
	atomic_fetch_add_explicit(&c->hand_overs, 1, memory_order_relaxed);
	gw_service_post(c->endpoint->service, c->index, &c->work);
}

void requests_cancel(struct connection *c)
{
	flush(c);
	for (unsigned i = 0; i < NCCL_REQUESTS; i++) {
		if (atomic_load(&c->request[i].state) == REQUEST_OPEN)
			request_end(&c->request[i], -ECANCELED, 0);
	}
}

bool requests_are_open(struct connection *c)
{
	for (unsigned i = 0; i < NCCL_REQUESTS; i++) {
		int state = atomic_load(&c->request[i].state);

		if (state == REQUEST_QUEUED || state == REQUEST_OPEN)
			return true;
	}
	return false;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

int core_register(void *connection, void *data, size_t size, int type, void **handle)
{
	struct connection *c = connection;
	struct memory *memory;
	int error;

	*handle = NULL;
	if (type != NCCL_MEMORY_HOST) {
		say_warn("memory of type %d cannot be registered, only the host's", type);
		return NCCL_INTERNAL_ERROR;
	}
	memory = calloc(1, sizeof(*memory));
	error = memory ? gw_service_enter(c->endpoint->service, c->index) : -ENOMEM;
	if (!error) {
		error = gw_mr_register(gw_service_context(c->endpoint->service, c->index), data,
				       size, &memory->mr);
		gw_service_leave(c->endpoint->service, c->index);
	}
	if (error) {
		free(memory);
		say_warn("%zu bytes of memory cannot be registered: %s", size, strerror(-error));
		return NCCL_SYSTEM_ERROR;
	}
	*handle = memory;
	return NCCL_SUCCESS;
}

/* True if a request uses the memory; if `cancel`, it is told to end. The caller owns the context. */
static bool in_use(struct connection *c, const struct memory *memory, bool cancel)
{
	bool used = false;

	for (unsigned i = 0; i < NCCL_REQUESTS; i++) {
		struct request *r = &c->request[i];

		if (atomic_load(&r->state) != REQUEST_OPEN || r->memory != memory)
			continue;
		if (cancel)
			gw_op_cancel(r->op);
		used = true;
	}
	return used;
}

/*
 * NCCL takes memory back before it closes, on an abort with requests open, and frees it right away. So requests that use it are
 * cancelled, and this returns when they have ended. If they do not end in time the connection is closed, which ends all at once.
 */
int core_deregister(void *connection, void *handle)
{
	struct connection *c = connection;
	struct memory *memory = handle;
	struct gw_context *ctx;
	uint64_t begin;

	if (!memory || atomic_load(&process.forked))
		return NCCL_SUCCESS;
	if (gw_service_enter(c->endpoint->service, c->index))
		return NCCL_INTERNAL_ERROR;
	ctx = gw_service_context(c->endpoint->service, c->index);
	flush(c);
	if (atomic_load(&c->taken) != atomic_load(&c->queued))
		connection_shut(c);
	if (in_use(c, memory, true)) {
		begin = now_ns();
		while (in_use(c, memory, false) && now_ns() - begin < CANCEL_NS)
			gw_progress(ctx);
		if (in_use(c, memory, false))
			connection_shut(c);
	}
	gw_mr_deregister(memory->mr);
	gw_service_leave(c->endpoint->service, c->index);
	free(memory);
	return NCCL_SUCCESS;
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* Posts what is queued in the calling thread, if messages are small and nobody else owns the context; false: neither. Then it
 * makes a turn of progress, if that is wanted. */
static bool move(struct connection *c, bool turn)
{
	struct gw_service *service = c->endpoint->service;

	if (mover_is_engine(&c->mover) || gw_service_try_enter(service, c->index))
		return false;
	flush(c);
	if (turn)
		gw_progress(gw_service_context(service, c->index));
	gw_service_leave(service, c->index);
	if (turn)
		atomic_fetch_add_explicit(&c->caller_turns, 1, memory_order_relaxed);
	return true;
}

/*
 * Has the queue emptied: here, if messages are small and nobody else owns the context. Large ones are left to the context's
 * thread where processors are many: NCCL has one thread for all connections, and what that copies itself is copied by one
 * processor. A send leaves at once. What a receive has to tell the peer leaves with the turn that test() makes: NCCL posts several
 * receives one after the other, and each turn would be a datagram for each of them.
 */
static void kick(struct connection *c, bool turn)
{
	if (!move(c, turn))
		requests_flush_later(c);
}

static struct request *find_free(struct connection *c)
{
	for (unsigned i = 0; i < NCCL_REQUESTS; i++) {
		struct request *r = &c->request[(c->next_request + i) % NCCL_REQUESTS];

		if (atomic_load_explicit(&r->state, memory_order_relaxed) == REQUEST_FREE) {
			c->next_request += i + 1;
			return r;
		}
	}
	return NULL;
}

static int start(struct connection *c, void *data, size_t size, void *handle, void **request)
{
	unsigned queued = atomic_load_explicit(&c->queued, memory_order_relaxed);
	struct request *r;

	*request = NULL;
	if (atomic_load_explicit(&process.forked, memory_order_relaxed))
		return NCCL_INVALID_USAGE;
	if (atomic_load_explicit(&c->status, memory_order_relaxed))
		return NCCL_REMOTE_ERROR;
	r = find_free(c);
	if (!r)
		return NCCL_SUCCESS;
	r->data = data;
	r->memory = handle;
	r->op = NULL;
	atomic_store_explicit(&r->size, size, memory_order_relaxed);
	atomic_store_explicit(&r->since_ns, now_ns(), memory_order_relaxed);
	atomic_store_explicit(&r->state, REQUEST_QUEUED, memory_order_relaxed);
	/* Receives are as large as the buffer, whatever comes. */
	if (c->sending)
		note_size(c, size);
	c->queue[queued % NCCL_REQUESTS] = r;
	atomic_store_explicit(&c->queued, queued + 1, memory_order_release);
	kick(c, c->sending);
	*request = r;
	return NCCL_SUCCESS;
}

int core_isend(void *sender, void *data, size_t size, void *handle, void **request)
{
	return start(sender, data, size, handle, request);
}

int core_irecv(void *receiver, void *data, size_t size, void *handle, void **request)
{
	return start(receiver, data, size, handle, request);
}

/* Ends a connection whose peer sent more than a receive takes: the peer's send may have ended well already. */
static void refuse(struct connection *c)
{
	if (gw_service_enter(c->endpoint->service, c->index))
		return;
	connection_shut(c);
	gw_service_leave(c->endpoint->service, c->index);
}

/* Says once for a connection why its requests fail. */
static int fail(struct connection *c, const struct request *r)
{
	if (r->status == -EMSGSIZE && !c->sending)
		refuse(c);
	if (!c->complained) {
		c->complained = true;
		say_warn("%s %s at %s failed: %s", c->sending ? "a send to" : "a receive from",
			 c->peer, c->peer_address,
			 r->status == -EMSGSIZE	    ? "the message is longer than its receive"
			 : r->status == -ECONNRESET ? "the peer closed the connection"
			 : r->status == -ETIMEDOUT  ? "the peer is silent"
						    : strerror(-r->status));
	}
	return r->status == -ECONNRESET || r->status == -ETIMEDOUT || r->status == -EPROTO ||
			       r->status == -ECANCELED
		       ? NCCL_REMOTE_ERROR
		       : NCCL_INTERNAL_ERROR;
}

int core_test(void *request, int *done, int *size)
{
	struct request *r = request;
	struct connection *c = r->connection;
	int result = NCCL_SUCCESS;

	*done = 0;
	if (atomic_load_explicit(&process.forked, memory_order_relaxed))
		return NCCL_INVALID_USAGE;
	if (atomic_load_explicit(&r->state, memory_order_acquire) != REQUEST_ENDED) {
		if (requests_are_queued(c))
			kick(c, true);
		else
			move(c, true);
	}
	if (atomic_load_explicit(&r->state, memory_order_acquire) != REQUEST_ENDED)
		return NCCL_SUCCESS;
	if (r->status)
		result = fail(c, r);
	*done = 1;
	if (size)
		*size = (int)r->told;
	atomic_store_explicit(&r->state, REQUEST_FREE, memory_order_release);
	return result;
}
