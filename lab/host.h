/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h: a host is a network namespace with a TUN whose other end the switch holds. Nothing else refers to it: when
 * the switch and the host's processes are gone the kernel takes namespace and interface back.
 */
#ifndef LAB_HOST_H
#define LAB_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

#define HOST_ADDRESS_SIZE 16

/*
 * Leaves the calling process in namespaces of its own, so that it may make others: a user namespace, as root in it, if
 * it lacks the privilege. The next child is the first process of a new process namespace, and everything started
 * below it dies with it.
 */
int host_prepare(char error[LAB_ERROR_SIZE]);

struct host {
	int network; /* the namespace, for setns() */
	int tun;     /* not blocking, with virtio headers */
};

/* The calling process ends up inside the namespace. */
int host_open(const struct lab_plan *plan, unsigned index, struct host *out,
	      char error[LAB_ERROR_SIZE]);

/*
 * Packets that the host's kernel dropped because the switch did not fetch them in time. The calling process ends up
 * inside the namespace. 0 if it cannot be known.
 */
uint64_t host_overruns(const struct host *host);

/* Of IPv4, in text. */
void host_address(unsigned index, char address[HOST_ADDRESS_SIZE]);

#endif
