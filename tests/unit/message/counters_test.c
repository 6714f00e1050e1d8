/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters as text: every one of them, with its value, in forms that others read. */
#include "../reliability/duo.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROOM 8192

static void every_counter(void **state)
{
	static char json[ROOM], prometheus[ROOM];
	struct duo_attr attr = { .link = { .rate_bps = 1000000000, .delay_ns = 100 * US } };
	struct duo_transfer transfer;
	struct duo duo;
	int length;

	(void)state;
	duo_open(&duo, &attr);
	duo_start(&duo, 100000, &transfer);
	duo_finish(&transfer, S);
	length = gw_counters_text(duo.ctx[0], GW_TEXT_JSON, json, sizeof(json));
	assert_int_equal(length, strlen(json));
	assert_memory_equal(json, "{\"", 2);
	assert_string_equal(json + length - 2, "}\n");
	length = gw_counters_text(duo.ctx[0], GW_TEXT_PROMETHEUS, prometheus, sizeof(prometheus));
	assert_int_equal(length, strlen(prometheus));
	for (unsigned i = 0; i < gw_counter_count(); i++) {
		uint64_t value = 0;
		char line[256];

		assert_int_equal(gw_counter_read(duo.ctx[0], i, &value), 0);
		snprintf(line, sizeof(line), "\"%s\":%" PRIu64 "%s", gw_counter_name(i), value,
			 i + 1 < gw_counter_count() ? "," : "}\n");
		assert_non_null(strstr(json, line));
		snprintf(line, sizeof(line),
			 "# TYPE godwit_%s_total counter\ngodwit_%s_total %" PRIu64 "\n",
			 gw_counter_name(i), gw_counter_name(i), value);
		assert_non_null(strstr(prometheus, line));
	}
	assert_non_null(strstr(json, "\"sent_packets\":25"));
	duo_close(&duo);
}

static void no_room(void **state)
{
	static char text[ROOM];
	struct duo_attr attr = { .seed = 1 };
	struct duo duo;
	int length;

	(void)state;
	duo_open(&duo, &attr);
	length = gw_counters_text(duo.ctx[0], GW_TEXT_JSON, text, sizeof(text));
	assert_true(length > 0);
	for (size_t size = 0; size <= (size_t)length; size += size < 100 ? 1 : 97) {
		memset(text, 0xee, sizeof(text));
		assert_int_equal(gw_counters_text(duo.ctx[0], GW_TEXT_JSON, text, size), -ENOSPC);
		assert_int_equal((uint8_t)text[size], 0xee);
	}
	assert_int_equal(gw_counters_text(duo.ctx[0], GW_TEXT_JSON, text, (size_t)length + 1),
			 length);
	assert_int_equal(gw_counters_text(NULL, GW_TEXT_JSON, text, sizeof(text)), -EINVAL);
	assert_int_equal(gw_counters_text(duo.ctx[0], GW_TEXT_JSON, NULL, sizeof(text)), -EINVAL);
	assert_int_equal(gw_counters_text(duo.ctx[0], (enum gw_text_format)9, text, sizeof(text)),
			 -EINVAL);
	duo_close(&duo);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter),
		cmocka_unit_test(no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
