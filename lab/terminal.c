/* SPDX-License-Identifier: BSD-3-Clause */
/* terminal.c: a process that is not in the foreground may change the foreground process group only with SIGTTOU blocked. */
#include "terminal.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static void block_sigttou(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void terminal_lend(struct terminal *terminal)
{
	terminal->lent = tcgetpgrp(STDIN_FILENO) == getpgrp() &&
			 tcgetattr(STDIN_FILENO, &terminal->settings) == 0;
	block_sigttou();
}

void terminal_take(const struct terminal *terminal)
{
	setpgid(0, 0);
	block_sigttou();
	if (terminal->lent)
		tcsetpgrp(STDIN_FILENO, getpid());
}

void terminal_return(const struct terminal *terminal)
{
	if (!terminal->lent)
		return;
	tcsetpgrp(STDIN_FILENO, getpgrp());
	tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->settings);
}
