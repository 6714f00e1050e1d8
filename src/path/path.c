/* SPDX-License-Identifier: BSD-3-Clause */
/* path.c: the lanes to one peer; path.h explains the rules. */
#include "path/path.h"

#include <stdlib.h>

/* Packets in the longest and in the shortest span over which a lane's loss is judged; the longest grows by
 * SPAN_OF_DISORDER for each packet of disorder. */
#define SPAN		 512u
#define SPAN_LEAST	 64u
#define SPAN_OF_DISORDER 32u
/* Each judgement forgets 1 / DISORDER_KEPT of the disorder. */
#define DISORDER_KEPT 16u
/* A lane is not bad before it lost this many packets more than expected, and this share. */
#define LOST_LEAST 5
#define LOSS_LEAST 0.01f
/* Losses added to those of the other lanes, in case few of their packets were seen. */
#define CAUTION 3
/* Packets in flight, none of which arrived, before a lane is dead. */
#define DEAD_LEAST 16u
/* Packets of a trial, and of its first turn. */
#define TRIAL_PACKETS 64u
#define TRIAL_TURN    8u
/* First pause: round trips, and at least in ns. It doubles up to a limit. */
#define PAUSE_TRIPS    16
#define PAUSE_LEAST_NS UINT64_C(20000000)
#define PAUSE_LIMIT_NS UINT64_C(30000000000)
#define PAUSES_LIMIT   10

struct path *path_open(uint32_t lanes)
{
	struct path *path = calloc(1, sizeof(*path));

	if (!path)
		return NULL;
	path->count = lanes < PATH_LANES_MAX ? lanes : PATH_LANES_MAX;
	path->left = PATH_TURN;
	return path;
}

void path_close(struct path *path)
{
	free(path);
}

static uint32_t in_use(const struct path *path)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < path->count; i++)
		count += path->lane[i].state == PATH_USED;
	return count;
}

static uint32_t next_in_use(const struct path *path, uint32_t after)
{
	for (uint32_t i = 1; i <= path->count; i++)
		if (path->lane[(after + i) % path->count].state == PATH_USED)
			return (after + i) % path->count;
	return after;
}

/* Returns a lane whose trial needs packets, or PATH_NONE. Starts the trial of a lane whose pause is over. */
static uint32_t on_trial(struct path *path, uint64_t now)
{
	for (uint32_t i = 0; i < path->count; i++) {
		struct path_lane *lane = &path->lane[i];

		if (lane->state == PATH_RETIRED && now >= lane->until_ns) {
			lane->state = PATH_TRIED;
			lane->tried = 0;
			lane->tried_at = lane->landed;
			lane->told_at = lane->sent;
		}
		/* A few packets first, and more once one of them has arrived. */
		if (lane->state == PATH_TRIED && lane->tried < TRIAL_PACKETS &&
		    (lane->tried < TRIAL_TURN || lane->landed != lane->tried_at))
			return i;
	}
	return PATH_NONE;
}

uint32_t path_spray(struct path *path, uint64_t now, uint32_t *most)
{
	if (!path->left) {
		uint32_t trial = on_trial(path, now);

		path->current = next_in_use(path, path->current);
		path->left = PATH_TURN;
		if (trial != PATH_NONE) {
			*most = TRIAL_TURN;
			return trial;
		}
	}
	if (path->lane[path->current].state != PATH_USED)
		path->current = next_in_use(path, path->current);
	*most = path->left;
	return path->current;
}

uint32_t path_repeat(struct path *path, uint32_t lost)
{
	if (lost < path->count)
		return next_in_use(path, lost);
	/* Nothing is known of it: each time by another, for the same one may be dead. */
	return path->blind = next_in_use(path, path->blind);
}

uint32_t path_sent(struct path *path, uint32_t lane, uint32_t packets, uint64_t now)
{
	struct path_lane *l = &path->lane[lane];

	if (lane == path->current && l->state == PATH_USED)
		path->left -= packets < path->left ? packets : path->left;
	if (l->state == PATH_TRIED)
		l->tried = (uint8_t)(l->tried + packets);
	if (!l->waits_ns || l->sent == l->told_at)
		l->waits_ns = now;
	return l->sent += packets;
}

static enum path_news retire(struct path_lane *lane, enum path_news why, uint64_t trip_ns,
			     uint64_t now)
{
	uint64_t pause =
		PAUSE_TRIPS * trip_ns > PAUSE_LEAST_NS ? PAUSE_TRIPS * trip_ns : PAUSE_LEAST_NS;

	pause <<= lane->pauses;
	lane->until_ns = now + (pause < PAUSE_LIMIT_NS ? pause : PAUSE_LIMIT_NS);
	if (lane->pauses < PAUSES_LIMIT)
		lane->pauses++;
	lane->state = PATH_RETIRED;
	lane->waits_ns = 0;
	return why;
}

/* Leaves out all that was sent so far. */
static void begin_span(struct path_lane *lane)
{
	lane->span_sent = lane->sent;
	lane->span_lost = (int32_t)(lane->sent - lane->landed);
	lane->loss = 0;
	lane->seen = lane->seen_lost = 0;
	lane->samples = 0;
	lane->suspect = 0;
}

static enum path_news restore(struct path_lane *lane)
{
	lane->state = PATH_USED;
	begin_span(lane);
	return PATH_BACK;
}

/* Returns how many of `span` packets the lane would lose if it were like the other lanes in use; negative if too few of
 * their packets were seen. */
static float expected_of(const struct path *path, const struct path_lane *lane, uint32_t span)
{
	uint32_t sent = 0, lost = CAUTION;

	for (uint32_t i = 0; i < path->count; i++)
		if (&path->lane[i] != lane && path->lane[i].state == PATH_USED) {
			sent += path->lane[i].seen;
			lost += path->lane[i].seen_lost;
		}
	return sent < SPAN_LEAST ? -1.0f : (float)span * (float)lost / (float)sent;
}

/* Restores the lane if its trial lost no more than twice what the other lanes would; pauses it again otherwise. */
static enum path_news judge_trial(struct path *path, struct path_lane *lane, uint64_t trip_ns,
				  uint64_t now)
{
	uint32_t landed = lane->landed - lane->tried_at;
	uint32_t lost = lane->tried > landed ? lane->tried - landed : 0;
	bool over = lane->waits_ns && now - lane->waits_ns > 2 * trip_ns;

	if (lane->tried >= TRIAL_PACKETS &&
	    (!lost || (over && (float)lost <= 2 * expected_of(path, lane, lane->tried))))
		return restore(lane);
	if (over && lane->tried >= TRIAL_TURN)
		return retire(lane, PATH_STAYS_AWAY, trip_ns, now);
	return PATH_NO_NEWS;
}

void path_stalled(struct path *path)
{
	for (uint32_t i = 0; i < path->count; i++)
		if (path->lane[i].state != PATH_USED)
			restore(&path->lane[i]);
}

enum path_news path_small(struct path *path, uint32_t lane, uint64_t trip_ns, uint64_t now)
{
	return retire(&path->lane[lane], PATH_SMALL, trip_ns, now);
}

/* True if packets are in flight on the lane and none has been reported for longer than the limit. */
static bool is_silent(const struct path_lane *lane, uint64_t limit_ns, uint64_t now)
{
	return lane->waits_ns && now - lane->waits_ns > limit_ns && lane->sent != lane->told_at;
}

/* True if another lane is in use. */
static bool has_other(const struct path *path, const struct path_lane *lane)
{
	for (uint32_t i = 0; i < path->count; i++)
		if (&path->lane[i] != lane && path->lane[i].state == PATH_USED)
			return true;
	return false;
}

/* True if nothing arrives on the lane although packets of others that left later by `dead_ns` did. When they arrived says
 * less: a receiver that is slow takes in packets that left long ago. */
static bool is_dead(const struct path *path, const struct path_lane *lane, uint64_t now)
{
	return lane->state == PATH_USED && is_silent(lane, path->dead_ns, now) &&
	       lane->sent - lane->told_at >= DEAD_LEAST &&
	       path->landed_sent_ns > lane->waits_ns + path->dead_ns && has_other(path, lane);
}

/* A lane of which no packet ever landed counts as silent as soon as another lane was heard. */
uint32_t path_excused(struct path *path, uint32_t lost, uint64_t trip_ns, uint64_t now)
{
	uint32_t silent = 0, left;
	bool any = false;

	for (uint32_t i = 0; i < path->count; i++)
		any |= path->lane[i].heard_ns != 0;
	for (uint32_t i = 0; i < path->count; i++) {
		const struct path_lane *lane = &path->lane[i];

		if (lane->state != PATH_USED || is_silent(lane, trip_ns, now) ||
		    (any && !lane->heard_ns))
			silent += lane->sent - lane->told_at;
	}
	/* Some of the packets excused before have landed after all. */
	if (path->excused > silent)
		path->excused = silent;
	left = silent - path->excused;
	if (lost > left)
		lost = left;
	path->excused += lost;
	return lost;
}

/* If nothing was reported of any lane for as long as a dead one is given, the whole path was down. That says nothing about single
 * lanes: what they lost meanwhile is left out, and they are waited for from now on. */
static void forgive_outage(struct path *path, uint64_t now)
{
	for (uint32_t i = 0; i < path->count; i++)
		if (path->lane[i].state == PATH_USED &&
		    !is_silent(&path->lane[i], path->dead_ns, now))
			return;
	for (uint32_t i = 0; i < path->count; i++) {
		struct path_lane *lane = &path->lane[i];

		if (lane->state != PATH_USED)
			continue;
		lane->told_at = lane->sent;
		lane->waits_ns = now;
		begin_span(lane);
	}
}

enum path_news path_told(struct path *path, uint32_t lane, uint32_t landed, uint32_t marked,
			 uint64_t trip_ns, uint64_t now)
{
	struct path_lane *l = &path->lane[lane];

	if ((int32_t)(landed - l->landed) > 0) {
		forgive_outage(path, now);
		l->landed = landed;
		l->marked = marked;
		l->told_at = l->sent;
		/* Packets in flight now are waited for from now on. */
		l->waits_ns = l->heard_ns = now;
	}
	if (l->state == PATH_TRIED)
		return judge_trial(path, l, trip_ns, now);
	if (is_dead(path, l, now))
		return retire(l, PATH_DEAD, trip_ns, now);
	return PATH_NO_NEWS;
}

/* True if the lane lost clearly more than expected: three times as many, plus four standard deviations, plus a few, plus the
 * disorder. */
static bool is_bad(const struct path *path, const struct path_lane *lane)
{
	float expected = expected_of(path, lane, lane->seen);
	float beyond = (float)lane->seen_lost - 3 * expected - LOST_LEAST - (float)lane->disorder;

	return lane->state == PATH_USED && expected >= 0 && lane->loss >= LOSS_LEAST &&
	       beyond >= 0 && beyond * beyond >= 16 * expected && in_use(path) > 1;
}

/* A packet that overtook others makes them seem lost until they land. So the lowest of the samples of one round trip
 * counts. */
enum path_news path_echoed(struct path *path, uint32_t lane, uint32_t number, uint64_t rtt_ns,
			   uint64_t trip_ns, uint64_t now)
{
	struct path_lane *l = &path->lane[lane];
	int32_t lost = (int32_t)(number - l->landed) - l->span_lost;
	uint32_t span = number - l->span_sent;

	if (rtt_ns)
		l->rtt_ns = l->rtt_ns ? l->rtt_ns - l->rtt_ns / 8 + rtt_ns / 8 : rtt_ns;
	if ((int32_t)span <= 0)
		return PATH_NO_NEWS; /* sent before the span began */
	if (!l->samples || lost > l->highest)
		l->highest = lost;
	if (!l->samples++ || lost < l->lowest)
		l->lowest = lost;
	/* Packets that seemed lost and have landed were late. */
	if (l->highest - lost > (int32_t)l->disorder)
		l->disorder = (uint32_t)(l->highest - lost);
	if (l->samples == 1)
		l->sampled_ns = now;
	if (now - l->sampled_ns < trip_ns || span < SPAN_LEAST)
		return PATH_NO_NEWS;
	l->samples = 0;
	l->disorder -= l->disorder / DISORDER_KEPT;
	/* The network duplicated packets, or some sent before the span began were late. */
	if (l->lowest < 0) {
		l->span_lost += l->lowest;
		l->lowest = 0;
	}
	l->seen = span;
	l->seen_lost = (uint32_t)l->lowest;
	l->loss = (float)l->lowest / (float)span;
	if (is_bad(path, l)) {
		if (l->suspect)
			return retire(l, PATH_LOSES, trip_ns, now);
		/* A queue that overflows drops packets of whichever lane has its turn, so the lane must be found bad twice, with
		 * different packets. */
		l->suspect = 1;
		l->span_sent += span;
		l->span_lost += l->lowest;
	} else if (span >= SPAN + SPAN_OF_DISORDER * l->disorder) {
		/* Forget the older half of the span. A lane that worked for so long starts with a clean record. */
		l->span_sent += span / 2;
		l->span_lost += l->lowest / 2;
		l->suspect = 0;
		if (l->state == PATH_USED)
			l->pauses = 0;
	}
	return PATH_NO_NEWS;
}
