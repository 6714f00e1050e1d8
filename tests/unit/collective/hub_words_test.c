/* SPDX-License-Identifier: BSD-3-Clause */
/* What a hub says, as bytes, and ranks in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "collective/hub_record.h"
#include "collective/ranks_text.h"

static void test_records(void **state)
{
	struct hub_record in = { .kind = HUB_LETTER,
				 .length = 5,
				 .number = 0x80000001,
				 .data = (const uint8_t *)"abcde" };
	struct hub_record out;
	uint8_t bytes[32];

	assert_int_equal(hub_record_encode(&in, bytes), 13);
	assert_int_equal(hub_record_decode(bytes, sizeof(bytes), &out), 13);
	assert_int_equal(out.kind, HUB_LETTER);
	assert_int_equal(out.length, 5);
	assert_int_equal(out.number, 0x80000001);
	assert_memory_equal(out.data, "abcde", 5);
	for (size_t length = 0; length < 13; length++)
		assert_int_equal(hub_record_decode(bytes, length, &out), -EPROTO);
	bytes[1] = HUB_KINDS;
	assert_int_equal(hub_record_decode(bytes, sizeof(bytes), &out), -EPROTO);
	bytes[1] = 0;
	assert_int_equal(hub_record_decode(bytes, sizeof(bytes), &out), -EPROTO);
}

static void test_text_of_others_is_made_printable(void **state)
{
	struct hub_record record = { .length = 6,
				     .data = (const uint8_t *)"a\n\x1b\xff"
							      "bc" };
	char out[16], small[4];

	hub_record_text(&record, out, sizeof(out));
	assert_string_equal(out, "a???bc");
	hub_record_text(&record, small, sizeof(small));
	assert_string_equal(small, "a??");
}

static bool in_text(const void *set, uint32_t rank)
{
	return ((const char *)set)[rank] == 'x';
}

static void words(const char *set, const char *expected)
{
	char out[RANKS_TEXT];
	uint32_t count = 0;

	for (const char *at = set; *at; at++)
		count += *at == 'x';
	assert_int_equal(ranks_text(in_text, set, (uint32_t)strlen(set), out), count);
	assert_string_equal(out, expected);
}

static void test_ranks_in_words(void **state)
{
	words("", "no rank");
	words("...", "no rank");
	words("...x", "rank 3");
	words("x.x", "ranks 0 and 2");
	words(".xx", "ranks 1 and 2");
	words("...x.x.x", "ranks 3, 5 and 7");
	words(".xxxxxxxx...x", "ranks 1 to 8 and 12");
	words("xxx", "ranks 0 to 2");
	words("x.x.x.x.x.x.x.x.", "ranks 0, 2, 4, 6, 8, 10, 12 and 14");
	words("x.x.x.x.x.x.x.x.x", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 1 more");
	words("x.x.x.x.x.x.x.xx.xxxx", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 5 more");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_text_of_others_is_made_printable),
		cmocka_unit_test(test_ranks_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
