/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exhaustive.h: small scenes of two messages, and runs of them under a pattern of faults.
 *
 * A pattern has one letter for each datagram or data packet, of either end, in the order in which they leave:
 *
 *	.  delivered      x  lost      2  delivered twice      s  sent after the next one of the same end
 *
 * What leaves after the end of the pattern is delivered. A run is deterministic.
 */
#ifndef TESTS_UNIT_MESSAGE_EXHAUSTIVE_H
#define TESTS_UNIT_MESSAGE_EXHAUSTIVE_H

#include "../reliability/duo.h"

#define PATTERN_MAX 64
#define MESSAGES    3
#define SEARCHES    3
#define ALL_FAULTS  ".x2s"

/* Packet sizes of scenes with `sizes`, in bytes, and what a path carries that has shrunk. Packets of one size straddle
 * those of the other. */
#define SIZE_FLOOR   400u
#define SIZE_CEILING 1000u
#define SMALL_PATH   600u

/* One way, unless the scene says otherwise. */
#define DELAY_NS (10 * US)

/* A bound on the patterns: faults (any number: PATTERN_MAX) among the first `depth` datagrams, of the kinds in `letters`. */
struct search {
	const char *letters;
	uint32_t depth;
	uint32_t faults;
};

/* The first datagram that the pattern has a letter for. */
enum from {
	/* The first after the posts. */
	FROM_POST,
	/* The first with a size probe after the path has shrunk: the sender doubts the size. */
	FROM_DOUBT,
	/* The first that asks for smaller packets. */
	FROM_CUT,
};

enum shrink { SHRINK_NEVER, SHRINK_BETWEEN, SHRINK_DURING };

/* Zero is the default everywhere. */
struct scene {
	const char *name;
	/* Bytes of the two messages. */
	uint64_t lengths[2];
	/* Delay of the link; default DELAY_NS. */
	uint64_t delay_ns;
	/* Receives granted at once; default 4. */
	uint32_t slots;
	/* Payload that the path carries from the start; 0: any. */
	uint32_t path_payload;
	/* Events that a host's queue holds, from which its credit follows. */
	uint32_t queue;
	/* SHRINK_DURING: data packets that leave before the path shrinks. */
	uint32_t shrink_after;
	enum shrink shrink;
	enum from from;
	/* Packets have SIZE_FLOOR or SIZE_CEILING bytes; else 4096. */
	bool sizes;
	/* The receives are posted after the sends. */
	bool late;
	/* The first receive is promised, at both ends. */
	bool promised;
	/* Bare one-shot sends, without a scheme. */
	bool raw;
	/* Both hosts are NICs. */
	bool nic;
	struct search searches[SEARCHES];
};

extern const struct scene exhaustive_scenes[];
extern const uint32_t exhaustive_scene_count;

/* One message of a run. */
struct item {
	struct run *run;
	struct gw_send *send;
	struct gw_recv *recv;
	uint64_t length;
	/* Times that each end was told. */
	unsigned sent, received;
	int sent_status, received_status;
	uint64_t sent_at, received_at;
};

struct run {
	const struct scene *scene;
	struct duo duo;
	struct item items[MESSAGES];
	char pattern[PATTERN_MAX + 1];
	/* Datagrams shown to the pattern, and letters of it used that are faults. */
	uint32_t asked, faults;
	/* Data packets that have left. */
	uint32_t data;
	/* Bytes of memory for each message, more than any of them has. */
	uint64_t region;
	/* Payload that the path carries; 0: any. */
	uint32_t carries;
	bool armed;
	/* True once the datagram that scene->from names has left. */
	bool begun;
	/* True from the start of a run until it has passed. */
	bool open;
	bool shown;
	/* Time from the first post to the last word about the two messages. */
	uint64_t took_ns;
};

/* The run that is under way, or the last one. */
extern struct run run;

/* Runs the scene under run.pattern, which gets a letter for every datagram that left, and checks all but the time. */
void run_pattern(const struct scene *scene);

#endif
