/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h: what the message layer asks of a network.
 *
 * A fabric moves single packets: data packets, which land in memory that their receiver has exposed and raise an event
 * there, and control datagrams. It promises nothing about arrival, order or number of copies. It does promise placement:
 * a data packet lands only in an open window of its queue pair, whole, at the place that its packet number names, and
 * before its event is seen; and nothing lands in a window after its FABRIC_FENCED or FABRIC_EXPOSE_FAILED.
 *
 * A *window* here is memory of the receiver, exposed under a slot, a generation and a key. Its life:
 *
 *	expose()   accepted: the fabric begins to open it
 *	           -> FABRIC_EXPOSE_FAILED: it cannot be opened; the slot is free
 *	           -> FABRIC_EXPOSED: it is open; its key may be given to the peer
 *	fence()    the fabric begins to close it; packets may still land and raise FABRIC_DATA
 *	           -> FABRIC_FENCED: it is closed, all events of its packets were seen, and the slot is free
 *
 * There is one implementation a folder, behind an ops table: roce/ (UDP sockets), verbs/ (libibverbs), sim/ (virtual
 * time). A fabric and all that was made from it belong to one thread. Calls return 0 or a count, or -errno;
 * out-parameters are set only on success. Times are those of now_ns(), in nanoseconds.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fabric;
struct fabric_qp;
struct fabric_mr;
struct fabric_group;
struct pollfd;

/* Bytes of the longest address that any fabric needs: a struct gw_qp_info holds it beside the message layer's part. */
#define FABRIC_ADDRESS_MAX 64

/* Lanes to one peer at most: different source ports or queue pairs, which networks spread over their paths. */
#define FABRIC_LANES_MAX 8

/* Descriptors that a thread sleeps on at most. */
#define FABRIC_FDS 20

/* Events that one poll returns at most. */
#define FABRIC_EVENTS 128

/* How a 32-bit immediate names a packet: slot in the high bits, then packet number, then user bits. */
struct fabric_split {
	uint8_t slot_bits;
	uint8_t packet_bits;
	uint8_t user_bits;
};

static inline uint32_t fabric_imm(const struct fabric_split *split, uint32_t slot, uint32_t packet,
				  uint32_t user)
{
	uint64_t imm = slot;

	imm = imm << split->packet_bits | packet;
	imm = imm << split->user_bits | user;
	return (uint32_t)imm;
}

static inline uint32_t fabric_imm_slot(const struct fabric_split *split, uint32_t imm)
{
	return (uint32_t)((uint64_t)imm >> (split->packet_bits + split->user_bits));
}

static inline uint32_t fabric_imm_packet(const struct fabric_split *split, uint32_t imm)
{
	return (uint32_t)(((uint64_t)imm >> split->user_bits) &
			  ((UINT64_C(1) << split->packet_bits) - 1));
}

static inline uint32_t fabric_imm_user(const struct fabric_split *split, uint32_t imm)
{
	return imm & (uint32_t)((UINT64_C(1) << split->user_bits) - 1);
}

#define FABRIC_RUNGS 4

/* What an endpoint can do; fixed once it is open. */
struct fabric_caps {
	/* Data in the largest data packet, bytes; a multiple of 4. */
	uint32_t max_payload;
	/* Bytes of the largest control datagram. */
	uint32_t max_control;
	/* Room of the receive side, which all queue pairs share, in units: bytes as a kernel charges them, or receive
	 * requests. */
	uint64_t buffer;
	/* Units that may be in flight towards this endpoint at most: `buffer` where it does not count overruns, or more, since
	 * packets that are read at once need no room. */
	uint64_t buffer_most;
	/* Units that a data packet takes, and those that each byte of its data takes besides. */
	uint32_t buffer_packet;
	uint32_t buffer_byte;
	/* What the owner of the host can do when `buffer` is too small, for a log line; null: nothing is known. */
	const char *buffer_advice;
	/* Time that usually passes at most until a host has seen a packet that reached it: a process has to run for that. */
	uint64_t wake_ns;
	/* Time that a (slot, generation) must not be exposed again after its fence; 0 where keys alone tell stale packets. */
	uint64_t lifetime_ns;
	/* Payloads smaller than max_payload that are worth trying, descending; 0 ends them. The last one is what every path
	 * carries. None where the fabric knows what its path carries: then packets have one size. */
	uint32_t rungs[FABRIC_RUNGS];
	/* Bytes that a control datagram has on the wire less than a data packet with as many bytes of data. */
	uint32_t probe_extra;
	/* Whether a peer may name any address as its own: it is then validated before data goes there. */
	bool addresses_forged;
	/* Bytes that a sealed packet is longer by; 0: packets cannot be sealed. */
	uint32_t seal_extra;
	/* Lanes to one peer; 0 counts as 1. */
	uint32_t lanes;
	/* Data in the largest multicast packet, bytes; 0: there is no multicast. */
	uint32_t max_group;
	/* Whether write() is done with the memory when it returns; else FABRIC_SENT tells. */
	bool copies;
	/* User bits of the immediate that have to carry the generation: for fabrics whose FABRIC_DATA does not tell it. */
	uint8_t generation_bits;
};

/* Keys for sealed packets, which two ends share. */
struct fabric_seal {
	/* What this end sends, and what it receives, is sealed under keys derived from these. */
	uint8_t tx[32];
	uint8_t rx[32];
};

struct fabric_qp_attr {
	/* Comes back in every event of the queue pair. */
	void *user;
	struct fabric_split split;
	/* Slots that windows may be exposed under: 0 to slots - 1. */
	uint32_t slots;
	/* Counts packets of the peer that came when their window was closed, where the fabric sees them; may be null. */
	uint32_t *late;
	/* Keys to seal packets with, copied; null: packets are clear. Only where caps.seal_extra is not 0. */
	const struct fabric_seal *seal;
};

/* A packet came for a window that is closed. */
static inline void fabric_late(uint32_t *late)
{
	if (late)
		++*late;
}

/* One data packet. */
struct fabric_write {
	const uint8_t *data;
	/* Registration that covers the data. */
	struct fabric_mr *mr;
	/* Bytes of data. */
	uint32_t length;
	/* Packet number; with the slot and the user bits it makes the immediate. */
	uint32_t packet;
	/* User bits of the immediate. */
	uint32_t user;
	/* Whether this packet was sent before: for those who watch a simulation, not for the network. */
	bool again;
	/* Address of its place, as the window counts addresses (exposed.va for the first byte). */
	uint64_t va;
};

/* The peer's window that writes go into, as its owner described it, and the time at which they leave. */
struct fabric_target {
	uint32_t slot;
	uint32_t generation;
	uint32_t rkey;
	/* Time of departure; 0: at once. Later than now only as ahead_ns() allows. */
	uint64_t depart_ns;
};

enum fabric_event_type {
	/* A packet landed, or a run of packets that came one right behind the other. */
	FABRIC_DATA,
	/* A control datagram arrived. */
	FABRIC_CONTROL,
	/* A window is open: its key may be given to the peer. */
	FABRIC_EXPOSED,
	/* A window that expose() accepted cannot be opened. The slot counts as fenced: nothing ever lands there, the memory
	 * is the caller's again, fence() answers -ENOENT, and no FABRIC_FENCED follows. */
	FABRIC_EXPOSE_FAILED,
	/* A window is closed: nothing lands there any more, and every FABRIC_DATA of it was seen. */
	FABRIC_FENCED,
	/* The peer received packets of ours that a queue on the way had marked (congestion notification). */
	FABRIC_CNP,
	/* Writes, in the order of writing, are done with their memory; only where !caps.copies. */
	FABRIC_SENT,
	/* A packet of a multicast group arrived. */
	FABRIC_GROUP,
};

struct fabric_event {
	enum fabric_event_type type;
	/* FABRIC_DATA: lane that the packet came by. */
	uint8_t lane;
	/* FABRIC_DATA, FABRIC_CONTROL: whether a queue on the way had marked the packet; false where that cannot be seen. */
	bool ce;
	/* `user` of the queue pair's attributes, or of the group's. */
	void *user;
	/* Time of arrival where it is known better than by the time of the poll; else 0. */
	uint64_t at_ns;
	/* FABRIC_DATA, FABRIC_EXPOSED, FABRIC_EXPOSE_FAILED, FABRIC_FENCED, FABRIC_GROUP: the slot. */
	uint32_t slot;
	/* The window's generation; not told by a FABRIC_DATA where caps.generation_bits is not 0. */
	uint32_t generation;
	union {
		/* FABRIC_DATA */
		struct {
			/* The first packet, and how many of the next numbers landed right after it, each with as many bytes of
			 * data and the same user bits. */
			uint32_t packet;
			uint32_t more;
			/* Bytes of data in each. */
			uint32_t length;
			uint32_t user_bits;
		} data;
		/* FABRIC_CONTROL; the bytes are readable until the next poll. */
		struct {
			const uint8_t *bytes;
			uint32_t length;
		} control;
		/* FABRIC_EXPOSED */
		struct {
			/* Address that the peer has to use for the first byte. */
			uint64_t va;
			uint32_t rkey;
		} exposed;
		/* FABRIC_EXPOSE_FAILED: the reason, -errno. */
		int status;
		/* FABRIC_GROUP; the bytes are readable until the next poll. */
		struct {
			const uint8_t *bytes;
			uint32_t length;
			uint32_t packet;
			uint32_t user_bits;
			/* Queue pair number that the sender sends under. */
			uint32_t source;
		} group;
		/* FABRIC_SENT: how many writes. */
		uint32_t count;
	};
};

/* Multicast: a packet sent to a group is copied by the network to all members but its sender. It is placed nowhere: each
 * member gets its bytes in a FABRIC_GROUP. Arrival, order and number of copies are not promised. */
struct fabric_group_attr {
	/* Comes back in every event of the group. */
	void *user;
	/* Address family, 4 or 6. */
	uint8_t family;
	/* Multicast address; the first 4 bytes where the family is 4. */
	uint8_t ip[16];
	/* UDP port; 0: 4791, the only one that NICs know. */
	uint16_t port;
	/* Key that all members have in common; bit 31 has to be 0. */
	uint32_t qkey;
	struct fabric_split split;
};

struct fabric_group_ops {
	/* Joins a group: FABRIC_GROUP events follow. -EINVAL: the attributes name no group; -EAFNOSUPPORT: it is not of this
	 * end's address family; -ENOBUFS: the endpoint is a member of as many as it can be; -EPERM: a queue pair of it seals packets, and a
	 * group's are clear. */
	int (*join)(struct fabric *fabric, const struct fabric_group_attr *attr,
		    struct fabric_group **out);
	/* Leaves a group. No event of it follows, and memory of its sends is no longer read. */
	void (*leave)(struct fabric_group *group);
	/* Sends packets, in order; slot, packet and user bits make the immediate, `va` and `again` are not used. Returns how
	 * many were taken. Fewer than asked: there is no room, or the rate allows no more; deadline_ns() says when to try
	 * again. FABRIC_SENT follows as for write(). */
	int (*send)(struct fabric_group *group, uint32_t slot, const struct fabric_write *writes,
		    unsigned count);
};

/* Counters that a fabric keeps, of packets unless they say otherwise; fabric_counter_name() has their names. */
enum fabric_counter {
	FABRIC_TX_DATA,
	FABRIC_TX_CONTROL,
	/* Bytes sent, transport headers included where software builds them. */
	FABRIC_TX_BYTES,
	FABRIC_RX_DATA,
	FABRIC_RX_CONTROL,
	FABRIC_RX_BYTES,
	/* Data that a queue on the way had marked. */
	FABRIC_RX_CE,
	/* Congestion notifications received, and sent. */
	FABRIC_RX_CNP,
	FABRIC_TX_CNP,
	/* Data handed to the host before its departure. */
	FABRIC_TX_AHEAD,
	/* Packets handed on to the process that they were for, which shares the port. */
	FABRIC_RX_FORWARDED,
	/* Times that the steering of a shared port was repaired. */
	FABRIC_RX_STEERED,
	/* Queue pairs that agreed with their peer to leave out the ICRC. */
	FABRIC_UNGUARDED,
	/* Queue pairs whose packets are sealed. */
	FABRIC_SEALED,
	/* Packets that fault injection dropped, duplicated, and held back. */
	FABRIC_FAULT_DROPPED,
	FABRIC_FAULT_DUPLICATED,
	FABRIC_FAULT_REORDERED,
	/* Sends that found no room. */
	FABRIC_TX_BUSY,
	/* Packets that the host refused to send, which counts as loss: no route, a firewall, no memory. */
	FABRIC_TX_ERRORS,
	/* Packets dropped for want of room at the receiver: it was too slow. */
	FABRIC_DROP_OVERRUN,
	/* Not a RoCEv2 packet. */
	FABRIC_DROP_MALFORMED,
	/* Another version of the transport header. */
	FABRIC_DROP_VERSION,
	FABRIC_DROP_ICRC,
	/* A RoCEv2 packet of a kind that is not used here. */
	FABRIC_DROP_OPCODE,
	/* First, middle or last packet of a longer UC message. */
	FABRIC_DROP_MULTIPACKET,
	/* No such queue pair here. */
	FABRIC_DROP_QPN,
	/* Not from the connected peer. */
	FABRIC_DROP_STRANGER,
	FABRIC_DROP_QKEY,
	/* Sealed, and not by the peer. */
	FABRIC_DROP_SEAL,
	/* Sealed by the peer, and taken before. */
	FABRIC_DROP_REPLAY,
	/* No window under this slot. */
	FABRIC_DROP_SLOT,
	/* A window, but another key: the packet is stale or forged. */
	FABRIC_DROP_RKEY,
	/* Outside the window, or not where its packet number says. */
	FABRIC_DROP_OFFSET,
	/* No data, or more than a packet of this window holds. */
	FABRIC_DROP_LENGTH,
	/* Times that a NIC's queue pair fell into error and was set up again. */
	FABRIC_QP_HEALED,
	FABRIC_COUNTERS,
};

/* The counter's stable name; null past the last. */
const char *fabric_counter_name(enum fabric_counter counter);

struct fabric_ops {
	const char *name;
	/* Name of the wire format where other fabrics speak it too; null: `name`. */
	const char *wire;

	/* Closes the endpoint with all its queue pairs and groups. No event follows, nothing lands and no memory is read
	 * afterwards. */
	void (*close)(struct fabric *fabric);
	/* The time: monotonic nanoseconds. */
	uint64_t (*now_ns)(const struct fabric *fabric);
	/* Fills the buffer with random bytes that nobody can guess. */
	int (*entropy)(struct fabric *fabric, void *buffer, size_t length);

	/* Registers memory that is sent from or exposed. -ENOMEM, or as the device answers; `error` says why. */
	int (*mr_register)(struct fabric *fabric, void *addr, size_t length,
			   struct fabric_mr **out);
	/* Registers memory that only the device can reach, by its dma-buf; `addr` is what writes and windows call the byte at
	 * `offset`. Null where the processor places packets. */
	int (*mr_register_dmabuf)(struct fabric *fabric, int fd, uint64_t offset, size_t length,
				  void *addr, struct fabric_mr **out);
	/* Ends a registration. No window may be open there and no write under way. */
	void (*mr_deregister)(struct fabric *fabric, struct fabric_mr *mr);

	/* Makes a queue pair, which sends and receives nothing before it is connected. */
	int (*qp_create)(struct fabric *fabric, const struct fabric_qp_attr *attr,
			 struct fabric_qp **out);
	/* Closes all windows of the queue pair at once and forgets its writes. No event follows, nothing lands and no memory
	 * is read afterwards. */
	void (*qp_destroy)(struct fabric_qp *qp);
	/* Writes what a peer needs to connect; returns its length, at most FABRIC_ADDRESS_MAX. */
	size_t (*qp_address)(const struct fabric_qp *qp, uint8_t *out);
	/* Connects to the peer with this address, for data packets of up to `payload` bytes. -EINVAL: the address is
	 * malformed; -EPROTONOSUPPORT: the two ends cannot talk, and `error` says why; -ENETUNREACH; -EPERM: one end seals packets and the other does
	 * not; -EMSGSIZE: the payload is
	 * larger than one of the ends carries. */
	int (*qp_connect)(struct fabric_qp *qp, const uint8_t *address, size_t length,
			  uint32_t payload);

	/* Writes the peer's address for a person. Null where there is none to give. */
	void (*qp_peer)(const struct fabric_qp *qp, char *text, size_t size);
	/* Replaces the keys of a queue pair that was created with fabric_qp_attr.seal. -EINVAL: it was not; -EISCONN: it is
	 * connected. May be null where caps.seal_extra is 0. */
	int (*qp_seal)(struct fabric_qp *qp, const struct fabric_seal *keys);

	/* Chooses the key under which this slot will be exposed for the first time: that window is open, at address 0, when
	 * expose() returns. Null, or -EOPNOTSUPP, where the hardware chooses the keys. */
	int (*promise)(struct fabric_qp *qp, uint32_t slot, uint32_t *rkey);
	/*
	 * Begins to open `length` bytes at `addr` to the peer as (slot, generation), under a fresh key, in packets of `payload`
	 * bytes: packet i lands at i * payload. One event follows:
	 * FABRIC_EXPOSED, or FABRIC_EXPOSE_FAILED when the window cannot be opened after all.
	 * -EAGAIN: there is no window free, and some other one is still to be fenced: try again then.
	 * -EBUSY: the slot is exposed already.
	 */
	int (*expose)(struct fabric_qp *qp, uint32_t slot, uint32_t generation,
		      struct fabric_mr *mr, void *addr, uint64_t length, uint32_t payload);
	/* Changes an open slot to packets of `payload` bytes, a new generation and a fresh key, at once and without an event:
	 * nothing sent under the old key lands any more. Null where there are no rungs. */
	int (*recut)(struct fabric_qp *qp, uint32_t slot, uint32_t generation, uint32_t payload,
		     uint32_t *rkey);
	/* Closes a window after its FABRIC_EXPOSED. 0: FABRIC_FENCED follows when it is closed. 1: it is closed, and no
	 * FABRIC_FENCED follows; events of what landed before may still be among those of the last poll. -ENOENT: the slot is
	 * not exposed. */
	int (*fence)(struct fabric_qp *qp, uint32_t slot);

	/* Sends data packets, in order, by this lane. Returns how many were taken; fewer than asked when there is no room:
	 * wait() then also returns when there is some. Where !caps.copies the data has to stay as it is until FABRIC_SENT. A
	 * packet that the host refuses to send counts as taken, and is lost. */
	int (*write)(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
		     const struct fabric_write *writes, unsigned count);
	/* How many packets with this many bytes of data the fabric sends at the price of one: write() is best called with a
	 * multiple of that. Null where it makes no difference. */
	unsigned (*batch)(const struct fabric_qp *qp, uint32_t payload);
	/* Returns how long before its departure write() takes a packet at most: the host holds it until then, so that it leaves
	 * in time although this process may sleep; 0: not before. *room: whether the host should be given more now. Null:
	 * packets leave at once. */
	uint64_t (*ahead_ns)(struct fabric_qp *qp, uint64_t now_ns, bool *room);
	/* Sends one datagram, at most caps.max_control bytes; they are copied. It leaves at once, or with the next flush().
	 * -EAGAIN: there is no room; nobody is woken when there is, so that the caller repeats by a timer what matters. */
	int (*control)(struct fabric_qp *qp, const void *data, size_t length);
	/* Control leaves by this lane from now on, in place of the first. Null where control has one way only. */
	void (*control_by)(struct fabric_qp *qp, unsigned lane);
	/* Sends the datagrams that control() has collected. Those that find no room are lost. Null where each leaves at
	 * once. */
	void (*flush)(struct fabric *fabric);

	/* Does what is due and fills in events, at most FABRIC_EVENTS; returns how many. One call does a bounded amount of
	 * work; there may be more to do at once. */
	int (*poll)(struct fabric *fabric, struct fabric_event *events);
	/* When poll() has to be called even if nothing arrives: 0 for now, UINT64_MAX for never. */
	uint64_t (*deadline_ns)(const struct fabric *fabric);
	/* Fills in the descriptors that become ready when there is something to poll, or when a write that found no room may
	 * be tried again; returns how many, at most FABRIC_FDS. -EAGAIN: there is something to poll at once. Null where time is
	 * virtual. */
	int (*watch)(struct fabric *fabric, struct pollfd *fds);
	/* Takes note of which descriptors were ready after a sleep; the next call is poll(). */
	void (*watched)(struct fabric *fabric, const struct pollfd *fds);

	/* Null where there is no multicast. */
	const struct fabric_group_ops *group;
};

struct fabric {
	const struct fabric_ops *ops;
	struct fabric_caps caps;
	uint64_t counters[FABRIC_COUNTERS];
	/* Whether a poll took everything that waited in the receive buffer; set to false by whoever looked. */
	bool emptied;
	/* Whether the last poll took so little that nothing more is likely to wait: whoever has nothing else to do may wait()
	 * without another poll. */
	bool idle;
	/* Time of the last poll, by which its events had arrived; 0: the fabric did not read its clock. */
	uint64_t polled_ns;
	/* Why the last call failed, in a sentence, where there is more to say than its errno. */
	char error[192];
};

/* Sleeps until there is something to poll, until a write that found no room may be tried again, or until this time. Returns
 * 0 or -EINTR; -ENOTSUP where time is virtual. */
int fabric_wait(struct fabric *fabric, uint64_t until_ns);

/* Name of the wire format: two fabrics with the same one can be connected. */
static inline const char *fabric_wire(const struct fabric *fabric)
{
	return fabric->ops->wire ? fabric->ops->wire : fabric->ops->name;
}

#endif
