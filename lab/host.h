/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h: a host is a network namespace with a TUN interface whose file descriptor the switch has. Nothing else refers to
 * it: the kernel removes namespace and interface when the switch and the host's processes have ended.
 */
#ifndef LAB_HOST_H
#define LAB_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

/* name of its interface */
#define HOST_INTERFACE	   "lab0"
#define HOST_ADDRESS_SIZE  16
#define HOST_ADDRESS6_SIZE 46

/*
 * Moves the calling process into new namespaces, so that it may create others: if it lacks the privilege, first into a user
 * namespace in which it is root. Its next child will be the first process of a new process namespace, and everything started
 * below that child ends with it. Returns 0, or -errno with the reason in error; so does host_open().
 */
int host_prepare(char error[LAB_ERROR_SIZE]);

struct host {
	/* descriptor of the network namespace, for setns() */
	int network;
	/* descriptor of the TUN: non-blocking, with virtio headers */
	int tun;
};

/* Creates a host. The calling process is inside the new namespace afterwards. */
int host_open(const struct lab_config *config, unsigned index, struct host *out,
	      char error[LAB_ERROR_SIZE]);

/*
 * Returns how many packets the host's kernel dropped because the switch did not read them in time; 0 if that cannot be
 * read. The calling process is inside the namespace afterwards.
 */
uint64_t host_overruns(const struct host *host);

/* Write the host's IPv4 and its IPv6 address as text. */
void host_address(unsigned index, char address[HOST_ADDRESS_SIZE]);
void host_address6(unsigned index, char address[HOST_ADDRESS6_SIZE]);

#endif
