/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounded.h: messages that end in time rather than whole.
 *
 * A bounded transfer ends when every packet has landed, when the sender has sent everything and nothing more comes, or at
 * a deadline, whichever is first. What is missing then stays missing, and the outcome says how much and why. Nothing
 * chooses this scheme by itself: a caller names it, where its computation can stand a loss.
 *
 * All of it is the receiver's: a sender gives no options.
 */
#ifndef GODWIT_BOUNDED_H
#define GODWIT_BOUNDED_H

#include <godwit/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

extern GW_API const struct gw_scheme gw_bounded;

/*
 * What messages of one kind from one peer have cost a byte. The caller keeps one for each peer and kind of operation,
 * zeroed at first: small messages cost more a byte than large ones, and one figure for both would fit neither.
 */
struct gw_pace {
	double ns_per_byte; /* smoothed; the dearest so far while there are few */
	uint32_t messages;
	uint32_t reserved;
};

/* A message brought so many bytes in so long. A bounded receive that was given a pace does this itself. */
GW_API void gw_pace_add(struct gw_pace *pace, uint64_t bytes, uint64_t elapsed_ns);

/* How long a message of that length may take: the median over the paces, so that one slow peer does not set the time for
 * all, and a quarter on top. 0 while fewer than half of them have seen enough. */
GW_API uint64_t gw_pace_timeout_ns(const struct gw_pace *paces, uint32_t count, uint64_t length);

enum gw_bounded_reason {
	GW_BOUNDED_FAILED,   /* the queue pair ended, or the receive was completed by hand */
	GW_BOUNDED_WHOLE,    /* nothing is missing */
	GW_BOUNDED_EARLY,    /* all was sent, and nothing more came for a grace */
	GW_BOUNDED_DEADLINE, /* time was up */
	GW_BOUNDED_FLOOR,    /* time was up, and repairs then brought it to the floor */
	GW_BOUNDED_GAVE_UP,  /* not even the floor was reached: status -ETIMEDOUT */
	GW_BOUNDED_PREEMPTED, /* a newer message of its line began; below its floor: status -ETIMEDOUT */
};

/*
 * Receives of which the newest alone matters: those from one peer for one kind of operation. When a newer one
 * begins to land, the older ends at once with what it has; one that has not been announced yet, as soon as it is. The caller
 * keeps one for each peer and kind, zeroed at first; it must outlive its transfers.
 */
struct gw_line {
	struct gw_recv *current; /* that has begun; private, as all of it */
	uint32_t posted;
	uint32_t begun;
};

/* How a receive ended; set before its `done`. Which packets are missing is in the receive's bitmap, until it is closed. */
struct gw_bounded_outcome {
	uint64_t bytes;	     /* that landed */
	uint64_t elapsed_ns; /* from the first sign of the message to its completion */
	uint32_t reason;     /* enum gw_bounded_reason */
	uint32_t reserved;
};

#define GW_BOUNDED_KEEP 1u /* missing bytes stay as they were; otherwise they become zeros */

struct gw_bounded_options {
	uint64_t
		deadline_ns; /* from the message's first sign; default: what the pace says, or a second */
	uint64_t
		grace_ns; /* of silence once all was sent: networks reorder; default a quarter of the patience */
	uint64_t give_up_ns; /* when a message below its floor fails; default ten deadlines */
	uint32_t floor_ppm;  /* of the packets: below it, holes are repaired instead; default 0 */
	uint32_t
		ceiling_ppm; /* of packets missing, beyond which it fails with -EIO; default 100000, a tenth */
	uint32_t flags; /* GW_BOUNDED_KEEP */
	uint32_t reserved32;
	struct gw_pace *pace;		    /* fed with the outcome; must outlive the transfer */
	struct gw_bounded_outcome *outcome; /* likewise */
	struct gw_line *line; /* newer ones of it pre-empt this one; null: nothing does */
	uint64_t reserved[3];
};

#ifdef __cplusplus
}
#endif
#endif
