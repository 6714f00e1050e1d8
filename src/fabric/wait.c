/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on a fabric's descriptors. */
#include <errno.h>
#include <poll.h>

#include "fabric/fabric.h"

#define NS_PER_SECOND 1000000000

int fabric_wait(struct fabric *fabric, uint64_t until_ns)
{
	uint64_t now = fabric->ops->now_ns(fabric);
	uint64_t left = until_ns > now ? until_ns - now : 0;
	struct timespec timeout = { .tv_sec = (time_t)(left / NS_PER_SECOND),
				    .tv_nsec = (long)(left % NS_PER_SECOND) };
	struct pollfd fds[FABRIC_FDS];
	int count = fabric->ops->watch ? fabric->ops->watch(fabric, fds) : -ENOTSUP;

	if (count < 0)
		return count == -EAGAIN ? 0 : count;
	if (ppoll(fds, (nfds_t)count, until_ns == UINT64_MAX ? NULL : &timeout, NULL) < 0)
		return -errno;
	fabric->ops->watched(fabric, fds);
	return 0;
}
