/* SPDX-License-Identifier: BSD-3-Clause */
/* GODWIT_TRACE: a transfer leaves a line for each thing that a person would look for. */
#include "../reliability/duo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH 20000u

static const char *const expected[] = {
	" tx grant msn=", " rx grant msn=", "payload=4096",	 " tx announce msn=",
	" tx data msn=",  " rx data msn=",  "report landed=",	 "results=1:msn ",
	" nack msn=",	  " again",	    "completed landed=", "ended status=0",
};

static bool lose_one(struct duo *duo, uint32_t packet, bool again)
{
	(void)duo;
	return packet == 2 && !again;
}

static void shows_a_transfer(void **state)
{
	struct duo_attr attr = { .link = { .rate_bps = 1000000000, .delay_ns = 1000000 } };
	unsigned seen[sizeof(expected) / sizeof(expected[0])] = { 0 };
	char name[] = "/tmp/godwit-trace-XXXXXX", line[2048];
	struct duo_transfer transfer;
	struct duo duo;
	FILE *file;
	int fd = mkstemp(name);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(setenv("GODWIT_TRACE", name, 1), 0);
	duo_open(&duo, &attr);
	duo.lose_data = lose_one;
	duo_start(&duo, LENGTH, &transfer);
	duo_finish(&transfer, S * 10);
	duo_close(&duo);
	file = fdopen(fd, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		assert_true(strtod(line, NULL) >= 0);
		assert_non_null(strchr(line, '\n'));
		for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
			seen[i] += strstr(line, expected[i]) != NULL;
	}
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		if (!seen[i])
			fail_msg("no line with \"%s\"", expected[i]);
	fclose(file);
	unlink(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(shows_a_transfer) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
