/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.h: building and sending packets. Private to fabric/roce. */
#ifndef FABRIC_ROCE_TX_H
#define FABRIC_ROCE_TX_H

#include "fabric/roce/endpoint.h"

/* Packets sent in one call at most. */
#define TX_BATCH    64
#define PAD_MAX	    3
#define FRAME_PARTS 3
#define TRAILER	    (PAD_MAX + ROCE_ICRC_SIZE)

/* A packet: headers and trailer, gathered around a payload that stays where it is. */
struct frame {
	uint8_t headers[ROCE_HEADERS_MAX];
	/* Padding and ICRC. */
	uint8_t trailer[TRAILER];
	/* Headers, payload and trailer, for the system call. */
	struct iovec parts[FRAME_PARTS];
};

/* A lane of a queue pair. */
struct tx_lane {
	struct roce_qp *qp;
	unsigned number;
	/* Socket that packets leave by. */
	int fd;
	/* Addresses and ports that the ICRC covers. */
	struct icrc_flow flow;
};

/* Fills in a lane of the queue pair. */
void tx_lane(struct roce_qp *qp, unsigned lane, struct tx_lane *out);

/* What the ICRC covers of a lane to the peer; returns the socket that it leaves by. */
int lane_flow(const struct roce_qp *qp, unsigned lane, struct icrc_flow *out);

/* Completes a frame whose first `headers` bytes of headers are written: adds the payload, padding and ICRC, or zeros in
 * place of the ICRC where `flow` is null. */
void frame_finish(struct frame *frame, size_t headers, struct icrc_flow *flow, const void *payload,
		  size_t length, uint16_t ip_id);
/* Makes a message of a frame. */
void frame_address(struct frame *frame, union socket_address *to, struct msghdr *out);
/* A data packet as a UC write; `ip_id` is the IPv4 identification that it will leave with. */
void build_data(struct frame *frame, struct tx_lane *lane, const struct fabric_target *target,
		const struct fabric_write *write, uint32_t psn, uint16_t ip_id);

/* Sends messages, in order, until the socket has no room; returns how many are gone, those included that the host
 * refused. frames_push() lets injected faults have their part first. */
unsigned frames_push(struct roce_endpoint *endpoint, int fd, struct mmsghdr *messages,
		     unsigned count);
unsigned frames_send(struct roce_endpoint *endpoint, int fd, struct mmsghdr *messages,
		     unsigned count);

/* Bytes that a message gathers. */
size_t message_length(const struct msghdr *message);
/* Whether a send failed with this errno because the socket has no room now. */
bool tx_no_room(int error);
/* Counts packets that the host refused to send, with this errno, and says so once. */
void tx_refused(struct roce_endpoint *endpoint, int error, unsigned packets);

/* departures.c */
/* Adds a time of departure to a message's ancillary data, whose first msg_controllen bytes of `room` are used; 0: none. */
void departure_put(struct msghdr *message, void *control, size_t room, uint64_t at_ns);
/* Notes that the kernel holds a datagram or batch until then. */
void departures_add(struct roce_endpoint *endpoint, uint64_t at_ns, size_t bytes);

/* outbox.c */
/* Adds a datagram of this many bytes, the ICRC included, which is not made yet; returns where they are to be written. */
uint8_t *outbox_add(struct roce_qp *qp, unsigned lane, size_t length);

/* segments.c */
/* Whether batches may be sent to the queue pair's peer now. */
bool segments_usable(const struct roce_qp *qp);
/* How many packets, from the first on, may leave as one batch: 1 where none may. */
unsigned segments_count(const struct roce_qp *qp, const struct fabric_write *writes,
			unsigned count);
/* How many datagrams with this many bytes a batch holds. */
unsigned segments_most(uint32_t bytes);
/* Sends datagrams of `size` bytes each, the last perhaps shorter, which the parts make up one behind the other, in one system
 * call; they leave at this time, or, if it is 0, at once. 0, or -errno. */
int segments_push(struct roce_endpoint *endpoint, int fd, union socket_address *to,
		  struct iovec *parts, size_t count, uint16_t size, uint64_t depart_ns);
/* Whether this errno may mean that a device takes no batches. */
bool segments_doubted(int error);
/* Sends a batch of segments_count() packets; returns how many are gone. */
unsigned segments_send(struct tx_lane *lane, const struct fabric_target *target,
		       const struct fabric_write *writes, unsigned count, uint32_t psn);

#endif
