/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * identity.h: makes a process believe that it runs on a machine of its own. Programs compare host names and machine
 * identities to find out whether two processes share a machine, and then use shared memory instead of the network; NCCL,
 * for one, compares the host name and the boot identity.
 */
#ifndef LAB_IDENTITY_H
#define LAB_IDENTITY_H

#include "config.h"

#define IDENTITY_NAME_SIZE 16

/* Writes the name of a host: host0, host1, ... */
void identity_name(unsigned index, char name[IDENTITY_NAME_SIZE]);

/*
 * Moves the calling process into a UTS namespace with the host's name and a mount namespace in which /etc/machine-id,
 * /proc/sys/kernel/random/boot_id and /etc/hosts are the host's own; a file that the machine does not have is left out. /proc
 * shows the processes of the lab, with the numbers that they have there, if the kernel lets the user mount it.
 * Everything else in the file system stays shared. The machine identity is the same in every run, the boot identity is
 * not. Returns 0, or -errno with the reason in error.
 */
int identity_take(const struct lab_config *config, unsigned index, char error[LAB_ERROR_SIZE]);

#endif
