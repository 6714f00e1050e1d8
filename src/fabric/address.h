/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.h: the address of a RoCE end, as it travels to its peer. User-space ends and NICs share the first 32 bytes, so
 * that either can read what it needs of the other:
 *
 *	 0  u8 kind, u8 family (4 or 6), u16 UDP port
 *	 4  IP address, 4 or 16 bytes, zero-filled
 *	20  u32 number of the queue pair that takes data, u32 of the one that takes control, u32 its Q_Key
 *
 * A user-space end continues:
 *
 *	32  u8 flags, 3 zero bytes
 *	36  u16 source port of each lane beyond the first, up to 7
 *	50  zero, to 52
 *
 * and a NIC:
 *
 *	32  zero
 *	36  u8 mode, u8 lanes, u16 path MTU of its port
 *	40  u24 queue pair number of each lane beyond the first, up to 7
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
/* The only UDP port that NICs send to and receive at. */
#define ADDRESS_PORT 4791

/* Flags of a user-space end. */
/* It leaves out the ICRC if its peer does too. */
#define ADDRESS_SKIPS_ICRC 1
/* It understands UD datagrams that carry data. */
#define ADDRESS_TAKES_UD 2
/* Its packets are sealed, and it takes no others. */
#define ADDRESS_SEALS 4

/* Bytes of the window's key, which a UD data packet begins with: NICs do not check it, the receiving software does. */
#define ADDRESS_UD_KEY_SIZE 4

/* How a NIC takes data. */
enum address_mode {
	/* As UC writes, which it places itself. */
	ADDRESS_UC = 1,
	/* As UD datagrams, which software places. */
	ADDRESS_UD = 2,
};

struct roce_address {
	/* ADDRESS_USER_SPACE or ADDRESS_NIC. */
	uint8_t kind;
	/* Address family, 4 or 6. */
	uint8_t family;
	/* UDP port that packets go to. */
	uint16_t port;
	/* IP address; the first 4 bytes where the family is 4. */
	uint8_t ip[16];
	/* Number of the queue pair that takes control, and its Q_Key. */
	uint32_t control_qpn;
	uint32_t qkey;
	/* enum address_mode; ADDRESS_UC for a user-space end. */
	uint8_t mode;
	uint8_t lanes;
	/* NIC: path MTU of its port, bytes; 0 for a user-space end. */
	uint16_t path_mtu;
	/* User-space end: ADDRESS_SKIPS_ICRC, ADDRESS_TAKES_UD. */
	uint8_t flags;
	/* User-space end: source port of each lane beyond the first; 0: no such lane. */
	uint16_t lane_ports[ADDRESS_LANES];
	/* Number of the queue pair that takes the data of each lane; a user-space end has one for all. */
	uint32_t qpn[ADDRESS_LANES];
};

/* Writes the bytes of an address; returns how many. */
size_t address_encode(const struct roce_address *address, uint8_t out[FABRIC_ADDRESS_MAX]);

/* Reads an address of either kind, as a peer sent it. -EPROTONOSUPPORT: an unknown kind or mode; -EINVAL: malformed. */
int address_decode(const uint8_t *bytes, size_t length, struct roce_address *out);

#endif
