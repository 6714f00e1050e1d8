/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of `godwit qualify` on its control connection:
 *
 *	caller -> waiter	hello
 *	waiter -> caller	text ... ready		what it is, as JSON; how many devices, which addresses
 *	caller -> waiter	case
 *	waiter -> caller	queue pair, or why not
 *	caller -> waiter	queue pair, or why not
 *	waiter -> caller	result			after the packets
 *	caller -> waiter	the next case, or end
 *	waiter -> caller	text ... ready		what its devices counted, what it found out about them
 */
#ifndef TOOLS_QUALIFY_RECORDS_H
#define TOOLS_QUALIFY_RECORDS_H

#include <jansson.h>

#include "tools/control.h"
#include "exchange.h"

enum qualify_record {
	QUALIFY_RECORD_HELLO = GW_RENDEZVOUS_KIND_MIN,
	QUALIFY_RECORD_TEXT,
	QUALIFY_RECORD_READY,
	QUALIFY_RECORD_CASE,
	QUALIFY_RECORD_QP,
	QUALIFY_RECORD_RESULT,
	QUALIFY_RECORD_END,
};

#define QUALIFY_READY_BYTES 4
struct qualify_ready {
	uint8_t devices, ipv4, ipv6;
};

/* A queue pair for a case, or the reason why there is none. */
struct qualify_offer {
	int32_t status;
	struct gw_qp_info qp;
	char why[QUALIFY_WHY];
};

int qualify_send_json(struct control *control, const json_t *what,
		      const struct qualify_ready *ready);
/* `*out` is null when what came is no JSON; the caller's to give back. */
int qualify_recv_json(struct control *control, json_t **out, struct qualify_ready *ready);

int qualify_send_offer(struct control *control, const struct qualify_offer *offer);
int qualify_recv_offer(struct control *control, struct qualify_offer *out);

int qualify_send_result(struct control *control, const struct qualify_result *result);
int qualify_recv_result(struct control *control, struct qualify_result *out);

#endif
