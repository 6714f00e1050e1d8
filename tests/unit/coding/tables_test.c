/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables put together from entries are the tables that ISA-L makes, and where entries cannot be told apart it makes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <isa-l.h>

#include "base/rng.h"
#include "coding/tables.h"

#define COLUMNS 37
#define ROWS	6

static struct tables tables;

static void check(const struct tables *from)
{
	uint8_t matrix[COLUMNS * ROWS], made[sizeof(matrix) * TABLES_ENTRY_MAX], bare[sizeof(made)];
	struct rng rng;

	rng_seed(&rng, 1);
	for (unsigned i = 0; i < 20; i++) {
		unsigned columns = 1 + (unsigned)rng_below(&rng, COLUMNS);
		unsigned rows = 1 + (unsigned)rng_below(&rng, ROWS);

		rng_fill(&rng, matrix, sizeof(matrix));
		memset(made, 0xa5, sizeof(made));
		memset(bare, 0xa5, sizeof(bare));
		tables_make(from, columns, rows, matrix, made);
		ec_init_tables((int)columns, (int)rows, matrix, bare);
		assert_memory_equal(made, bare, sizeof(made));
	}
}

static void test_copied_is_as_made(void **state)
{
	(void)state;
	/* A layout that is not known costs time only; here it would mean that nothing is tested. */
	assert_int_not_equal(tables.entry, 0);
	check(&tables);
}

static void test_unknown_layout_is_made_by_isa_l(void **state)
{
	struct tables unknown = tables;

	(void)state;
	unknown.entry = 0;
	memset(unknown.entries, 0, sizeof(unknown.entries));
	check(&unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copied_is_as_made),
		cmocka_unit_test(test_unknown_layout_is_made_by_isa_l),
	};

	tables_init(&tables);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
