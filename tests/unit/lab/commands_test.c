/* SPDX-License-Identifier: BSD-3-Clause */
/* Which host runs which command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lab/commands.h"

#define WORDS_MAX 32

static struct lab_config config;
static char error[LAB_ERROR_SIZE];
static char text[256];

/* Reads the words of `line`, for `hosts` of them (0: not set) and a shell on one of them (-1: none). */
static int read_line(const char *line, unsigned hosts, int shell, unsigned count)
{
	char *words[WORDS_MAX] = { NULL }, *rest = text;
	static char *kept[WORDS_MAX];
	unsigned n = 0;

	config_init(&config);
	memset(error, 0, sizeof(error));
	config.shell = shell;
	if (hosts) {
		config.hosts = hosts;
		config.hosts_given = true;
	}
	snprintf(text, sizeof(text), "%s", line);
	for (char *word; (word = strsep(&rest, " "));) {
		if (*word)
			words[n++] = word;
	}
	memcpy(kept, words, sizeof(kept));
	return commands_read(&config, count, kept, error);
}

/* Checks the first word of each host's command; "-" for a host without one. */
static void expect(const char *names)
{
	char found[256] = "";

	for (unsigned i = 0; i < config.hosts; i++) {
		strcat(found, i ? " " : "");
		strcat(found, config.commands[i] ? config.commands[i][0] : "-");
	}
	assert_string_equal(found, names);
}

static void test_one_command_runs_everywhere(void **state)
{
	(void)state;
	assert_int_equal(read_line("a x", 0, -1, 0), 0);
	expect("a a");
	assert_string_equal(config.commands[1][1], "x");
	assert_null(config.commands[1][2]);
	assert_int_equal(read_line("a", 4, -1, 0), 0);
	expect("a a a a");
	assert_int_equal(read_line("a", 0, -1, 3), 0);
	expect("a a a");
	assert_int_equal(read_line("a", 0, -1, 1), 0);
	expect("a");
}

static void test_commands_are_separated(void **state)
{
	(void)state;
	assert_int_equal(read_line("a x : b : c y", 0, -1, 0), 0);
	expect("a b c");
	assert_string_equal(config.commands[0][1], "x");
	assert_null(config.commands[0][2]);
	assert_string_equal(config.commands[2][1], "y");
	assert_int_equal(read_line("a : b", 4, -1, 0), 0);
	expect("a b b b");
	assert_int_equal(read_line("-n 2 a : -n 3 -- b", 0, -1, 0), 0);
	expect("a a b b b");
	assert_int_equal(read_line("-n 2 a : b", 5, -1, 0), 0);
	expect("a a b b b");
	/* Only a word of its own separates. */
	assert_int_equal(read_line("a b:c ::", 0, -1, 0), 0);
	expect("a a");
}

static void test_the_shell_takes_one_host(void **state)
{
	(void)state;
	setenv("SHELL", "/x/shell", 1);
	assert_int_equal(read_line("", 0, 0, 0), 0);
	expect("/x/shell -");
	assert_int_equal(read_line("", 0, 3, 0), 0);
	expect("- - - /x/shell");
	assert_int_equal(read_line("a : b", 4, 1, 0), 0);
	expect("a /x/shell b b");
	assert_int_equal(read_line("a : b", 0, 0, 0), 0);
	expect("/x/shell a b");
	assert_int_equal(read_line("a", 3, 2, 0), 0);
	expect("a a /x/shell");
	unsetenv("SHELL");
	assert_int_equal(read_line("a", 0, 1, 0), 0);
	expect("a /bin/sh");
}

static void test_what_does_not_fit_is_refused(void **state)
{
	static const struct {
		const char *line;
		unsigned hosts;
		int shell;
	} lines[] = {
		{ "a : b : c", 2, -1 },	 { "-n 2 a", 3, -1 },
		{ "-n 2 a", 1, -1 },	 { ": a", 0, -1 },
		{ "a :", 0, -1 },	 { "a : : b", 0, -1 },
		{ "a : -n 0 b", 0, -1 }, { "a : -n", 0, -1 },
		{ "a : -n 2", 0, -1 },	 { "a : b", 2, 0 },
		{ "a", 2, 2 },		 { "-n 251 a", 0, -1 },
		{ "a : --", 0, -1 },	 { "-n 250 a : b", 0, -1 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_not_equal(read_line(lines[i].line, lines[i].hosts, lines[i].shell, 0),
				     0);
		assert_true(strlen(error) > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_command_runs_everywhere),
		cmocka_unit_test(test_commands_are_separated),
		cmocka_unit_test(test_the_shell_takes_one_host),
		cmocka_unit_test(test_what_does_not_fit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
