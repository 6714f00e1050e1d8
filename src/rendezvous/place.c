/* SPDX-License-Identifier: BSD-3-Clause */
#include "place.h"

#include <stdbool.h>
#include <stddef.h>

static unsigned count_of(const struct place places[PLACES], const struct in6_addr *origin)
{
	unsigned count = 0;

	for (unsigned i = 0; i < PLACES; i++)
		count += places[i].r && IN6_ARE_ADDR_EQUAL(&places[i].origin, origin);
	return count;
}

static bool worth_less(const struct place *a, const struct place *b)
{
	return a->state != b->state ? a->state < b->state : a->came_at < b->came_at;
}

struct place *place_find(struct place places[PLACES], const struct in6_addr *origin)
{
	struct place *victim = &places[0];
	unsigned most = 0;

	for (unsigned i = 0; i < PLACES; i++) {
		struct place *place = &places[i];
		unsigned count;

		if (!place->r)
			return place;
		/* One that leaves has had its answer. */
		count = place->state == LEAVING ? PLACES + 1 : count_of(places, &place->origin);
		if (count > most || (count == most && worth_less(place, victim))) {
			most = count;
			victim = place;
		}
	}
	if (victim->state == READY && most <= count_of(places, origin) + 1)
		return NULL;
	return victim;
}

struct place *place_next(struct place places[PLACES])
{
	struct place *next = NULL;
	unsigned least = PLACES + 1;

	for (unsigned i = 0; i < PLACES; i++) {
		struct place *place = &places[i];
		unsigned count;

		if (!place->r || place->state != READY)
			continue;
		count = count_of(places, &place->origin);
		if (!next || count < least || (count == least && place->came_at < next->came_at)) {
			least = count;
			next = place;
		}
	}
	return next;
}
