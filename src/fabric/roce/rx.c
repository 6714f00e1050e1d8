/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving. Every packet is checked completely before a byte of it is placed: its form and kind, its queue pair, the
 * sender's address, the ICRC, and for data the key of an open window and the place, which has to be the one that its
 * packet number names. A packet that fails a check is dropped and counted by reason, and has no other effect.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/lines.h"
#include "fabric/roce/rx.h"

/* Polls between two reads of the socket at which other processes hand packets on. */
#define OTHERS_EVERY 16
/* Reads of the socket when an endpoint opens or closes, at most. */
#define DRAIN_BATCHES 64
#define ECN_MASK      3
#define ECN_CE	      3
/* Least time between two congestion notifications to one queue pair, as NICs have it. */
#define CNP_NS	      UINT64_C(50000)
#define NS_A_SECOND   UINT64_C(1000000000)
#define WAIT_LIMIT_NS NS_A_SECOND
/* How long the difference between the time of day and the fabric's clock is taken for granted. */
#define AHEAD_NS       UINT64_C(1000000)
#define AHEAD_SLACK_NS UINT64_C(1000)

/* Whether the ICRC is right. It covers the IPv4 identification, which a socket does not show: a peer's batch numbers its
 * packets from 0, and the kernel merges packets that came together, so that the place in the datagram is tried first. */
bool rx_icrc_right(struct roce_qp *qp, const struct incoming *in)
{
	uint16_t guess = (uint16_t)(in->segment <= qp->peer_max_id ? in->segment : 0);
	struct icrc_flow *flow = &qp->from_peer;
	uint16_t port = address_port(in->from);
	struct icrc_flow other;
	struct icrc_match match;

	if (qp->skip_icrc)
		return true;
	/* Lanes and NICs vary the source port, so that networks hash them onto different paths. */
	if (port != qp->peer_ports[0]) {
		other = *flow;
		icrc_flow_from_port(&other, port);
		flow = &other;
	}
	return icrc_verify(flow, in->bytes, in->length, guess, qp->peer_max_id, &match) != ICRC_BAD;
}

static uint8_t lane_of(const struct roce_qp *qp, uint16_t port)
{
	for (uint8_t lane = 1; port != qp->peer_ports[0] && lane < FABRIC_LANES_MAX; lane++)
		if (qp->peer_ports[lane] == port)
			return lane;
	return 0;
}

/* A packet that landed was marked. A NIC is told by a notification; a user-space end learns it from reports. */
void rx_marked(struct roce_qp *qp)
{
	struct roce_endpoint *endpoint = qp->endpoint;

	endpoint->fabric.counters[FABRIC_RX_CE]++;
	if (!qp->peer_nic || endpoint->now_ns - qp->cnp_ns < CNP_NS)
		return;
	qp->cnp_ns = endpoint->now_ns;
	send_cnp(qp);
}

void rx_place(const struct roce_window *window, uint64_t offset, const uint8_t *data, size_t length)
{
	/* Packets are cut at lines where somebody may poll them. */
	if (window->payload % LINE_BYTES == 0)
		lines_copy(window->addr + offset, data, length);
	else
		memcpy(window->addr + offset, data, length);
}

static bool take_data(struct roce_qp *qp, const struct incoming *in,
		      const struct roce_packet *packet, struct fabric_event *event,
		      struct rx_run *run)
{
	struct roce_endpoint *endpoint = qp->endpoint;
	uint32_t slot = fabric_imm_slot(&qp->split, packet->imm);
	uint32_t number = fabric_imm_packet(&qp->split, packet->imm);
	struct roce_window *window;

	if (slot >= qp->slots || !qp->windows[slot]) {
		drop(endpoint, FABRIC_DROP_SLOT);
		fabric_late(qp->late);
		return false;
	}
	window = pool_at(&endpoint->windows, qp->windows[slot] - 1);
	if (window->rkey != packet->reth.rkey) {
		drop(endpoint, FABRIC_DROP_RKEY);
		fabric_late(qp->late);
		return false;
	}
	if (!packet->payload_length || packet->payload_length > window->payload) {
		drop(endpoint, FABRIC_DROP_LENGTH);
		return false;
	}
	if (packet->reth.va != (uint64_t)number * window->payload ||
	    packet->reth.va > window->length ||
	    packet->payload_length > window->length - packet->reth.va) {
		drop(endpoint, FABRIC_DROP_OFFSET);
		return false;
	}
	rx_place(window, packet->reth.va, packet->payload, packet->payload_length);
	endpoint->fabric.counters[FABRIC_RX_DATA]++;
	event->type = FABRIC_DATA;
	event->slot = slot;
	event->generation = window->generation;
	event->data.packet = number;
	event->data.length = (uint32_t)packet->payload_length;
	event->data.user_bits = fabric_imm_user(&qp->split, packet->imm);
	rx_run_begin(run, qp, window, in, packet, event);
	return true;
}

static bool take_control(struct roce_qp *qp, const struct roce_packet *packet,
			 struct fabric_event *event)
{
	struct roce_endpoint *endpoint = qp->endpoint;

	if (packet->deth.qkey != qp->qkey) {
		drop(endpoint, FABRIC_DROP_QKEY);
		return false;
	}
	endpoint->fabric.counters[FABRIC_RX_CONTROL]++;
	event->type = FABRIC_CONTROL;
	event->control.bytes = packet->payload;
	event->control.length = (uint32_t)packet->payload_length;
	return true;
}

static enum fabric_counter opcode_reason(const struct roce_packet *packet)
{
	return packet->kind == ROCE_UC_MULTI ? FABRIC_DROP_MULTIPACKET : FABRIC_DROP_OPCODE;
}

/* Places a packet with data; true when it landed. */
static bool take_packet(struct roce_qp *qp, const struct incoming *in,
			const struct roce_packet *packet, struct fabric_event *event,
			struct rx_run *run)
{
	if (packet->kind == ROCE_UC_WRITE_IMM)
		return take_data(qp, in, packet, event, run);
	if (packet->kind == ROCE_UD_SEND_IMM && qp->peer_ud)
		return datagram_take(qp, packet, event);
	drop(qp->endpoint, opcode_reason(packet));
	return false;
}

/* Checks a packet of a queue pair that seals, and decrypts it in the receive buffer. False, with the reason counted, where it
 * is not the peer's or was taken before. */
static bool unseal(struct roce_qp *qp, const struct incoming *in, struct roce_packet *packet,
		   uint8_t *lane)
{
	uint8_t *bytes = (uint8_t *)(uintptr_t)in->bytes; /* our own buffer */
	enum seal_verdict verdict;

	if (packet->kind != ROCE_UC_WRITE_IMM && packet->kind != ROCE_UD_SEND) {
		drop(qp->endpoint, opcode_reason(packet));
		return false;
	}
	verdict = seal_check(qp->seal, packet->has_reth ? SEAL_DATA : SEAL_CONTROL, bytes,
			     in->length, packet, lane);
	if (verdict != SEAL_GOOD)
		drop(qp->endpoint,
		     verdict == SEAL_REPLAYED ? FABRIC_DROP_REPLAY : FABRIC_DROP_SEAL);
	return verdict == SEAL_GOOD;
}

/* Handles a packet; true when it made an event. Sets which one may go on with it. */
static bool take(struct roce_endpoint *endpoint, const struct incoming *in,
		 struct fabric_event *event, struct rx_run *run)
{
	struct roce_packet packet;
	struct roce_qp *qp;
	int error = roce_decode(in->bytes, in->length, &packet);

	if (steer_probe(endpoint, in->from, in->bytes, in->length))
		return false;
	endpoint->fabric.counters[FABRIC_RX_BYTES] += in->length;
	if (error) {
		drop(endpoint, error == -EPROTO ? FABRIC_DROP_VERSION : FABRIC_DROP_MALFORMED);
		return false;
	}
	qp = qp_lookup(endpoint, packet.dest_qpn);
	if (!qp || !qp->payload) {
		if (qp || in->forwarded ||
		    !share_forward(endpoint, in->from, in->bytes, in->length, packet.dest_qpn))
			drop(endpoint, FABRIC_DROP_QPN);
		return false;
	}
	if (!same_host(in->from, &qp->peer)) {
		drop(endpoint, FABRIC_DROP_STRANGER);
		return false;
	}
	memset(event, 0, sizeof(*event));
	event->user = qp->user;
	event->lane = lane_of(qp, address_port(in->from));
	if (qp->seal) {
		if (!unseal(qp, in, &packet, &event->lane))
			return false;
	} else if (!rx_icrc_right(qp, in)) {
		drop(endpoint, FABRIC_DROP_ICRC);
		return false;
	}
	event->ce = in->ce;
	event->at_ns = in->at_ns;
	if (packet.kind == ROCE_CNP && !packet.payload_length) {
		endpoint->fabric.counters[FABRIC_RX_CNP]++;
		event->type = FABRIC_CNP;
		return qp->peer_nic; /* anybody can forge one, and a user-space end reports marks */
	}
	if (packet.kind == ROCE_UD_SEND)
		return take_control(qp, &packet, event);
	if (!take_packet(qp, in, &packet, event, run))
		return false;
	if (in->ce)
		rx_marked(qp);
	return true;
}

/* Time of arrival by the fabric's clock; 0: not known. The kernel stamps packets by the time of day, so that the stamp tells
 * how long ago that was, unless the time of day was set since. */
static uint64_t stamped(const struct roce_endpoint *endpoint, const struct cmsghdr *c)
{
	struct timespec then;
	uint64_t then_ns, waited_ns;

	memcpy(&then, CMSG_DATA(c), sizeof(then));
	then_ns = (uint64_t)then.tv_sec * NS_A_SECOND + (uint64_t)then.tv_nsec;
	waited_ns = endpoint->inbox.real_ns - then_ns;
	return waited_ns < WAIT_LIMIT_NS ? endpoint->now_ns - waited_ns : 0;
}

/* Reads what the kernel says of datagram i: how many it had to drop, when this one came and whether it was marked. Returns
 * the size of the packets that were merged in it; 0 where it is one packet. */
static uint32_t read_ancillary(struct roce_endpoint *endpoint, uint32_t i)
{
	struct msghdr *message = &endpoint->inbox.messages[i].msg_hdr;
	bool *ce = &endpoint->inbox.ce[i];
	uint32_t size = 0;

	*ce = false;
	endpoint->inbox.at_ns[i] = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		uint32_t value;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			*ce = (*CMSG_DATA(c) & ECN_MASK) == ECN_CE;
		if (c->cmsg_len < CMSG_LEN(sizeof(value)))
			continue;
		memcpy(&value, CMSG_DATA(c), sizeof(value));
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
			*ce = (value & ECN_MASK) == ECN_CE;
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			size = value;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
			endpoint->fabric.counters[FABRIC_DROP_OVERRUN] +=
				(uint32_t)(value - endpoint->overruns);
			endpoint->overruns = value;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS &&
			   c->cmsg_len >= CMSG_LEN(sizeof(struct timespec))) {
			endpoint->inbox.at_ns[i] = stamped(endpoint, c);
		}
	}
	return size;
}

static int from_windows(struct roce_endpoint *endpoint, struct fabric_event *events, int most)
{
	struct list *item;
	int n = 0;

	while (n < most && (item = list_first(&endpoint->exposed))) {
		struct roce_window *window = container_of(item, struct roce_window, event);
		struct fabric_event *event = &events[n++];

		list_del(item);
		memset(event, 0, sizeof(*event));
		event->type = FABRIC_EXPOSED;
		event->user = window->qp->user;
		event->slot = window->slot;
		event->generation = window->generation;
		/* Windows are addressed from 0, so that no address of ours leaves. */
		event->exposed.va = 0;
		event->exposed.rkey = window->rkey;
	}
	return n;
}

void rx_prepare(struct roce_endpoint *endpoint)
{
	struct inbox *inbox = &endpoint->inbox;

	for (int i = 0; i < RX_BATCH; i++) {
		inbox->parts[i] =
			(struct iovec){ endpoint->rx + (size_t)i * RX_DATAGRAM, RX_DATAGRAM };
		inbox->messages[i].msg_hdr = (struct msghdr){ .msg_name = &inbox->from[i],
							      .msg_iov = &inbox->parts[i],
							      .msg_iovlen = 1,
							      .msg_control = inbox->control[i] };
	}
	inbox->used = inbox->ask = RX_BATCH;
}

/* How far the time of day is ahead of the fabric's clock: asked for now and then, since a clock takes as long to read as a small
 * packet to decode, and the two differ by the same time until somebody sets the time of day. */
static uint64_t time_of_day_ahead_ns(struct inbox *inbox, uint64_t now_ns)
{
	struct timespec real;

	if (now_ns < inbox->ahead_until_ns)
		return inbox->ahead_ns;
	clock_gettime(CLOCK_REALTIME, &real);
	inbox->ahead_ns = (uint64_t)real.tv_sec * NS_A_SECOND + (uint64_t)real.tv_nsec - now_ns;
	/* Unless this process lost the processor between the two clocks. */
	if (clock_now_ns() - now_ns < AHEAD_SLACK_NS)
		inbox->ahead_until_ns = now_ns + AHEAD_NS;
	return inbox->ahead_ns;
}

/* Reads up to `ask` datagrams; returns how many. */
static uint32_t read_socket(struct roce_endpoint *endpoint)
{
	struct inbox *inbox = &endpoint->inbox;
	ssize_t count;

	if (inbox->ask > 1) {
		count = recvmmsg(endpoint->fd, inbox->messages, inbox->ask, MSG_DONTWAIT, NULL);
		return count > 0 ? (uint32_t)count : 0;
	}
	count = recvmsg(endpoint->fd, &inbox->messages[0].msg_hdr, MSG_DONTWAIT);
	if (count < 0)
		return 0;
	inbox->messages[0].msg_len = (unsigned)count;
	return 1;
}

/* How many datagrams to ask for in the next read. The kernel looks for one more than there are, which is a part of the time of a
 * small message: so for one, until two reads in a row, without a sleep between them, got all that they asked for. Of batches few
 * enough that the first is still in the cache when its last packet is placed. */
static uint32_t ask_next(struct inbox *inbox, bool merged)
{
	bool full = inbox->count == inbox->ask, again = full && inbox->full;

	inbox->full = full;
	if (merged)
		return RX_BATCH_MERGED;
	return again ? RX_BATCH : 1;
}

static bool fill_inbox(struct roce_endpoint *endpoint)
{
	struct inbox *inbox = &endpoint->inbox;
	uint64_t last_ns = endpoint->now_ns;
	bool merged = false;

	/* The kernel wrote to these; a read that finds nothing leaves them as they are. */
	for (uint32_t i = 0; i < inbox->used; i++) {
		inbox->messages[i].msg_hdr.msg_namelen = sizeof(inbox->from[i]);
		inbox->messages[i].msg_hdr.msg_controllen = CMSG_ROOM;
	}
	inbox->count = inbox->used = read_socket(endpoint);
	inbox->next = inbox->offset = inbox->segment = 0;
	endpoint->now_ns = clock_now_ns();
	if (inbox->count)
		inbox->real_ns = endpoint->now_ns + time_of_day_ahead_ns(inbox, endpoint->now_ns);
	for (uint32_t i = 0; i < inbox->count; i++) {
		inbox->lengths[i] = inbox->messages[i].msg_len;
		inbox->sizes[i] = read_ancillary(endpoint, i);
		merged |= inbox->sizes[i] != 0;
	}
	if (inbox->count)
		linger_read(endpoint, merged, inbox->at_ns[0] ? inbox->at_ns[0] : endpoint->now_ns);
	/* So it was, too, if what is first in line came after the last read. */
	if (inbox->count < inbox->ask || inbox->at_ns[0] > last_ns)
		endpoint->fabric.emptied = true;
	/* A batch is often followed by the next. */
	endpoint->fabric.idle = inbox->count <= 1 && !merged;
	inbox->ask = ask_next(inbox, merged);
	return inbox->count;
}

/* Takes the next packet out of the inbox; false when it is empty. */
static bool next_packet(struct roce_endpoint *endpoint, struct incoming *in)
{
	struct inbox *inbox = &endpoint->inbox;
	uint32_t left, size;

	if (inbox->next == inbox->count)
		return false;
	left = inbox->lengths[inbox->next] - inbox->offset;
	size = inbox->sizes[inbox->next];
	if (!size || size > left)
		size = left;
	*in = (struct incoming){ .from = &inbox->from[inbox->next],
				 .bytes = endpoint->rx + (size_t)inbox->next * RX_DATAGRAM +
					  inbox->offset,
				 .length = size,
				 .merged = inbox->sizes[inbox->next] != 0,
				 .segment = inbox->segment,
				 .ce = inbox->ce[inbox->next],
				 .at_ns = inbox->at_ns[inbox->next] };
	inbox->offset += size;
	inbox->segment++;
	if (size == left) {
		inbox->next++;
		inbox->offset = inbox->segment = 0;
	}
	return true;
}

/* Packets that an earlier poll had no room for come first. The socket is read when there are none left, and once a poll,
 * because events point into the buffers. Returns the number of events. */
static int from_socket(struct roce_endpoint *endpoint, struct fabric_event *events, int most,
		       bool *drained)
{
	struct rx_run run = { 0 };
	struct incoming in;
	int n = 0;

	*drained = false;
	if (endpoint->inbox.next < endpoint->inbox.count)
		endpoint->now_ns = clock_now_ns();
	else
		*drained = !fill_inbox(endpoint);
	while (n < most && next_packet(endpoint, &in)) {
		if (!in.segment)
			run.qp = NULL;
		if (!rx_run_goes_on(&run, &in))
			n += take(endpoint, &in, &events[n], &run);
	}
	return n;
}

/* Packets that other processes handed on. Returns the number of events. */
static int from_others(struct roce_endpoint *endpoint, struct fabric_event *events, int most)
{
	uint8_t *bytes = endpoint->rx + (size_t)RX_BATCH * RX_DATAGRAM;
	struct rx_run none = { 0 };
	int n = 0;

	for (int i = 0; i < RX_FORWARDED && n < most; i++, bytes += RX_PACKET) {
		struct incoming in = { .bytes = bytes, .forwarded = true };
		union socket_address from;
		int length = share_take(endpoint, bytes, RX_PACKET, &from);

		if (length < 0) {
			endpoint->others_due = false;
			break;
		}
		in.from = &from;
		in.length = (size_t)length;
		if (length)
			n += take(endpoint, &in, &events[n], &none);
	}
	return n;
}

void rx_drain(struct roce_endpoint *endpoint)
{
	struct fabric_event unwanted;
	struct rx_run none = { 0 };
	struct incoming in;

	for (int i = 0; i < DRAIN_BATCHES; i++) {
		if (endpoint->inbox.next == endpoint->inbox.count && !fill_inbox(endpoint))
			break;
		while (next_packet(endpoint, &in))
			take(endpoint, &in, &unwanted, &none);
	}
}

int roce_poll(struct fabric *fabric, struct fabric_event *events)
{
	struct roce_endpoint *endpoint = endpoint_of(fabric);
	bool drained;
	int n;

	if (endpoint->faults)
		faults_release(endpoint, clock_now_ns());
	n = from_windows(endpoint, events, FABRIC_EVENTS / 4);
	n += from_socket(endpoint, events + n, FABRIC_EVENTS - n, &drained);
	/* Seldom, since steering leaves little to hand on; a thread that sleeps is woken by it. */
	if (endpoint->share && (endpoint->others_due || ++endpoint->polls % OTHERS_EVERY == 0)) {
		endpoint->others_due = true; /* until the socket is found empty */
		n += from_others(endpoint, events + n, FABRIC_EVENTS - n);
	}
	if (endpoint->groups)
		n += groups_poll(endpoint, events + n, FABRIC_EVENTS - n);
	steer_tick(endpoint, endpoint->now_ns, drained);
	fabric->polled_ns = endpoint->now_ns;
	return n;
}
