/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of this room share: cmocka, and a way to see an assertion fail. */
#ifndef GODWIT_TESTS_BASE_TEST_H
#define GODWIT_TESTS_BASE_TEST_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* True if the call aborts; it runs in a child, without a core dump and without its message. */
static inline bool aborts(void (*call)(void *arg), void *arg)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		struct rlimit no_core = { 0, 0 };

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		close(STDERR_FILENO);
		call(arg);
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
