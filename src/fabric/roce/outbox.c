/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The outbox: control datagrams of all queue pairs, which leave together.
 *
 * With many queue pairs a turn of gw_progress() makes many control datagrams, and for the kernel a small datagram costs as
 * much as a batch of 64 KiB. So they are copied, one behind the other, and leave when the turn has made them all, or when the
 * outbox is full: those of one length to one process as a batch that the kernel cuts apart (segments.c), the others in one system
 * call for each socket. Queue pairs that do the same thing say things of the same length, so that most are in a batch. The ICRC
 * covers the place in the batch, and is made when it is known.
 *
 * The outbox is empty after each flush: what finds no room is lost, since its sender repeats what matters by a timer. If the
 * host refuses a batch that it may take apart, as segments.c says, batches are not tried again for OUTBOX_RETRY_NS.
 */
#include <string.h>

#include "fabric/roce/tx.h"

_Static_assert(RX_PACKET <= OUTBOX_BYTES, "an empty outbox takes any datagram");

/* Bytes that a control datagram is longer by than what it says. */
#define OVERHEAD_MOST	(ROCE_CONTROL_OVERHEAD + SEAL_EXTRA + PAD_MAX)
#define OUTBOX_RETRY_NS UINT64_C(10000000000)

/* Whether two datagrams may leave in one batch. */
static bool alike(const struct outbox_datagram *a, const struct outbox_datagram *b)
{
	return a->part.iov_len == b->part.iov_len && a->fd == b->fd && a->class == b->class &&
	       b->batches && !b->gone && !memcmp(&a->to, &b->to, address_length(&a->to));
}

/* Fills in the ICRC of a datagram that leaves with this identification. */
static void guard(struct outbox_datagram *datagram, uint16_t ip_id)
{
	uint8_t *bytes = datagram->part.iov_base;
	size_t covered = datagram->part.iov_len - ROCE_ICRC_SIZE;

	if (datagram->guarded)
		icrc_final(icrc_begin(&datagram->flow, datagram->part.iov_len, ip_id, true, bytes,
				      covered),
			   bytes + covered);
}

/* Sends this datagram and those like it behind it as a batch. Without any, or if the host refuses the batch for being one,
 * they stay. */
static void send_batch(struct roce_endpoint *endpoint, uint32_t first)
{
	struct outbox *outbox = &endpoint->outbox;
	struct outbox_datagram *datagram = &outbox->datagrams[first], *members[OUTBOX_DATAGRAMS];
	struct iovec parts[OUTBOX_DATAGRAMS];
	uint32_t count = 0, most = segments_most((uint32_t)datagram->part.iov_len);
	int error;

	for (uint32_t i = first; i < outbox->count && count < most; i++)
		if (alike(datagram, &outbox->datagrams[i]))
			members[count++] = &outbox->datagrams[i];
	if (count < 2)
		return;
	for (uint32_t i = 0; i < count; i++) {
		guard(members[i], (uint16_t)i);
		parts[i] = members[i]->part;
	}
	error = segments_push(endpoint, datagram->fd, &datagram->to, parts, count,
			      (uint16_t)datagram->part.iov_len, 0);
	if (error && segments_doubted(-error)) {
		outbox->batches_again_ns = endpoint->now_ns + OUTBOX_RETRY_NS;
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		members[i]->gone = true;
	if (error && tx_no_room(-error))
		endpoint->fabric.counters[FABRIC_TX_BUSY]++;
	else if (error)
		tx_refused(endpoint, -error, count);
	if (!error || !tx_no_room(-error))
		endpoint->fabric.counters[FABRIC_TX_CONTROL] += count;
}

/* Sends, in one call, the datagrams from this one on that are left and leave by its socket. */
static void send_rest(struct roce_endpoint *endpoint, uint32_t first)
{
	struct outbox *outbox = &endpoint->outbox;
	struct mmsghdr messages[OUTBOX_DATAGRAMS];
	uint32_t count = 0;
	int fd = outbox->datagrams[first].fd;

	for (uint32_t i = first; i < outbox->count; i++) {
		struct outbox_datagram *datagram = &outbox->datagrams[i];

		if (datagram->gone || datagram->fd != fd)
			continue;
		datagram->gone = true;
		guard(datagram, 0);
		messages[count++].msg_hdr =
			(struct msghdr){ .msg_name = &datagram->to,
					 .msg_namelen = address_length(&datagram->to),
					 .msg_iov = &datagram->part,
					 .msg_iovlen = 1 };
	}
	endpoint->fabric.counters[FABRIC_TX_CONTROL] += frames_push(endpoint, fd, messages, count);
}

void roce_flush(struct fabric *fabric)
{
	struct roce_endpoint *endpoint = endpoint_of(fabric);
	struct outbox *outbox = &endpoint->outbox;

	for (uint32_t i = 0; i + 1 < outbox->count && !endpoint->faults; i++)
		if (outbox->datagrams[i].batches && !outbox->datagrams[i].gone &&
		    endpoint->now_ns >= outbox->batches_again_ns)
			send_batch(endpoint, i);
	for (uint32_t i = 0; i < outbox->count; i++)
		if (!outbox->datagrams[i].gone)
			send_rest(endpoint, i);
	outbox->count = outbox->used = 0;
}

uint8_t *outbox_add(struct roce_qp *qp, unsigned lane, size_t length)
{
	struct roce_endpoint *endpoint = qp->endpoint;
	struct outbox *outbox = &endpoint->outbox;
	struct outbox_datagram *datagram;
	uint8_t *out;

	if (outbox->count == OUTBOX_DATAGRAMS || length > OUTBOX_BYTES - outbox->used)
		roce_flush(&endpoint->fabric);
	datagram = &outbox->datagrams[outbox->count++];
	out = outbox->bytes + outbox->used;
	outbox->used += (uint32_t)length;
	datagram->guarded = !qp->seal && !qp->skip_icrc;
	if (datagram->guarded)
		icrc_flow_prepare(&qp->to_peer, length);
	datagram->fd = lane_flow(qp, lane, &datagram->flow);
	datagram->class = qp->peer_control_qpn >> CLASS_SHIFT;
	datagram->to = qp->peer;
	datagram->part = (struct iovec){ out, length };
	/* Longer ones try what the path carries, and a batch of them might be refused for that. */
	datagram->batches =
		segments_usable(qp) && length <= endpoint->fabric.caps.max_control + OVERHEAD_MOST;
	datagram->gone = false;
	return out;
}
