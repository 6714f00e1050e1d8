/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounded.h: messages that end by a deadline, complete or not.
 *
 * A bounded transfer ends when every packet has landed, when the sender has sent everything and no more packets arrive, or
 * at a deadline, whichever is first. Packets that are missing then stay missing, and the outcome says how many and why. The
 * library never chooses this scheme by itself: the caller does, if its computation tolerates loss.
 *
 * All options are the receiver's. A sender gives none.
 */
#ifndef GODWIT_BOUNDED_H
#define GODWIT_BOUNDED_H

#include <godwit/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

extern GW_API const struct gw_scheme gw_bounded;

/*
 * The time that messages of one kind from one peer take for each byte. The caller keeps one for each peer and kind of
 * operation, zeroed at first. Small messages take longer for each byte than large ones, so that one value would not fit
 * both.
 */
struct gw_pace {
	/* smoothed time for each byte; the longest so far during the first four messages */
	double ns_per_byte;
	/* messages measured */
	uint32_t messages;
	uint32_t reserved;
};

/* Adds a message that brought so many bytes in so much time. A bounded receive does this itself if it has a pace. */
GW_API void gw_pace_add(struct gw_pace *pace, uint64_t bytes, uint64_t elapsed_ns);

/* Returns how long a message of that length may take: the median over the paces, so that a single slow peer does not
 * determine it, plus a quarter. Returns 0 while fewer than half of the paces have measured enough messages. */
GW_API uint64_t gw_pace_timeout_ns(const struct gw_pace *paces, uint32_t count, uint64_t length);

/* Why a receive ended. */
enum gw_bounded_reason {
	/* the queue pair failed, or the receive was completed by gw_recv_complete() */
	GW_BOUNDED_FAILED,
	/* every packet landed */
	GW_BOUNDED_WHOLE,
	/* everything was sent, and no packet landed for grace_ns */
	GW_BOUNDED_EARLY,
	/* the deadline passed */
	GW_BOUNDED_DEADLINE,
	/* the deadline passed, and retransmissions then brought the message to its floor */
	GW_BOUNDED_FLOOR,
	/* the floor was not reached, or no announcement came, within give_up_ns: status -ETIMEDOUT */
	GW_BOUNDED_GAVE_UP,
	/* a newer message of the same line began to land; status -ETIMEDOUT if this one was below its floor */
	GW_BOUNDED_PREEMPTED,
};

/*
 * A line of receives of which only the newest matters, such as those from one peer for one kind of operation. When a newer
 * one begins to land, an older one ends at once with what it has, or as soon as its length was announced. The caller keeps
 * one for each peer and kind, zeroed at first; it must outlive its transfers. The members are private.
 */
struct gw_line {
	/* the receive that has begun to land */
	struct gw_recv *current;
	/* receives posted, and the number of the one that has begun */
	uint32_t posted;
	uint32_t begun;
};

/* How a receive ended; set before `done` is called. The receive's bitmap says which packets are missing, until it is
 * closed. */
struct gw_bounded_outcome {
	/* bytes that landed */
	uint64_t bytes;
	/* time from the first packet, announcement or end notice of the message to its completion */
	uint64_t elapsed_ns;
	/* enum gw_bounded_reason */
	uint32_t reason;
	uint32_t reserved;
};

/* Missing bytes keep their old content. Without this flag they become zeros. */
#define GW_BOUNDED_KEEP 1u

struct gw_bounded_options {
	/* time from the first packet, announcement or end notice; default: from the pace, or one second */
	uint64_t deadline_ns;
	/* time without a packet, after everything was sent, that ends the message: networks reorder; default: a quarter of
	 * gw_qp_patience_ns() */
	uint64_t grace_ns;
	/* time after which a message fails that is below its floor, or of which no announcement came, so that nobody knows its
	 * length; default: ten deadlines, and one where there is no floor */
	uint64_t give_up_ns;
	/* packets that must land, in millionths; below that, lost packets are retransmitted after the deadline; default 0 */
	uint32_t floor_ppm;
	/* packets missing, in millionths, above which the message fails with -EIO; default 100000, a tenth */
	uint32_t ceiling_ppm;
	/* GW_BOUNDED_KEEP */
	uint32_t flags;
	uint32_t reserved32;
	/* updated with the outcome; must outlive the transfer; may be null */
	struct gw_pace *pace;
	/* where the outcome is written; must outlive the transfer; may be null */
	struct gw_bounded_outcome *outcome;
	/* line whose newer receives end this one; null: none */
	struct gw_line *line;
	uint64_t reserved[3];
};

#ifdef __cplusplus
}
#endif
#endif
