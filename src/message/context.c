/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context: one fabric, the fixed pools that every request comes from, the timers, and gw_progress(), the one place
 * where anything happens.
 *
 * A turn of gw_progress() takes what the fabric has, lets receives look at what landed, fires timers, sends the control
 * that is owed, sends data while the gates allow it, and last tells the ends of requests. Ends come last and from lists,
 * so that a callback may close or post anything without pulling a list from under the loop that called it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/zero.h"
#include "fabric/refuse.h"
#include "message/context.h"
#include "message/trace.h"

#define DEFAULT_QPS	     16384
#define DEFAULT_SENDS	     4096
#define DEFAULT_RECVS	     4096
#define DEFAULT_MRS	     16384
#define DEFAULT_BITMAP_BYTES (UINT64_C(16) << 20)
#define LIMIT_OBJECTS	     (1u << 24)

void timer_set(struct gw_context *ctx, struct timer *timer, uint64_t at)
{
	/* One that is due stays due: if it were put off, a queue pair that hears something in every turn would never fire. One that
	 * becomes due now fires in the next turn, so that firing the due ones comes to an end. */
	if (at <= ctx->now && heap_contains(&timer->node) && timer->node.key <= ctx->now)
		return;
	if (at <= ctx->now)
		at = ctx->now + 1;
	if (at == NEVER)
		heap_remove(&ctx->timers, &timer->node);
	else if (!heap_contains(&timer->node) || timer->node.key != at)
		heap_update(&ctx->timers, &timer->node, at);
}

void timer_hasten(struct gw_context *ctx, struct timer *timer)
{
	if (heap_contains(&timer->node))
		timer_set(ctx, timer, ctx->now);
}

const char *gw_context_error(const struct gw_context *ctx)
{
	return ctx ? ctx->fabric->error : open_refusal();
}

static void free_all(struct gw_context *ctx)
{
	pool_destroy(&ctx->qps);
	pool_destroy(&ctx->sends);
	pool_destroy(&ctx->recvs);
	pool_destroy(&ctx->grants);
	pool_destroy(&ctx->puts);
	pool_destroy(&ctx->mrs);
	context_groups_close(ctx);
	arena_destroy(&ctx->arena);
	heap_destroy(&ctx->timers);
	free(ctx);
}

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

static bool attr_sane(const struct gw_context_attr *attr)
{
	return array_is_zero(attr->reserved) && array_is_zero(attr->reserved8) &&
	       attr->max_qps <= LIMIT_OBJECTS && attr->max_sends <= LIMIT_OBJECTS &&
	       attr->max_recvs <= LIMIT_OBJECTS && attr->bitmap_bytes <= UINT64_C(1) << 40;
}

int context_open_on(struct fabric *fabric, const struct gw_context_attr *attr,
		    struct gw_context **out)
{
	struct gw_context *ctx = calloc(1, sizeof(*ctx));
	uint32_t qps = or_default(attr->max_qps, DEFAULT_QPS);
	uint32_t sends = or_default(attr->max_sends, DEFAULT_SENDS);
	uint32_t recvs = or_default(attr->max_recvs, DEFAULT_RECVS);
	int error = -EINVAL;

	if (!ctx) {
		error = -ENOMEM;
		goto close_fabric;
	}
	ctx->fabric = fabric;
	credit_open(ctx);
	list_init(&ctx->all_qps);
	list_init(&ctx->runnable);
	list_init(&ctx->unarmed);
	list_init(&ctx->senders);
	list_init(&ctx->gone);
	list_init(&ctx->touched);
	list_init(&ctx->ended_sends);
	list_init(&ctx->ended_recvs);
	heap_init(&ctx->timers);
	if (!attr_sane(attr))
		goto free_context;
	if ((error = pool_init(&ctx->qps, sizeof(struct gw_qp), qps)) ||
	    (error = pool_init(&ctx->sends, sizeof(struct gw_send), sends)) ||
	    (error = pool_init(&ctx->recvs, sizeof(struct gw_recv), recvs)) ||
	    (error = pool_init(&ctx->grants, sizeof(struct grant),
			       GRANTS_COMMON + GRANTS_EACH * qps)) ||
	    (error = pool_init(&ctx->puts, sizeof(struct put), PUTS_COMMON + PUTS_EACH * qps)) ||
	    (error = pool_init(&ctx->mrs, sizeof(struct gw_mr), DEFAULT_MRS)) ||
	    (error = arena_init(&ctx->arena,
				attr->bitmap_bytes ? attr->bitmap_bytes : DEFAULT_BITMAP_BYTES)) ||
	    (error = context_groups_open(ctx)) ||
	    (error = heap_reserve(&ctx->timers, 2 * (size_t)qps + sends + recvs + GW_GROUPS_MAX)))
		goto free_context;
	trace_open();
	ctx->now = fabric->ops->now_ns(fabric);
	*out = ctx;
	return 0;

free_context:
	free_all(ctx);
close_fabric:
	open_refuse(
		LOG_LEVEL_INFO, error,
		error == -EINVAL
			? "a limit of the context is too large, or a reserved attribute is not 0"
			: "no memory for the context's pools");
	fabric->ops->close(fabric);
	return error;
}

int gw_context_close(struct gw_context *ctx)
{
	struct list *item;

	if (!ctx)
		return -EINVAL;
	if (ctx->busy)
		return -EBUSY;
	while ((item = list_first(&ctx->all_qps))) {
		struct gw_qp *qp = container_of(item, struct gw_qp, link);

		if (qp->handler && qp->handler->closed)
			qp->handler->closed(qp, qp->arg);
		if (list_first(&ctx->all_qps) == item)
			gw_qp_close(qp);
	}
	mrs_close(ctx);
	ctx->fabric->ops->close(ctx->fabric);
	free_all(ctx);
	return 0;
}

static void take(const struct fabric_event *event)
{
	struct gw_qp *qp = event->user;

	if (!qp_valid(qp))
		return; /* closed by a callback since the event was made */
	qp->ctx->arrived =
		event->at_ns && event->at_ns < qp->ctx->now ? event->at_ns : qp->ctx->now;
	switch (event->type) {
	case FABRIC_DATA:
		reach_heard(qp, event->data.length, event->data.more + 1);
		recv_land(qp, event);
		break;
	case FABRIC_CONTROL:
		reach_heard(qp, event->control.length, 1);
		control_received(qp, event->control.bytes, event->control.length);
		break;
	case FABRIC_EXPOSED:
		recv_exposed(qp, event);
		break;
	case FABRIC_EXPOSE_FAILED:
		recv_expose_failed(qp, event);
		break;
	case FABRIC_FENCED:
		recv_fenced(qp, event->slot);
		break;
	case FABRIC_GROUP: /* context_group_event() has it */
		break;
	case FABRIC_CNP:
		gate_cnp(qp);
		break;
	case FABRIC_SENT:
		data_flushed(qp, event->count);
		break;
	}
}

/* Whether the second event is the packet that goes on with the first. Of a run only the last arrival's time counts. */
static bool goes_on(const struct fabric_event *run, const struct fabric_event *event)
{
	return event->type == FABRIC_DATA && event->user == run->user && event->slot == run->slot &&
	       event->data.packet == run->data.packet + run->data.more + 1 &&
	       event->data.length == run->data.length &&
	       event->data.user_bits == run->data.user_bits &&
	       event->generation == run->generation && event->lane == run->lane &&
	       event->ce == run->ce;
}

/* Makes one event, the last, of the events from the first on that are a run of packets. Returns its index. */
static int join(struct fabric_event *events, int first, int count_)
{
	int last = first;

	while (last + 1 < count_ && goes_on(&events[last], &events[last + 1])) {
		events[last + 1].data.packet = events[last].data.packet;
		events[last + 1].data.more += events[last].data.more + 1;
		last++;
	}
	return last;
}

static int fire_timers(struct gw_context *ctx)
{
	struct heap_node *node = heap_min(&ctx->timers);
	int fired = 0;

	if (node && node->key <= ctx->now)
		qp_arm_all(ctx); /* what was due may have come off */
	while ((node = heap_min(&ctx->timers)) && node->key <= ctx->now) {
		struct timer *timer = container_of(node, struct timer, node);
		struct gw_send *send;
		struct gw_recv *recv;
		struct gw_qp *qp;

		heap_remove(&ctx->timers, node);
		fired++;
		switch (timer->kind) {
		case TIMER_QP:
			qp_timer(container_of(timer, struct gw_qp, timer));
			break;
		case TIMER_QP_USER:
			qp = container_of(timer, struct gw_qp, user_timer);
			if (qp->handler && qp->handler->timer)
				qp->handler->timer(qp, qp->arg, ctx->now);
			break;
		case TIMER_SEND:
			send = container_of(timer, struct gw_send, timer);
			if (send->handler && send->handler->timer)
				send->handler->timer(send, send->arg, ctx->now);
			break;
		case TIMER_RECV:
			recv = container_of(timer, struct gw_recv, timer);
			if (recv->handler && recv->handler->timer)
				recv->handler->timer(recv, recv->arg, ctx->now);
			break;
		case TIMER_GROUP:
			group_timer_fired(container_of(timer, struct gw_group, timer));
			break;
		}
	}
	return fired;
}

static int show_progress(struct gw_context *ctx)
{
	struct list *item;
	int shown = 0;

	while ((item = list_first(&ctx->touched))) {
		struct gw_recv *recv = container_of(item, struct gw_recv, touched);

		list_del(item);
		shown++;
		/* More may be granted as data lands. */
		if (recv->qp && !recv->qp->size.peer_settled)
			recv_place(recv->qp);
		if (recv->handler && recv->handler->progress)
			recv->handler->progress(recv, recv->arg, ctx->now);
	}
	return shown;
}

static int tell_ends(struct gw_context *ctx)
{
	struct list *item;
	int told = 0;

	while ((item = list_first(&ctx->ended_sends))) {
		list_del(item);
		send_tell(container_of(item, struct gw_send, ended_link));
		told++;
	}
	while ((item = list_first(&ctx->ended_recvs))) {
		list_del(item);
		recv_tell(container_of(item, struct gw_recv, ended_link));
		told++;
	}
	while ((item = list_first(&ctx->gone))) {
		struct gw_qp *qp = container_of(item, struct gw_qp, data_link);

		list_del(item);
		told++;
		if (qp->handler && qp->handler->gone)
			qp->handler->gone(qp, qp->arg, qp->status, ctx->now);
	}
	return told;
}

/* Whether nothing is left to do in a turn in which nothing came. */
static bool turn_is_over(const struct gw_context *ctx)
{
	const struct heap_node *node = heap_min(&ctx->timers);

	return list_empty(&ctx->touched) && list_empty(&ctx->runnable) &&
	       list_empty(&ctx->senders) && list_empty(&ctx->ended_sends) &&
	       list_empty(&ctx->ended_recvs) && list_empty(&ctx->gone) &&
	       list_empty(&ctx->unarmed) && (!node || node->key > ctx->now);
}

int gw_progress(struct gw_context *ctx)
{
	struct fabric_event events[FABRIC_EVENTS];
	struct fabric *fabric;
	struct list *item;
	int count_, work;

	if (!ctx)
		return -EINVAL;
	if (ctx->busy)
		return -EBUSY;
	ctx->busy = true;
	fabric = ctx->fabric;
	count_ = fabric->ops->poll(fabric, events);
	ctx->now = fabric->polled_ns ? fabric->polled_ns : fabric->ops->now_ns(fabric);
	for (int i = 0; i < count_; i++) {
		if (events[i].type == FABRIC_DATA)
			i = join(events, i, count_);
		else if (context_group_event(ctx, &events[i]))
			continue;
		take(&events[i]);
	}
	work = count_ + context_groups_turn(ctx);
	credit_update(ctx);
	if (!work && turn_is_over(ctx)) {
		ctx->busy = false;
		return 0;
	}
	work += show_progress(ctx);
	work += fire_timers(ctx);
	work += tell_ends(ctx); /* what their callbacks ask for is part of this turn */
	while ((item = list_first(&ctx->runnable))) {
		struct gw_qp *qp = container_of(item, struct gw_qp, run_link);

		list_del(item);
		qp_run(qp);
	}
	control_flush(ctx);
	work += data_send(ctx);
	work += tell_ends(ctx);
	control_flush(ctx);
	qp_arm_all(ctx);
	ctx->busy = false;
	return work;
}

uint64_t context_deadline_ns(const struct gw_context *ctx)
{
	const struct heap_node *node = heap_min(&ctx->timers);
	uint64_t at = ctx->fabric->ops->deadline_ns(ctx->fabric);

	if (node && node->key < at)
		at = node->key;
	if (!list_empty(&ctx->runnable) || !list_empty(&ctx->ended_sends) ||
	    !list_empty(&ctx->ended_recvs) || !list_empty(&ctx->gone))
		at = 0;
	return at;
}

/* Whether no data waits to be sent and no receive to be looked at. */
static bool nothing_waits(const struct gw_context *ctx)
{
	return list_empty(&ctx->senders) && list_empty(&ctx->touched);
}

bool context_quiet(const struct gw_context *ctx)
{
	return nothing_waits(ctx) && context_deadline_ns(ctx) > gw_now_ns(ctx);
}

/* Whether the last turn left nothing to do before this deadline, and sleeping may begin without another. */
static bool may_sleep(struct gw_context *ctx, uint64_t deadline)
{
	if (!ctx->fabric->idle || ctx->busy || !nothing_waits(ctx))
		return false;
	ctx->now = gw_now_ns(ctx);
	return deadline > ctx->now;
}

int gw_wait(struct gw_context *ctx, uint64_t timeout_ns)
{
	uint64_t until, deadline;
	int work, error;

	if (!ctx)
		return -EINVAL;
	deadline = context_deadline_ns(ctx);
	if (!may_sleep(ctx, deadline)) {
		work = gw_progress(ctx);
		if (work)
			return work;
		deadline = context_deadline_ns(ctx);
	}
	ctx->fabric->idle = false;
	until = ctx->now + timeout_ns < ctx->now ? NEVER : ctx->now + timeout_ns;
	error = fabric_wait(ctx->fabric, deadline < until ? deadline : until);
	if (error)
		return error;
	return gw_progress(ctx);
}

_Static_assert(GW_WATCH_MAX >= FABRIC_FDS, "a caller's array holds every descriptor of a fabric");

int gw_watch(struct gw_context *ctx, struct pollfd *fds, unsigned room, uint64_t *until_ns)
{
	int count;

	if (!ctx || !fds || !until_ns || room < GW_WATCH_MAX)
		return -EINVAL;
	if (ctx->busy)
		return -EBUSY;
	count = ctx->fabric->ops->watch ? ctx->fabric->ops->watch(ctx->fabric, fds) : -ENOTSUP;
	if (count < 0 && count != -EAGAIN)
		return count;
	*until_ns = count < 0 ? 0 : context_deadline_ns(ctx);
	return count < 0 ? 0 : count;
}

int gw_watched(struct gw_context *ctx, const struct pollfd *fds, unsigned count)
{
	if (!ctx || !fds)
		return -EINVAL;
	if (ctx->busy)
		return -EBUSY;
	if (count)
		ctx->fabric->ops->watched(ctx->fabric, fds);
	return 0;
}

int gw_context_room(const struct gw_context *ctx, struct gw_room *out)
{
	if (!ctx || !out)
		return -EINVAL;
	*out = (struct gw_room){ .sends = ctx->sends.count - pool_used(&ctx->sends),
				 .recvs = ctx->recvs.count - pool_used(&ctx->recvs),
				 .pinned = ctx->fabric->caps.generation_bits > 0 };
	return 0;
}

uint64_t gw_now_ns(const struct gw_context *ctx)
{
	return ctx ? ctx->fabric->ops->now_ns(ctx->fabric) : 0;
}
