/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC-32 against its definition, bit by bit: at every length up to some blocks, every alignment, from any state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "wire/crc32.h"

#define LENGTHS		     1200u
#define LONGEST		     66000u
#define ALIGNED		     64u
#define REFLECTED_POLYNOMIAL 0xedb88320u

static uint8_t bytes[LONGEST + ALIGNED];

static uint32_t by_definition(uint32_t crc, const uint8_t *data, size_t length)
{
	crc = ~crc;
	for (size_t i = 0; i < length; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? REFLECTED_POLYNOMIAL : 0);
	}
	return ~crc;
}

static void fill(struct rng *rng)
{
	rng_seed(rng, 7);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)rng_u64(rng);
}

static void known_value(void **state)
{
	(void)state;
	assert_int_equal(crc32_update(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(crc32_update(5, NULL, 0), 5);
}

static void every_length(void **state)
{
	struct rng rng;

	(void)state;
	fill(&rng);
	for (size_t length = 0; length < LENGTHS; length++) {
		const uint8_t *data = bytes + rng_below(&rng, ALIGNED);
		uint32_t from = (uint32_t)rng_u64(&rng);

		assert_int_equal(crc32_update(from, data, length),
				 by_definition(from, data, length));
	}
}

/* Long ones, and in pieces. */
static void in_pieces(void **state)
{
	uint32_t whole, parts = 0;
	size_t at = 0;
	struct rng rng;

	(void)state;
	fill(&rng);
	whole = by_definition(0, bytes, LONGEST);
	assert_int_equal(crc32_update(0, bytes, LONGEST), whole);
	while (at < LONGEST) {
		size_t step = 1 + rng_below(&rng, 3000);

		if (step > LONGEST - at)
			step = LONGEST - at;
		parts = crc32_update(parts, bytes + at, step);
		at += step;
	}
	assert_int_equal(parts, whole);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_value),
		cmocka_unit_test(every_length),
		cmocka_unit_test(in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
