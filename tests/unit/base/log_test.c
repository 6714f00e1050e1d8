/* SPDX-License-Identifier: BSD-3-Clause */
/* What reaches the sink, in what form, and what is not even formatted. */
#include "base_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct seen {
	int count;
	enum log_level level;
	char message[2 * LOG_MESSAGE_SIZE];
};

static void remember(void *arg, enum log_level level, const char *message)
{
	struct seen *seen = arg;

	seen->count++;
	seen->level = level;
	snprintf(seen->message, sizeof(seen->message), "%s", message);
	errno = EIO;
}

static int restore_default(void **state)
{
	(void)state;
	log_set(LOG_LEVEL_WARN, NULL, NULL);
	return 0;
}

static void test_levels(void **state)
{
	struct seen seen = { 0 };

	(void)state;
	for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++) {
		seen.count = 0;
		log_set((enum log_level)level, remember, &seen);
		log_error("%d", 1);
		log_warn("%d", 2);
		log_info("%d", 3);
		log_debug("%d", 4);
		assert_int_equal(seen.count, level + 1);
		assert_int_equal(seen.level, level);
		assert_int_equal(seen.message[0], '1' + level);
		/* The function asks by itself, too. */
		log_at(LOG_LEVEL_DEBUG, "x");
		assert_int_equal(seen.count, level + 1 + (level == LOG_LEVEL_DEBUG));
	}
}

static void test_off_means_not_evaluated(void **state)
{
	struct seen seen = { 0 };
	int evaluated = 0;

	(void)state;
	log_set(LOG_LEVEL_INFO, remember, &seen);
	log_debug("%d", ++evaluated);
	assert_int_equal(evaluated, 0);
	log_info("%d", ++evaluated);
	assert_int_equal(evaluated, 1);
}

static void test_once(void **state)
{
	struct seen seen = { 0 };
	bool flag = false;

	(void)state;
	log_set(LOG_LEVEL_WARN, remember, &seen);
	log_once(&flag, LOG_LEVEL_INFO, "off");
	assert_false(flag);
	for (int i = 0; i < 3; i++)
		log_once(&flag, LOG_LEVEL_WARN, "only %d", i);
	assert_true(flag);
	assert_int_equal(seen.count, 1);
	assert_string_equal(seen.message, "only 0");
}

static void test_keeps_errno(void **state)
{
	struct seen seen = { 0 };

	(void)state;
	log_set(LOG_LEVEL_WARN, remember, &seen);
	errno = ENOENT;
	log_warn("x");
	assert_int_equal(errno, ENOENT);
}

static void test_one_line(void **state)
{
	struct seen seen = { 0 };

	(void)state;
	log_set(LOG_LEVEL_WARN, remember, &seen);
	log_warn("a\nb\r\tc\x1b[1m\x7f%s", "\xc3\xa9\n");
	assert_string_equal(seen.message, "a b  c [1m \xc3\xa9 ");
}

static void test_long_messages(void **state)
{
	struct seen seen = { 0 };
	char text[1000];

	(void)state;
	log_set(LOG_LEVEL_WARN, remember, &seen);
	for (size_t length = LOG_MESSAGE_SIZE - 3; length < LOG_MESSAGE_SIZE + 3; length++) {
		memset(text, 'x', length);
		text[length] = 0;
		log_warn("%s", text);
		if (length < LOG_MESSAGE_SIZE) {
			assert_string_equal(seen.message, text);
			continue;
		}
		assert_int_equal(strlen(seen.message), LOG_MESSAGE_SIZE - 1);
		assert_memory_equal(seen.message, text, LOG_MESSAGE_SIZE - 4);
		assert_string_equal(seen.message + LOG_MESSAGE_SIZE - 4, "...");
	}
}

/* The euro sign is three bytes: whatever the offset, only whole ones are left. */
static void test_cut_between_characters(void **state)
{
	struct seen seen = { 0 };

	(void)state;
	log_set(LOG_LEVEL_WARN, remember, &seen);
	for (int offset = 0; offset < 3; offset++) {
		char text[1000] = "";
		size_t length;

		memset(text, 'x', (size_t)offset);
		for (int i = 0; i < 200; i++)
			strcat(text, "\xe2\x82\xac");
		log_warn("%s", text);
		length = strlen(seen.message);
		assert_in_range(length, LOG_MESSAGE_SIZE - 3, LOG_MESSAGE_SIZE - 1);
		assert_string_equal(seen.message + length - 3, "...");
		assert_int_equal((length - 3 - (size_t)offset) % 3, 0);
		assert_memory_equal(seen.message, text, length - 3);
	}
}

/* Runs in a child whose stderr is a file. */
static void test_default_sink(void **state)
{
	FILE *file = tmpfile();
	char text[1024] = "";
	pid_t child;
	int status;

	(void)state;
	assert_non_null(file);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		dup2(fileno(file), STDERR_FILENO);
		log_error("first %s", "message");
		log_warn("second");
		log_info("third");
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	rewind(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_string_equal(text, "godwit: error: first message\ngodwit: warning: second\n");
}

static void test_parse(void **state)
{
	enum log_level level = LOG_LEVEL_INFO;

	(void)state;
	assert_int_equal(log_level_parse("error", &level), 0);
	assert_int_equal(level, LOG_LEVEL_ERROR);
	assert_int_equal(log_level_parse("warn", &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARN);
	assert_int_equal(log_level_parse("info", &level), 0);
	assert_int_equal(level, LOG_LEVEL_INFO);
	assert_int_equal(log_level_parse("Warning", &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARN);
	assert_int_equal(log_level_parse("DEBUG", &level), 0);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
	assert_int_equal(log_level_parse("", &level), -EINVAL);
	assert_int_equal(log_level_parse("err", &level), -EINVAL);
	assert_int_equal(log_level_parse("debugging", &level), -EINVAL);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default_sink),
		cmocka_unit_test_teardown(test_levels, restore_default),
		cmocka_unit_test_teardown(test_off_means_not_evaluated, restore_default),
		cmocka_unit_test_teardown(test_once, restore_default),
		cmocka_unit_test_teardown(test_keeps_errno, restore_default),
		cmocka_unit_test_teardown(test_one_line, restore_default),
		cmocka_unit_test_teardown(test_long_messages, restore_default),
		cmocka_unit_test_teardown(test_cut_between_characters, restore_default),
		cmocka_unit_test(test_default_sink),
		cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests_name("base-log", tests, NULL, NULL);
}
