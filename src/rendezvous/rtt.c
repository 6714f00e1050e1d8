/* SPDX-License-Identifier: BSD-3-Clause */
/* The C library's struct tcp_info ends before the least round-trip time, so that this file takes the kernel's. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include <godwit/rendezvous.h>

#include "rendezvous/connection.h"

uint64_t gw_rendezvous_rtt_ns(const struct gw_rendezvous *r)
{
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	if (!r || getsockopt(r->fd, IPPROTO_TCP, TCP_INFO, &info, &length) ||
	    length < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof(info.tcpi_min_rtt) ||
	    info.tcpi_min_rtt == UINT32_MAX)
		return 0;
	return (uint64_t)info.tcpi_min_rtt * 1000;
}
