/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h: packets that the network copies to every member of a multicast group.
 *
 * Members join a group by its address and key. A packet sent to the group arrives at every other member, or is lost on the way
 * to some or all of them; it may arrive twice, or after packets that were sent later. Nothing acknowledges it, and nothing but
 * the fabric's limit paces it: whoever sends many packets has a rate of its own and repairs what was lost. Packets are clear,
 * also where those of queue pairs are sealed, and any host that knows the address and the key can send them.
 *
 * The collectives' multicast (collective.h) is built on this header.
 */
#ifndef GODWIT_GROUP_H
#define GODWIT_GROUP_H

#include <godwit/godwit.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_group;

/* Groups that a context is a member of at a time. The fabric's own limit may be lower. */
#define GW_GROUPS_MAX 64

/* A packet that arrived. */
struct gw_group_packet {
	/* the sender's three numbers, which make the immediate */
	uint32_t slot;
	uint32_t packet;
	uint32_t user;
	/* number of the queue pair that the sender sends under; two hosts may have the same */
	uint32_t source;
	/* its bytes, readable during the call */
	const void *data;
	uint32_t length;
	uint32_t reserved;
};

/* Each may be null. All are called inside gw_progress() only, and may leave the group. */
struct gw_group_handler {
	/* A packet arrived. */
	void (*packet)(struct gw_group *group, void *arg, const struct gw_group_packet *packet,
		       uint64_t now);
	/* The time of gw_group_timer() has come. */
	void (*timer)(struct gw_group *group, void *arg, uint64_t now);
	/* A send that was refused in whole or in part may be tried again, or memory of earlier sends is the caller's again. */
	void (*room)(struct gw_group *group, void *arg, uint64_t now);
};

struct gw_group_attr {
	/* Address family, 4 or 6. 0: address and key are derived from `token`, in the family of the fabric. */
	uint8_t family;
	/* Split of the immediate, in bits: 10 + 18 + 4 unless all three are given, with the sum 32. */
	uint8_t slot_bits;
	uint8_t packet_bits;
	uint8_t user_bits;
	/* UDP port; 0: 4791, the only one that NICs know. */
	uint16_t port;
	uint16_t reserved16;
	/* Multicast address; the first 4 bytes where the family is 4. */
	uint8_t ip[16];
	/* Key that all members have in common, below 2^31. */
	uint32_t qkey;
	uint32_t reserved32;
	/* Name of the group where the family is 0; gw_group_token() makes one. */
	uint64_t token;
	const struct gw_group_handler *handler;
	void *arg;
	uint64_t reserved[4];
};

/* A packet to be sent. */
struct gw_group_write {
	const void *data;
	/* Registration that covers the data. */
	struct gw_mr *mr;
	/* Bytes of data, up to gw_group_payload(). */
	uint32_t length;
	uint32_t packet;
	uint32_t user;
	uint32_t reserved;
};

/* Returns the bytes of the largest packet, or -ENOTSUP where the fabric has no multicast. */
GW_API int gw_group_payload(const struct gw_context *ctx);

/* Makes a name for a group that nobody else has, from random bits. */
GW_API int gw_group_token(struct gw_context *ctx, uint64_t *out);

/*
 * Joins a group: packets that others send to it arrive from now on.
 * -EINVAL        the attributes name no group
 * -ENOTSUP       the fabric has no multicast
 * -EAFNOSUPPORT  the address is not of the fabric's family
 * -EBUSY         a member already, on a fabric where that matters
 * -ENOBUFS       a member of as many groups as can be
 * -EPERM         a queue pair of the context seals its packets
 * or as the host answers; gw_context_error() then has a sentence.
 */
GW_API int gw_group_join(struct gw_context *ctx, const struct gw_group_attr *attr,
			 struct gw_group **out);

/* Leaves the group and gives the handle back: no callback follows, and memory of its sends is the caller's. A context that is
 * closed leaves its groups. */
GW_API int gw_group_leave(struct gw_group *group);

/*
 * Sends packets in order, under a slot of the immediate. Returns how many were taken. When these are fewer than asked there was
 * no room, or the fabric's rate allows no more, and `room` follows. The memory is the caller's again when gw_group_unsent()
 * counts fewer packets than were taken since.
 * -EINVAL    a packet without data, or larger than a packet can be
 * -EFAULT    data outside of its registration
 */
GW_API int gw_group_send(struct gw_group *group, uint32_t slot, const struct gw_group_write *writes,
			 unsigned count);

/* Returns how many packets, the last ones taken, may still be read from memory. */
GW_API uint32_t gw_group_unsent(const struct gw_group *group);

/* Sets the time, in the context's clock, at which `timer` is called once; UINT64_MAX: never. */
GW_API int gw_group_timer(struct gw_group *group, uint64_t at);

#ifdef __cplusplus
}
#endif
#endif
