/* SPDX-License-Identifier: BSD-3-Clause */
/* When loss above the ceiling is put to the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "congestion/chance.h"

#define BASE  0.05
#define FIRST UINT64_C(100000000000)
#define MS    UINT64_C(1000000)

/* Rounds of ten packets of which `lost` are lost. Returns after how many of them the test began; 0: it did not. */
static unsigned rounds_until_test(double lost, unsigned rounds)
{
	struct chance_round round = { .packets = 10, .lost = lost };
	struct chance chance;

	chance_init(&chance, BASE);
	for (unsigned i = 1; i <= rounds; i++)
		if (chance_judge(&chance, &round, FIRST + i) == CHANCE_SEND_LESS)
			return i;
	return 0;
}

/* A hundred packets that lose seven are no proof that more than five in a hundred are lost; a thousand that lose seventy are. */
static void luck_is_not_tested(void **state)
{
	(void)state;
	assert_int_equal(rounds_until_test(0.7, 15), 0);
	assert_in_range(rounds_until_test(0.7, 100), 15, 100);
	assert_in_range(rounds_until_test(2, 100), 1, 10);
}

/* Loss that a test has just shown to be congestion is not tested again for a while. */
static void congestion_is_believed_for_a_while(void **state)
{
	struct chance_round full = { .packets = 100, .lost = 20 };
	struct chance_round less = { .packets = 100 };
	struct chance chance;

	(void)state;
	chance_init(&chance, BASE);
	assert_int_equal(chance_judge(&chance, &full, FIRST), CHANCE_SEND_LESS);
	assert_int_equal(chance_judge(&chance, &full, FIRST), CHANCE_SEND_LESS);
	assert_int_equal(chance_judge(&chance, &less, FIRST), CHANCE_CONGESTION);
	for (uint64_t i = 1; i <= 4; i++)
		assert_int_equal(chance_judge(&chance, &full, FIRST + i * 10 * MS),
				 CHANCE_CONGESTION);
	/* The test may have been wrong. */
	assert_int_equal(chance_judge(&chance, &full, FIRST + 60 * MS), CHANCE_SEND_LESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(luck_is_not_tested),
		cmocka_unit_test(congestion_is_believed_for_a_while),
	};

	return cmocka_run_group_tests_name("congestion-chance", tests, NULL, NULL);
}
