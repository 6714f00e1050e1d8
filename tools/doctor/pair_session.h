/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair_session.h: one examination, as both ends run it. The two take the same steps in the same order; messages over the
 * rendezvous keep them together and carry what each heard.
 */
#ifndef TOOLS_DOCTOR_PAIR_SESSION_H
#define TOOLS_DOCTOR_PAIR_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <godwit/rendezvous.h>

#include "doctor/pair.h"

struct pair_session {
	struct gw_rendezvous *rendezvous;
	/* this end connected */
	bool caller;
	/* UDP port that a transfer would use here */
	uint16_t udp_port;
	/* TCP port on which the caller listens for the other end */
	uint16_t back_port;
	/* readable when a signal came */
	int interrupt_fd;
};

/*
 * Examines the path and fills *pair: all of it at the caller; the other end needs only to take part. `pair->here.name` and
 * `pair->there.name` are the caller's business. Returns 0 or -errno; gw_rendezvous_error() has the sentence unless it is
 * -EPROTO (the other end said something else) or -EINTR.
 */
int pair_session_run(const struct pair_session *session, struct pair *pair);

#endif
