/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * path.h: several lanes to one peer. Which one the next packets take, what becomes of them on each, and which is not
 * worth using for now.
 *
 * Data is sprayed: each lane in use has a turn of so many packets, one after the other. A packet that is repeated takes
 * another lane than the one that lost it. A lane goes out of use when it loses clearly more than the others do, or when
 * nothing arrives of what it was given while the others deliver. After a pause it is tried with a few packets of real
 * data, each try in vain doubling the pause, and comes back when all of them arrive. The last one is never given up: where
 * all are bad there is nothing to choose.
 *
 * Loss is counted exactly: a packet that is known to have landed is the n-th that was sent on its lane, and the receiver
 * says how many of those landed.
 *
 * A window is the connection's, not a lane's. Pure: no I/O, no clock, nothing allocated but by path_open().
 */
#ifndef PATH_PATH_H
#define PATH_PATH_H

#include <stdbool.h>
#include <stdint.h>

#define PATH_LANES_MAX 8
#define PATH_TURN      16u /* packets on one lane before the next has its turn */
#define PATH_NONE      UINT32_MAX

enum path_state { PATH_USED, PATH_RETIRED, PATH_TRIED };

/* Why a lane went out of use or came back; what a log line is made of. */
enum path_news { PATH_NO_NEWS, PATH_LOSES, PATH_DEAD, PATH_SMALL, PATH_BACK, PATH_STAYS_AWAY };

struct path_lane {
	uint32_t sent;	    /* packets, repeats included */
	uint32_t landed;    /* of which, as the receiver last said */
	uint32_t marked;    /* and how many of them as having met congestion */
	uint32_t span_sent; /* where the stretch begins over which loss is judged: of those sent */
	int32_t span_lost;  /* and how many were lost before it */
	int32_t lowest;	    /* sample of what was lost since, in the time of a round trip */
	int32_t highest;    /* likewise */
	uint32_t disorder;  /* so many packets looked lost of late and were not */
	uint32_t samples;
	uint64_t sampled_ns; /* the first of them */
	uint32_t seen;	     /* packets of the stretch when it was last judged */
	uint32_t seen_lost;
	uint32_t told_at;  /* sent when something was last known to have landed */
	uint64_t waits_ns; /* since when nothing is known of what was sent; 0: all is well */
	uint64_t heard_ns; /* when something was last known to have landed */
	uint64_t until_ns; /* retired: the pause; tried: when the verdict is due */
	uint64_t rtt_ns;   /* smoothed; 0: not measured */
	float loss;
	uint8_t state;
	uint8_t pauses;	   /* in a row */
	uint8_t suspect;   /* was found bad once */
	uint8_t tried;	   /* packets sent on trial */
	uint32_t tried_at; /* landed when the trial began */
};

struct path {
	uint32_t count;
	uint32_t current;
	uint32_t left;	  /* of its turn */
	uint32_t excused; /* of the packets given to silent lanes, so many */
	uint64_t retired;
	uint64_t restored;
	struct path_lane lane[PATH_LANES_MAX];
};

/* Null without memory. */
struct path *path_open(uint32_t lanes);
void path_close(struct path *path);

/* The lane for packets that are sent for the first time, and how many of them at most. */
uint32_t path_spray(struct path *path, uint64_t now, uint32_t *most);
/* The lane for a packet that was lost on lane `lost`, or PATH_NONE where that is forgotten. */
uint32_t path_repeat(struct path *path, uint32_t lost);
/* Returns the number of the last of them among all that were sent on the lane. */
uint32_t path_sent(struct path *path, uint32_t lane, uint32_t packets, uint64_t now);

/* So many packets are missing more than at the last call. How many of them may have been given to lanes from which nothing is
 * heard: where those went says nothing about congestion. */
uint32_t path_excused(struct path *path, uint32_t lost, uint64_t trip_ns, uint64_t now);
/* Nothing arrives at all: any lane may be better than those in use. */
void path_stalled(struct path *path);
/* The lane carries only smaller packets than the others. */
enum path_news path_small(struct path *path, uint32_t lane, uint64_t trip_ns, uint64_t now);
/* The receiver's totals of a lane. `trip_ns` is how long a round trip takes on the connection, at the most. */
enum path_news path_told(struct path *path, uint32_t lane, uint32_t landed, uint32_t marked,
			 uint64_t trip_ns, uint64_t now);
/* The `number`-th packet that was sent on the lane has landed, and it was the last of those that did. `rtt_ns` is 0 where
 * that is not known. */
enum path_news path_echoed(struct path *path, uint32_t lane, uint32_t number, uint64_t rtt_ns,
			   uint64_t trip_ns, uint64_t now);

#endif
