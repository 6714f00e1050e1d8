/* SPDX-License-Identifier: BSD-3-Clause */
/* The stream to a rank on another host: a TCP connection for each case, which begins with an order. */
#ifndef TOOLS_NCCLCHECK_REMOTE_H
#define TOOLS_NCCLCHECK_REMOTE_H

#include <stdint.h>

struct remote_order {
	/* name of the case */
	char name[32];
	/* version of the plugin that rank 1 uses; 0: there are no more cases */
	int32_t version;
	int32_t dev;
	uint32_t timeout_s;
	uint32_t connections;
	uint32_t channels;
};

/* Connects to the host that serves, which may still be starting, and sends the order. Returns a descriptor or -errno. */
int remote_connect(const char *host, const char *port, const struct remote_order *order);

/* Listens; `bind` may be null. Returns a descriptor or -errno. */
int remote_listen(const char *bind, const char *port);

/* Waits for the next order. Returns a descriptor, -ESHUTDOWN after the last one, or -errno of a connection that failed. */
int remote_accept(int listener, struct remote_order *order);

#endif
