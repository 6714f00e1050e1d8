/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGINT, SIGTERM and SIGHUP. The first asks the command to tidy up and go; a second one does not
 * wait for that.
 */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

/* Takes the signals over. One that was ignored from the start, as under nohup, stays so. 0 or -errno. */
int interrupt_install(void);

/* The signal that came, or 0. */
int interrupt_signal(void);

/* Readable once one came: for poll(), which would otherwise sleep through a signal that comes just before it. */
int interrupt_fd(void);

/* Names a file that the second signal removes; NULL: none any more. */
void interrupt_doom(const char *path);

#endif
