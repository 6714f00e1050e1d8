/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One set of calls over five tables. NCCL does the same with its own adapters: where an older version lacks a property, the
 * value here is the one that NCCL puts in.
 */
#include "net.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)
/* The tag that NCCL gives transfers that are not grouped. */
#define TAG 0x7e57

uint64_t net_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

const char *net_call_name(enum net_call call)
{
	static const char *const names[] = { "init",	"listen", "connect", "accept", "regMr",
					     "deregMr", "isend",  "irecv",   "test",   "close" };

	return names[call];
}

const char *net_result_name(int result)
{
	static const char *const names[] = { "success",	       "CUDA error",	   "system error",
					     "internal error", "invalid argument", "invalid usage",
					     "remote error" };

	return result >= 0 && result <= NCCL_REMOTE_ERROR ? names[result] : "an unknown result";
}

/* How often the system took the processor from this thread for another. */
static long preemptions(void)
{
	struct rusage use;

	return getrusage(RUSAGE_THREAD, &use) ? 0 : use.ru_nivcsw;
}

/* Remembers how long a call took and returns its result. */
static int timed(struct net *net, enum net_call call, uint64_t begin, long before, int result)
{
	uint64_t took = net_now_ns() - begin;

	if (net->strict && preemptions() != before)
		return result;
	if (took > atomic_load_explicit(&net->slowest_ns[call], memory_order_relaxed))
		atomic_store_explicit(&net->slowest_ns[call], took, memory_order_relaxed);
	return result;
}

#define TIMED(net, call, expression)                                                               \
	do {                                                                                       \
		long before = (net)->strict ? preemptions() : 0;                                   \
		uint64_t begin = net_now_ns();                                                     \
		return timed(net, call, begin, before, expression);                                \
	} while (0)

#define COPY(net, type)                                                                            \
	do {                                                                                       \
		const struct type *t = (net)->table;                                               \
		(net)->name = t->name;                                                             \
		(net)->devices = t->devices;                                                       \
		(net)->accept = t->accept;                                                         \
		(net)->reg = t->reg;                                                               \
		(net)->reg_dmabuf = t->reg_dmabuf;                                                 \
		(net)->dereg = t->dereg;                                                           \
		(net)->iflush = t->iflush;                                                         \
		(net)->test = t->test;                                                             \
		(net)->close_send = t->close_send;                                                 \
		(net)->close_recv = t->close_recv;                                                 \
		(net)->close_listen = t->close_listen;                                             \
	} while (0)

int net_open(struct net *net, const char *path, int version, char *why, size_t size)
{
	char symbol[32];

	memset(net, 0, sizeof(*net));
	net->version = version;
	net->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!net->library) {
		snprintf(why, size, "cannot be loaded: %s", dlerror());
		return -ENOENT;
	}
	snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
	net->table = dlsym(net->library, symbol);
	if (!net->table) {
		snprintf(why, size, "exports no %s", symbol);
		net_close(net);
		return -ESRCH;
	}
	switch (version) {
	case 8:
		COPY(net, nccl_net_v8);
		break;
	case 9:
		COPY(net, nccl_net_v9);
		break;
	case 10:
		COPY(net, nccl_net_v10);
		break;
	case 11:
		COPY(net, nccl_net_v11);
		net->finalize = ((const struct nccl_net_v11 *)net->table)->finalize;
		break;
	default:
		COPY(net, nccl_net_v12);
		net->finalize = ((const struct nccl_net_v12 *)net->table)->finalize;
		break;
	}
	return 0;
}

void net_close(struct net *net)
{
	if (net->library)
		dlclose(net->library);
	net->library = NULL;
}

bool net_lacks(const struct net *net, char *which, size_t size)
{
	/* Order of the table; a bit for each member that may be null: regMrDmaBuf, getDeviceMr, irecvConsumed, makeVDevice,
	 * setNetAttr. */
	static const char *const names[] = {
		"name",	     "init",	    "devices",	   "getProperties", "listen",
		"connect",   "accept",	    "regMr",	   "regMrDmaBuf",   "deregMr",
		"isend",     "irecv",	    "iflush",	   "test",	    "closeSend",
		"closeRecv", "closeListen", "getDeviceMr", "irecvConsumed", "makeVDevice",
		"finalize",  "setNetAttr"
	};
	static const uint32_t optional = 1u << 8 | 1u << 17 | 1u << 18 | 1u << 19 | 1u << 21;
	static const size_t members[] = { 19, 20, 20, 22, 22 };

	for (size_t i = 0; i < members[net->version - NCCL_VERSION_OLDEST]; i++) {
		void *member;

		memcpy(&member, (const char *)net->table + i * sizeof(member), sizeof(member));
		if (!member && !(optional & 1u << i)) {
			snprintf(which, size, "%s", names[i]);
			return true;
		}
	}
	return false;
}

static int no_profiler(void **event, int type, void *parent, int64_t plugin, void *data)
{
	(void)event, (void)type, (void)parent, (void)plugin, (void)data;
	return NCCL_SUCCESS;
}

int net_init(struct net *net, uint64_t communicator, nccl_log_fn *log)
{
	struct nccl_config config = { .traffic_class = NCCL_UNDEFINED };

	switch (net->version) {
	case 8:
	case 9:
		TIMED(net, CALL_INIT, ((const struct nccl_net_v9 *)net->table)->init(log));
	case 10:
		TIMED(net, CALL_INIT,
		      ((const struct nccl_net_v10 *)net->table)->init(log, no_profiler));
	default:
		TIMED(net, CALL_INIT,
		      ((const struct nccl_net_v12 *)net->table)
			      ->init(&net->context, communicator, &config, log, no_profiler));
	}
}

int net_finalize(struct net *net)
{
	return net->finalize ? net->finalize(net->context) : NCCL_SUCCESS;
}

/* Members that all versions have. */
#define SHARED(out, in)                                                                            \
	do {                                                                                       \
		(out)->name = (in).name;                                                           \
		(out)->pci_path = (in).pci_path;                                                   \
		(out)->guid = (in).guid;                                                           \
		(out)->memory = (in).memory;                                                       \
		(out)->global_registration = (in).global_registration;                             \
		(out)->speed = (in).speed;                                                         \
		(out)->port = (in).port;                                                           \
		(out)->latency = (in).latency;                                                     \
		(out)->max_connections = (in).max_connections;                                     \
		(out)->max_receives = (in).max_receives;                                           \
		(out)->device_type = (in).device_type;                                             \
		(out)->device_version = (in).device_version;                                       \
	} while (0)

static int properties_v8(struct net *net, int dev, struct nccl_properties_v12 *out)
{
	struct nccl_properties_v8 in = { 0 };
	int result = ((const struct nccl_net_v8 *)net->table)->properties(dev, &in);

	SHARED(out, in);
	out->devices.count = 1;
	out->devices.dev[0] = dev;
	out->max_p2p_bytes = out->max_collective_bytes = NCCL_BYTES_MAX_V8;
	return result;
}

static int properties_v9(struct net *net, int dev, struct nccl_properties_v12 *out)
{
	struct nccl_properties_v11 in = { 0 };
	int result;

	/* The first members of version 11 are those of 9 and 10. */
	if (net->version == 11)
		result = ((const struct nccl_net_v11 *)net->table)->properties(dev, &in);
	else
		result = ((const struct nccl_net_v9 *)net->table)
				 ->properties(dev, (struct nccl_properties_v9 *)&in);
	SHARED(out, in);
	out->force_flush = in.force_flush;
	out->devices.count = in.devices.count;
	memcpy(out->devices.dev, in.devices.dev, sizeof(in.devices.dev));
	out->max_p2p_bytes = in.max_p2p_bytes;
	out->max_collective_bytes = in.max_collective_bytes;
	out->max_multi_request = net->version == 11 ? in.max_multi_request : 1;
	return result;
}

int net_properties(struct net *net, int dev, struct nccl_properties_v12 *out)
{
	memset(out, 0, sizeof(*out));
	out->rail = out->plane = NCCL_UNDEFINED;
	if (net->version == 12)
		return ((const struct nccl_net_v12 *)net->table)->properties(dev, out);
	return net->version == 8 ? properties_v8(net, dev, out) : properties_v9(net, dev, out);
}

int net_listen(struct net *net, int dev, void *handle, void **listener)
{
	if (net->version < 11)
		TIMED(net, CALL_LISTEN,
		      ((const struct nccl_net_v8 *)net->table)->listen(dev, handle, listener));
	TIMED(net, CALL_LISTEN,
	      ((const struct nccl_net_v12 *)net->table)
		      ->listen(net->context, dev, handle, listener));
}

int net_connect(struct net *net, int dev, void *handle, void **sender)
{
	struct nccl_config config = { .traffic_class = NCCL_UNDEFINED };
	void *device = NULL;

	if (net->version < 10)
		TIMED(net, CALL_CONNECT,
		      ((const struct nccl_net_v8 *)net->table)
			      ->connect(dev, handle, sender, &device));
	if (net->version == 10)
		TIMED(net, CALL_CONNECT,
		      ((const struct nccl_net_v10 *)net->table)
			      ->connect(dev, &config, handle, sender, &device));
	TIMED(net, CALL_CONNECT,
	      ((const struct nccl_net_v12 *)net->table)
		      ->connect(net->context, dev, handle, sender, &device));
}

int net_accept(struct net *net, void *listener, void **receiver)
{
	void *device = NULL;

	TIMED(net, CALL_ACCEPT, net->accept(listener, receiver, &device));
}

int net_register(struct net *net, void *connection, void *data, size_t size, void **handle)
{
	TIMED(net, CALL_REGISTER, net->reg(connection, data, size, NCCL_MEMORY_HOST, handle));
}

int net_deregister(struct net *net, void *connection, void *handle)
{
	TIMED(net, CALL_DEREGISTER, net->dereg(connection, handle));
}

int net_isend(struct net *net, void *sender, void *data, size_t size, void *handle, void **request)
{
	if (net->version == 8)
		TIMED(net, CALL_ISEND,
		      ((const struct nccl_net_v8 *)net->table)
			      ->isend(sender, data, (int)size, TAG, handle, request));
	if (net->version == 9)
		TIMED(net, CALL_ISEND,
		      ((const struct nccl_net_v9 *)net->table)
			      ->isend(sender, data, size, TAG, handle, request));
	TIMED(net, CALL_ISEND,
	      ((const struct nccl_net_v10 *)net->table)
		      ->isend(sender, data, size, TAG, handle, NULL, request));
}

int net_irecv(struct net *net, void *receiver, void *data, size_t size, void *handle,
	      void **request)
{
	int size8 = (int)size, tag = TAG;
	void *profile = NULL;

	if (net->version == 8)
		TIMED(net, CALL_IRECV,
		      ((const struct nccl_net_v8 *)net->table)
			      ->irecv(receiver, 1, &data, &size8, &tag, &handle, request));
	if (net->version == 9)
		TIMED(net, CALL_IRECV,
		      ((const struct nccl_net_v9 *)net->table)
			      ->irecv(receiver, 1, &data, &size, &tag, &handle, request));
	TIMED(net, CALL_IRECV,
	      ((const struct nccl_net_v10 *)net->table)
		      ->irecv(receiver, 1, &data, &size, &tag, &handle, &profile, request));
}

int net_test(struct net *net, void *request, int *done, int *size)
{
	TIMED(net, CALL_TEST, net->test(request, done, size));
}

int net_close_send(struct net *net, void *sender)
{
	TIMED(net, CALL_CLOSE, net->close_send(sender));
}

int net_close_recv(struct net *net, void *receiver)
{
	TIMED(net, CALL_CLOSE, net->close_recv(receiver));
}

int net_close_listen(struct net *net, void *listener)
{
	TIMED(net, CALL_CLOSE, net->close_listen(listener));
}
