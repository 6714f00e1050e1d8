/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a message is sent and received, by name. A scheme posts; when the message has ended it tells the bench, once, by
 * perf_shot_sent() or perf_shot_received().
 */
#ifndef TOOLS_PERF_SCHEME_H
#define TOOLS_PERF_SCHEME_H

#include <stdbool.h>
#include <stdint.h>

struct gw_scheme;
struct perf_flow;
struct perf_shot;

struct perf_scheme {
	/* at most 16 characters */
	const char *name;
	/* everything that is lost is repaired */
	bool exact;
	/* each message is two of the library, with memory for parity */
	bool coded;
	/* what a channel does by itself: its operations name no scheme, and bring no memory for parity */
	bool automatic;
	/* the library's scheme; null: none of them */
	const struct gw_scheme *library;
	/* Set shot->send or shot->recv. 0 or -errno of the library. */
	int (*send)(struct perf_shot *shot, const void *addr, uint64_t length, uint32_t imm);
	int (*recv)(struct perf_shot *shot, void *addr, uint64_t length);
	/* The peer says that it has sent all of this phase. For schemes that are not exact, and so must know. */
	void (*all_sent)(struct perf_flow *flow, uint64_t now);
};

extern const struct perf_scheme perf_raw;

/* NULL when there is none of that name. */
const struct perf_scheme *perf_scheme_find(const char *name);
/* `bare`: of queue pairs without a channel. */
const struct perf_scheme *perf_scheme_default(bool bare);

/* "auto, sr": for messages. */
const char *perf_scheme_names(void);

#endif
