/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop around getrandom(): first the system's, then one that is interrupted, short or broken. */
#include "base_test.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/entropy.h"

/* What the next calls answer: so many bytes at most, or -errno. Past the end they answer in full. */
static const int *script;
static size_t script_left;
static unsigned char next_byte;

/* Takes the place of the C library's. Scripted bytes count up, so that gaps show. */
__attribute__((visibility("default"))) ssize_t getrandom(void *buffer, size_t length,
							 unsigned int flags)
{
	if (!script)
		return syscall(SYS_getrandom, buffer, length, flags);
	if (script_left > 0) {
		int answer = *script++;

		script_left--;
		if (answer < 0) {
			errno = -answer;
			return -1;
		}
		if ((size_t)answer < length)
			length = (size_t)answer;
	}
	for (size_t i = 0; i < length; i++)
		((unsigned char *)buffer)[i] = ++next_byte;
	return (ssize_t)length;
}

static void follow(const int *answers, size_t count)
{
	script = answers;
	script_left = count;
	next_byte = 0;
}

static int leave_script(void **state)
{
	(void)state;
	follow(NULL, 0);
	return 0;
}

static void test_system(void **state)
{
	unsigned char a[1001] = { 0 }, b[1001] = { 0 };
	int equal = 0;

	(void)state;
	assert_int_equal(entropy_fill(NULL, 0), 0);
	assert_int_equal(entropy_fill(a, 1000), 0);
	assert_int_equal(entropy_fill(b, 1000), 0);
	for (int i = 0; i < 1000; i++)
		equal += a[i] == b[i];
	/* Some 4 are expected by chance; 40 never happen. */
	assert_true(equal < 40);
	assert_int_equal(a[1000], 0);
}

static void test_short_and_interrupted(void **state)
{
	static const int answers[] = { 3, -EINTR, 5, -EINTR, -EINTR, 1 };
	unsigned char buffer[21] = { 0 };

	(void)state;
	follow(answers, 6);
	assert_int_equal(entropy_fill(buffer, 20), 0);
	for (int i = 0; i < 20; i++)
		assert_int_equal(buffer[i], i + 1);
	assert_int_equal(buffer[20], 0);
}

static void test_failure(void **state)
{
	static const int answers[] = { 3, -ENOSYS };
	unsigned char buffer[20];

	(void)state;
	follow(answers, 2);
	assert_int_equal(entropy_fill(buffer, 20), -ENOSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_system),
		cmocka_unit_test_teardown(test_short_and_interrupted, leave_script),
		cmocka_unit_test_teardown(test_failure, leave_script),
	};

	return cmocka_run_group_tests_name("base-entropy", tests, NULL, NULL);
}
