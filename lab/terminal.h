/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * terminal.h: lends the lab's terminal to the shell of a host. The shell stays in the terminal's session and becomes its
 * foreground process group, so that its job control works and Ctrl-C reaches what it runs and not the lab.
 */
#ifndef LAB_TERMINAL_H
#define LAB_TERMINAL_H

#include <stdbool.h>
#include <termios.h>

struct terminal {
	/* standard input is a terminal, and the lab was its foreground process group: the shell may have it */
	bool lent;
	/* settings to return to */
	struct termios settings;
};

/* Looks whether the terminal may be lent, and saves its settings. Blocks SIGTTOU, so that the calling process can print while
 * others have the terminal. */
void terminal_lend(struct terminal *terminal);

/* Makes the calling process a process group of its own and, if the terminal was lent, the one in the foreground. */
void terminal_take(const struct terminal *terminal);

/* Takes the terminal back to the process that lent it, and restores its settings. */
void terminal_return(const struct terminal *terminal);

#endif
