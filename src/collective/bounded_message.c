/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of bounded operations: in order with each rank, posted as soon as the channel takes them. */
#include <errno.h>
#include <string.h>

#include "collective/bounded.h"

struct message *message_add(struct bounded *run, uint32_t peer, enum message_kind kind,
			    bool sending, void *addr, uint64_t length, struct gw_mr *mr)
{
	struct message_queue *queue = sending ? &run->peers[peer].out : &run->peers[peer].in;
	struct message *message = &queue->items[queue->count];

	/* A shard may have no elements. Both ends know. */
	if (!length)
		return NULL;
	queue->count++;
	*message = (struct message){ .run = run,
				     .peer = peer,
				     .kind = kind,
				     .sending = sending,
				     .addr = addr,
				     .length = length,
				     .mr = mr };
	run->open++;
	/* Results that others have to fetch are no concern of this rank's caller. Shares leave from the caller's memory. */
	if (kind == MESSAGE_SHARE || (!sending && kind != MESSAGE_HAIL))
		run->waits++;
	return message;
}

static void part_over(void *arg, const struct gw_recv *recv, uint64_t offset, uint64_t length)
{
	struct message *message = arg;

	if (message->abandoned)
		return;
	holes_part(&message->run->peers[message->peer].holes, recv, offset, length);
}

static void share_over(struct message *message, bool failed)
{
	struct bounded *run = message->run;

	if (message->abandoned)
		return;
	holes_settle(&run->peers[message->peer].holes, message->length, failed);
	run->timed_out |= failed;
	/* A column sends after its rows: its shares are not held. */
	run->shares_open -= !message->round;
	message_let_share(run);
	if (!--run->rounds[message->round].shares_left)
		bounded_shares_over(run, message->round);
}

static void moved(struct gw_op *op, void *arg, const struct gw_op_result *result)
{
	struct message *message = arg;
	struct bounded *run = message->run;
	struct gw_comm *comm = run->comm;
	/* Both ends of a share may end without it. */
	bool given_up = message->kind == MESSAGE_SHARE &&
			(result->status == -ETIMEDOUT || result->status == -ECANCELED);

	gw_op_close(op);
	message->op = NULL;
	if (!coll_fits(run->coll, !message->sending, message->length, result))
		coll_disagree(run->coll, message->peer, !message->sending, message->length, result);
	/* Of other failures the channel's `gone` tells. */
	if (comm->status || (result->status && !given_up))
		return;
	message->ended = true;
	run->open--;
	if (message->kind == MESSAGE_SHARE || (!message->sending && message->kind != MESSAGE_HAIL))
		run->waits--;
	if (!message->sending && message->kind == MESSAGE_HAIL)
		plan_hailed(run, message->peer);
	else if (!message->sending && message->kind == MESSAGE_PLAN && !plan_is_sound(run))
		comm_fail(comm, true, -EPROTO, "rank %u sent rank %u a plan of no ranks",
			  message->peer, comm->rank);
	else if (!message->sending && message->kind == MESSAGE_PLAN)
		bounded_follow(run);
	else if (!message->sending && message->kind == MESSAGE_SHARE)
		share_over(message, result->status);
	else if (!message->sending && message->kind != MESSAGE_PLAN && bounded_in_grid(run))
		grid_told(run, message->peer);
	bounded_check(run);
	if (comm->starved)
		coll_feed(comm);
}

static int post(struct message *message)
{
	struct bounded *run = message->run;
	struct gw_op_attr attr = { .addr = message->addr,
				   .length = message->length,
				   .mr = message->mr,
				   .done = moved,
				   .arg = message,
				   .label = run->coll->label };
	struct gw_channel *channel;
	int error = link_channel(run->comm, coll_track(run->coll), message->peer, &channel);

	if (error)
		return error;
	if (message->kind == MESSAGE_SHARE) {
		if (run->attr.recovery != GW_RECOVER_CODED)
			attr.scheme = &gw_bounded;
		if (!message->sending) {
			attr.options = attr.scheme ? &run->rounds[message->round].options : NULL;
			attr.part = part_over;
			attr.deadline_ns = run->rounds[message->round].deadline_ns;
		}
	}
	error = message->sending ? gw_channel_send(channel, &attr, &message->op)
				 : gw_channel_recv(channel, &attr, &message->op);
	if (error == -ENOBUFS)
		run->comm->starved = true;
	return error == -ENOBUFS ? -EAGAIN : error;
}

static int pump(struct bounded *run, struct message_queue *queue)
{
	while (queue->next < queue->count && !queue->items[queue->next].held) {
		int error = post(&queue->items[queue->next]);

		if (error)
			return error == -EAGAIN ? 0 : error;
		queue->next++;
	}
	return 0;
}

bool message_pump_one(struct bounded *run, uint32_t peer)
{
	const struct bounded_peer *other = &run->peers[peer];
	int error = pump(run, &run->peers[peer].in);

	if (!error)
		error = pump(run, &run->peers[peer].out);
	if (error)
		comm_fail(run->comm, true, error,
			  "rank %u could not go on with bounded %s number %u: %s", run->comm->rank,
			  operation_name(run->coll->task.operation), run->coll->number,
			  strerror(-error));
	return other->in.next == other->in.count && other->out.next == other->out.count;
}

void message_pump(struct bounded *run, uint32_t peer)
{
	if (run->kept || keep_pump(run->comm, coll_track(run->coll), peer))
		message_pump_one(run, peer);
}

/* Those ahead of this rank last, as they are the last to send here. */
void message_let_share(struct bounded *run)
{
	uint32_t size = run->comm->size;

	for (uint32_t i = 1; i < size && run->shares_open < run->plan.incast; i++) {
		uint32_t peer = (run->comm->rank + size - i) % size;
		struct message_queue *queue = &run->peers[peer].in;

		for (uint32_t m = 0; m < queue->count; m++) {
			if (!queue->items[m].held)
				continue;
			queue->items[m].held = false;
			run->shares_open++;
			message_pump(run, peer);
		}
	}
}

void message_abandon_shares(struct bounded *run, uint32_t round)
{
	for (uint32_t r = 0; r < run->comm->size; r++) {
		struct message_queue *queue = &run->peers[r].in;

		for (uint32_t m = queue->next; m < queue->count; m++) {
			struct message *message = &queue->items[m];

			if (message->kind != MESSAGE_SHARE || message->round != round)
				continue;
			message->abandoned = true;
			run->shares_open -= !message->held && !round;
			message->held = false;
			run->peers[r].share = NULL;
			run->timed_out = true;
			run->rounds[round].shares_left--;
		}
		message_pump(run, r);
	}
	if (!run->rounds[round].shares_left && !run->rounds[round].over)
		bounded_shares_over(run, round);
}
