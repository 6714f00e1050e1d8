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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(luck_is_not_tested) };

	return cmocka_run_group_tests_name("congestion-chance", tests, NULL, NULL);
}
