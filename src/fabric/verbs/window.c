/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: memory that a peer may write to, opened for each receive and closed after it.
 *
 * In UC mode each is a type-1 memory window, which is valid for every queue pair of the protection domain. Binding it, by
 * the endpoint's binder, gives it a new key; binding it to no memory closes it. The key is told only after the bind has
 * completed. A window is closed when the unbind has completed, and fenced when the completions of packets that landed
 * before were read as well: when its queue pair's completion queue was seen empty after that.
 *
 * The low 8 bits of a key count the binds, and wrap. So windows are reused in the order in which they were given back, and
 * new ones are made until 256 are not in use: a key comes back after tens of thousands of receives, not after 128.
 *
 * A bind that fails is tried again on a new memory window, up to FAILURES_MAX times. After that, or when the device has
 * failed, FABRIC_EXPOSE_FAILED tells it, so that the receive can end.
 *
 * In UD mode software checks the keys, and a window is an entry in a table and no more.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/endpoint.h"

#define WINDOWS_MAX 65536u
/* Windows not in use that there have to be before one is used again. */
#define RESTING 256u
/* Binds of a window that may fail before it is given up. */
#define FAILURES_MAX 8u
/* Longest wait for binds under way when a queue pair is destroyed. */
#define SETTLE_NS UINT64_C(100000000)

int windows_open(struct verbs_endpoint *endpoint)
{
	struct ibv_device_attr attr;

	endpoint->windows_limit = WINDOWS_MAX;
	if (!endpoint->ud && !ibv_query_device(endpoint->context, &attr) && attr.max_mw > 0 &&
	    (uint32_t)attr.max_mw < WINDOWS_MAX)
		endpoint->windows_limit = (uint32_t)attr.max_mw;
	return pool_init(&endpoint->windows, sizeof(struct verbs_window), endpoint->windows_limit);
}

void windows_close(struct verbs_endpoint *endpoint)
{
	struct list *item;

	while ((item = list_first(&endpoint->windows_free))) {
		struct verbs_window *window = container_of(item, struct verbs_window, link);

		list_del(item);
		if (window->mw)
			ibv_dealloc_mw(window->mw);
	}
	pool_destroy(&endpoint->windows);
}

static int make_mw(struct verbs_endpoint *endpoint, struct verbs_window *window)
{
	errno = ENOMEM;
	window->mw = ibv_alloc_mw(endpoint->pd, IBV_MW_TYPE_1);
	return window->mw ? 0 : -errno;
}

/* A window without a memory window; null: there are as many as can be. */
static struct verbs_window *window_bare(struct verbs_endpoint *endpoint)
{
	struct verbs_window *window = pool_get(&endpoint->windows);

	if (window)
		list_init(&window->link);
	return window;
}

static struct verbs_window *window_new(struct verbs_endpoint *endpoint)
{
	struct verbs_window *window = window_bare(endpoint);

	if (!window)
		return NULL;
	if (!endpoint->ud && make_mw(endpoint, window)) {
		pool_put(&endpoint->windows, window);
		return NULL;
	}
	return window;
}

static struct verbs_window *window_get(struct verbs_endpoint *endpoint)
{
	struct verbs_window *window = NULL;

	if (endpoint->windows_idle < RESTING && !endpoint->ud)
		window = window_new(endpoint);
	if (!window && endpoint->windows_idle) {
		window = container_of(list_first(&endpoint->windows_free), struct verbs_window,
				      link);
		list_del(&window->link);
		endpoint->windows_idle--;
	}
	return window ? window : window_new(endpoint);
}

static void window_put(struct verbs_endpoint *endpoint, struct verbs_window *window)
{
	list_del(&window->link);
	list_add_tail(&endpoint->windows_free, &window->link);
	endpoint->windows_idle++;
}

static void tell(struct verbs_endpoint *endpoint, struct verbs_window *window)
{
	list_del(&window->link);
	list_add_tail(&endpoint->windows_tell, &window->link);
}

static void shut(struct verbs_endpoint *endpoint, struct verbs_window *window)
{
	window->state = WINDOW_DRAINING;
	window->mark = window->qp->cq->empties;
	list_del(&window->link);
	list_add_tail(&endpoint->windows_draining, &window->link);
}

/* Tells that the window cannot be opened. Its memory window, if it has one, is not bound. */
static void fail_expose(struct verbs_endpoint *endpoint, struct verbs_window *window, int status)
{
	log_warn("verbs:%s: cannot open a memory window to %llu bytes at %p: %s",
		 endpoint->name.device, (unsigned long long)window->length, (void *)window->addr,
		 strerror(-status));
	window->state = WINDOW_FAILED;
	window->status = status;
	tell(endpoint, window);
}

static void drop_mw(struct verbs_window *window)
{
	if (window->mw)
		ibv_dealloc_mw(window->mw);
	window->mw = NULL;
}

/* Gives up a window that the device neither binds nor unbinds. One that was to be closed is closed by destroying its memory
 * window. */
static void give_up(struct verbs_endpoint *endpoint, struct verbs_window *window, int status)
{
	if (window->state == WINDOW_BINDING) {
		fail_expose(endpoint, window, status);
	} else {
		drop_mw(window);
		shut(endpoint, window);
	}
}

/* Posts binds and unbinds that wait, as far as the binder has room. */
static void post_queued(struct verbs_endpoint *endpoint)
{
	struct queue *binder = endpoint->binder;
	struct list *item;

	while ((item = list_first(&endpoint->windows_queued)) && binder->send_room &&
	       list_empty(&binder->broken)) {
		struct verbs_window *window = container_of(item, struct verbs_window, link);
		bool opens = window->state == WINDOW_BINDING;
		struct ibv_mw_bind bind = {
			.wr_id = wr_id(endpoint, binder->seat, REQUEST_BIND,
				       pool_index(&endpoint->windows, window)),
			.send_flags = IBV_SEND_SIGNALED,
			.bind_info = { .mr = window->mr },
		};
		int error;

		if (opens) {
			bind.bind_info.addr = (uintptr_t)window->addr;
			bind.bind_info.length = window->length;
			bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
		}
		error = ibv_bind_mw(binder->qp, window->mw, &bind);
		if (error) {
			if (++window->failures > FAILURES_MAX)
				give_up(endpoint, window, -error);
			queue_break(binder, "it takes no binds");
			return;
		}
		list_del(item);
		window->posted = true;
		binder->send_room--;
	}
}

static void queue_up(struct verbs_endpoint *endpoint, struct verbs_window *window,
		     enum window_state state)
{
	window->state = (uint8_t)state;
	list_del(&window->link);
	list_add_tail(&endpoint->windows_queued, &window->link);
	post_queued(endpoint);
}

int verbs_expose(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t generation,
		 struct fabric_mr *mr, void *addr, uint64_t length, uint32_t payload)
{
	struct verbs_qp *qp = verbs_qp(fabric_qp);
	struct verbs_endpoint *endpoint = qp->endpoint;
	struct verbs_window *window;

	assert(payload == qp->payload);
	if (qp->windows[slot])
		return -EBUSY;
	window = window_get(endpoint);
	/* When no other window is in use none will be given back: waiting for one would never end. */
	if (!window && pool_used(&endpoint->windows) == endpoint->windows_idle)
		window = window_bare(endpoint);
	if (!window)
		return -EAGAIN;
	window->qp = qp;
	window->mr = (struct ibv_mr *)mr;
	window->addr = addr;
	window->length = length;
	window->slot = slot;
	window->generation = generation;
	window->failures = 0;
	qp->windows[slot] = window;
	if (endpoint->dead) {
		fail_expose(endpoint, window, -ENODEV);
	} else if (!window->mw && !endpoint->ud) {
		fail_expose(endpoint, window, -ENOMEM);
	} else if (endpoint->ud) {
		window->key = entropy_u32(&endpoint->entropy);
		window->state = WINDOW_OPEN;
		tell(endpoint, window);
	} else {
		queue_up(endpoint, window, WINDOW_BINDING);
	}
	return 0;
}

int verbs_fence(struct fabric_qp *fabric_qp, uint32_t slot)
{
	struct verbs_qp *qp = verbs_qp(fabric_qp);
	struct verbs_endpoint *endpoint = qp->endpoint;
	struct verbs_window *window = qp->windows[slot];

	if (!window || window->state != WINDOW_OPEN)
		return -ENOENT;
	if (endpoint->dead)
		drop_mw(window);
	if (endpoint->ud || endpoint->dead)
		shut(endpoint, window);
	else
		queue_up(endpoint, window, WINDOW_UNBINDING);
	return 0;
}

/* A bind failed, and it is not known which key the memory window has now: destroys it and tries again with a new one. */
static void bind_failed(struct verbs_endpoint *endpoint, struct verbs_window *window)
{
	int error;

	drop_mw(window);
	window->failures++;
	error = make_mw(endpoint, window);
	if (error || window->failures > FAILURES_MAX)
		fail_expose(endpoint, window, error ? error : -EIO);
	else
		list_add_tail(&endpoint->windows_queued, &window->link);
}

void windows_bound(struct verbs_endpoint *endpoint, uint32_t index, bool good)
{
	struct verbs_window *window = pool_at(&endpoint->windows, index);

	if (!window->posted)
		return;
	window->posted = false;
	endpoint->binder->send_room++;
	if (window->state == WINDOW_UNBINDING) {
		if (!good)
			drop_mw(window);
		shut(endpoint, window);
	} else if (good) {
		window->state = WINDOW_OPEN;
		tell(endpoint, window);
	} else {
		bind_failed(endpoint, window);
	}
}

/* The binder's completion queue was seen empty before it was reset, so that binds still marked as posted did not complete. */
void windows_repost(struct verbs_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->windows.fresh; i++) {
		struct verbs_window *window = pool_at(&endpoint->windows, i);

		if (pool_owns_live(&endpoint->windows, window) && window->posted)
			windows_bound(endpoint, i, false);
	}
	endpoint->binder->send_room = endpoint->binder->sends;
	post_queued(endpoint);
}

void windows_abandon(struct verbs_endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->windows.fresh; i++) {
		struct verbs_window *window = pool_at(&endpoint->windows, i);

		if (!pool_owns_live(&endpoint->windows, window) ||
		    (window->state != WINDOW_BINDING && window->state != WINDOW_UNBINDING))
			continue;
		window->posted = false; /* a completion that still comes is ignored */
		drop_mw(window);
		give_up(endpoint, window, -ENODEV);
	}
}

static bool under_way(const struct verbs_qp *qp)
{
	for (uint32_t slot = 0; slot < qp->slots; slot++)
		if (qp->windows[slot] && qp->windows[slot]->posted)
			return true;
	return false;
}

void windows_forget(struct verbs_qp *qp)
{
	struct verbs_endpoint *endpoint = qp->endpoint;
	uint64_t until = verbs_now_ns(&endpoint->fabric) + SETTLE_NS;

	while (under_way(qp) && verbs_now_ns(&endpoint->fabric) < until) {
		poll_binder(endpoint);
		queues_heal(endpoint);
	}
	if (under_way(qp)) /* a completion that still comes must be recognised as stale */
		queue_break(endpoint->binder, "a bind does not complete");
	for (uint32_t slot = 0; slot < qp->slots; slot++) {
		struct verbs_window *window = qp->windows[slot];

		if (!window)
			continue;
		/* Destroyed rather than unbound: the memory is the caller's when this returns. */
		if (window->mw)
			ibv_dealloc_mw(window->mw);
		list_del(&window->link);
		pool_put(&endpoint->windows, window);
		qp->windows[slot] = NULL;
	}
}

static void fill_event(struct verbs_window *window, struct fabric_event *event)
{
	memset(event, 0, sizeof(*event));
	event->type = FABRIC_FENCED;
	event->user = window->qp->user;
	event->slot = window->slot;
	event->generation = window->generation;
	if (window->state == WINDOW_FAILED) {
		event->type = FABRIC_EXPOSE_FAILED;
		event->status = window->status;
	} else if (window->state == WINDOW_OPEN) {
		event->type = FABRIC_EXPOSED;
		/* UD datagrams name a packet number, not an address. */
		event->exposed.va = window->mw ? (uintptr_t)window->addr : 0;
		event->exposed.rkey = window->mw ? window->mw->rkey : window->key;
	}
}

int windows_poll(struct verbs_endpoint *endpoint, struct fabric_event *events, int most)
{
	struct list *item, *after;
	int n = 0;

	if (endpoint->binder)
		post_queued(endpoint);
	list_for_each_safe (item, after, &endpoint->windows_draining) {
		struct verbs_window *window = container_of(item, struct verbs_window, link);

		if (window->qp->cq->empties > window->mark)
			tell(endpoint, window);
	}
	while (n < most && (item = list_first(&endpoint->windows_tell))) {
		struct verbs_window *window = container_of(item, struct verbs_window, link);

		list_del(item);
		fill_event(window, &events[n++]);
		if (window->state == WINDOW_OPEN)
			continue;
		window->qp->windows[window->slot] = NULL;
		if (window->mw || endpoint->ud)
			window_put(endpoint, window);
		else
			pool_put(&endpoint->windows, window);
	}
	return n;
}
