/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares with holes that begin and end inside of numbers: no part of such a number counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collective/bounded.h"

#define COUNT 8
#define RANKS 2
/* What the other rank gives: a number with bits in each half. */
#define THREE (3 + 1 / 32768.0f)

/* The bytes of a share that are missing: half of number 2, number 3, and three quarters of number 4. */
static const struct hole gap = { 10, 19 };

/* Reduces the numbers of this rank, 1, and those of another, THREE, of which `gap` is missing. */
static void reduce(enum gw_recovery recovery, enum gw_reduction reduction, float *out)
{
	static const float previous[COUNT] = { 8, 8, 8, 8, 8, 8, 8, 8 };
	float own[COUNT], share[COUNT];
	struct gw_comm comm = { .rank = 0, .size = RANKS };
	struct gw_coll coll = { .comm = &comm,
				.type = GW_FLOAT32,
				.reduction = reduction,
				.task = {
					.unit = sizeof(float), .size = RANKS, .elements = COUNT } };
	struct bounded_peer peers[RANKS] = { { .present = true }, { .present = true } };
	struct bounded run = {
		.coll = &coll, .comm = &comm, .attr = { .recovery = recovery }, .peers = peers
	};
	struct round round = { .step = 1,
			       .count = RANKS,
			       .layout = { COUNT, sizeof(float), 1, 1 },
			       .source = (const uint8_t *)own,
			       .reduced = (uint8_t *)out,
			       .previous = (const uint8_t *)previous,
			       .previous_parts = RANKS };

	for (int i = 0; i < COUNT; i++) {
		own[i] = 1;
		share[i] = THREE;
	}
	memset((uint8_t *)share + gap.from, 0xee, gap.to - gap.from);
	peers[1].share = (uint8_t *)share;
	peers[1].holes.items = &peers[1].holes.first;
	peers[1].holes.first = gap;
	peers[1].holes.count = peers[1].holes.room = 1;
	assert_int_equal(bounded_reduce(&run, &round), 0);
}

static void expect(enum gw_recovery recovery, enum gw_reduction reduction, float whole, float cut)
{
	float out[COUNT];

	reduce(recovery, reduction, out);
	for (int i = 0; i < COUNT; i++)
		assert_true(out[i] == (i >= 2 && i <= 4 ? cut : whole));
}

static void half_numbers_do_not_count(void **state)
{
	(void)state;
	expect(GW_RECOVER_COUNT, GW_MEAN, (1 + THREE) / 2, 1);
	expect(GW_RECOVER_COUNT, GW_SUM, 1 + THREE, 2);
	expect(GW_RECOVER_ZERO, GW_MEAN, (1 + THREE) / 2, 0.5f);
	expect(GW_RECOVER_KEEP, GW_SUM, 1 + THREE, 2);
	expect(GW_RECOVER_PREVIOUS, GW_MEAN, (1 + THREE) / 2, 4.5f);
	expect(GW_RECOVER_COUNT, GW_MAX, THREE, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_numbers_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
