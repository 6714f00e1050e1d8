/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables that NCCL looks for, one for each version of the interface, over one implementation (calls.h). A version that an
 * NCCL is too old to know is never looked at; an NCCL that is too new still takes the newest that is here.
 */
#include "calls.h"

#define EXPORT __attribute__((visibility("default")))

static int init_v8(nccl_log_fn *log)
{
	void *context;

	return core_init(8, 0, NCCL_UNDEFINED, log, &context);
}

static int init_v9(nccl_log_fn *log)
{
	void *context;

	return core_init(9, 0, NCCL_UNDEFINED, log, &context);
}

static int init_v10(nccl_log_fn *log, nccl_profiler_fn *profiler)
{
	void *context;

	(void)profiler;
	return core_init(10, 0, NCCL_UNDEFINED, log, &context);
}

static int init_v11(void **context, uint64_t communicator, struct nccl_config *config,
		    nccl_log_fn *log, nccl_profiler_fn *profiler)
{
	(void)profiler;
	return core_init(11, communicator, config ? config->traffic_class : NCCL_UNDEFINED, log,
			 context);
}

static int init_v12(void **context, uint64_t communicator, struct nccl_config *config,
		    nccl_log_fn *log, nccl_profiler_fn *profiler)
{
	(void)profiler;
	return core_init(12, communicator, config ? config->traffic_class : NCCL_UNDEFINED, log,
			 context);
}

/* Members that all versions have, with the same names. */
#define COPY_SHARED(out, p)                                                                        \
	do {                                                                                       \
		(out)->name = (p).name;                                                            \
		(out)->pci_path = (p).pci_path;                                                    \
		(out)->guid = (p).guid;                                                            \
		(out)->memory = (p).memory;                                                        \
		(out)->global_registration = (p).global_registration;                              \
		(out)->speed = (p).speed;                                                          \
		(out)->port = (p).port;                                                            \
		(out)->latency = (p).latency;                                                      \
		(out)->max_connections = (p).max_connections;                                      \
		(out)->max_receives = (p).max_receives;                                            \
		(out)->device_type = (p).device_type;                                              \
		(out)->device_version = (p).device_version;                                        \
	} while (0)

/* What versions 9 to 11 have beyond these. */
#define COPY_V9(out, p)                                                                            \
	do {                                                                                       \
		COPY_SHARED(out, p);                                                               \
		(out)->force_flush = (p).force_flush;                                              \
		(out)->devices.count = 1;                                                          \
		(out)->devices.dev[0] = (p).devices.dev[0];                                        \
		(out)->max_p2p_bytes = (p).max_p2p_bytes;                                          \
		(out)->max_collective_bytes = (p).max_collective_bytes;                            \
	} while (0)

static int properties_v8(int dev, struct nccl_properties_v8 *out)
{
	struct nccl_properties_v12 p;
	int result = core_properties(dev, &p);

	if (result == NCCL_SUCCESS)
		COPY_SHARED(out, p);
	return result;
}

static int properties_v9(int dev, struct nccl_properties_v9 *out)
{
	struct nccl_properties_v12 p;
	int result = core_properties(dev, &p);

	if (result == NCCL_SUCCESS)
		COPY_V9(out, p);
	return result;
}

static int properties_v11(int dev, struct nccl_properties_v11 *out)
{
	struct nccl_properties_v12 p;
	int result = core_properties(dev, &p);

	if (result != NCCL_SUCCESS)
		return result;
	COPY_V9(out, p);
	out->max_multi_request = p.max_multi_request;
	return result;
}

static int listen_v8(int dev, void *handle, void **listener)
{
	return core_listen(NULL, dev, handle, listener);
}

static int connect_v8(int dev, void *handle, void **sender, void **device)
{
	(void)device;
	return core_connect(NULL, dev, NCCL_UNDEFINED, handle, sender);
}

static int connect_v10(int dev, struct nccl_config *config, void *handle, void **sender,
		       void **device)
{
	(void)device;
	return core_connect(NULL, dev, config ? config->traffic_class : NCCL_UNDEFINED, handle,
			    sender);
}

static int connect_v11(void *context, int dev, void *handle, void **sender, void **device)
{
	(void)device;
	return core_connect(context, dev, NCCL_UNDEFINED, handle, sender);
}

static int accept_any(void *listener, void **receiver, void **device)
{
	(void)device;
	return core_accept(listener, receiver);
}

static int isend_v8(void *sender, void *data, int size, int tag, void *handle, void **request)
{
	(void)tag;
	return size < 0 ? NCCL_INVALID_ARGUMENT
			: core_isend(sender, data, (size_t)size, handle, request);
}

static int isend_v9(void *sender, void *data, size_t size, int tag, void *handle, void **request)
{
	(void)tag;
	return core_isend(sender, data, size, handle, request);
}

static int isend_v10(void *sender, void *data, size_t size, int tag, void *handle, void *profile,
		     void **request)
{
	(void)tag, (void)profile;
	return core_isend(sender, data, size, handle, request);
}

static int irecv_v8(void *receiver, int count, void **data, int *sizes, int *tags, void **handles,
		    void **request)
{
	(void)tags;
	return count != 1 || sizes[0] < 0
		       ? NCCL_INVALID_ARGUMENT
		       : core_irecv(receiver, data[0], (size_t)sizes[0], handles[0], request);
}

static int irecv_v9(void *receiver, int count, void **data, size_t *sizes, int *tags,
		    void **handles, void **request)
{
	(void)tags;
	return count != 1 ? NCCL_INVALID_ARGUMENT
			  : core_irecv(receiver, data[0], sizes[0], handles[0], request);
}

static int irecv_v10(void *receiver, int count, void **data, size_t *sizes, int *tags,
		     void **handles, void **profiles, void **request)
{
	(void)profiles;
	return irecv_v9(receiver, count, data, sizes, tags, handles, request);
}

/* Data in host memory needs no flush. */
static int flush(void *receiver, int count, void **data, int *sizes, void **handles, void **request)
{
	(void)receiver, (void)count, (void)data, (void)sizes, (void)handles;
	*request = NULL;
	return NCCL_SUCCESS;
}

/* Members that all tables have alike. */
#define SHARED                                                                                     \
	.name = CORE_NAME, .devices = core_devices, .accept = accept_any, .reg = core_register,    \
	.dereg = core_deregister, .iflush = flush, .test = core_test,                              \
	.close_send = core_close_send, .close_recv = core_close_recv,                              \
	.close_listen = core_close_listen

EXPORT extern const struct nccl_net_v8 ncclNetPlugin_v8;
EXPORT extern const struct nccl_net_v9 ncclNetPlugin_v9;
EXPORT extern const struct nccl_net_v10 ncclNetPlugin_v10;
EXPORT extern const struct nccl_net_v11 ncclNetPlugin_v11;
EXPORT extern const struct nccl_net_v12 ncclNetPlugin_v12;

const struct nccl_net_v8 ncclNetPlugin_v8 = {
	SHARED,
	.init = init_v8,
	.properties = properties_v8,
	.listen = listen_v8,
	.connect = connect_v8,
	.isend = isend_v8,
	.irecv = irecv_v8,
};

const struct nccl_net_v9 ncclNetPlugin_v9 = {
	SHARED,
	.init = init_v9,
	.properties = properties_v9,
	.listen = listen_v8,
	.connect = connect_v8,
	.isend = isend_v9,
	.irecv = irecv_v9,
};

const struct nccl_net_v10 ncclNetPlugin_v10 = {
	SHARED,
	.init = init_v10,
	.properties = properties_v9,
	.listen = listen_v8,
	.connect = connect_v10,
	.isend = isend_v10,
	.irecv = irecv_v10,
};

const struct nccl_net_v11 ncclNetPlugin_v11 = {
	SHARED,
	.init = init_v11,
	.properties = properties_v11,
	.listen = core_listen,
	.connect = connect_v11,
	.isend = isend_v10,
	.irecv = irecv_v10,
	.finalize = core_finalize,
};

const struct nccl_net_v12 ncclNetPlugin_v12 = {
	SHARED,
	.init = init_v12,
	.properties = core_properties,
	.listen = core_listen,
	.connect = connect_v11,
	.isend = isend_v10,
	.irecv = irecv_v10,
	.finalize = core_finalize,
};
