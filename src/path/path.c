/* SPDX-License-Identifier: BSD-3-Clause */
/* See path.h. */
#include "path/path.h"

#include <stdlib.h>

#define SPAN		 512u /* packets of a lane over which its loss is judged, at the most */
#define SPAN_LEAST	 64u
#define SPAN_OF_DISORDER 32u
#define DISORDER_KEPT	 16u /* judgements, until most of it is forgotten */
#define LOST_LEAST	 5   /* of them, before anything is said */
#define CAUTION		 3
#define LOSS_LEAST	 0.01f
#define DEAD_LEAST	 16u /* packets given to a lane of which nothing arrived */
#define TRIAL_PACKETS	 64u
#define TRIAL_TURN	 8u
#define PAUSE_TRIPS	 16 /* round trips */
#define PAUSE_LEAST_NS	 UINT64_C(20000000)
#define PAUSE_LIMIT_NS	 UINT64_C(30000000000)
#define PAUSES_LIMIT	 10

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

/* A lane on trial that has packets to be given, in place of a lane's turn. */
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
		/* A few first: more when something of them has arrived. */
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
	return next_in_use(path, lost < path->count ? lost : path->current);
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

static enum path_news retire(struct path *path, struct path_lane *lane, enum path_news why,
			     uint64_t trip_ns, uint64_t now)
{
	uint64_t pause =
		PAUSE_TRIPS * trip_ns > PAUSE_LEAST_NS ? PAUSE_TRIPS * trip_ns : PAUSE_LEAST_NS;

	pause <<= lane->pauses;
	lane->until_ns = now + (pause < PAUSE_LIMIT_NS ? pause : PAUSE_LIMIT_NS);
	if (lane->pauses < PAUSES_LIMIT)
		lane->pauses++;
	if (lane->state == PATH_USED)
		path->retired++;
	lane->state = PATH_RETIRED;
	lane->waits_ns = 0;
	return why;
}

static enum path_news restore(struct path *path, struct path_lane *lane)
{
	lane->state = PATH_USED;
	lane->span_sent = lane->sent;
	lane->span_lost = (int32_t)(lane->sent - lane->landed);
	lane->loss = 0;
	lane->seen = lane->seen_lost = 0;
	lane->samples = 0;
	lane->suspect = 0;
	path->restored++;
	return PATH_BACK;
}

/* How many of `span` packets would be lost if the lane were as the others in use; with some caution where little is known
 * of those. Negative where too little is. */
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

/* As many packets of the trial have to arrive as would on the others. */
static enum path_news judge_trial(struct path *path, struct path_lane *lane, uint64_t trip_ns,
				  uint64_t now)
{
	uint32_t landed = lane->landed - lane->tried_at;
	uint32_t lost = lane->tried > landed ? lane->tried - landed : 0;
	bool over = lane->waits_ns && now - lane->waits_ns > 2 * trip_ns;

	if (lane->tried >= TRIAL_PACKETS &&
	    (!lost || (over && (float)lost <= 2 * expected_of(path, lane, lane->tried))))
		return restore(path, lane);
	if (over && lane->tried >= TRIAL_TURN)
		return retire(path, lane, PATH_STAYS_AWAY, trip_ns, now);
	return PATH_NO_NEWS;
}

void path_stalled(struct path *path)
{
	for (uint32_t i = 0; i < path->count; i++)
		if (path->lane[i].state != PATH_USED)
			restore(path, &path->lane[i]);
}

enum path_news path_small(struct path *path, uint32_t lane, uint64_t trip_ns, uint64_t now)
{
	return retire(path, &path->lane[lane], PATH_SMALL, trip_ns, now);
}

/* Nothing is known of what was sent on it some time ago. */
static bool is_silent(const struct path_lane *lane, uint64_t limit_ns, uint64_t now)
{
	return lane->waits_ns && now - lane->waits_ns > limit_ns && lane->sent != lane->told_at;
}

/* What was sent on it should have landed, as other lanes' packets did. */
static bool is_dead(const struct path *path, const struct path_lane *lane, uint64_t trip_ns,
		    uint64_t now)
{
	if (lane->state != PATH_USED || !is_silent(lane, 2 * trip_ns, now) ||
	    lane->sent - lane->told_at < DEAD_LEAST)
		return false;
	for (uint32_t i = 0; i < path->count; i++)
		if (path->lane[i].state == PATH_USED && path->lane[i].heard_ns > lane->waits_ns)
			return true;
	return false;
}

/* Of a lane that was never heard of nothing is due later than of the others: their silence is long enough. */
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
	if (path->excused > silent)
		path->excused = silent; /* some of it was heard of after all */
	left = silent - path->excused;
	if (lost > left)
		lost = left;
	path->excused += lost;
	return lost;
}

enum path_news path_told(struct path *path, uint32_t lane, uint32_t landed, uint32_t marked,
			 uint64_t trip_ns, uint64_t now)
{
	struct path_lane *l = &path->lane[lane];

	if ((int32_t)(landed - l->landed) > 0) {
		l->landed = landed;
		l->marked = marked;
		l->told_at = l->sent;
		/* What is under way now is waited for from now on. */
		l->waits_ns = l->heard_ns = now;
	}
	if (l->state == PATH_TRIED)
		return judge_trial(path, l, trip_ns, now);
	if (is_dead(path, l, trip_ns, now))
		return retire(path, l, PATH_DEAD, trip_ns, now);
	return PATH_NO_NEWS;
}

/* Clearly more than can be expected: three times that, four deviations of it, and a few. */
static bool is_bad(const struct path *path, const struct path_lane *lane)
{
	float expected = expected_of(path, lane, lane->seen);
	float beyond = (float)lane->seen_lost - 3 * expected - LOST_LEAST - (float)lane->disorder;

	return lane->state == PATH_USED && expected >= 0 && lane->loss >= LOSS_LEAST &&
	       beyond >= 0 && beyond * beyond >= 16 * expected && in_use(path) > 1;
}

/* A packet out of order makes those before it look lost until they come. So of all samples in the time of a round trip the
 * lowest counts. */
enum path_news path_echoed(struct path *path, uint32_t lane, uint32_t number, uint64_t rtt_ns,
			   uint64_t trip_ns, uint64_t now)
{
	struct path_lane *l = &path->lane[lane];
	int32_t lost = (int32_t)(number - l->landed) - l->span_lost;
	uint32_t span = number - l->span_sent;

	if (rtt_ns)
		l->rtt_ns = l->rtt_ns ? l->rtt_ns - l->rtt_ns / 8 + rtt_ns / 8 : rtt_ns;
	if ((int32_t)span <= 0)
		return PATH_NO_NEWS; /* from before the stretch began */
	if (!l->samples || lost > l->highest)
		l->highest = lost;
	if (!l->samples++ || lost < l->lowest)
		l->lowest = lost;
	/* What looked lost and is no more was late. */
	if (l->highest - lost > (int32_t)l->disorder)
		l->disorder = (uint32_t)(l->highest - lost);
	if (l->samples == 1)
		l->sampled_ns = now;
	if (now - l->sampled_ns < trip_ns || span < SPAN_LEAST)
		return PATH_NO_NEWS;
	l->samples = 0;
	l->disorder -= l->disorder / DISORDER_KEPT;
	if (l->lowest < 0) { /* repeated by the network, or late before the stretch began */
		l->span_lost += l->lowest;
		l->lowest = 0;
	}
	l->seen = span;
	l->seen_lost = (uint32_t)l->lowest;
	l->loss = (float)l->lowest / (float)span;
	if (is_bad(path, l)) {
		if (l->suspect)
			return retire(path, l, PATH_LOSES, trip_ns, now);
		/* A queue that overflows hits whoever has its turn. It has to be seen twice, of packets that come after. */
		l->suspect = 1;
		l->span_sent += span;
		l->span_lost += l->lowest;
	} else if (span >= SPAN + SPAN_OF_DISORDER * l->disorder) {
		/* The older half is forgotten. A lane that held out so long is none the worse for its past. */
		l->span_sent += span / 2;
		l->span_lost += l->lowest / 2;
		l->suspect = 0;
		if (l->state == PATH_USED)
			l->pauses = 0;
	}
	return PATH_NO_NEWS;
}
