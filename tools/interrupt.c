/* SPDX-License-Identifier: BSD-3-Clause */
/* A flag for those who look, and a pipe for those who sleep in poll(). */
#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "command.h"

static volatile sig_atomic_t caught;
static volatile sig_atomic_t doomed_set;
static char doomed[PATH_MAX];
static int wake[2] = { -1, -1 };

static void handle(int signal)
{
	int saved = errno;
	ssize_t ignored;

	if (caught) {
		if (doomed_set)
			unlink(doomed);
		_exit(EXIT_BY_SIGNAL + signal);
	}
	caught = signal;
	ignored = write(wake[1], "", 1);
	(void)ignored;
	errno = saved;
}

int interrupt_install(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	/* Without SA_RESTART, so that a blocking call comes back and the flag is seen. */
	struct sigaction action = { .sa_handler = handle };
	struct sigaction before;

	if (pipe2(wake, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (sigaction(signals[i], NULL, &before))
			return -errno;
		if (before.sa_handler != SIG_IGN && sigaction(signals[i], &action, NULL))
			return -errno;
	}
	return 0;
}

int interrupt_signal(void)
{
	return caught;
}

int interrupt_fd(void)
{
	return wake[0];
}

void interrupt_doom(const char *path)
{
	doomed_set = 0;
	if (path && (size_t)snprintf(doomed, sizeof(doomed), "%s", path) < sizeof(doomed))
		doomed_set = 1;
}
