/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.h: the lanes to one peer (several source ports or queue pairs, which the network may route differently). Decides
 * which lane the next packets take, counts what each lane loses, and takes bad lanes out of use.
 *
 * Data is sprayed: the lanes in use take turns of PATH_TURN packets. A retransmission takes another lane than the one that
 * lost the packet. A lane is retired when it loses clearly more than the others, or when nothing that was sent on it
 * arrives while the others deliver. After a pause it is tried with a few data packets: it is restored if they arrive, and
 * each trial that fails doubles the pause. The last lane in use is never retired.
 *
 * Loss is counted exactly: a packet that landed is known as the n-th sent on its lane, and the receiver reports how many
 * packets of the lane have landed.
 *
 * The window (packets in flight) belongs to the connection, not to a lane. Pure: no I/O, no clock; only path_open()
 * allocates.
 */
#ifndef PATH_PATH_H
#define PATH_PATH_H

#include <stdbool.h>
#include <stdint.h>

#define PATH_LANES_MAX 8
/* Packets sent on one lane before the next has its turn. */
#define PATH_TURN 16u
/* In place of a lane: none. */
#define PATH_NONE UINT32_MAX

enum path_state { PATH_USED, PATH_RETIRED, PATH_TRIED };

/* What happened to a lane, for the log: nothing; retired because it loses packets, because nothing arrives, or because it
 * carries smaller packets than the others; restored after a trial; a trial failed. */
enum path_news { PATH_NO_NEWS, PATH_LOSES, PATH_DEAD, PATH_SMALL, PATH_BACK, PATH_STAYS_AWAY };

struct path_lane {
	/* packets sent, retransmissions included */
	uint32_t sent;
	/* packets that landed, as the receiver last reported */
	uint32_t landed;
	/* packets among those that were marked (ECN CE) */
	uint32_t marked;

	/* Loss is judged over a span of packets: `sent` at its start, and packets lost before it */
	uint32_t span_sent;
	int32_t span_lost;
	/* fewest and most packets of the span that seemed lost, in the samples of the last round trip */
	int32_t lowest;
	int32_t highest;
	/* packets that recently seemed lost and were late */
	uint32_t disorder;
	/* samples since the loss was last judged, and time of the first */
	uint32_t samples;
	uint64_t sampled_ns;
	/* packets of the span, and packets lost, when it was last judged */
	uint32_t seen;
	uint32_t seen_lost;

	/* `sent` when a packet was last reported as landed */
	uint32_t told_at;
	/* time since which nothing is known of packets in flight; 0: none was sent since the lane was opened or retired */
	uint64_t waits_ns;
	/* time at which a packet was last reported as landed; 0: never */
	uint64_t heard_ns;
	/* end of a retired lane's pause */
	uint64_t until_ns;
	/* smoothed round-trip time; 0: not measured */
	uint64_t rtt_ns;
	/* share of packets lost when last judged */
	float loss;
	/* enum path_state */
	uint8_t state;
	/* pauses since it last worked well, each twice as long as the one before */
	uint8_t pauses;
	/* 1: the lane was found bad once; it is retired the second time */
	uint8_t suspect;
	/* packets sent in a trial, and `landed` when it began */
	uint8_t tried;
	uint32_t tried_at;
};

struct path {
	/* lanes */
	uint32_t count;
	/* lane whose turn it is, and packets left of the turn */
	uint32_t current;
	uint32_t left;
	/* lane of the last retransmission of a packet whose first lane is not known */
	uint32_t blind;
	/* time without an arrival after which a lane is dead if later packets arrive elsewhere: three probe timeouts */
	uint64_t dead_ns;
	/* latest time at which a packet left that is known to have landed, on any lane */
	uint64_t landed_sent_ns;
	/* missing packets that path_excused() ascribed to silent lanes */
	uint32_t excused;
	struct path_lane lane[PATH_LANES_MAX];
};

/* Returns NULL if there is no memory. */
struct path *path_open(uint32_t lanes);
void path_close(struct path *path);

/* Returns the lane for packets that are sent for the first time, and sets *most to how many may take it. */
uint32_t path_spray(struct path *path, uint64_t now, uint32_t *most);
/* Returns the lane for the retransmission of a packet that lane `lost` lost; PATH_NONE: that is not known. */
uint32_t path_repeat(struct path *path, uint32_t lost);
/* Counts packets sent on a lane. Returns the number of the last one, counted from the lane's first packet. */
uint32_t path_sent(struct path *path, uint32_t lane, uint32_t packets, uint64_t now);

/* Takes how many more packets are missing than at the last call. Returns how many of them may have been sent on silent lanes,
 * whose loss is not a sign of congestion. */
uint32_t path_excused(struct path *path, uint32_t lost, uint64_t trip_ns, uint64_t now);
/* Nothing arrives at all: restores every lane, since any may be better than those in use. */
void path_stalled(struct path *path);
/* Retires a lane that carries only smaller packets than the others. */
enum path_news path_small(struct path *path, uint32_t lane, uint64_t trip_ns, uint64_t now);
/* Takes the receiver's totals of a lane. `trip_ns` is the longest round-trip time of the connection. */
enum path_news path_told(struct path *path, uint32_t lane, uint32_t landed, uint32_t marked,
			 uint64_t trip_ns, uint64_t now);
/* Takes a sample: the latest packet that landed on the lane is the `number`-th that was sent on it. `rtt_ns` is 0 if not
 * measured. */
enum path_news path_echoed(struct path *path, uint32_t lane, uint32_t number, uint64_t rtt_ns,
			   uint64_t trip_ns, uint64_t now);

#endif
