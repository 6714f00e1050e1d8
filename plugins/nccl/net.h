/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net.h: the interface between NCCL and a network plugin, versions 8 to 12, as declarations of our own.
 *
 * A plugin exports a table of functions for each version, ncclNetPlugin_vN; NCCL takes the newest that it knows. The order of
 * the members and the sizes of the structs are facts that both sides rely on, so they are asserted below. What a version
 * added:
 *
 *	8   sizes of registrations are size_t, registrations that hold for all connections (NCCL 2.20)
 *	9   sizes of transfers are size_t; virtual devices, largest transfers (NCCL 2.24)
 *	10  profiler, a traffic class passed to connect() (NCCL 2.26)
 *	11  a context for each communicator, finalize(), setNetAttr() (NCCL 2.28)
 *	12  rail and plane of a device, eight devices in a virtual one (NCCL 2.30)
 *
 * Every function but those of the profiler and the log returns one of enum nccl_result.
 */
#ifndef PLUGINS_NCCL_NET_H
#define PLUGINS_NCCL_NET_H

#include <stddef.h>
#include <stdint.h>

#define NCCL_VERSION_OLDEST 8
#define NCCL_VERSION_NEWEST 12

enum nccl_result {
	NCCL_SUCCESS,
	NCCL_CUDA_ERROR,
	NCCL_SYSTEM_ERROR,
	NCCL_INTERNAL_ERROR,
	NCCL_INVALID_ARGUMENT,
	NCCL_INVALID_USAGE,
	NCCL_REMOTE_ERROR,
};

/* Bytes of the handle that listen() fills and NCCL carries to the end that connects. */
#define NCCL_HANDLE_BYTES 128
/* Requests that may be open on a connection. */
#define NCCL_REQUESTS 32
/* Largest transfers: of any version, and of version 8, whose sizes are int. */
#define NCCL_BYTES_MAX	  (INT64_C(1) << 40)
#define NCCL_BYTES_MAX_V8 (INT64_C(1) << 30)

/* Memory that regMr() may be given. */
enum nccl_memory { NCCL_MEMORY_HOST = 1, NCCL_MEMORY_CUDA = 2, NCCL_MEMORY_DMABUF = 4 };

/* Value of *request on entry to irecv(): NCCL may never ask whether this receive has ended. */
#define NCCL_COMPLETION_OPTIONAL 0x1

/* Type of a device that leaves everything to the host. */
#define NCCL_DEVICE_HOST 0

/* Traffic class, rail or plane that is not set. */
#define NCCL_UNDEFINED (-1)

enum nccl_log_level {
	NCCL_LOG_NONE,
	NCCL_LOG_VERSION,
	NCCL_LOG_WARN,
	NCCL_LOG_INFO,
	NCCL_LOG_ABORT,
	NCCL_LOG_TRACE,
};

/* Subsystems, for `flags` of the log function. */
#define NCCL_LOG_INIT UINT64_C(1)
#define NCCL_LOG_NET  UINT64_C(16)

typedef void nccl_log_fn(int level, unsigned long flags, const char *function, int line,
			 const char *format, ...);
typedef int nccl_profiler_fn(void **event, int type, void *parent, int64_t plugin, void *data);

/* ---- structs ---------------------------------------------------------------------------------------------------- */

struct nccl_config {
	/* traffic class; NCCL_UNDEFINED: the plugin's choice */
	int traffic_class;
};

struct nccl_devices4 {
	int count;
	int dev[4];
};

struct nccl_devices8 {
	int count;
	int dev[8];
};

struct nccl_properties_v8 {
	char *name;
	/* directory of the device under /sys; null if it is virtual */
	char *pci_path;
	uint64_t guid;
	/* enum nccl_memory, or-ed */
	int memory;
	/* registrations hold for every connection */
	int global_registration;
	/* Mbit/s */
	int speed;
	int port;
	/* us; 0: NCCL's default */
	float latency;
	int max_connections;
	/* most receives in a group */
	int max_receives;
	int device_type;
	int device_version;
};

/* Versions 9 and 10. */
struct nccl_properties_v9 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int memory;
	int global_registration;
	/* receives are flushed even where NCCL would not */
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_connections;
	int max_receives;
	int device_type;
	int device_version;
	struct nccl_devices4 devices;
	size_t max_p2p_bytes;
	size_t max_collective_bytes;
};

struct nccl_properties_v11 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int memory;
	int global_registration;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_connections;
	int max_receives;
	int device_type;
	int device_version;
	struct nccl_devices4 devices;
	size_t max_p2p_bytes;
	size_t max_collective_bytes;
	/* requests in one of several */
	int max_multi_request;
};

struct nccl_properties_v12 {
	char *name;
	char *pci_path;
	uint64_t guid;
	int memory;
	int global_registration;
	int force_flush;
	int speed;
	int port;
	float latency;
	int max_connections;
	int max_receives;
	int device_type;
	int device_version;
	struct nccl_devices8 devices;
	size_t max_p2p_bytes;
	size_t max_collective_bytes;
	int max_multi_request;
	int16_t rail;
	int16_t plane;
};

/* ---- functions that all versions have alike --------------------------------------------------------------------- */

typedef int nccl_devices_fn(int *count);
/* `device` is set by plugins that move data in GPU kernels only. */
typedef int nccl_accept_fn(void *listener, void **receiver, void **device);
typedef int nccl_register_fn(void *connection, void *data, size_t size, int type, void **handle);
typedef int nccl_register_dmabuf_fn(void *connection, void *data, size_t size, int type,
				    uint64_t offset, int fd, void **handle);
typedef int nccl_deregister_fn(void *connection, void *handle);
typedef int nccl_flush_fn(void *receiver, int count, void **data, int *sizes, void **handles,
			  void **request);
typedef int nccl_test_fn(void *request, int *done, int *sizes);
typedef int nccl_close_fn(void *object);
typedef int nccl_device_handle_fn(void *connection, void *handle, void **device_handle);
typedef int nccl_consumed_fn(void *receiver, int count, void *request);

/* ---- functions that changed ------------------------------------------------------------------------------------- */

typedef int nccl_listen_v8_fn(int dev, void *handle, void **listener);
typedef int nccl_listen_v11_fn(void *context, int dev, void *handle, void **listener);
typedef int nccl_connect_v8_fn(int dev, void *handle, void **sender, void **device);
typedef int nccl_connect_v10_fn(int dev, struct nccl_config *config, void *handle, void **sender,
				void **device);
typedef int nccl_connect_v11_fn(void *context, int dev, void *handle, void **sender, void **device);
typedef int nccl_isend_v8_fn(void *sender, void *data, int size, int tag, void *handle,
			     void **request);
typedef int nccl_isend_v9_fn(void *sender, void *data, size_t size, int tag, void *handle,
			     void **request);
typedef int nccl_isend_v10_fn(void *sender, void *data, size_t size, int tag, void *handle,
			      void *profile, void **request);
typedef int nccl_irecv_v8_fn(void *receiver, int count, void **data, int *sizes, int *tags,
			     void **handles, void **request);
typedef int nccl_irecv_v9_fn(void *receiver, int count, void **data, size_t *sizes, int *tags,
			     void **handles, void **request);
typedef int nccl_irecv_v10_fn(void *receiver, int count, void **data, size_t *sizes, int *tags,
			      void **handles, void **profiles, void **request);
typedef int nccl_init_v8_fn(nccl_log_fn *log);
typedef int nccl_init_v10_fn(nccl_log_fn *log, nccl_profiler_fn *profiler);
typedef int nccl_init_v11_fn(void **context, uint64_t communicator, struct nccl_config *config,
			     nccl_log_fn *log, nccl_profiler_fn *profiler);

/* ---- the tables ------------------------------------------------------------------------------------------------- */

struct nccl_net_v8 {
	const char *name;
	nccl_init_v8_fn *init;
	nccl_devices_fn *devices;
	int (*properties)(int dev, struct nccl_properties_v8 *out);
	nccl_listen_v8_fn *listen;
	nccl_connect_v8_fn *connect;
	nccl_accept_fn *accept;
	nccl_register_fn *reg;
	nccl_register_dmabuf_fn *reg_dmabuf;
	nccl_deregister_fn *dereg;
	nccl_isend_v8_fn *isend;
	nccl_irecv_v8_fn *irecv;
	nccl_flush_fn *iflush;
	nccl_test_fn *test;
	nccl_close_fn *close_send;
	nccl_close_fn *close_recv;
	nccl_close_fn *close_listen;
	nccl_device_handle_fn *device_handle;
	nccl_consumed_fn *consumed;
};

struct nccl_net_v9 {
	const char *name;
	nccl_init_v8_fn *init;
	nccl_devices_fn *devices;
	int (*properties)(int dev, struct nccl_properties_v9 *out);
	nccl_listen_v8_fn *listen;
	nccl_connect_v8_fn *connect;
	nccl_accept_fn *accept;
	nccl_register_fn *reg;
	nccl_register_dmabuf_fn *reg_dmabuf;
	nccl_deregister_fn *dereg;
	nccl_isend_v9_fn *isend;
	nccl_irecv_v9_fn *irecv;
	nccl_flush_fn *iflush;
	nccl_test_fn *test;
	nccl_close_fn *close_send;
	nccl_close_fn *close_recv;
	nccl_close_fn *close_listen;
	nccl_device_handle_fn *device_handle;
	nccl_consumed_fn *consumed;
	int (*virtual_device)(int *dev, struct nccl_devices4 *of);
};

struct nccl_net_v10 {
	const char *name;
	nccl_init_v10_fn *init;
	nccl_devices_fn *devices;
	int (*properties)(int dev, struct nccl_properties_v9 *out);
	nccl_listen_v8_fn *listen;
	nccl_connect_v10_fn *connect;
	nccl_accept_fn *accept;
	nccl_register_fn *reg;
	nccl_register_dmabuf_fn *reg_dmabuf;
	nccl_deregister_fn *dereg;
	nccl_isend_v10_fn *isend;
	nccl_irecv_v10_fn *irecv;
	nccl_flush_fn *iflush;
	nccl_test_fn *test;
	nccl_close_fn *close_send;
	nccl_close_fn *close_recv;
	nccl_close_fn *close_listen;
	nccl_device_handle_fn *device_handle;
	nccl_consumed_fn *consumed;
	int (*virtual_device)(int *dev, struct nccl_devices4 *of);
};

struct nccl_net_v11 {
	const char *name;
	nccl_init_v11_fn *init;
	nccl_devices_fn *devices;
	int (*properties)(int dev, struct nccl_properties_v11 *out);
	nccl_listen_v11_fn *listen;
	nccl_connect_v11_fn *connect;
	nccl_accept_fn *accept;
	nccl_register_fn *reg;
	nccl_register_dmabuf_fn *reg_dmabuf;
	nccl_deregister_fn *dereg;
	nccl_isend_v10_fn *isend;
	nccl_irecv_v10_fn *irecv;
	nccl_flush_fn *iflush;
	nccl_test_fn *test;
	nccl_close_fn *close_send;
	nccl_close_fn *close_recv;
	nccl_close_fn *close_listen;
	nccl_device_handle_fn *device_handle;
	nccl_consumed_fn *consumed;
	int (*virtual_device)(int *dev, struct nccl_devices4 *of);
	/* NCCL calls it without looking: never null */
	int (*finalize)(void *context);
	int (*set_attributes)(void *context, void *attributes);
};

struct nccl_net_v12 {
	const char *name;
	nccl_init_v11_fn *init;
	nccl_devices_fn *devices;
	int (*properties)(int dev, struct nccl_properties_v12 *out);
	nccl_listen_v11_fn *listen;
	nccl_connect_v11_fn *connect;
	nccl_accept_fn *accept;
	nccl_register_fn *reg;
	nccl_register_dmabuf_fn *reg_dmabuf;
	nccl_deregister_fn *dereg;
	nccl_isend_v10_fn *isend;
	nccl_irecv_v10_fn *irecv;
	nccl_flush_fn *iflush;
	nccl_test_fn *test;
	nccl_close_fn *close_send;
	nccl_close_fn *close_recv;
	nccl_close_fn *close_listen;
	nccl_device_handle_fn *device_handle;
	nccl_consumed_fn *consumed;
	int (*virtual_device)(int *dev, struct nccl_devices8 *of);
	int (*finalize)(void *context);
	int (*set_attributes)(void *context, void *attributes);
};

/* ---- layouts ---------------------------------------------------------------------------------------------------- */

#if UINTPTR_MAX == UINT64_MAX
#define NCCL_TABLE(version, members)                                                               \
	_Static_assert(sizeof(struct nccl_net_v##version) == 8 * (members),                        \
		       "members of the table of version " #version)
#define NCCL_AT(type, member, offset)                                                              \
	_Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
NCCL_TABLE(8, 19);
NCCL_TABLE(9, 20);
NCCL_TABLE(10, 20);
NCCL_TABLE(11, 22);
NCCL_TABLE(12, 22);
NCCL_AT(nccl_net_v8, reg, 8 * 7);
NCCL_AT(nccl_net_v8, test, 8 * 13);
NCCL_AT(nccl_net_v9, virtual_device, 8 * 19);
NCCL_AT(nccl_net_v10, isend, 8 * 10);
NCCL_AT(nccl_net_v11, finalize, 8 * 20);
NCCL_AT(nccl_net_v12, close_listen, 8 * 16);
NCCL_AT(nccl_net_v12, set_attributes, 8 * 21);
_Static_assert(sizeof(struct nccl_properties_v8) == 64, "properties of version 8");
_Static_assert(sizeof(struct nccl_properties_v9) == 104, "properties of versions 9 and 10");
_Static_assert(sizeof(struct nccl_properties_v11) == 112, "properties of version 11");
_Static_assert(sizeof(struct nccl_properties_v12) == 128, "properties of version 12");
NCCL_AT(nccl_properties_v8, speed, 32);
NCCL_AT(nccl_properties_v8, latency, 40);
NCCL_AT(nccl_properties_v8, device_version, 56);
NCCL_AT(nccl_properties_v9, force_flush, 32);
NCCL_AT(nccl_properties_v9, devices, 64);
NCCL_AT(nccl_properties_v9, max_p2p_bytes, 88);
NCCL_AT(nccl_properties_v11, max_multi_request, 104);
NCCL_AT(nccl_properties_v12, devices, 64);
NCCL_AT(nccl_properties_v12, max_p2p_bytes, 104);
NCCL_AT(nccl_properties_v12, max_multi_request, 120);
NCCL_AT(nccl_properties_v12, rail, 124);
NCCL_AT(nccl_properties_v12, plane, 126);
#undef NCCL_TABLE
#undef NCCL_AT
#endif

#endif
