/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that stand in for ISA-L give the same results. The build renames them to own_...; ISA-L is found by name. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plugins/nccl/no_isal.h"

#define LENGTH	9000
#define COLUMNS 10
#define ROWS	4

typedef uint32_t crc_fn(uint32_t, const unsigned char *, uint64_t);
typedef void tables_fn(int, int, unsigned char *, unsigned char *);
typedef void encode_fn(int, int, int, unsigned char *, unsigned char **, unsigned char **);

static void *isal;

static void *theirs(const char *name)
{
	void *found = dlsym(isal, name);

	assert_non_null(found);
	return found;
}

static void fill(struct rng *rng, unsigned char *data, size_t length)
{
	for (size_t i = 0; i < length; i++)
		data[i] = (unsigned char)rng_u64(rng);
}

static void test_crc(void **state)
{
	static unsigned char data[LENGTH + 16];
	crc_fn *crc = (crc_fn *)(uintptr_t)theirs("crc32_gzip_refl");
	struct rng rng;

	(void)state;
	rng_seed(&rng, 1);
	fill(&rng, data, sizeof(data));
	for (uint64_t length = 0; length < 1500; length++)
		assert_int_equal(crc32_gzip_refl(0, data + length % 16, length),
				 crc(0, data + length % 16, length));
	for (int i = 0; i < 2000; i++) {
		uint64_t length = rng_below(&rng, LENGTH);
		uint32_t before = (uint32_t)rng_u64(&rng);

		assert_int_equal(crc32_gzip_refl(before, data + i % 16, length),
				 crc(before, data + i % 16, length));
	}
}

static void test_codes(void **state)
{
	static unsigned char data[COLUMNS][LENGTH], mine[ROWS][LENGTH], other[ROWS][LENGTH];
	unsigned char matrix[COLUMNS * ROWS], tables[32 * COLUMNS * ROWS],
		their_tables[32 * COLUMNS * ROWS];
	unsigned char *in[COLUMNS], *out[ROWS], *their_out[ROWS];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 2);
	fill(&rng, matrix, sizeof(matrix));
	for (int i = 0; i < COLUMNS; i++) {
		fill(&rng, data[i], LENGTH);
		in[i] = data[i];
	}
	for (int i = 0; i < ROWS; i++) {
		out[i] = mine[i];
		their_out[i] = other[i];
	}
	ec_init_tables(COLUMNS, ROWS, matrix, tables);
	((tables_fn *)(uintptr_t)theirs("ec_init_tables"))(COLUMNS, ROWS, matrix, their_tables);
	ec_encode_data(LENGTH, COLUMNS, ROWS, tables, in, out);
	((encode_fn *)(uintptr_t)theirs("ec_encode_data"))(LENGTH, COLUMNS, ROWS, their_tables, in,
							   their_out);
	assert_memory_equal(mine, other, sizeof(mine));
	/* An output may take the place of an input. */
	memcpy(mine[0], data[0], LENGTH);
	in[0] = mine[0];
	ec_encode_data(LENGTH, COLUMNS, ROWS, tables, in, out);
	assert_memory_equal(mine, other, sizeof(mine));
	/* Column by column it is the same. */
	memset(mine, 0, sizeof(mine));
	for (int i = 0; i < COLUMNS; i++)
		ec_encode_data_update(LENGTH, COLUMNS, ROWS, i, tables, data[i], out);
	assert_memory_equal(mine, other, sizeof(mine));
}

static void test_field(void **state)
{
	unsigned char (*multiply)(unsigned char, unsigned char) =
		(unsigned char (*)(unsigned char, unsigned char))(uintptr_t)theirs("gf_mul");

	(void)state;
	for (unsigned i = 0; i < 65536; i++)
		assert_int_equal(gf_mul((unsigned char)i, (unsigned char)(i >> 8)),
				 multiply((unsigned char)i, (unsigned char)(i >> 8)));
}

static void test_xor(void **state)
{
	static unsigned char data[4][64], sum[64];
	void *array[5] = { data[0], data[1], data[2], data[3], sum };
	struct rng rng;

	(void)state;
	rng_seed(&rng, 3);
	fill(&rng, data[0], sizeof(data));
	assert_int_equal(xor_gen(5, 64, array), 0);
	for (int i = 0; i < 64; i++)
		assert_int_equal(sum[i], data[0][i] ^ data[1][i] ^ data[2][i] ^ data[3][i]);
	/* The sum may take the place of a summand. */
	array[4] = data[0];
	assert_int_equal(xor_gen(5, 64, array), 0);
	assert_memory_equal(data[0], sum, sizeof(sum));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc),
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_field),
		cmocka_unit_test(test_xor),
	};

	isal = dlopen("libisal.so.2", RTLD_NOW);
	if (!isal)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
