/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.h: the one implementation behind the tables of all versions (tables.c). Calls return enum nccl_result. Receives are not
 * grouped: one buffer each.
 */
#ifndef PLUGINS_NCCL_CALLS_H
#define PLUGINS_NCCL_CALLS_H

#include "net.h"

/* The name by which NCCL_NET asks for the plugin. */
#define CORE_NAME "Godwit"

/* Begins a communicator, whose `id` NCCL has chosen. `version` is that of the table in use; a `traffic_class` below 0 is none.
 * Before version 11 the context is not used, and there is no finalize. */
int core_init(int version, uint64_t id, int traffic_class, nccl_log_fn *log, void **context);
int core_finalize(void *context);
int core_devices(int *count);
int core_properties(int dev, struct nccl_properties_v12 *out);

/* `context` is null before version 11. */
int core_listen(void *context, int dev, void *handle, void **listener);
int core_connect(void *context, int dev, int traffic_class, void *handle, void **sender);
int core_accept(void *listener, void **receiver);
int core_close_send(void *sender);
int core_close_recv(void *receiver);
int core_close_listen(void *listener);

int core_register(void *connection, void *data, size_t size, int type, void **handle);
int core_deregister(void *connection, void *handle);
int core_isend(void *sender, void *data, size_t size, void *handle, void **request);
int core_irecv(void *receiver, void *data, size_t size, void *handle, void **request);
int core_test(void *request, int *done, int *size);

#endif
