/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first words between two ends. The one that waits puts up with strangers: it says so and waits for the next. The
 * one that calls gets one line on why it was not answered.
 */
#ifndef TOOLS_MEET_H
#define TOOLS_MEET_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "tools/file/protocol.h"
#include "rendezvous.h"

struct report;

/* Takes a hello apart. -EPROTO: that is none. */
typedef int meet_decode(const uint8_t *body, size_t length, void *out);

/* Listens as options say, and tells a person who watches. The socket is the caller's to close. */
int meet_listen(struct report *report, const struct options *options, int *out);

/* Waits for someone whose first record is of this kind and decodes. -EINTR when a signal came. */
int meet_caller(struct report *report, const struct options *options, int listener,
		enum protocol_kind kind, meet_decode *decode, void *hello, struct connection *out);

/* Why the answer to our hello could not be read, as rendezvous_read() had it. Returns `error`. */
int meet_explain(struct report *report, const struct options *options, int error,
		 const struct protocol_header *header);

#endif
