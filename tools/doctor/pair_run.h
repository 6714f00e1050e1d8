/* SPDX-License-Identifier: BSD-3-Clause */
/* pair_run.h: an examination under way, for the files of its steps. */
#ifndef TOOLS_DOCTOR_PAIR_RUN_H
#define TOOLS_DOCTOR_PAIR_RUN_H

#include "pair_session.h"
#include "pair_talk.h"

#define NS_PER_MS UINT64_C(1000000)

/* Probes of the even stream. */
#define STREAM_PACKETS 750u

struct pair_run {
	const struct pair_session *session;
	struct pair *pair;
	struct pair_talk talk;
	struct probe probe;
	/* connection that the other end opens back to the caller; -1: none */
	int back_fd;
	/* time that probes may be behind a message over TCP */
	uint64_t slack_ns;
};

/* Both ends say something of this kind and hear the other's, which is *out. */
int pair_exchange(struct pair_run *run, enum pair_message kind, json_t *mine, json_t **out);
/* The same without contents. */
int pair_meet(struct pair_run *run, enum pair_message kind);

/* Returns whether probes of this end arrive at the other, between whichever ports. */
bool pair_gets_through(const struct pair_run *run);

/* Sends short trains both ways; *out is the rate at which the other end got them, 0 if it cannot say. */
int pair_train(struct pair_run *run, uint64_t *out);

/* One end sends at a high rate, the other counts: over TCP first, so that UDP is tried at what the path is known to carry. */
int pair_bulk(struct pair_run *run, bool sending, uint64_t rate_bps);

#endif
