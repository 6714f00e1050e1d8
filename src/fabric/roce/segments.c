/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Segmentation offload: up to 64 packets of one size leave in one system call, and the kernel cuts them apart
 * (UDP_SEGMENT). It numbers the packets that it cuts (IPv4 identification) from 0, which the ICRC covers.
 *
 * Not every device takes such a batch, and only a failed send tells. So when the kernel refuses one with an error that may
 * mean this, the same packets are sent one by one. If the host takes the first of them, the batch was the problem: this
 * queue pair goes without batches for SEGMENTS_RETRY_NS, and then tries again, since routes change. If the host refuses
 * the single packet too, or the error was another one (no route, a firewall), the packets are lost and nothing is learnt
 * about batches.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/log.h"
#include "fabric/roce/tx.h"

/* Bytes in a batch: an IP packet holds a little more, from which headers come off. */
#define SEGMENTS_BYTES 65000
/* Packets in a batch: the kernel's limit, and what a peer's check of the ICRC allows for. */
#define SEGMENTS_MAX 64
/* The kernel's ENOTSUPP, which is not EOPNOTSUPP and has no name in user space. */
#define KERNEL_ENOTSUPP 524
/* How long a queue pair sends single packets after a batch was refused. */
#define SEGMENTS_RETRY_NS UINT64_C(10000000000)

bool segments_usable(const struct roce_qp *qp)
{
	const struct roce_endpoint *endpoint = qp->endpoint;

	/* A device that cuts batches itself may number them otherwise, and a NIC would drop them. */
	return endpoint->segments && !qp->peer_nic && endpoint->now_ns >= qp->segments_again_ns;
}

/* Bytes of a packet with so many bytes of data. */
static uint32_t packet_bytes(const struct roce_qp *qp, uint32_t payload)
{
	return payload + ROCE_DATA_OVERHEAD + (qp->seal ? SEAL_EXTRA : 0);
}

unsigned segments_most(uint32_t bytes)
{
	uint32_t most = SEGMENTS_BYTES / bytes;

	if (most > SEGMENTS_MAX)
		most = SEGMENTS_MAX;
	return most ? most : 1;
}

unsigned roce_batch(const struct fabric_qp *fabric_qp, uint32_t payload)
{
	if (!segments_usable(roce_qp(fabric_qp)))
		return TX_BATCH;
	return segments_most(packet_bytes(roce_qp(fabric_qp), payload));
}

/* They have one size; only the last may be shorter. */
unsigned segments_count(const struct roce_qp *qp, const struct fabric_write *writes, unsigned count)
{
	unsigned most, n = 1;

	if (!segments_usable(qp) || writes[0].length % 4)
		return 1;
	most = roce_batch((const struct fabric_qp *)qp, writes[0].length);
	while (n < count && n < most && writes[n - 1].length == writes[0].length &&
	       writes[n].length <= writes[0].length)
		n++;
	return n;
}

/* A batch: those of the writes that are to be sent together. Injected faults take some out. */
struct tx_batch {
	struct tx_lane *lane;
	const struct fabric_target *target;
	const struct fabric_write *writes;
	uint32_t psn;
	unsigned count;
	/* Index in `writes` of each packet. */
	uint8_t kept[TX_BATCH];
};

/* Whether the packet goes on with its batch. One that is to be duplicated or held back is sent here, by itself. */
static bool passes(const struct tx_batch *batch, unsigned i)
{
	struct roce_endpoint *endpoint = batch->lane->qp->endpoint;
	enum fate fate = faults_draw(endpoint);
	struct msghdr message;
	struct frame frame;

	if (fate == FATE_PASSES)
		faults_overtaken(endpoint);
	if (fate == FATE_PASSES || fate == FATE_LOST)
		return fate == FATE_PASSES;
	build_data(&frame, batch->lane, batch->target, &batch->writes[i], batch->psn + i, 0);
	frame_address(&frame, &batch->lane->qp->peer, &message);
	faults_send(endpoint, batch->lane->fd, &message, fate, endpoint->now_ns);
	return false;
}

int segments_push(struct roce_endpoint *endpoint, int fd, union socket_address *to,
		  struct iovec *parts, size_t count, uint16_t size, uint64_t depart_ns)
{
	_Alignas(struct cmsghdr)
		uint8_t control[CMSG_SPACE(sizeof(size)) + CMSG_SPACE(sizeof(depart_ns))] = { 0 };
	struct msghdr message = { .msg_name = to,
				  .msg_namelen = address_length(to),
				  .msg_iov = parts,
				  .msg_iovlen = count,
				  .msg_control = control,
				  .msg_controllen = CMSG_SPACE(sizeof(size)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	ssize_t sent;

	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(c), &size, sizeof(size));
	departure_put(&message, control, sizeof(control), depart_ns);
	sent = sendmsg(fd, &message, MSG_DONTWAIT);
	if (sent < 0)
		return -errno;
	endpoint->fabric.counters[FABRIC_TX_BYTES] += (uint64_t)sent;
	if (depart_ns)
		departures_add(endpoint, depart_ns, (size_t)sent);
	return 0;
}

/* Sends a batch in one system call. 0, or -errno. What ends a packet and what begins the next lie side by side, since each
 * part costs the kernel a copy to start. */
static int send_together(const struct tx_batch *batch)
{
	struct tx_lane *lane = batch->lane;
	uint8_t bytes[TX_BATCH * (ROCE_HEADERS_MAX + TRAILER)], *seam = bytes, *end = bytes;
	struct iovec parts[2 * TX_BATCH + 1];
	struct frame frame;
	size_t count = 0;

	for (unsigned i = 0; i < batch->count; i++) {
		unsigned at = batch->kept[i];

		build_data(&frame, lane, batch->target, &batch->writes[at], batch->psn + at,
			   (uint16_t)i);
		memcpy(end, frame.headers, ROCE_HEADERS_MAX);
		end += ROCE_HEADERS_MAX;
		parts[count++] = (struct iovec){ seam, (size_t)(end - seam) };
		parts[count++] = frame.parts[1];
		seam = end;
		memcpy(end, frame.trailer, TRAILER);
		end += frame.parts[2].iov_len;
	}
	parts[count++] = (struct iovec){ seam, (size_t)(end - seam) };
	return segments_push(lane->qp->endpoint, lane->fd, &lane->qp->peer, parts, count,
			     (uint16_t)packet_bytes(lane->qp, batch->writes[0].length),
			     batch->target->depart_ns);
}

/* Sends the packets of a batch one by one; returns how many are gone. The first one tells whether it was the batch that the
 * host refused. */
static unsigned send_apart(const struct tx_batch *batch)
{
	struct roce_qp *qp = batch->lane->qp;
	struct roce_endpoint *endpoint = qp->endpoint;
	uint64_t refused = endpoint->fabric.counters[FABRIC_TX_ERRORS];
	struct mmsghdr messages[TX_BATCH];
	struct frame frames[TX_BATCH];

	for (unsigned i = 0; i < batch->count; i++) {
		unsigned at = batch->kept[i];

		build_data(&frames[i], batch->lane, batch->target, &batch->writes[at],
			   batch->psn + at, 0);
		frame_address(&frames[i], &qp->peer, &messages[i].msg_hdr);
	}
	if (!frames_send(endpoint, batch->lane->fd, messages, 1))
		return 0;
	if (endpoint->fabric.counters[FABRIC_TX_ERRORS] != refused) {
		endpoint->fabric.counters[FABRIC_TX_ERRORS] += batch->count - 1;
		return batch->count;
	}
	qp->segments_again_ns = endpoint->now_ns + SEGMENTS_RETRY_NS;
	log_once(
		&endpoint->segments_complained, LOG_LEVEL_INFO,
		"a device takes no batches of UDP packets (UDP_SEGMENT): sending through it costs more");
	return 1 + frames_send(endpoint, batch->lane->fd, messages + 1, batch->count - 1);
}

bool segments_doubted(int error)
{
	return error == EIO || error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP ||
	       error == ENOPROTOOPT || error == KERNEL_ENOTSUPP;
}

unsigned segments_send(struct tx_lane *lane, const struct fabric_target *target,
		       const struct fabric_write *writes, unsigned count, uint32_t psn)
{
	struct tx_batch batch = { .lane = lane, .target = target, .writes = writes, .psn = psn };
	struct roce_endpoint *endpoint = lane->qp->endpoint;
	unsigned done;
	int error = 0;

	for (unsigned i = 0; i < count; i++)
		if (!endpoint->faults || passes(&batch, i))
			batch.kept[batch.count++] = (uint8_t)i;
	if (batch.count)
		error = send_together(&batch);
	if (!error) {
		if (endpoint->faults)
			faults_let_go(endpoint);
		return count;
	}
	if (tx_no_room(-error)) {
		endpoint->fabric.counters[FABRIC_TX_BUSY]++;
		return 0;
	}
	if (!segments_doubted(-error)) {
		tx_refused(endpoint, -error, batch.count);
		return count;
	}
	done = send_apart(&batch);
	return done < batch.count ? batch.kept[done] : count;
}
