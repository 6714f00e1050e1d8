/* SPDX-License-Identifier: BSD-3-Clause */
/* process.h: the process of a host's command, from the fork to the exec. */
#ifndef LAB_PROCESS_H
#define LAB_PROCESS_H

#include "host.h"
#include "supervisor.h"

/* Makes the calling process, just forked by the supervisor, a process of the host, and executes the host's command. Exits as
 * shells do if that is impossible. */
void process_run(const struct lab_config *config, const struct supervisor_pipes *pipes,
		 const struct host *host, unsigned index) __attribute__((noreturn));

#endif
