/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polling: completions become events.
 *
 * The order within a poll matters. First the cells of the last poll's events are given back. Then come the binder's
 * completions, so that a window that was closed is drained in the same poll; then packets that arrived; and windows last,
 * because no FABRIC_DATA of a window may follow its FABRIC_FENCED.
 */
#include <arpa/inet.h>
#include <string.h>

#include "fabric/verbs/endpoint.h"

#define SHARE_SENT    16
#define SHARE_WINDOWS 32
/* Polls between two looks for events of the device, where the thread never sleeps. */
#define LOOK_EVERY 4096u

static bool take_write(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event)
{
	struct verbs_endpoint *endpoint = queue->endpoint;
	struct verbs_qp *qp = queue->owner;
	uint32_t imm = ntohl(wc->imm_data);

	if (!qp->payload || fabric_imm_slot(&qp->split, imm) >= qp->slots) {
		drop(endpoint, FABRIC_DROP_SLOT);
		return false;
	}
	memset(event, 0, sizeof(*event));
	event->type = FABRIC_DATA;
	event->user = qp->user;
	event->lane = queue->lane;
	event->slot = fabric_imm_slot(&qp->split, imm);
	event->data.packet = fabric_imm_packet(&qp->split, imm);
	event->data.length = wc->byte_len;
	event->data.user_bits = fabric_imm_user(&qp->split, imm);
	return true;
}

static bool take_arrival(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event)
{
	struct verbs_endpoint *endpoint = queue->endpoint;
	bool made = false;

	if (queue->kind == QUEUE_CONTROL)
		return control_take(queue, wc, event);
	if (queue->kind == QUEUE_GROUP)
		return group_take(queue, wc, event);
	if (queue->kind == QUEUE_UC)
		made = take_write(queue, wc, event);
	else if (queue->kind == QUEUE_UD)
		made = ud_take(queue, wc, event);
	if (made) {
		endpoint->fabric.counters[FABRIC_RX_DATA]++;
		endpoint->fabric.counters[FABRIC_RX_BYTES] += event->data.length;
	}
	supply_spend(queue->supply, wr_argument(wc->wr_id));
	return made;
}

/* Handles the completion of a shared request, which may be for any queue. An error need not mean that the queue is broken:
 * a write under a stale key uses up a request. */
static bool take_shared(struct supply *supply, const struct ibv_wc *wc, struct fabric_event *event)
{
	struct queue *queue = queue_by_number(supply->endpoint, wc->qp_num);

	if (queue && wc->status == IBV_WC_SUCCESS)
		return take_arrival(queue, wc, event);
	supply_spend(supply, wr_argument(wc->wr_id));
	if (queue && wc->status == IBV_WC_REM_ACCESS_ERR)
		drop(supply->endpoint, FABRIC_DROP_RKEY);
	else if (queue && wc->status == IBV_WC_REM_INV_REQ_ERR)
		drop(supply->endpoint, FABRIC_DROP_LENGTH);
	else if (queue)
		queue_break(queue, ibv_wc_status_str(wc->status));
	return false;
}

/* Handles a completion; true when it made an event. */
static bool take(struct verbs_endpoint *endpoint, const struct ibv_wc *wc,
		 struct fabric_event *event)
{
	struct seat *seat = wr_seat(endpoint, wc->wr_id);
	bool good = wc->status == IBV_WC_SUCCESS;
	struct queue *queue;

	if (seat && seat->supply)
		return take_shared(seat->supply, wc, event);
	if (!seat || !seat->queue)
		return false; /* its queue is gone */
	queue = seat->queue;
	switch (wr_request(wc->wr_id)) {
	case REQUEST_RECEIVE:
		if (good)
			return take_arrival(queue, wc, event);
		break;
	case REQUEST_WRITE:
		if (queue->owner)
			write_done(queue->owner, wr_argument(wc->wr_id));
		break;
	case REQUEST_CONTROL:
		control_done(queue, wr_argument(wc->wr_id));
		break;
	case REQUEST_BIND:
		windows_bound(endpoint, wr_argument(wc->wr_id), good);
		break;
	case REQUEST_GROUP:
		group_done(queue->group, wr_argument(wc->wr_id));
		break;
	}
	if (!good)
		queue_break(queue, ibv_wc_status_str(wc->status));
	return false;
}

void poll_binder(struct verbs_endpoint *endpoint)
{
	struct fabric_event none; /* binds make no events */
	struct ibv_wc *wc;

	while ((wc = cq_next(endpoint->cqs[0])))
		take(endpoint, wc, &none);
}

static int poll_cq(struct verbs_endpoint *endpoint, struct cq *cq, struct fabric_event *events,
		   int most)
{
	struct ibv_wc *wc;
	int n = 0;

	while (n < most && (wc = cq_next(cq)))
		n += take(endpoint, wc, &events[n]);
	return n;
}

/* Begins with another completion queue each time, so that a busy one does not starve the others. */
static int poll_cqs(struct verbs_endpoint *endpoint, struct fabric_event *events, int most)
{
	uint32_t count = endpoint->cq_count - 1;
	int n = 0;

	for (uint32_t i = 0; i < count; i++)
		n += poll_cq(endpoint, endpoint->cqs[1 + (endpoint->cq_first + i) % count],
			     events + n, most - n);
	endpoint->cq_first++;
	return n;
}

int verbs_poll(struct fabric *fabric, struct fabric_event *events)
{
	struct verbs_endpoint *endpoint = endpoint_of(fabric);
	int n;

	control_take_back(endpoint);
	if (endpoint->ud || !list_empty(&endpoint->groups)) {
		endpoint->now_ns = verbs_now_ns(fabric);
		rate_limit_poll(&endpoint->rate_limit, endpoint->now_ns);
	}
	if (++endpoint->polls % LOOK_EVERY == 0)
		device_events(endpoint);
	queues_heal(endpoint);
	if (!list_empty(&endpoint->leavers))
		leavers_see_off(endpoint, verbs_now_ns(fabric));
	poll_binder(endpoint);
	n = poll_cqs(endpoint, events, FABRIC_EVENTS - SHARE_WINDOWS - SHARE_SENT);
	n += sends_done_poll(&endpoint->sent, events + n, SHARE_SENT);
	n += windows_poll(endpoint, events + n, FABRIC_EVENTS - n);
	return n;
}
