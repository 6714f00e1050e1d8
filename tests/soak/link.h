/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h: a soak peer's link to one other peer: one channel after another, each filled with messages whose length and bytes
 * follow from the channel's token, the sender's rank and the message's number, so that the receiver knows what is right.
 */
#ifndef TESTS_SOAK_LINK_H
#define TESTS_SOAK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/channel.h>
#include <godwit/rendezvous.h>

#include "ledger.h"

#define LINK_DEPTH 4

/* What all links of a process share. */
struct soak {
	struct gw_context *ctx;
	struct ledger *ledger;
	uint32_t rank;
	/* bytes in the longest message */
	uint64_t longest;
	/* no new messages: a last one says so, and the link ends when that of the peer has come */
	bool stopping;
};

struct transfer {
	struct link *link;
	struct gw_op *op;
	uint8_t *bytes;
	uint64_t number;
	bool last;
};

struct link {
	struct soak *soak;
	uint32_t peer;
	struct gw_channel *channel;
	struct ledger_channel *entry;
	uint64_t token;
	uint64_t send_next, recv_next;
	unsigned sending;
	/* a message that ends the link was sent, was delivered, came */
	bool last_sent, last_delivered, last_received;
	/* nothing more is to be done */
	bool over;
	struct transfer sends[LINK_DEPTH], recvs[LINK_DEPTH];
	uint8_t *memory;
	struct gw_mr *mr;
	/* the connecting end's attempt, and when to begin the next one */
	struct gw_rendezvous *meeting;
	bool described;
	uint64_t meet_at_ns;
};

int link_open(struct link *link, struct soak *soak, uint32_t peer);
void link_close(struct link *link);
/* Creates a channel to be connected later. */
int link_describe(struct link *link, uint64_t token, struct gw_channel_info *out);
/* Connects it and begins to send. */
int link_connect(struct link *link, const struct gw_channel_info *peer);
/* Gives the channel up, because of a status as the ledger has it. */
void link_drop(struct link *link, int status);
/* Sends what is to be sent, and looks whether the link is over. */
void link_step(struct link *link);

#endif
