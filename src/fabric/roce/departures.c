/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Departures: data is handed to the kernel with the time at which it leaves (SO_TXTIME), up to AHEAD_NS before that, where a
 * queueing discipline holds it until then (qdisc.c). So it leaves in time although this process sleeps, and one that wakes late
 * leaves no gap.
 *
 * What the kernel holds takes room in the socket, which control needs too, and in the discipline: fq drops what exceeds 100
 * datagrams or batches of one flow, without telling. So an endpoint keeps account of what has not left, and hands over
 * no more than HELD_MAX of them and a quarter of the socket's buffer. Whether the discipline still holds packets is asked
 * again every ASK_NS, since routes and disciplines change.
 */
#include <linux/net_tstamp.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "fabric/roce/qdisc.h"
#include "fabric/roce/tx.h"

/* How long before its departure a packet is handed over at most. */
#define AHEAD_NS UINT64_C(4000000)
#define ASK_NS	 UINT64_C(10000000000)
/* Datagrams or batches held, above which no more are handed over; a write adds TX_BATCH of them at most. */
#define HELD_MAX 32

_Static_assert(HELD_MAX + TX_BATCH < 100, "fq drops more of one flow");
_Static_assert(HELD_MAX + TX_BATCH <= DEPARTURES, "there is room for all that is held");

void departures_open(struct roce_endpoint *endpoint, uint64_t buffer_bytes)
{
	struct sock_txtime clock = { .clockid = CLOCK_MONOTONIC };
	struct departures *d = &endpoint->departures;

	d->usable = true;
	for (uint32_t i = 0; i < endpoint->lanes; i++)
		if (setsockopt(endpoint->lane_fds[i], SOL_SOCKET, SO_TXTIME, &clock, sizeof(clock)))
			d->usable = false;
	d->most_bytes = buffer_bytes / 4;
}

/* Whether the kernel holds packets to the peer. Queue pairs to one host share the answer. */
static bool ask(struct roce_endpoint *endpoint, const union socket_address *peer, uint64_t now_ns)
{
	struct departures *d = &endpoint->departures;

	if (now_ns < d->again_ns && same_host(&d->peer, peer))
		return d->holds;
	d->holds = qdisc_holds(&endpoint->local.any, &peer->any);
	d->peer = *peer;
	d->again_ns = now_ns + ASK_NS;
	if (d->holds)
		log_once(&d->said, LOG_LEVEL_INFO,
			 "the kernel paces: data is handed over with its time of departure (fq)");
	return d->holds;
}

/* Forgets what has left. */
static void retire(struct departures *d, uint64_t now_ns)
{
	while (d->count && d->held[d->first].at_ns <= now_ns) {
		d->bytes -= d->held[d->first].bytes;
		d->first = (d->first + 1) % DEPARTURES;
		d->count--;
	}
}

uint64_t roce_ahead_ns(struct fabric_qp *fabric_qp, uint64_t now_ns, bool *room)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct roce_endpoint *endpoint = qp->endpoint;
	struct departures *d = &endpoint->departures;

	/* Injected faults hold packets themselves. */
	if (!d->usable || endpoint->faults || qp->peer_ud)
		return 0;
	if (now_ns >= qp->held_again_ns) {
		qp->held_again_ns = now_ns + ASK_NS;
		qp->held = ask(endpoint, &qp->peer, now_ns);
	}
	if (!qp->held)
		return 0;
	retire(d, now_ns);
	*room = d->count <= HELD_MAX && d->bytes < d->most_bytes;
	return AHEAD_NS;
}

void departures_add(struct roce_endpoint *endpoint, uint64_t at_ns, size_t bytes)
{
	struct departures *d = &endpoint->departures;

	if (d->count == DEPARTURES)
		return;
	d->held[(d->first + d->count++) % DEPARTURES] =
		(struct departure){ .at_ns = at_ns, .bytes = (uint32_t)bytes };
	d->bytes += bytes;
}

void departure_put(struct msghdr *message, void *control, size_t room, uint64_t at_ns)
{
	struct cmsghdr *c = (void *)((uint8_t *)control + message->msg_controllen);

	if (!at_ns || message->msg_controllen + CMSG_SPACE(sizeof(at_ns)) > room)
		return;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_TXTIME;
	c->cmsg_len = CMSG_LEN(sizeof(at_ns));
	memcpy(CMSG_DATA(c), &at_ns, sizeof(at_ns));
	message->msg_control = control;
	message->msg_controllen += CMSG_SPACE(sizeof(at_ns));
}
