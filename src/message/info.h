/* SPDX-License-Identifier: BSD-3-Clause */
/* info.h: what a queue pair's description says, taken apart; the bytes are in info.c. */
#ifndef MESSAGE_INFO_H
#define MESSAGE_INFO_H

#include "message/state.h"

struct peer_info {
	struct fabric_split split;
	uint8_t generation_bits;
	/* the end probes for larger packets, and answers such probes */
	bool probes;
	/* lanes that it sends on; 0: it does not say */
	uint8_t lanes;
	/* bytes of data in its largest packets */
	uint32_t payload;
	/* bytes of data in packets that every path carries */
	uint32_t floor;
	uint32_t slots, token, first_msn, window, control_max;
	uint8_t address[FABRIC_ADDRESS_MAX];
	uint32_t address_length;
	char fabric[8];
	/* bytes of the first receive, promised; 0: no promise */
	uint64_t first_bytes;
	uint32_t first_key;
};
void info_encode(const struct peer_info *info, struct gw_qp_info *out);
int info_decode(const struct gw_qp_info *bytes, struct peer_info *out);

#endif
