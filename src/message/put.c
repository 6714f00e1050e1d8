/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts: ranges of a message that wait to be sent, in the order in which they will be.
 *
 * Repairs stand before what was never sent, and among themselves in the order in which they were asked for. So whatever
 * is sent for the first time after a repair was put leaves after that repair, and proves it lost when it lands alone.
 */
#include <assert.h>
#include <errno.h>

#include "message/state.h"

static void give_back(struct gw_send *send, struct put *put)
{
	put->mr->users--;
	send->qp->tx.puts--;
	pool_put(&send->ctx->puts, put);
}

void put_drop_all(struct gw_send *send)
{
	while (send->head) {
		struct put *put = send->head;

		send->head = put->next;
		give_back(send, put);
	}
	send->tail = NULL;
	send->puts = 0;
}

void put_done(struct gw_send *send)
{
	struct put *put = send->head;

	send->head = put->next;
	if (!send->head)
		send->tail = NULL;
	send->puts--;
	give_back(send, put);
}

/* Where the next repair goes: behind those that wait, before what was never sent. Its packets become none when one of
 * those covers it: then it is about to be sent, or has just been. */
static struct put **repair_place(struct gw_send *send, uint32_t packet, uint32_t *packets)
{
	struct put **place = &send->head;

	while (*place && (*place)->packet < send->high_water) {
		const struct put *waiting = *place;

		if (packet >= waiting->first &&
		    packet + *packets <= waiting->packet + waiting->packets)
			*packets = 0;
		place = &(*place)->next;
	}
	return place;
}

static void append_put(struct gw_send *send, struct put *put, struct put **place)
{
	struct gw_qp *qp = send->qp;
	bool repair = put->packet < send->high_water;

	/* Repairs overtake, in the message and among messages: a hole holds up all of it, new data only itself. */
	put->next = *place;
	*place = put;
	if (!put->next)
		send->tail = put;
	send->puts++;
	if (send->puts == 1 || repair) {
		list_del(&send->link);
		if (repair)
			list_add_head(&qp->tx.ready, &send->link);
		else
			list_add_tail(&qp->tx.ready, &send->link);
	}
	if (list_empty(&qp->data_link))
		list_add_tail(&qp->ctx->senders, &qp->data_link);
}

/* Whether the queue pair may have one more: its own share, and then what all have in common. */
static bool may_put(const struct gw_qp *qp)
{
	return qp->tx.puts < PUTS_EACH || pool_used(&qp->ctx->puts) < PUTS_COMMON;
}

int put_add(struct gw_send *send, uint64_t offset, const void *addr, uint64_t length,
	    struct gw_mr *mr)
{
	uint32_t payload = send->payload;
	uint32_t packet = (uint32_t)(offset / payload);
	uint32_t packets = (uint32_t)((length + payload - 1) / payload);
	struct put **place = send->tail ? &send->tail->next : &send->head;
	struct put *put;

	if (packet < send->high_water)
		place = repair_place(send, packet, &packets);
	if (!packets)
		return 0;
	if (!may_put(send->qp))
		return -EAGAIN;
	put = pool_get(&send->ctx->puts);
	assert(put);
	send->qp->tx.puts++;
	put->addr = addr;
	put->mr = mr;
	put->first = put->packet = packet;
	put->packets = packets;
	put->tail = (uint32_t)(length - (uint64_t)(put->packets - 1) * payload);
	mr->users++;
	if (!send->mr) {
		/* Until the stream ends: the fabric may read on after the put was handed over. */
		send->mr = mr;
		mr->users++;
	}
	append_put(send, put, place);
	return 0;
}
