/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control connection of `perf` and `qualify`: the rendezvous stays open while packets are measured, apart from them,
 * and carries what the two ends agree on. An end that dies closes it, and the other knows at once. Either end may refuse
 * at any time, with the reason why it gave up.
 *
 * Every function explains in the report what goes wrong.
 */
#ifndef TOOLS_CONTROL_H
#define TOOLS_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/rendezvous.h>

#include "tools/options.h"

struct gw_context;
struct report;

struct control {
	/* null when closed */
	struct gw_rendezvous *rendezvous;
	/* knows the peer's name */
	struct report *report;
	const struct options *options;
	/* context to be kept going while this end waits, or null */
	struct gw_context *ctx;
	/* status with which the fabric lost the peer, 0 while it is there; null: the fabric does not watch */
	const int *gone;
	/* a message was received before it was waited for */
	bool pending;
	/* the connection is gone: the peer cannot be told anything */
	bool lost;
	/* the last message */
	uint32_t kind;
	uint32_t length;
	uint8_t body[GW_RENDEZVOUS_MESSAGE_MAX];
};

/* Returns how long to wait for a message: several times --timeout, and more while the fabric hears the peer, for TCP makes long
 * pauses where many packets are lost. */
uint64_t control_patience_ns(const struct control *control);

int control_send(struct control *control, uint32_t kind, const void *body, size_t length);

/* Waits for the next message, which is then in kind, length and body; control_patience_ns() at most. */
int control_recv(struct control *control);

/* The same, for a message of this kind. */
int control_expect(struct control *control, uint32_t kind);

/* Reads a message if one has come (`pending`), and fails if the peer is gone. Does not wait. */
int control_poll(struct control *control);

/* After the last message: waits until the peer has it and closes the connection, as long as for a message. While a connection
 * is open, TCP repeats a lost segment at a steady pace; once this end has closed it, the pauses double. */
void control_part(struct control *control);

/* The queue pair is gone: waits a moment for the peer's own reason, then reports ours. Returns `error`. */
int control_explain_loss(struct control *control, int error);

/* Reports that a message makes no sense. */
int control_explain_nonsense(struct control *control);

/* Closes. If something failed here, the peer is told why. */
void control_give_up(struct control *control);

#endif
