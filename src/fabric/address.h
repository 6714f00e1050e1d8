/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h: where a RoCE end is to be found, as it travels to its peer. User-space ends and NICs share the first 32
 * bytes, so that either can read what it needs of the other:
 *
 *	 0  u8 kind, u8 family (4 or 6), u16 UDP port
 *	 4  the address, 4 or 16 bytes, zero-filled
 *	20  u32 queue pair that takes data, u32 queue pair that takes control, u32 its Q_Key
 *
 * A user-space end goes on:
 *
 *	32  u8 flags, 3 zero bytes
 *	36  u16 port of each lane beyond the first, up to 7
 *	50  zero, to 52
 *
 * and a NIC:
 *
 *	32  zero
 *	36  u8 mode, u8 lanes, u16 path MTU of its port
 *	40  u24 queue pair of each lane beyond the first, up to 7
 *	61  zero, to 64
 */
#ifndef FABRIC_ADDRESS_H
#define FABRIC_ADDRESS_H

#include "fabric/fabric.h"

#define ADDRESS_USER_SPACE	1
#define ADDRESS_NIC		2
#define ADDRESS_USER_SPACE_SIZE 52
#define ADDRESS_NIC_SIZE	64
#define ADDRESS_LANES		8
#define ADDRESS_PORT		4791 /* the only one NICs know */

/* What a user-space end says of itself: it would go without the ICRC; it speaks to ends that use UD for data. */
#define ADDRESS_SKIPS_ICRC 1
#define ADDRESS_TAKES_UD   2

/* A UD data packet opens with its window's key: no NIC checks it, so that the peer's software has to see it. */
#define ADDRESS_UD_KEY_SIZE 4

/* How a NIC takes data. */
enum address_mode {
	ADDRESS_UC = 1, /* it places packets itself */
	ADDRESS_UD = 2, /* software places them, from datagrams */
};

struct roce_address {
	uint8_t kind;
	uint8_t family;
	uint16_t port;
	uint8_t ip[16]; /* 4 bytes of it when the family is 4 */
	uint32_t control_qpn;
	uint32_t qkey;
	uint8_t mode; /* ADDRESS_UC for a user-space end */
	uint8_t lanes;
	uint16_t path_mtu; /* 0 for a user-space end: its payload says it all */
	uint8_t flags;	   /* of a user-space end */
	uint16_t lane_ports
		[ADDRESS_LANES]; /* of a user-space end, beyond the first; 0: no such lane */
	uint32_t qpn[ADDRESS_LANES];
};

/* Returns its length. */
size_t address_encode(const struct roce_address *address, uint8_t out[FABRIC_ADDRESS_MAX]);

/* Either kind's. -EPROTONOSUPPORT: of a kind from the future. -EINVAL: nonsense. */
int address_decode(const uint8_t *bytes, size_t length, struct roce_address *out);

#endif
