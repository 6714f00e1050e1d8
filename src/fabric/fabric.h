/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h: what the message layer asks of a network.
 *
 * A fabric moves single packets: data packets that land in a peer's exposed memory and raise an event there, and control
 * datagrams. It promises nothing about arrival or order. It does promise placement: a data packet lands only where a
 * live window allows, whole, at the place its packet number names, before its event is seen; and once a window's fence
 * is done nothing of it lands again.
 *
 * One implementation a folder, behind an ops table: roce/ (UDP sockets), sim/ (virtual time), verbs/ (libibverbs).
 * A fabric belongs to one thread. Only its own clock is read, through now_ns: the layers above are handed the time.
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

/* The longest address blob any fabric needs: it has to fit a struct gw_qp_info beside the message layer's part. */
#define FABRIC_ADDRESS_MAX 64

/* Ways to one peer at most. */
#define FABRIC_LANES_MAX 8

/* Events handed over by one poll at most. */
#define FABRIC_EVENTS 128

/* How a 32-bit immediate names a packet: slot in the high bits, then packet, then user bits. */
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

struct fabric_caps {
	uint32_t max_payload; /* largest data packet, a multiple of 4 */
	uint32_t max_control; /* largest control datagram */
	uint32_t window;      /* packets the receive side can hold for all queue pairs together */
	uint64_t
		lifetime_ns; /* how long a (slot, generation) must rest; 0 where keys alone tell stale packets */
	/* Smaller payloads, descending, to fall back to where the path carries less than the interface; 0 ends them. None
	 * where the fabric knows what its path carries. */
	uint32_t rungs[FABRIC_RUNGS];
	uint32_t
		probe_extra; /* what a control datagram lacks, on the wire, to a data packet of its length */
	uint32_t lanes;	    /* ways to one peer; 0 counts as 1 */
	uint32_t max_group; /* largest multicast packet; 0: there is none */
	bool copies;	    /* write() is done with the memory when it returns */
	/* User bits of the immediate to spend on the generation: for fabrics whose events cannot tell it otherwise. */
	uint8_t generation_bits;
};

struct fabric_qp_attr {
	void *user; /* comes back in every event */
	struct fabric_split split;
	uint32_t slots;
};

struct fabric_write {
	const uint8_t *data;
	struct fabric_mr *mr; /* that holds the data */
	uint32_t length;
	uint32_t packet; /* its number; with the slot and user bits it makes the immediate */
	uint32_t user;
	bool again;  /* sent before: of interest to whoever watches, not to the network */
	uint64_t va; /* where it goes, in the window's own addresses */
};

/* The window a batch of writes goes into, as its owner described it. */
struct fabric_target {
	uint32_t slot;
	uint32_t generation;
	uint32_t rkey;
};

enum fabric_event_type {
	FABRIC_DATA,	/* a packet landed */
	FABRIC_CONTROL, /* a datagram arrived; its bytes live until the next poll */
	FABRIC_EXPOSED, /* a window is open: its key may be given away */
	/* A window that expose() accepted cannot be opened. The slot counts as fenced: nothing ever lands there, the memory
	 * is the caller's again, fence() answers -ENOENT, and no FABRIC_FENCED follows. */
	FABRIC_EXPOSE_FAILED,
	FABRIC_FENCED, /* nothing lands there any more */
	FABRIC_CNP,    /* the peer sees marks on our packets */
	FABRIC_SENT,   /* `count` more writes are done with their memory (where !caps.copies) */
	FABRIC_GROUP,  /* a member's packet arrived; its bytes live until the next poll */
};

struct fabric_event {
	enum fabric_event_type type;
	uint8_t lane;
	bool ce;
	void *user; /* of the queue pair, or the group */
	uint64_t
		at_ns; /* when it arrived, where that is known better than by when it was polled; else 0 */
	uint32_t slot;
	uint32_t generation;
	union {
		struct {
			uint32_t packet;
			uint32_t length;
			uint32_t user_bits;
		} data;
		struct {
			const uint8_t *bytes;
			uint32_t length;
		} control;
		struct {
			uint64_t va;
			uint32_t rkey;
		} exposed;
		/* Why a window cannot be opened: -errno. */
		int status;
		struct {
			const uint8_t *bytes;
			uint32_t length;
			uint32_t packet;
			uint32_t user_bits;
			uint32_t source; /* the number that its sender sends under */
		} group;
		uint32_t count;
	};
};

/*
 * Multicast: one packet for all members of a group. Nobody places such packets: each member is told what arrived, and
 * copies. Nothing is promised, as ever; what a member sends itself it does not hear.
 */
struct fabric_group_attr {
	void *user;	/* comes back in every event */
	uint8_t family; /* 4 or 6 */
	uint8_t ip[16]; /* a multicast address, 4 bytes of it when the family is 4 */
	uint16_t port;	/* 0: 4791, the only one NICs know */
	uint32_t qkey;	/* that all members have in common; bit 31 is not theirs to set */
	struct fabric_split split;
};

struct fabric_group_ops {
	/* -EINVAL: no such group can be; -EAFNOSUPPORT: not of this end's address family; -ENOBUFS: too many. */
	int (*join)(struct fabric *fabric, const struct fabric_group_attr *attr,
		    struct fabric_group **out);
	/* No event follows; memory that was being read is not any more. */
	void (*leave)(struct fabric_group *group);
	/* Sends some of the packets, in order: slot, packet and user bits make the immediate; va is not used. Returns how
	 * many were taken, 0 when there is no room now or the rate allows no more yet; deadline_ns() tells. */
	int (*send)(struct fabric_group *group, uint32_t slot, const struct fabric_write *writes,
		    unsigned count);
};

/* Names for the counters a fabric keeps; see fabric_counter_name(). */
enum fabric_counter {
	FABRIC_TX_DATA,
	FABRIC_TX_CONTROL,
	FABRIC_TX_BYTES,
	FABRIC_RX_DATA,
	FABRIC_RX_CONTROL,
	FABRIC_RX_BYTES,
	FABRIC_RX_CE,  /* data that a queue on the way marked */
	FABRIC_RX_CNP, /* notices that a receiver saw such marks */
	FABRIC_TX_CNP,
	FABRIC_RX_FORWARDED,  /* handed on to the process they were for */
	FABRIC_RX_STEERED,    /* times that a shared port was put in order */
	FABRIC_UNGUARDED,     /* queue pairs that agreed to leave out the ICRC */
	FABRIC_FAULT_DROPPED, /* by fault injection */
	FABRIC_FAULT_DUPLICATED,
	FABRIC_FAULT_REORDERED,
	FABRIC_TX_BUSY,	       /* the network took nothing just then */
	FABRIC_TX_ERRORS,      /* packets the host refused to send: no route, a firewall */
	FABRIC_DROP_OVERRUN,   /* receiver too slow: the kernel or the queue dropped */
	FABRIC_DROP_MALFORMED, /* not a RoCEv2 packet */
	FABRIC_DROP_VERSION,   /* of the transport header */
	FABRIC_DROP_ICRC,
	FABRIC_DROP_OPCODE,	 /* RoCEv2, but nothing we take */
	FABRIC_DROP_MULTIPACKET, /* first, middle or last of a longer UC message */
	FABRIC_DROP_QPN,	 /* no such queue pair here */
	FABRIC_DROP_STRANGER,	 /* not from the connected peer */
	FABRIC_DROP_QKEY,
	FABRIC_DROP_SLOT,   /* no window there */
	FABRIC_DROP_RKEY,   /* a window, but not with this key: stale or forged */
	FABRIC_DROP_OFFSET, /* outside the window or not where its packet number says */
	FABRIC_DROP_LENGTH,
	FABRIC_QP_HEALED, /* a NIC's queue pair fell into error and was set up anew */
	FABRIC_COUNTERS,
};

const char *fabric_counter_name(enum fabric_counter counter);

struct fabric_ops {
	const char *name;
	const char *wire; /* what it speaks, where others speak it too; null: its own name */
	void (*close)(struct fabric *fabric);
	uint64_t (*now_ns)(const struct fabric *fabric);
	int (*entropy)(struct fabric *fabric, void *buffer, size_t length);

	int (*mr_register)(struct fabric *fabric, void *addr, size_t length,
			   struct fabric_mr **out);
	/* Memory that only the NIC can reach; `addr` is what requests call it. Null where the processor places packets. */
	int (*mr_register_dmabuf)(struct fabric *fabric, int fd, uint64_t offset, size_t length,
				  void *addr, struct fabric_mr **out);
	void (*mr_deregister)(struct fabric *fabric, struct fabric_mr *mr);

	int (*qp_create)(struct fabric *fabric, const struct fabric_qp_attr *attr,
			 struct fabric_qp **out);
	void (*qp_destroy)(
		struct fabric_qp *qp); /* implies a fence of everything; no event follows */
	/* What a peer needs; returns its length, at most FABRIC_ADDRESS_MAX. */
	size_t (*qp_address)(const struct fabric_qp *qp, uint8_t *out);
	int (*qp_connect)(struct fabric_qp *qp, const uint8_t *address, size_t length,
			  uint32_t payload);

	/* The peer's address for a person; null where there is none to give. */
	void (*qp_peer)(const struct fabric_qp *qp, char *text, size_t size);

	/* The peer will send packets with less data than was agreed. Nothing has landed yet. Null where there are no
	 * rungs. */
	void (*qp_resize)(struct fabric_qp *qp, uint32_t payload);

	/* The key under which this slot will be exposed for the first time, at address 0 and at once. Null, or an error,
	 * where keys are the hardware's to choose. */
	int (*promise)(struct fabric_qp *qp, uint32_t slot, uint32_t *rkey);
	/*
	 * Begins to open `length` bytes at `addr` to the peer as (slot, generation), under a fresh key. One event follows:
	 * FABRIC_EXPOSED, or FABRIC_EXPOSE_FAILED when the window cannot be opened after all.
	 * -EAGAIN: there is no window free, and some other one is still to be fenced: try again then.
	 * -EBUSY: the slot is exposed already.
	 */
	int (*expose)(struct fabric_qp *qp, uint32_t slot, uint32_t generation,
		      struct fabric_mr *mr, void *addr, uint64_t length);
	/* Begins to close a slot after its FABRIC_EXPOSED: FABRIC_FENCED follows. -ENOENT: it is not exposed. */
	int (*fence)(struct fabric_qp *qp, uint32_t slot);

	/* Sends some of the writes, in order; returns how many were taken, 0 when the network has no room now. */
	int (*write)(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
		     const struct fabric_write *writes, unsigned count);
	/* How many packets with this many bytes of data the fabric sends at the price of one: write() is best called with a
	 * multiple of that. Null where it makes no difference. */
	unsigned (*batch)(const struct fabric_qp *qp, uint32_t payload);
	/* -EAGAIN when there is no room now. */
	int (*control)(struct fabric_qp *qp, const void *data, size_t length);
	/* Control leaves by this lane from now on, in place of the first. Null where it takes no lanes. */
	void (*control_by)(struct fabric_qp *qp, unsigned lane);

	/* Fills events, at most FABRIC_EVENTS; returns how many. */
	int (*poll)(struct fabric *fabric, struct fabric_event *events);
	/* When it wants to be polled again even if nothing arrives; UINT64_MAX: never. */
	uint64_t (*deadline_ns)(const struct fabric *fabric);
	/* Sleeps until there is something to poll or until the time; 0, or -EINTR. */
	int (*wait)(struct fabric *fabric, uint64_t until_ns);
	const struct fabric_group_ops *group; /* null where there is no multicast */
};

struct fabric {
	const struct fabric_ops *ops;
	struct fabric_caps caps;
	uint64_t counters[FABRIC_COUNTERS];
	char error[192]; /* why the last call failed, when there is more to say than its errno */
};

/* Fabrics that speak the same can be connected. */
static inline const char *fabric_wire(const struct fabric *fabric)
{
	return fabric->ops->wire ? fabric->ops->wire : fabric->ops->name;
}

#endif
