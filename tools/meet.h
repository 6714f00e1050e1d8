/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the two ends of a command find each other: <godwit/rendezvous.h> with the command's own options, its own names and
 * its own error lines.
 */
#ifndef TOOLS_MEET_H
#define TOOLS_MEET_H

#include <godwit/message.h>
#include <godwit/rendezvous.h>

#include "tools/options.h"

struct report;

/* Connects to options->host. Waits a little for an end that is just being started. */
int meet_connect(struct report *report, const struct options *options, struct gw_rendezvous **out);

/* Listens as options say, and tells a person who watches. */
int meet_listen(struct report *report, const struct options *options,
		struct gw_rendezvous_listener **out);

/* Waits for a connection from the right command. Others are warned about. -EINTR when a signal came. */
int meet_accept(struct report *report, struct gw_rendezvous_listener *listener,
		struct gw_rendezvous **out);

/* Warns that a connection was turned away. Of many that come at once only some are named, and the rest counted. */
void meet_ignore(const struct report *report, const char *address, const char *why);

/* Turns a connection away that was accepted: tells the other end `reply`, and warns with `why`. The handle is set to null. */
void meet_refuse(const struct report *report, struct gw_rendezvous_listener *listener,
		 struct gw_rendezvous **rendezvous, const char *reply, const char *why);

/* Reports what gw_rendezvous_error() says, unless a signal is the reason. Returns `error`. */
int meet_explain(struct report *report, int error);

/* The keys of sealed packets where the options ask for that: *out is then `memory`, else null. */
int meet_seal(struct report *report, const struct options *options, struct gw_rendezvous *r,
	      struct gw_seal *memory, const struct gw_seal **out);

#endif
