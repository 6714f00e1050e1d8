/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A loaded net plugin, called through one set of functions whatever its version: the part that NCCL plays. The duration of
 * every call is measured.
 */
#ifndef TOOLS_NCCLCHECK_NET_H
#define TOOLS_NCCLCHECK_NET_H

#include <stdatomic.h>
#include <stdbool.h>

#include "plugins/nccl/net.h"

enum net_call {
	CALL_INIT,
	CALL_LISTEN,
	CALL_CONNECT,
	CALL_ACCEPT,
	CALL_REGISTER,
	CALL_DEREGISTER,
	CALL_ISEND,
	CALL_IRECV,
	CALL_TEST,
	CALL_CLOSE,
	CALL_COUNT,
};

struct net {
	int version;
	/* from dlopen() */
	void *library;
	/* the plugin's table of this version */
	const void *table;
	const char *name;
	/* context of the communicator, from version 11 on */
	void *context;
	/* longest call of each kind, in ns; if `strict`, without those in which the system took the processor away */
	bool strict;
	_Atomic uint64_t slowest_ns[CALL_COUNT];
	/* functions whose types no version changed */
	nccl_devices_fn *devices;
	nccl_accept_fn *accept;
	nccl_register_fn *reg;
	nccl_register_dmabuf_fn *reg_dmabuf;
	nccl_deregister_fn *dereg;
	nccl_flush_fn *iflush;
	nccl_test_fn *test;
	nccl_close_fn *close_send;
	nccl_close_fn *close_recv;
	nccl_close_fn *close_listen;
	int (*finalize)(void *context);
};

/* Monotonic time in ns. */
uint64_t net_now_ns(void);

/* The name of a call, as NCCL spells it, and of a result. */
const char *net_call_name(enum net_call call);
const char *net_result_name(int result);

/* Loads the plugin as NCCL does and takes its table of this version. Returns 0, -ENOENT if it cannot be loaded or -ESRCH if
 * it has no such table; then `why` holds a sentence. */
int net_open(struct net *net, const char *path, int version, char *why, size_t size);
void net_close(struct net *net);

/* Writes which function must not be null and is, and returns true; false if there is none. */
bool net_lacks(const struct net *net, char *which, size_t size);

/* The calls. They return enum nccl_result. `log` receives what the plugin says. */
int net_init(struct net *net, uint64_t communicator, nccl_log_fn *log);
int net_finalize(struct net *net);
int net_properties(struct net *net, int dev, struct nccl_properties_v12 *out);
int net_listen(struct net *net, int dev, void *handle, void **listener);
int net_connect(struct net *net, int dev, void *handle, void **sender);
int net_accept(struct net *net, void *listener, void **receiver);
int net_register(struct net *net, void *connection, void *data, size_t size, void **handle);
int net_deregister(struct net *net, void *connection, void *handle);
int net_isend(struct net *net, void *sender, void *data, size_t size, void *handle, void **request);
int net_irecv(struct net *net, void *receiver, void *data, size_t size, void *handle,
	      void **request);
int net_test(struct net *net, void *request, int *done, int *size);
int net_close_send(struct net *net, void *sender);
int net_close_recv(struct net *net, void *receiver);
int net_close_listen(struct net *net, void *listener);

#endif
