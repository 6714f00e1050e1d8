/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of a measurement tell each other. The TCP connection of the rendezvous stays open for it, apart from
 * the packets that are measured; whoever dies hangs up, and the other knows at once.
 *
 *	client -> server	plan			for each size
 *	server -> client	accept, or refuse	a sentence
 *	client -> server	queue pair, ...		one record each
 *	server -> client	queue pair, ...		it has receives posted by now
 *	both			ready			before warm-up and measurement: nothing of the last phase is open
 *	both			go			then the clock of the one that says it runs
 *	both			sent			under a scheme that repairs nothing: no packet is left to come
 *	both			counter, ..., result
 *	client -> server	the next plan, or end
 *
 * A refuse may come at any time, with the reason why its sender gave up.
 */
#ifndef TOOLS_CONTROL_H
#define TOOLS_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "tools/file/protocol.h"
#include "rendezvous.h"

struct gw_context;
struct report;

struct perf_talk {
	struct connection connection;
	struct report *report; /* knows the peer's name */
	const struct options *options;
	struct gw_context *ctx; /* to be kept going while we wait, or null */
	bool pending;		/* a record came before it was waited for */
	bool lost;		/* nobody is there to be told anything */
	struct protocol_header header;
	uint8_t body[PROTOCOL_BODY_MAX];
};

/* Both explain what goes wrong. */
int perf_talk_say(struct perf_talk *talk, enum protocol_kind kind, const void *body, size_t length);

/* Waits, --timeout at most, for the next record, which then lies in talk->header and talk->body. */
int perf_talk_hear(struct perf_talk *talk);

/* The same, for one of this kind. */
int perf_talk_hear_kind(struct perf_talk *talk, enum protocol_kind kind);

/* Whether all is well, without waiting: for the time between. */
int perf_talk_watch(struct perf_talk *talk);

/* The queue pair is gone: a moment for the peer's own words on why, then ours. Returns `error`. */
int perf_talk_explain_loss(struct perf_talk *talk, int error);

/* The last word when something failed here: the peer is told why. Closes. */
void perf_talk_give_up(struct perf_talk *talk);

#endif
