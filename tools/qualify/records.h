/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of `godwit qualify` tell each other, over the connection of the rendezvous, beside packets:
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

int qualify_say_json(struct perf_talk *talk, const json_t *what, const struct qualify_ready *ready);
/* `*out` is null when what came is no JSON; the caller's to give back. */
int qualify_hear_json(struct perf_talk *talk, json_t **out, struct qualify_ready *ready);

int qualify_say_offer(struct perf_talk *talk, const struct qualify_offer *offer);
int qualify_hear_offer(struct perf_talk *talk, struct qualify_offer *out);

int qualify_say_result(struct perf_talk *talk, const struct qualify_result *result);
int qualify_hear_result(struct perf_talk *talk, struct qualify_result *out);

#endif
