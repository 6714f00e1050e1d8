/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending. Headers and ICRC are gathered around the caller's memory, a datagram a packet, a batch a system call. A
 * packet that the host refuses outright (no route, a firewall) counts as lost: the layers above have a clock for that,
 * and one log line says why.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/roce/tx.h"

#define SEGMENTS_BYTES 65000 /* an IP packet holds a little more; headers come off */
#define SEGMENTS_MAX   64 /* the kernel's limit, and what a peer's check of the ICRC allows for */

/* A lane of a queue pair: the socket that packets leave by, and what the ICRC covers of that. */
struct way {
	struct roce_qp *qp;
	int fd;
	struct icrc_flow flow;
};

int lane_flow(const struct roce_qp *qp, unsigned lane, struct icrc_flow *out)
{
	const struct endpoint *endpoint = qp->endpoint;

	*out = qp->to_peer;
	if (lane)
		icrc_flow_from_port(out, endpoint->lane_ports[lane]);
	return endpoint->lane_fds[lane];
}

static void take_way(struct roce_qp *qp, unsigned lane, struct way *out)
{
	*out = (struct way){ .qp = qp };
	out->fd = lane_flow(qp, lane, &out->flow);
}

static void seal(struct frame *frame, const struct icrc_flow *flow,
		 const struct roce_packet *packet, size_t headers, uint16_t ip_id)
{
	size_t length = headers + packet->payload_length + packet->pad + ROCE_ICRC_SIZE;
	uint32_t crc = icrc_begin(flow, length, ip_id, true, frame->headers, headers);

	crc = icrc_update(crc, packet->payload, packet->payload_length);
	crc = icrc_update(crc, frame->trailer, packet->pad);
	icrc_final(crc, frame->trailer + packet->pad);
}

void frame_finish(struct frame *frame, size_t headers, const struct icrc_flow *flow,
		  const struct roce_packet *packet, uint16_t ip_id)
{
	memset(frame->trailer, 0, sizeof(frame->trailer));
	if (flow)
		seal(frame, flow, packet, headers, ip_id);
	frame->parts[0] = (struct iovec){ frame->headers, headers };
	frame->parts[1] =
		(struct iovec){ (void *)(uintptr_t)packet->payload, packet->payload_length };
	frame->parts[2] = (struct iovec){ frame->trailer, packet->pad + ROCE_ICRC_SIZE };
}

static void build(struct frame *frame, const struct way *way, const struct roce_packet *packet,
		  uint16_t ip_id)
{
	size_t headers = roce_encode(packet, frame->headers, sizeof(frame->headers));

	frame_finish(frame, headers, way->qp->skip_icrc ? NULL : &way->flow, packet, ip_id);
}

void frame_address(struct frame *frame, union address *to, struct msghdr *out)
{
	memset(out, 0, sizeof(*out));
	out->msg_name = to;
	out->msg_namelen = address_length(to);
	out->msg_iov = frame->parts;
	out->msg_iovlen = 3;
}

static void address_message(struct msghdr *message, struct roce_qp *qp, struct frame *frame)
{
	frame_address(frame, &qp->peer, message);
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

unsigned frames_push(struct endpoint *endpoint, int fd, struct mmsghdr *messages, unsigned count)
{
	unsigned done = 0;

	while (done < count) {
		int n;

		if (endpoint->faults) {

			n = faults_send(endpoint, fd, &messages[done].msg_hdr,
					faults_draw(endpoint), clock_now_ns());
			if (n < 0)
				errno = -n;
			n = n < 0 ? -1 : 1;
		} else {
			n = sendmmsg(fd, messages + done, count - done, MSG_DONTWAIT);
		}
		if (n > 0) {
			for (int i = 0; i < n; i++)
				endpoint->fabric.counters[FABRIC_TX_BYTES] +=
					length_of(&messages[done++].msg_hdr);
			continue;
		}
		if (full(errno)) {
			endpoint->blocked_fd = fd;
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

/* How many packets from the first on the kernel may be given as one: all of a size, only the last may be shorter. */
static unsigned group_size(bool segments, const struct fabric_write *writes, unsigned count)
{
	uint32_t size = writes[0].length + ROCE_DATA_OVERHEAD;
	unsigned most = SEGMENTS_BYTES / size < SEGMENTS_MAX ? SEGMENTS_BYTES / size : SEGMENTS_MAX;
	unsigned n = 1;

	if (!segments || writes[0].length % 4)
		return 1;
	while (n < count && n < most && writes[n - 1].length == writes[0].length &&
	       writes[n].length <= writes[0].length)
		n++;
	return n;
}

/* One call for the whole group; `size` is that of every packet but the last. 0, or -errno. */
static int send_group(const struct way *way, const struct frame *frames, unsigned count,
		      uint16_t size)
{
	struct roce_qp *qp = way->qp;
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = { 0 };
	struct iovec parts[3 * TX_BATCH];
	struct msghdr message = { .msg_name = &qp->peer,
				  .msg_namelen = address_length(&qp->peer),
				  .msg_iov = parts,
				  .msg_iovlen = 3 * (size_t)count,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	for (unsigned i = 0; i < count; i++)
		memcpy(&parts[3 * i], frames[i].parts, sizeof(frames[i].parts));
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(c), &size, sizeof(size));
	if (sendmsg(way->fd, &message, MSG_DONTWAIT) < 0)
		return -errno;
	qp->endpoint->fabric.counters[FABRIC_TX_BYTES] += length_of(&message);
	return 0;
}

static void build_data(struct frame *frame, const struct way *way,
		       const struct fabric_target *target, const struct fabric_write *write,
		       uint32_t psn, uint16_t ip_id)
{
	const struct roce_qp *qp = way->qp;
	uint32_t imm = fabric_imm(&qp->split, target->slot, write->packet, write->user);
	struct roce_packet packet;

	roce_uc_write_imm(&packet, qp->peer_qpn, psn, write->va, target->rkey, imm, write->data,
			  write->length);
	build(frame, way, &packet, ip_id);
}

/* Injected faults pick their packets out of a group; the rest goes on together. */
static bool passes(const struct way *way, const struct fabric_target *target,
		   const struct fabric_write *write, uint32_t psn)
{
	struct endpoint *endpoint = way->qp->endpoint;
	enum fate fate = faults_draw(endpoint);
	struct msghdr message;
	struct frame frame;

	if (fate == FATE_PASSES)
		faults_overtaken(endpoint);
	if (fate == FATE_PASSES || fate == FATE_LOST)
		return fate == FATE_PASSES;
	build_data(&frame, way, target, write, psn, 0);
	address_message(&message, way->qp, &frame);
	faults_send(endpoint, way->fd, &message, fate, clock_now_ns());
	return false;
}

/* The frames of a group, as many as there are to send. The kernel numbers the packets it cuts from 0, and the ICRC covers
 * that number. */
static unsigned build_group(const struct way *way, const struct fabric_target *target,
			    const struct fabric_write *writes, unsigned count, uint32_t psn,
			    struct frame *frames)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++) {
		if (way->qp->endpoint->faults && !passes(way, target, &writes[i], psn + i))
			continue;
		build_data(&frames[n], way, target, &writes[i], psn + i, (uint16_t)n);
		n++;
	}
	return n;
}

static unsigned send_singly(const struct way *way, const struct fabric_target *target,
			    const struct fabric_write *writes, unsigned count, uint32_t psn)
{
	struct mmsghdr messages[TX_BATCH];
	struct frame frames[TX_BATCH];

	for (unsigned i = 0; i < count; i++) {
		build_data(&frames[i], way, target, &writes[i], psn + i, 0);
		address_message(&messages[i].msg_hdr, way->qp, &frames[i]);
	}
	return frames_push(way->qp->endpoint, way->fd, messages, count);
}

/* How many of a group are gone: all, or none. */
static unsigned send_together(const struct way *way, const struct fabric_target *target,
			      const struct fabric_write *writes, unsigned count, uint32_t psn)
{
	struct endpoint *endpoint = way->qp->endpoint;
	struct frame frames[TX_BATCH];
	unsigned n = build_group(way, target, writes, count, psn, frames);
	int error = 0;

	if (n)
		error = send_group(way, frames, n,
				   (uint16_t)(writes[0].length + ROCE_DATA_OVERHEAD));
	if (!error) {
		if (endpoint->faults)
			faults_let_go(endpoint);
		return count;
	}
	if (full(-error)) {
		endpoint->blocked_fd = way->fd;
		endpoint->fabric.counters[FABRIC_TX_BUSY]++;
	} else {
		/* Not every device can: a packet at a time then, and if that fails too frames_push() says why. */
		endpoint->segments = false;
	}
	return 0;
}

int roce_write(struct fabric_qp *fabric_qp, unsigned lane, const struct fabric_target *target,
	       const struct fabric_write *writes, unsigned count)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct endpoint *endpoint = qp->endpoint;
	unsigned done = 0;
	struct way way;

	endpoint->blocked_fd = -1;
	if (qp->peer_ud)
		return datagram_write(qp, lane, target, writes, count);
	take_way(qp, lane < endpoint->lanes ? lane : 0, &way);
	count = count < TX_BATCH ? count : TX_BATCH;
	while (done < count && endpoint->blocked_fd < 0) {
		/* A device that cuts batches itself may number them otherwise, and a NIC would drop them. */
		bool segments = endpoint->segments && !qp->peer_nic;
		unsigned n = group_size(segments, writes + done, count - done);

		/* What is left of a batch makes a fuller group together with the next. */
		if (done && n < done && count == TX_BATCH && done + n == count)
			break;
		if (n > 1)
			done += send_together(&way, target, writes + done, n, qp->psn + done);
		else
			done += send_singly(&way, target, writes + done,
					    segments ? 1 : count - done, qp->psn + done);
	}
	endpoint->fabric.counters[FABRIC_TX_DATA] += done;
	qp->psn += done;
	return (int)done;
}

void roce_control_by(struct fabric_qp *fabric_qp, unsigned lane)
{
	struct roce_qp *qp = roce_qp(fabric_qp);

	qp->control_lane = lane < qp->endpoint->lanes ? (uint8_t)lane : 0;
}

int roce_control(struct fabric_qp *fabric_qp, const void *data, size_t length)
{
	struct roce_qp *qp = roce_qp(fabric_qp);
	struct endpoint *endpoint = qp->endpoint;
	struct roce_packet packet;
	struct mmsghdr message;
	struct frame frame;
	struct way way;

	take_way(qp, qp->control_lane, &way);
	roce_ud_send(&packet, qp->peer_control_qpn, qp->control_psn, qp->peer_qkey, qp->qpn, data,
		     (uint32_t)length);
	build(&frame, &way, &packet, 0);
	address_message(&message.msg_hdr, qp, &frame);
	if (!frames_push(endpoint, way.fd, &message, 1))
		return -EAGAIN;
	qp->control_psn++;
	endpoint->fabric.counters[FABRIC_TX_CONTROL]++;
	return 0;
}

void send_cnp(struct roce_qp *qp)
{
	struct roce_packet packet;
	struct mmsghdr message;
	struct frame frame;
	struct way way;

	take_way(qp, 0, &way);
	roce_cnp(&packet, qp->peer_qpn);
	build(&frame, &way, &packet, 0);
	address_message(&message.msg_hdr, qp, &frame);
	qp->endpoint->fabric.counters[FABRIC_TX_CNP] +=
		frames_push(qp->endpoint, way.fd, &message, 1);
}
