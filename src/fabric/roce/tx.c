/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending. Headers and ICRC are gathered around the caller's memory, one datagram a packet, many datagrams a system
 * call. Packets that the host refuses to send (no route, a firewall, no memory) count as lost and in FABRIC_TX_ERRORS:
 * the layers above repair losses anyway, and one log line says why.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/roce/tx.h"

int lane_flow(const struct roce_qp *qp, unsigned lane, struct icrc_flow *out)
{
	const struct roce_endpoint *endpoint = qp->endpoint;

	*out = qp->to_peer;
	if (lane)
		icrc_flow_from_port(out, endpoint->lane_ports[lane]);
	return endpoint->lane_fds[lane];
}

void tx_lane(struct roce_qp *qp, unsigned lane, struct tx_lane *out)
{
	out->qp = qp;
	out->number = lane;
	out->fd = lane_flow(qp, lane, &out->flow);
}

void frame_finish(struct frame *frame, size_t headers, struct icrc_flow *flow, const void *payload,
		  size_t length, uint16_t ip_id)
{
	size_t pad = -length & PAD_MAX;
	uint32_t crc;

	memset(frame->trailer, 0, sizeof(frame->trailer));
	if (flow) {
		crc = icrc_begin(flow, headers + length + pad + ROCE_ICRC_SIZE, ip_id, true,
				 frame->headers, headers);
		crc = icrc_update(crc, payload, length);
		icrc_final(icrc_update(crc, frame->trailer, pad), frame->trailer + pad);
	}
	frame->parts[0] = (struct iovec){ frame->headers, headers };
	frame->parts[1] = (struct iovec){ (void *)(uintptr_t)payload, length };
	frame->parts[2] = (struct iovec){ frame->trailer, pad + ROCE_ICRC_SIZE };
}

/* A packet whose payload is encrypted, with its tag in place of the ICRC. The lane's counter is its PSN. */
static void build_sealed(struct frame *frame, const struct tx_lane *lane,
			 const struct roce_packet *packet)
{
	struct roce_endpoint *endpoint = lane->qp->endpoint;
	uint8_t *out =
		endpoint->sealed + (size_t)(endpoint->sealed_turn++ % SEALED_SLOTS) * RX_PACKET;
	struct roce_packet sealed = *packet;
	size_t headers;

	sealed.payload = out;
	sealed.payload_length += SEAL_EXTRA;
	if (packet->has_reth)
		sealed.reth.length += SEAL_EXTRA;
	headers = roce_encode(&sealed, frame->headers, sizeof(frame->headers));
	frame_finish(frame, headers, NULL, out, sealed.payload_length, 0);
	/* Should the cipher fail, what leaves is no secret, and is refused by the peer. */
	if (!seal_packet(lane->qp->seal, packet->has_reth ? SEAL_DATA : SEAL_CONTROL, lane->number,
			 frame->headers, headers, packet->payload, packet->payload_length, out,
			 frame->trailer + sealed.pad))
		memset(out, 0, sealed.payload_length);
}

/* What the ICRC of packets on the lane covers; null where they have none. */
static struct icrc_flow *guarded_flow(struct tx_lane *lane)
{
	return lane->qp->skip_icrc ? NULL : &lane->flow;
}

void frame_address(struct frame *frame, union socket_address *to, struct msghdr *out)
{
	memset(out, 0, sizeof(*out));
	out->msg_name = to;
	out->msg_namelen = address_length(to);
	out->msg_iov = frame->parts;
	out->msg_iovlen = FRAME_PARTS;
}

size_t message_length(const struct msghdr *message)
{
	size_t length = 0;

	for (size_t i = 0; i < message->msg_iovlen; i++)
		length += message->msg_iov[i].iov_len;
	return length;
}

bool tx_no_room(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

void tx_refused(struct roce_endpoint *endpoint, int error, unsigned packets)
{
	snprintf(endpoint->fabric.error, sizeof(endpoint->fabric.error), "cannot send: %s",
		 strerror(error));
	/* A router told that the path carries less: the message layer finds out how much. */
	if (error != EMSGSIZE)
		log_once(&endpoint->complained, LOG_LEVEL_WARN, "%s", endpoint->fabric.error);
	endpoint->fabric.counters[FABRIC_TX_ERRORS] += packets;
}

/* As sendmmsg(), which takes longer for one; and of one piece without ancillary data the kernel fetches neither a list nor a
 * message header if it is named in the call. */
static int send_some(int fd, struct mmsghdr *messages, unsigned count)
{
	const struct msghdr *one = &messages->msg_hdr;

	if (count > 1)
		return sendmmsg(fd, messages, count, MSG_DONTWAIT);
	if (one->msg_iovlen == 1 && !one->msg_controllen)
		return sendto(fd, one->msg_iov->iov_base, one->msg_iov->iov_len, MSG_DONTWAIT,
			      one->msg_name, one->msg_namelen) < 0
			       ? -1
			       : 1;
	return sendmsg(fd, one, MSG_DONTWAIT) < 0 ? -1 : 1;
}

unsigned frames_send(struct roce_endpoint *endpoint, int fd, struct mmsghdr *messages,
		     unsigned count)
{
	unsigned done = 0;

	while (done < count) {
		int n = send_some(fd, messages + done, count - done);

		if (n < 0 && tx_no_room(errno)) {
			endpoint->fabric.counters[FABRIC_TX_BUSY]++;
			break;
		}
		if (n < 0) {
			tx_refused(endpoint, errno, 1);
			done++;
		}
		for (int i = 0; i < n; i++)
			endpoint->fabric.counters[FABRIC_TX_BYTES] +=
				message_length(&messages[done++].msg_hdr);
	}
	return done;
}

/* One message with what injected faults make of it; 1 when it is gone, 0 when there is no room. */
static unsigned push_faulty(struct roce_endpoint *endpoint, int fd, const struct msghdr *message)
{
	int error = faults_send(endpoint, fd, message, faults_draw(endpoint), clock_now_ns());

	if (error && tx_no_room(-error)) {
		endpoint->fabric.counters[FABRIC_TX_BUSY]++;
		return 0;
	}
	if (error)
		tx_refused(endpoint, -error, 1);
	else
		endpoint->fabric.counters[FABRIC_TX_BYTES] += message_length(message);
	return 1;
}

unsigned frames_push(struct roce_endpoint *endpoint, int fd, struct mmsghdr *messages,
		     unsigned count)
{
	unsigned done = 0;

	if (!endpoint->faults)
		return frames_send(endpoint, fd, messages, count);
	while (done < count && push_faulty(endpoint, fd, &messages[done].msg_hdr))
		done++;
	return done;
}

void build_data(struct frame *frame, struct tx_lane *lane, const struct fabric_target *target,
		const struct fabric_write *write, uint32_t psn, uint16_t ip_id)
{
	const struct roce_qp *qp = lane->qp;
	uint32_t imm = fabric_imm(&qp->split, target->slot, write->packet, write->user);
	struct roce_packet packet;

	if (qp->seal) {
		roce_uc_write_imm(&packet, qp->peer_qpn, psn, write->va, target->rkey, imm,
				  write->data, write->length);
		build_sealed(frame, lane, &packet);
		return;
	}
	roce_encode_uc_write_imm(frame->headers, qp->peer_qpn, psn, write->va, target->rkey, imm,
				 write->length);
	frame_finish(frame, ROCE_HEADERS_MAX, guarded_flow(lane), write->data, write->length,
		     ip_id);
}

static unsigned send_singly(struct tx_lane *lane, const struct fabric_target *target,
			    const struct fabric_write *writes, unsigned count, uint32_t psn)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(target->depart_ns))] = { 0 };
	struct mmsghdr messages[TX_BATCH];
	struct frame frames[TX_BATCH];
	unsigned sent;

	for (unsigned i = 0; i < count; i++) {
		build_data(&frames[i], lane, target, &writes[i], psn + i, 0);
		frame_address(&frames[i], &lane->qp->peer, &messages[i].msg_hdr);
		departure_put(&messages[i].msg_hdr, control, sizeof(control), target->depart_ns);
	}
	sent = frames_push(lane->qp->endpoint, lane->fd, messages, count);
	for (unsigned i = 0; target->depart_ns && i < sent; i++)
		departures_add(lane->qp->endpoint, target->depart_ns,
			       message_length(&messages[i].msg_hdr));
	return sent;
}

int roce_write(struct fabric_qp *fabric_qp, unsigned lane_number,
	       const struct fabric_target *target, const struct fabric_write *writes,
	       unsigned count)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct roce_endpoint *endpoint = qp->endpoint;
	unsigned done = 0, asked = 0, sent = 0;
	struct tx_lane lane;

	endpoint->blocked_fd = -1;
	if (count > 1)
		linger_wrote(endpoint);
	if (qp->peer_ud)
		return datagram_write(qp, lane_number, target, writes, count);
	tx_lane(qp, lane_number < endpoint->lanes ? lane_number : 0, &lane);
	count = count < TX_BATCH ? count : TX_BATCH;
	while (done < count && sent == asked) {
		asked = segments_count(qp, writes + done, count - done);
		if (asked > 1) {
			sent = segments_send(&lane, target, writes + done, asked, qp->psn + done);
		} else {
			asked = segments_usable(qp) ? 1 : count - done;
			sent = send_singly(&lane, target, writes + done, asked, qp->psn + done);
		}
		done += sent;
	}
	if (sent < asked)
		endpoint->blocked_fd = lane.fd;
	endpoint->fabric.counters[FABRIC_TX_DATA] += done;
	endpoint->fabric.counters[FABRIC_TX_AHEAD] += target->depart_ns ? done : 0;
	qp->psn += done;
	return (int)done;
}

void roce_control_by(struct fabric_qp *fabric_qp, unsigned lane)
{
	struct roce_qp *qp = roce_qp(fabric_qp);

	qp->control_lane = lane < qp->endpoint->lanes ? (uint8_t)lane : 0;
}

/* Puts a sealed control datagram into the outbox. */
static void add_sealed(struct roce_qp *qp, const void *data, uint32_t length)
{
	struct roce_packet packet;
	struct tx_lane lane;
	struct frame frame;
	uint8_t *out;

	roce_ud_send(&packet, qp->peer_control_qpn, qp->control_psn++, qp->peer_qkey, qp->qpn, data,
		     length);
	tx_lane(qp, qp->control_lane, &lane);
	build_sealed(&frame, &lane, &packet);
	out = outbox_add(qp, qp->control_lane,
			 frame.parts[0].iov_len + frame.parts[1].iov_len + frame.parts[2].iov_len);
	for (int part = 0; part < FRAME_PARTS; part++) {
		if (frame.parts[part].iov_len)
			memcpy(out, frame.parts[part].iov_base, frame.parts[part].iov_len);
		out += frame.parts[part].iov_len;
	}
}

int roce_control(struct fabric_qp *fabric_qp, const void *data, size_t length)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	size_t pad = -length & PAD_MAX;
	uint8_t *out;

	if (qp->seal) {
		add_sealed(qp, data, (uint32_t)length);
		return 0;
	}
	out = outbox_add(qp, qp->control_lane, ROCE_CONTROL_OVERHEAD + length + pad);
	roce_encode_ud_send(out, qp->peer_control_qpn, qp->control_psn++, qp->peer_qkey, qp->qpn,
			    (uint32_t)length);
	out += ROCE_UD_HEADERS;
	memcpy(out, data, length);
	memset(out + length, 0, pad + ROCE_ICRC_SIZE);
	return 0;
}

void send_cnp(struct roce_qp *qp)
{
	struct roce_packet packet;
	struct mmsghdr message;
	struct tx_lane lane;
	struct frame frame;

	roce_cnp(&packet, qp->peer_qpn);
	tx_lane(qp, 0, &lane);
	if (qp->seal)
		build_sealed(&frame, &lane, &packet);
	else
		frame_finish(&frame, roce_encode(&packet, frame.headers, sizeof(frame.headers)),
			     guarded_flow(&lane), NULL, 0, 0);
	frame_address(&frame, &qp->peer, &message.msg_hdr);
	qp->endpoint->fabric.counters[FABRIC_TX_CNP] +=
		frames_push(qp->endpoint, lane.fd, &message, 1);
}
