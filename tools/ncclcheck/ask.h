/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks a process that uses libnccl-net-godwit.so what it is waiting for. */
#ifndef TOOLS_NCCLCHECK_ASK_H
#define TOOLS_NCCLCHECK_ASK_H

#include <stddef.h>
#include <sys/types.h>

/* Prints the answer on standard output. Returns 0, -ESRCH if there is no such process, -ECONNREFUSED if it does not use the
 * plugin, -EACCES if it is another user's, or another -errno. */
int ask_process(pid_t process);

#endif
