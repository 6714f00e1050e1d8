/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.h: what a user-space RoCE endpoint consists of. Private to fabric/roce.
 *
 * One UDP socket, bound to one address: the ICRC covers the source address, so that it has to be known. A table finds
 * queue pairs by number; each holds its peer and, by slot, the windows the peer may write to. Numbers and keys come from
 * the system's entropy: whoever cannot see the packets cannot guess them.
 */
#ifndef FABRIC_ROCE_ENDPOINT_H
#define FABRIC_ROCE_ENDPOINT_H

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/pool.h"
#include "fabric/fabric.h"
#include "fabric/open.h"
#include "fabric/promise.h"
#include "fabric/rate_limit.h"
#include "wire/icrc.h"
#include "wire/roce.h"

#define ROCE_MAX_PAYLOAD 8936 /* between user-space ends: what a frame of 9000 bytes holds */
#define ROCE_MAX_CONTROL 1408 /* fits an Ethernet frame under IPv6 */
#define RX_BATCH	 32
#define RX_BATCH_MERGED	 4 /* where each holds many packets */
#define RX_DATAGRAM                                                                                \
	65536 /* what the kernel hands over at once: many packets of one size, where it merges */
#define RX_PACKET	(ROCE_MAX_PAYLOAD + 128)
#define RX_FORWARDED	32
#define ROCE_GROUPS_MAX 16
/* A queue pair number: the process's class in the high bits (share.c), random below. */
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
	struct list event; /* among those with something to tell */
	struct roce_qp *qp;
	uint8_t *addr;
	uint64_t length;
	uint32_t rkey;
	uint32_t slot;
	uint32_t generation;
	enum fabric_event_type tells;
	bool open;
};

struct fabric_qp; /* is a struct roce_qp */

struct roce_qp {
	struct roce_endpoint *endpoint;
	void *user;
	uint32_t qpn;
	uint32_t qkey;
	uint32_t psn; /* of the next data packet */
	uint32_t control_psn;
	struct fabric_split split;
	uint32_t slots;
	uint32_t payload; /* 0: not connected */
	struct promise promise;
	uint32_t peer_qpn;
	uint32_t peer_control_qpn;
	uint32_t peer_qkey;
	uint32_t peer_max_id;		       /* the largest IPv4 identification the peer sends */
	uint8_t control_lane;		       /* that control leaves by */
	uint16_t peer_ports[FABRIC_LANES_MAX]; /* that it sends from, by lane; 0: no such lane */
	bool skip_icrc;
	uint64_t cnp_ns; /* when the last notice of marks left */
	/* No batches before this time: a device on the way to the peer refused one (segments.c). */
	uint64_t segments_again_ns;
	bool peer_nic; /* one packet a datagram, for it checks the identification too */
	bool peer_ud;  /* and it takes data as datagrams (datagram.c) */
	uint32_t peer_lanes[FABRIC_LANES_MAX]; /* that those come from; 0: no such lane */
	union socket_address peer;
	struct icrc_flow to_peer;
	struct icrc_flow from_peer; /* from its usual port */
	uint32_t windows[];	    /* by slot: pool index + 1 */
};

/* Room for the count of datagrams that the socket had to drop, the size of merged packets, and the traffic class. */
#define CMSG_ROOM                                                                                  \
	(CMSG_SPACE(sizeof(uint32_t)) + 2 * CMSG_SPACE(sizeof(int)) +                              \
	 CMSG_SPACE(sizeof(struct timespec)))

/* Datagrams that were received and not yet looked at to the end. */
struct inbox {
	uint32_t count;
	uint32_t next;
	uint32_t offset;  /* in the next one */
	uint32_t segment; /* packets of it looked at */
	uint32_t lengths[RX_BATCH];
	uint32_t sizes[RX_BATCH]; /* of each packet but the last; 0: it is one packet */
	bool ce[RX_BATCH];
	uint64_t at_ns[RX_BATCH]; /* when the kernel had it; 0: not known */
	union socket_address from[RX_BATCH];
	uint64_t real_ns; /* time of day when they were read */
	uint32_t used;	  /* by the last call: to be set up again */
	uint32_t ask;	  /* for so many at once */
	struct mmsghdr messages[RX_BATCH];
	struct iovec parts[RX_BATCH];
	_Alignas(struct cmsghdr) uint8_t control[RX_BATCH][CMSG_ROOM];
};

struct share; /* share.c */
struct faults;
struct roce_groups; /* group.c */

struct roce_endpoint {
	struct fabric fabric;
	int fd;				/* everything arrives here; lane 0 leaves by it */
	int lane_fds[FABRIC_LANES_MAX]; /* that the lanes leave by */
	uint16_t lane_ports[FABRIC_LANES_MAX];
	uint32_t lanes;
	bool skip_icrc;
	union socket_address local;
	socklen_t local_length;
	struct share *share;
	struct faults *faults;
	struct roce_groups *groups; /* null until one is joined */
	uint64_t rate_bps;	    /* that multicast is held to, where one was asked for */
	uint32_t class;
	struct roce_qp **table; /* by number, open addressing */
	uint32_t table_mask;
	uint32_t qps;
	struct pool windows;
	struct list events; /* windows with something to tell */
	/* Socket that had no room for data, to be woken for when it has; -1: none. */
	int blocked_fd;
	bool complained;
	bool segments; /* the kernel cuts a batch into packets (UDP_SEGMENT) */
	/* Whether it was said that a device refuses such batches. */
	bool segments_complained;
	uint32_t overruns;
	uint64_t now_ns; /* of the last poll */
	uint32_t polls;
	bool others_due; /* packets may have been handed on to us */
	uint8_t entropy[1024];
	uint32_t entropy_left;
	struct inbox inbox;
	/* RX_BATCH datagrams from the socket, then RX_FORWARDED packets from processes that share the port. */
	uint8_t *rx;
};

/* endpoint.c */
uint32_t random_u32(struct roce_endpoint *endpoint);

/* address.c */
bool same_host(const union socket_address *a, const union socket_address *b);
uint16_t address_port(const union socket_address *address);
socklen_t address_length(const union socket_address *address);
/* ADDRESS or ADDRESS@PORT: one numeric address that packets can come from. */
int address_parse(const char *where, union socket_address *out);
/* The MTU of the interface that has the address; an ordinary Ethernet's when that cannot be told. */
uint32_t address_mtu(int fd, const union socket_address *local);
/* Its index; 0 when that cannot be told. */
unsigned address_interface(const union socket_address *local);

/* socket.c */
/* Opens the sockets of the address that `where` names; says why it failed (refuse.h). */
int sockets_open(struct roce_endpoint *endpoint, const char *where,
		 const struct fabric_options *options);
void sockets_close(struct roce_endpoint *endpoint);

/* qp.c */
/* Random, unused, and none of those with a meaning of their own: 0, 1 and the multicast number. */
uint32_t qp_choose_number(struct roce_endpoint *endpoint);
struct roce_qp *qp_lookup(const struct roce_endpoint *endpoint, uint32_t qpn);
int roce_qp_create(struct fabric *fabric, const struct fabric_qp_attr *attr,
		   struct fabric_qp **out);
void roce_qp_destroy(struct fabric_qp *qp);
size_t roce_qp_address(const struct fabric_qp *qp, uint8_t *out);
int roce_qp_connect(struct fabric_qp *qp, const uint8_t *address, size_t length, uint32_t payload);
void roce_qp_peer(const struct fabric_qp *qp, char *text, size_t size);
void roce_qp_resize(struct fabric_qp *qp, uint32_t payload);
int roce_promise(struct fabric_qp *fabric_qp, uint32_t slot, uint32_t *rkey);
int roce_expose(struct fabric_qp *qp, uint32_t slot, uint32_t generation, struct fabric_mr *mr,
		void *addr, uint64_t length);
int roce_fence(struct fabric_qp *qp, uint32_t slot);

/* tx.c */
int roce_write(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
	       const struct fabric_write *writes, unsigned count);
unsigned roce_batch(const struct fabric_qp *qp, uint32_t payload);
int roce_control(struct fabric_qp *qp, const void *data, size_t length);
void roce_control_by(struct fabric_qp *qp, unsigned lane);
/* Tells the peer that its packets arrive marked. */
void send_cnp(struct roce_qp *qp);

/* datagram.c */
int datagram_write(struct roce_qp *qp, unsigned lane, const struct fabric_target *target,
		   const struct fabric_write *writes, unsigned count);
/* True when the packet made an event. */
bool datagram_take(struct roce_qp *qp, const struct roce_packet *packet,
		   struct fabric_event *event);

/* rx.c */
int roce_poll(struct fabric *fabric, struct fabric_event *events);
void rx_prepare(struct roce_endpoint *endpoint);
/* Takes what waits in the socket for this end, and hands on what waits for others: some thousand datagrams at most, for
 * they may come as fast as they are read. */
void rx_drain(struct roce_endpoint *endpoint);

/* group.c */
extern const struct fabric_group_ops roce_group_ops;
void groups_close(struct roce_endpoint *endpoint);
/* Where there are any. */
int groups_poll(struct roce_endpoint *endpoint, struct fabric_event *events, int most);
uint64_t groups_deadline_ns(const struct roce_endpoint *endpoint);
/* Fills in what to sleep on, at most ROCE_GROUPS_MAX; returns how many. */
unsigned groups_watch(const struct roce_endpoint *endpoint, struct pollfd *fds);

/* share.c */
/* Joins the processes that share the port. -EADDRINUSE: they are as many as can be. */
int share_join(struct roce_endpoint *endpoint);
void share_leave(struct roce_endpoint *endpoint);
int share_fd(const struct roce_endpoint *endpoint);
/* A packet for a process that shares the port. True when one took it. */
bool share_forward(struct roce_endpoint *endpoint, const union socket_address *from,
		   const void *packet, size_t length, uint32_t qpn);
/* Reads one message from processes that share the port. Returns the length of a packet that one handed on; 0 when it was
 * another message, which is dealt with; -EAGAIN when there is none. */
int share_take(struct roce_endpoint *endpoint, void *packet, size_t size,
	       union socket_address *from);

/* steer.c */
/* Whether it is a process looking for its socket: no packet at all. */
bool steer_probe(struct roce_endpoint *endpoint, const union socket_address *from,
		 const uint8_t *bytes, size_t length);
/* Watches that the kernel still finds our socket. `drained`: nothing waits in it. */
void steer_tick(struct roce_endpoint *endpoint, uint64_t now_ns, bool drained);
uint64_t steer_deadline_ns(const struct roce_endpoint *endpoint);

/* faults.c */
int faults_open(const struct fabric_faults *attr, struct faults **out);
void faults_close(struct faults *faults);
enum fate { FATE_PASSES, FATE_LOST, FATE_TWICE, FATE_HELD };
/* What becomes of the next packet. One that is lost is counted. */
enum fate faults_draw(struct roce_endpoint *endpoint);
/* Lets it happen to a datagram. 0, or -errno of a send that failed. */
int faults_send(struct roce_endpoint *endpoint, int fd, const struct msghdr *message,
		enum fate fate, uint64_t now_ns);
/* A packet passes those that are held; and, once it is on its way, those that were passed often enough follow. */
void faults_overtaken(struct roce_endpoint *endpoint);
void faults_let_go(struct roce_endpoint *endpoint);
void faults_release(struct roce_endpoint *endpoint, uint64_t now_ns);
uint64_t faults_deadline_ns(const struct faults *faults);

static inline struct roce_endpoint *endpoint_of(const struct fabric *fabric)
{
	return container_of(fabric, struct roce_endpoint, fabric);
}

static inline struct roce_qp *roce_qp(const struct fabric_qp *qp)
{
	return (struct roce_qp *)(uintptr_t)qp;
}

static inline void drop(struct roce_endpoint *endpoint, enum fabric_counter reason)
{
	endpoint->fabric.counters[reason]++;
}

#endif
