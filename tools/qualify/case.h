/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One case of the matrix: what carries packets at each end, over which addresses, in packets of which size. The caller
 * draws up the list from what both ends have; the end that waits finds its own device for each.
 */
#ifndef TOOLS_QUALIFY_CASE_H
#define TOOLS_QUALIFY_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "devices.h"

enum qualify_kind { QUALIFY_USER, QUALIFY_UC, QUALIFY_UD, QUALIFY_KINDS };
enum { QUALIFY_CALLER, QUALIFY_WAITER };

#define QUALIFY_CASE_BYTES 9
#define QUALIFY_CASES_MAX  128
#define QUALIFY_FABRIC	   192
#define QUALIFY_LABEL	   96

struct qualify_case {
	/* of the caller and of the waiter */
	uint8_t kind[2];
	/* 4 or 6 */
	uint8_t family;
	/* index of the caller's device */
	uint8_t device;
	/* packets are encrypted and authenticated; between user-space ends only */
	bool sealed;
	/* bytes in a packet; 0: the most that fits */
	uint32_t payload;
};

/* What an end has. */
struct qualify_means {
	struct qualify_device devices[QUALIFY_DEVICES_MAX];
	unsigned count;
	/* address for user space; it holds a colon if it is IPv6 */
	const char *address;
	/* port between two sockets; 0: any */
	uint16_t udp_port;
	/* seal packets between two sockets */
	bool seal;
};

/* Of the other end only its devices' addresses matter. Returns how many. */
unsigned qualify_cases(const struct qualify_means *own, unsigned peer_devices, int peer_ipv4,
		       int peer_ipv6, struct qualify_case out[QUALIFY_CASES_MAX]);

/* Whether both ends are in user space. */
bool qualify_case_users(const struct qualify_case *what);

void qualify_case_encode(const struct qualify_case *what, uint8_t out[QUALIFY_CASE_BYTES]);
/* -EPROTO */
int qualify_case_decode(const uint8_t *in, size_t length, struct qualify_case *out);

/* The fabric string of one end. -ENODEV: it has no device with such an address. */
int qualify_case_fabric(const struct qualify_case *what, const struct qualify_means *own, int end,
			char out[QUALIFY_FABRIC]);

/* "uc mlx5_0, IPv4, 1024 bytes". Returns out. */
const char *qualify_case_label(const struct qualify_case *what, const struct qualify_means *own,
			       char out[QUALIFY_LABEL]);
const char *qualify_kind_name(uint8_t kind);

#endif
