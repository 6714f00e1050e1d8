/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.h: what a user-space RoCE endpoint consists of. Private to fabric/roce.
 *
 * One UDP socket receives everything. It is bound to one address, which has to be known because the ICRC covers it. A
 * table finds queue pairs by number; each holds its peer and, by slot, the windows that the peer may write to. Numbers and
 * keys come from the system's entropy, so that nobody who cannot see the packets can guess them.
 */
#ifndef FABRIC_ROCE_ENDPOINT_H
#define FABRIC_ROCE_ENDPOINT_H

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/entropy.h"
#include "base/list.h"
#include "base/pool.h"
#include "fabric/fabric.h"
#include "fabric/open.h"
#include "fabric/promise.h"
#include "fabric/rate_limit.h"
#include "fabric/roce/seal.h"
#include "wire/icrc.h"
#include "wire/roce.h"

/* Data in the largest packet between user-space ends, bytes: what a frame of 9000 bytes holds. */
#define ROCE_MAX_PAYLOAD 8936
/* Largest control datagram, bytes: it fits an Ethernet frame under IPv6. */
#define ROCE_MAX_CONTROL 1408
/* Datagrams read in one call; fewer where the kernel merges packets, since each then holds many. */
#define RX_BATCH	32
#define RX_BATCH_MERGED 4
/* Bytes of the largest datagram that the kernel hands over: many packets of one size where it merges them. */
#define RX_DATAGRAM 65536
/* Bytes of the largest packet, headers included. */
#define RX_PACKET (ROCE_MAX_PAYLOAD + 128)
/* Messages read in one poll from processes that share the port. */
#define RX_FORWARDED	32
#define ROCE_GROUPS_MAX 16
/* Control datagrams that leave in one call at most, and bytes of them. */
#define OUTBOX_DATAGRAMS 64
#define OUTBOX_BYTES	 65536
/* Sealed payloads kept: two batches. */
#define SEALED_SLOTS 128u
/* A queue pair number is the process's class in the high bits (share.c) and random bits below. */
#define CLASS_BITS  6
#define CLASS_SHIFT (24 - CLASS_BITS)
#define CLASSES	    (1u << CLASS_BITS)

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Memory that a peer may write to. */
struct roce_window {
	/* Link in the endpoint's list of windows that are not yet known to be open. */
	struct list event;
	struct roce_qp *qp;
	uint8_t *addr;
	/* Bytes. */
	uint64_t length;
	/* bytes in a full packet */
	uint32_t payload;
	uint32_t rkey;
	uint32_t slot;
	uint32_t generation;
};

struct fabric_qp; /* is a struct roce_qp */

struct roce_qp {
	struct roce_endpoint *endpoint;
	void *user;
	uint32_t qpn;
	uint32_t qkey;
	/* Sequence numbers of the next data packet and of the next control datagram. */
	uint32_t psn;
	uint32_t control_psn;
	struct fabric_split split;
	/* as in struct fabric_qp_attr */
	uint32_t *late;
	uint32_t slots;
	/* Data in a full packet of the peer's, bytes; 0: not connected. */
	uint32_t payload;
	struct promise promise;
	uint32_t peer_qpn;
	uint32_t peer_control_qpn;
	uint32_t peer_qkey;
	/* Largest IPv4 identification that the peer sends with. */
	uint32_t peer_max_id;
	/* Lane that control leaves by. */
	uint8_t control_lane;
	/* UDP ports that the peer sends from, by lane; 0: no such lane. */
	uint16_t peer_ports[FABRIC_LANES_MAX];
	bool skip_icrc;
	/* Null where packets are clear. */
	struct seal *seal;
	/* When the last congestion notification was sent. */
	uint64_t cnp_ns;
	/* No batches before this time: a device on the way to the peer refused one (segments.c). */
	uint64_t segments_again_ns;
	/* Whether the kernel holds packets to the peer until their departure, and when to ask that again (departures.c). */
	bool held;
	uint64_t held_again_ns;
	/* Whether the peer is a NIC: it gets one packet a datagram, since it checks the identification more strictly. */
	bool peer_nic;
	/* Whether it takes data as UD datagrams (datagram.c). */
	bool peer_ud;
	/* UD: queue pair numbers that the peer sends data from, by lane; 0: no such lane. */
	uint32_t peer_lanes[FABRIC_LANES_MAX];
	union socket_address peer;
	/* Addresses and ports that the ICRC covers, towards the peer and from its usual port. */
	struct icrc_flow to_peer;
	struct icrc_flow from_peer;
	/* By slot: pool index + 1 of its window; 0: none. */
	uint32_t windows[];
};

/* Bytes of ancillary data: the count of dropped datagrams, the size of merged packets, the traffic class, the time. */
#define CMSG_ROOM                                                                                  \
	(CMSG_SPACE(sizeof(uint32_t)) + 2 * CMSG_SPACE(sizeof(int)) +                              \
	 CMSG_SPACE(sizeof(struct timespec)))

/* Datagrams that were received and are not yet all handled. */
struct inbox {
	/* Datagrams in it, and the next one to handle. */
	uint32_t count;
	uint32_t next;
	/* Bytes and packets of the next one that are handled. */
	uint32_t offset;
	uint32_t segment;
	/* Bytes of each datagram. */
	uint32_t lengths[RX_BATCH];
	/* Bytes of each packet in a merged datagram, the last excepted; 0: it is one packet. */
	uint32_t sizes[RX_BATCH];
	/* Whether a queue on the way had marked it. */
	bool ce[RX_BATCH];
	/* When the kernel received it; 0: not known. */
	uint64_t at_ns[RX_BATCH];
	union socket_address from[RX_BATCH];
	/* Time of day when they were read. */
	uint64_t real_ns;
	/* How far that is ahead of the fabric's clock, and until when it is taken to be. */
	uint64_t ahead_ns;
	uint64_t ahead_until_ns;
	/* Message headers that the last read wrote to, which have to be set up again. */
	uint32_t used;
	/* Datagrams to ask for in the next read, and whether the last one got all that it asked for. */
	uint32_t ask;
	bool full;
	struct mmsghdr messages[RX_BATCH];
	struct iovec parts[RX_BATCH];
	_Alignas(struct cmsghdr) uint8_t control[RX_BATCH][CMSG_ROOM];
};

/* A datagram in the outbox. */
struct outbox_datagram {
	/* Its bytes, with room for the ICRC at their end. */
	struct iovec part;
	/* Socket that it leaves by. */
	int fd;
	/* High bits of the queue pair number that it is for: the process among those that share the peer's port. */
	uint32_t class;
	/* Whether it ends with an ICRC. */
	bool guarded;
	/* Whether it may leave in a batch. */
	bool batches;
	/* Whether it was sent. */
	bool gone;
	union socket_address to;
	/* Addresses and ports that the ICRC covers. */
	struct icrc_flow flow;
};

/* Control datagrams that leave with the next flush (outbox.c). */
struct outbox {
	/* Datagrams in it. */
	uint32_t count;
	/* Bytes of them all. */
	uint32_t used;
	/* No batches before this time: the host refused one. */
	uint64_t batches_again_ns;
	struct outbox_datagram datagrams[OUTBOX_DATAGRAMS];
	uint8_t bytes[OUTBOX_BYTES];
};

/* A datagram or batch that the kernel holds. */
struct departure {
	uint64_t at_ns;
	uint32_t bytes;
};

#define DEPARTURES 128

/* What the kernel holds until its departure (departures.c). */
struct departures {
	/* Whether the sockets take times of departure (SO_TXTIME). */
	bool usable;
	/* Whether it was said that the kernel holds packets. */
	bool said;
	/* The latest answer about a peer, and until when it is good. */
	bool holds;
	union socket_address peer;
	uint64_t again_ns;
	/* Those not known to have left, in the order of handing over: a ring. */
	uint32_t first;
	uint32_t count;
	struct departure held[DEPARTURES];
	/* Bytes of them all, and above which no more are handed over. */
	uint64_t bytes;
	uint64_t most_bytes;
};

/* Whether to look for the next batch or answer before sleeping (linger.c). */
struct lingering {
	/* Reads after which none is expected any more; 0: none is. */
	uint32_t hope;
	/* Short waits more than long ones since the last batch that was read or sent, as far as they count. */
	uint32_t shorts;
	/* When the wait began that is under way, whether it looks or sleeps; 0: none is. */
	uint64_t waits_ns;
	/* When the search began that is under way; 0: none is. */
	uint64_t since_ns;
	/* Waits to sleep through after the last search, which was in vain, and those of them that are left. */
	uint32_t skips;
	uint32_t left;
};

struct share; /* share.c */
struct faults;
struct roce_groups; /* group.c */

struct roce_endpoint {
	struct fabric fabric;
	/* Socket that everything arrives at and that lane 0 leaves by. */
	int fd;
	/* Sockets that the lanes leave by, and their ports. */
	int lane_fds[FABRIC_LANES_MAX];
	uint16_t lane_ports[FABRIC_LANES_MAX];
	uint32_t lanes;
	bool skip_icrc;
	union socket_address local;
	socklen_t local_length;
	/* Null where the port is the endpoint's alone. */
	struct share *share;
	/* Null where none are injected. */
	struct faults *faults;
	/* Null until a group is joined. */
	struct roce_groups *groups;
	/* Rate that multicast is held to, bits a second; 0: the interface's. */
	uint64_t rate_bps;
	/* High bits of the queue pair numbers (share.c). */
	uint32_t class;
	/* Queue pairs by number, open addressing. */
	struct roce_qp **table;
	uint32_t table_mask;
	/* Queue pairs there are. */
	uint32_t qps;
	struct pool windows;
	/* Windows whose FABRIC_EXPOSED is due. */
	struct list exposed;
	/* Socket that had no room for data, to be woken for when it has; -1: none. */
	int blocked_fd;
	/* Whether it was said that the host refuses to send. */
	bool complained;
	/* Whether the kernel cuts a batch into packets (UDP_SEGMENT). */
	bool segments;
	/* Whether it was said that a device refuses such batches. */
	bool segments_complained;
	/* Datagrams that the socket had dropped when last looked. */
	uint32_t overruns;
	/* Time of the last poll. */
	uint64_t now_ns;
	uint32_t polls;
	/* Whether packets that other processes handed on may be waiting. */
	bool others_due;
	struct entropy entropy;
	/* Sealed payloads on their way out, used in turn: null until a queue pair seals. */
	uint8_t *sealed;
	uint32_t sealed_turn;
	struct departures departures;
	struct lingering lingering;
	struct inbox inbox;
	struct outbox outbox;
	/* RX_BATCH datagrams from the socket, then RX_FORWARDED packets from processes that share the port. */
	uint8_t *rx;
};

/* address.c */
bool same_host(const union socket_address *a, const union socket_address *b);
uint16_t address_port(const union socket_address *address);
socklen_t address_length(const union socket_address *address);
/* Reads ADDRESS or ADDRESS@PORT. -EINVAL: not one numeric address; -EADDRNOTAVAIL: no packet can come from it. */
int address_parse(const char *where, union socket_address *out);
/* MTU of the interface that has the address, bytes; an ordinary Ethernet's where it is not known. */
uint32_t address_mtu(int fd, const union socket_address *local);
/* Index of the interface that has the address; 0 where it is not known. */
unsigned address_interface(const union socket_address *local);

/* socket.c */
/* Opens the sockets of the address that `where` names; says why it failed (refuse.h). */
int sockets_open(struct roce_endpoint *endpoint, const char *where,
		 const struct fabric_options *options);
void sockets_close(struct roce_endpoint *endpoint);

/* qp.c */
/* A random queue pair number that is unused and has no meaning of its own, as 0, 1 and the multicast number have. */
uint32_t qp_choose_number(struct roce_endpoint *endpoint);
/* The queue pair with this number; null: none. */
struct roce_qp *qp_lookup(const struct roce_endpoint *endpoint, uint32_t qpn);
int roce_qp_create(struct fabric *fabric, const struct fabric_qp_attr *attr,
		   struct fabric_qp **out);
void roce_qp_destroy(struct fabric_qp *qp);
size_t roce_qp_address(const struct fabric_qp *qp, uint8_t *out);
int roce_qp_connect(struct fabric_qp *qp, const uint8_t *bytes, size_t length, uint32_t payload);
void roce_qp_peer(const struct fabric_qp *qp, char *text, size_t size);
int roce_qp_seal(struct fabric_qp *qp, const struct fabric_seal *keys);
int roce_recut(struct fabric_qp *qp, uint32_t slot, uint32_t generation, uint32_t payload,
	       uint32_t *rkey);
int roce_promise(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t *rkey);
int roce_expose(struct fabric_qp *qp, uint32_t slot, uint32_t generation, struct fabric_mr *mr,
		void *addr, uint64_t length, uint32_t payload);
int roce_fence(struct fabric_qp *qp, uint32_t slot);

/* tx.c */
int roce_write(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
	       const struct fabric_write *writes, unsigned count);
unsigned roce_batch(const struct fabric_qp *qp, uint32_t payload);
int roce_control(struct fabric_qp *qp, const void *data, size_t length);
void roce_control_by(struct fabric_qp *qp, unsigned lane);
/* Sends a congestion notification: the peer's packets arrive marked. */
void send_cnp(struct roce_qp *qp);

/* departures.c */
/* Turns times of departure on, for sockets whose send buffer has this size. */
void departures_open(struct roce_endpoint *endpoint, uint64_t buffer_bytes);
uint64_t roce_ahead_ns(struct fabric_qp *qp, uint64_t now_ns, bool *room);

/* outbox.c */
void roce_flush(struct fabric *fabric);

/* datagram.c */
/* As roce_write(), to a peer that takes UD datagrams. */
int datagram_write(struct roce_qp *qp, unsigned lane, const struct fabric_target *target,
		   const struct fabric_write *writes, unsigned count);
/* Handles a UD datagram with data. True when it made an event. */
bool datagram_take(struct roce_qp *qp, const struct roce_packet *packet,
		   struct fabric_event *event);

/* rx.c */
int roce_poll(struct fabric *fabric, struct fabric_event *events);
/* Sets up the inbox. */
void rx_prepare(struct roce_endpoint *endpoint);
/* Takes what waits in the socket for this end, and hands on what waits for others: some thousand datagrams at most, for
 * they may come as fast as they are read. */
void rx_drain(struct roce_endpoint *endpoint);

/* linger.c */
/* Notes that something was read, whether there was a batch among it, and when the first of it came. */
void linger_read(struct roce_endpoint *endpoint, bool batches, uint64_t came_ns);
/* Notes that a batch was sent. */
void linger_wrote(struct roce_endpoint *endpoint);
/* Whether to look again instead of sleeping now. */
bool linger(struct roce_endpoint *endpoint);

/* group.c */
extern const struct fabric_group_ops roce_group_ops;
void groups_close(struct roce_endpoint *endpoint);
/* As roce_poll(), for an endpoint that has groups. */
int groups_poll(struct roce_endpoint *endpoint, struct fabric_event *events, int most);
/* When a group's sender that the rate limit refused may try again. */
uint64_t groups_deadline_ns(const struct roce_endpoint *endpoint);
/* Fills in the sockets to sleep on, at most ROCE_GROUPS_MAX; returns how many. */
unsigned groups_watch(const struct roce_endpoint *endpoint, struct pollfd *fds);

/* share.c */
/* Joins the processes that share the port. -EADDRINUSE: they are as many as can be. */
int share_join(struct roce_endpoint *endpoint);
/* Hands on what waits for other processes, and leaves. */
void share_leave(struct roce_endpoint *endpoint);
/* Socket at which other processes hand packets on; -1: none. */
int share_fd(const struct roce_endpoint *endpoint);
/* Hands a packet on to the process of its queue pair number. False when no process took it. */
bool share_forward(struct roce_endpoint *endpoint, const union socket_address *from,
		   const void *packet, size_t length, uint32_t qpn);
/* Reads one message from processes that share the port. Returns the length of a packet that one handed on; 0 when it was
 * another message, which is dealt with; -EAGAIN when there is none. */
int share_take(struct roce_endpoint *endpoint, void *packet, size_t size,
	       union socket_address *from);

/* steer.c */
/* Whether these bytes are a probe by which a process looks for its socket, and no packet. A probe of ours is noted. */
bool steer_probe(struct roce_endpoint *endpoint, const union socket_address *from,
		 const uint8_t *bytes, size_t length);
/* Checks now and then that the kernel still gives packets of our class to our socket. `drained`: the socket is empty. */
void steer_tick(struct roce_endpoint *endpoint, uint64_t now_ns, bool drained);
/* When steer_tick() has something to do. */
uint64_t steer_deadline_ns(const struct roce_endpoint *endpoint);

/* faults.c */
int faults_open(const struct fabric_faults *attr, struct faults **out);
void faults_close(struct faults *faults);
enum fate { FATE_PASSES, FATE_LOST, FATE_TWICE, FATE_HELD };
/* Draws what becomes of the next packet. One that is lost is counted. */
enum fate faults_draw(struct roce_endpoint *endpoint);
/* Sends a datagram, twice, later or not at all, as drawn. 0, or -errno of a send that failed. */
int faults_send(struct roce_endpoint *endpoint, int fd, const struct msghdr *message,
		enum fate fate, uint64_t now_ns);
/* Counts one packet that overtakes those held back. */
void faults_overtaken(struct roce_endpoint *endpoint);
/* Sends those that were overtaken often enough. */
void faults_let_go(struct roce_endpoint *endpoint);
/* Sends those that were held back long enough. */
void faults_release(struct roce_endpoint *endpoint, uint64_t now_ns);
/* When the next packet has been held back long enough. */
uint64_t faults_deadline_ns(const struct faults *faults);

static inline struct roce_endpoint *endpoint_of(const struct fabric *fabric)
{
	return container_of(fabric, struct roce_endpoint, fabric);
}

static inline struct roce_qp *roce_qp(const struct fabric_qp *qp)
{
	return (struct roce_qp *)(uintptr_t)qp;
}

/* Counts a packet that is dropped for this reason. */
static inline void drop(struct roce_endpoint *endpoint, enum fabric_counter reason)
{
	endpoint->fabric.counters[reason]++;
}

#endif
