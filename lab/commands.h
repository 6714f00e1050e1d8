/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * commands.h: decides which host runs which command. Commands are separated by ":" as for mpirun, and each may begin with
 * `-n COUNT`, the number of hosts that run it. Hosts take the commands in order.
 */
#ifndef LAB_COMMANDS_H
#define LAB_COMMANDS_H

#include "config.h"

/* Separates two commands. */
#define COMMANDS_SEPARATOR ":"

/*
 * Sets config->commands from `words`, which end in NULL: [-n COUNT] [--] COMMAND [ARGUMENT ...] [: ...]. Without `-n` a command
 * runs on one host, the last one on all that are left. `count` is the `-n` of the first command if it was read before; 0: it
 * was not. With config->shell set that host runs the user's shell, and the commands, if there are any, are for the others.
 * If the user did not set the number of hosts, there are as many as the commands need, at least two. Replaces separators
 * in `words` by NULL. Returns 0, or -EINVAL with the reason in error.
 */
int commands_read(struct lab_config *config, unsigned count, char **words,
		  char error[LAB_ERROR_SIZE]);

#endif
