/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending. Headers and ICRC are gathered around the caller's memory, a datagram a packet, a batch a system call. A
 * packet that the host refuses outright (no route, a firewall) counts as lost: the layers above have a clock for that,
 * and one log line says why.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/roce/endpoint.h"

#define TX_BATCH 32
#define PAD_MAX	 3
#define TRAILER	 (PAD_MAX + ROCE_ICRC_SIZE)

struct frame {
	uint8_t headers[ROCE_HEADERS_MAX];
	uint8_t trailer[TRAILER];
	struct iovec parts[3];
};

static void build(struct frame *frame, struct roce_qp *qp, const struct roce_packet *packet)
{
	size_t headers = roce_encode(packet, frame->headers, sizeof(frame->headers));
	size_t length = headers + packet->payload_length + packet->pad + ROCE_ICRC_SIZE;
	uint32_t crc;

	memset(frame->trailer, 0, sizeof(frame->trailer));
	crc = icrc_begin(&qp->to_peer, length, 0, true, frame->headers, headers);
	crc = icrc_update(crc, packet->payload, packet->payload_length);
	crc = icrc_update(crc, frame->trailer, packet->pad);
	icrc_final(crc, frame->trailer + packet->pad);
	frame->parts[0] = (struct iovec){ frame->headers, headers };
	frame->parts[1] =
		(struct iovec){ (void *)(uintptr_t)packet->payload, packet->payload_length };
	frame->parts[2] = (struct iovec){ frame->trailer, packet->pad + ROCE_ICRC_SIZE };
}

static void address_message(struct msghdr *message, struct roce_qp *qp, struct frame *frame)
{
	memset(message, 0, sizeof(*message));
	message->msg_name = &qp->peer;
	message->msg_namelen = address_length(&qp->peer);
	message->msg_iov = frame->parts;
	message->msg_iovlen = 3;
}

static size_t length_of(const struct msghdr *message)
{
	size_t length = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		length += message->msg_iov[i].iov_len;
	return length;
}

static bool full(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == EINTR;
}

/* Sends what it can; returns how many messages are gone, one way or another. */
static unsigned push(struct endpoint *endpoint, struct mmsghdr *messages, unsigned count)
{
	unsigned done = 0;

	while (done < count) {
		int n;

		if (endpoint->faults) {
			struct clock clock = clock_monotonic();

			n = faults_send(endpoint, &messages[done].msg_hdr, clock_now_ns(&clock));
			if (n < 0)
				errno = -n;
			n = n < 0 ? -1 : 1;
		} else {
			n = sendmmsg(endpoint->fd, messages + done, count - done, MSG_DONTWAIT);
		}
		if (n > 0) {
			for (int i = 0; i < n; i++)
				endpoint->fabric.counters[FABRIC_TX_BYTES] +=
					length_of(&messages[done++].msg_hdr);
			continue;
		}
		if (full(errno)) {
			endpoint->blocked = true;
			endpoint->fabric.counters[FABRIC_TX_BUSY]++;
			break;
		}
		snprintf(endpoint->fabric.error, sizeof(endpoint->fabric.error), "cannot send: %s",
			 strerror(errno));
		log_once(&endpoint->complained, LOG_LEVEL_WARN, "%s", endpoint->fabric.error);
		endpoint->fabric.counters[FABRIC_TX_ERRORS]++;
		done++;
	}
	return done;
}

int roce_write(struct fabric_qp *fabric_qp, unsigned lane, const struct fabric_target *target,
	       const struct fabric_write *writes, unsigned count)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct endpoint *endpoint = qp->endpoint;
	struct mmsghdr messages[TX_BATCH];
	struct frame frames[TX_BATCH];
	unsigned done;

	(void)lane;
	endpoint->blocked = false;
	if (count > TX_BATCH)
		count = TX_BATCH;
	for (unsigned i = 0; i < count; i++) {
		struct roce_packet packet;
		uint32_t imm =
			fabric_imm(&qp->split, target->slot, writes[i].packet, writes[i].user);

		roce_uc_write_imm(&packet, qp->peer_qpn, qp->psn + i, writes[i].va, target->rkey,
				  imm, writes[i].data, writes[i].length);
		build(&frames[i], qp, &packet);
		address_message(&messages[i].msg_hdr, qp, &frames[i]);
	}
	done = push(endpoint, messages, count);
	endpoint->fabric.counters[FABRIC_TX_DATA] += done;
	qp->psn += done;
	return (int)done;
}

int roce_control(struct fabric_qp *fabric_qp, const void *data, size_t length)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct endpoint *endpoint = qp->endpoint;
	struct roce_packet packet;
	struct mmsghdr message;
	struct frame frame;

	roce_ud_send(&packet, qp->peer_control_qpn, qp->control_psn, qp->peer_qkey, qp->qpn, data,
		     (uint32_t)length);
	build(&frame, qp, &packet);
	address_message(&message.msg_hdr, qp, &frame);
	if (!push(endpoint, &message, 1))
		return -EAGAIN;
	qp->control_psn++;
	endpoint->fabric.counters[FABRIC_TX_CONTROL]++;
	return 0;
}
