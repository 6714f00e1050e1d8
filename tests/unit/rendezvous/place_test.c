/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has to go when all places are taken. */
#include "rendezvous/place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Connections are not looked into. */
static struct gw_rendezvous *const somebody = (struct gw_rendezvous *)&(char){ 0 };

static struct in6_addr origin(uint8_t number)
{
	return (struct in6_addr){ .s6_addr = { [0] = 0xfd, [7] = number } };
}

/* All places taken by one origin, the later ones later. */
static void fill(struct place places[PLACES], enum place_state state, uint8_t from)
{
	for (unsigned i = 0; i < PLACES; i++)
		places[i] = (struct place){
			.r = somebody, .state = state, .origin = origin(from), .came_at = 100 + i
		};
}

static void set(struct place *place, enum place_state state, uint8_t from, uint64_t came_at)
{
	*place = (struct place){
		.r = somebody, .state = state, .origin = origin(from), .came_at = came_at
	};
}

static void free_place(void **state)
{
	struct place places[PLACES];
	struct in6_addr newcomer = origin(2);

	(void)state;
	fill(places, STRANGER, 1);
	places[17].r = NULL;
	assert_ptr_equal(place_find(places, &newcomer), &places[17]);
}

static void oldest_of_the_least(void **state)
{
	struct place places[PLACES];
	struct in6_addr newcomer = origin(1);

	(void)state;
	fill(places, GUEST, 1);
	assert_ptr_equal(place_find(places, &newcomer), &places[0]);
	set(&places[40], STRANGER, 1, 140);
	set(&places[41], STRANGER, 1, 139);
	assert_ptr_equal(place_find(places, &newcomer), &places[41]);
	set(&places[50], LEAVING, 2, 500);
	assert_ptr_equal(place_find(places, &newcomer), &places[50]);
}

/* Whatever one origin fills the places with, another's connection stays until it is through. */
static void crowd_from_one_origin(void **state)
{
	static const enum place_state crowds[] = { STRANGER, GUEST, READY };
	struct place places[PLACES];
	struct in6_addr attacker = origin(1);

	(void)state;
	for (unsigned c = 0; c < 3; c++) {
		for (unsigned s = STRANGER; s <= READY; s++) {
			struct place *place;

			fill(places, crowds[c], 1);
			set(&places[5], (enum place_state)s, 2, 1);
			place = place_find(places, &attacker);
			if (crowds[c] == READY)
				assert_null(place);
			else
				assert_ptr_equal(place, &places[0]);
		}
	}
}

static void newcomer_against_a_crowd(void **state)
{
	struct place places[PLACES];
	struct in6_addr same = origin(1), other = origin(2);

	(void)state;
	fill(places, READY, 1);
	assert_null(place_find(places, &same));
	assert_ptr_equal(place_find(places, &other), &places[0]);
	/* It may not have more than those it takes from. */
	for (unsigned i = 0; i < PLACES / 2; i++)
		set(&places[i], READY, 2, 200 + i);
	assert_null(place_find(places, &other));
}

/* One that is ready does not wait for all that another origin has ready. */
static void next_of_the_fewest(void **state)
{
	struct place places[PLACES];

	(void)state;
	fill(places, STRANGER, 1);
	assert_null(place_next(places));
	fill(places, READY, 1);
	assert_ptr_equal(place_next(places), &places[0]);
	set(&places[30], READY, 2, 1000);
	assert_ptr_equal(place_next(places), &places[30]);
	set(&places[31], READY, 3, 999);
	assert_ptr_equal(place_next(places), &places[31]);
	/* Places count in whatever state. */
	set(&places[32], STRANGER, 3, 2000);
	assert_ptr_equal(place_next(places), &places[30]);
	places[30].r = NULL;
	assert_ptr_equal(place_next(places), &places[31]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_place),
		cmocka_unit_test(oldest_of_the_least),
		cmocka_unit_test(crowd_from_one_origin),
		cmocka_unit_test(newcomer_against_a_crowd),
		cmocka_unit_test(next_of_the_fewest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
