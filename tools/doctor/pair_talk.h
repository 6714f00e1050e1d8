/* SPDX-License-Identifier: BSD-3-Clause */
/* pair_talk.h: the messages of an examination, JSON objects over the rendezvous. Everything in them is bounded on arrival. */
#ifndef TOOLS_DOCTOR_PAIR_TALK_H
#define TOOLS_DOCTOR_PAIR_TALK_H

#include <jansson.h>
#include <stdint.h>

#include <godwit/rendezvous.h>

#include "pair_probe.h"

enum pair_message {
	PAIR_HELLO = GW_RENDEZVOUS_KIND_MIN,
	/* round trip over TCP */
	PAIR_PING,
	/* probes of this step were all sent */
	PAIR_SENT,
	/* what arrived of them */
	PAIR_HEARD,
	/* bytes whose rate is measured */
	PAIR_FILL,
	PAIR_RESULT,
};

struct pair_talk {
	struct gw_rendezvous *rendezvous;
	/* taken while a message is waited for; null: none yet */
	struct probe *probe;
	int interrupt_fd;
	/* the whole examination ends then, by CLOCK_MONOTONIC */
	uint64_t deadline_ns;
	/* PAIR_FILL messages that came: bytes, and when the last did */
	uint64_t fill_bytes;
	uint64_t fill_last_ns;
};

/* Nanoseconds of the monotonic clock. */
uint64_t pair_clock_now(void);

/* Sends an object, whose reference it takes. */
int pair_say_message(struct pair_talk *talk, enum pair_message kind, json_t *object);

/* Waits for a message of this kind, and takes probes meanwhile. *out is a new reference. */
int pair_hear_message(struct pair_talk *talk, enum pair_message kind, json_t **out);

/* Takes probes until this time. */
void pair_wait(struct pair_talk *talk, uint64_t until_ns);

/* A member, within bounds; `otherwise` if there is none. */
uint64_t pair_member(const json_t *object, const char *name, uint64_t most, uint64_t otherwise);
/* A text of printable characters; "" if there is none. */
void pair_member_text(const json_t *object, const char *name, char out[PAIR_TEXT]);

json_t *pair_sent_json(const struct pair_sent *sent);
json_t *pair_heard_json(const struct pair_heard *heard);
void pair_sent_read(const json_t *object, struct pair_sent *out);
void pair_heard_read(const json_t *object, struct pair_heard *out);

/* All that was measured, for --json. */
json_t *pair_json(const struct pair *pair);

#endif
