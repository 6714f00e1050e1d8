/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit.h: the context, memory, progress, counters.
 *
 * A context owns one fabric endpoint and everything built on it: queue pairs, posted receives, timers and the fixed
 * pools they come from. It belongs to one thread and takes no locks; more cores means more contexts.
 *
 * Conventions of every public header:
 *  - Calls return 0 or a count on success and -errno on failure. Out-parameters come last, set only on success.
 *  - Handles are opaque. Using a handle after its close is answered with -ESTALE while the context lives, unless the
 *    pool has handed the same place to a newer request: do not rely on it for more than finding bugs.
 *  - In attribute structs zero means "the default". Reserved fields must be zero (-EINVAL otherwise), so that they can
 *    grow. A null pointer where an object is needed is -EINVAL.
 *  - Callbacks run inside gw_progress() or gw_wait(). They may call anything except those two and gw_context_close()
 *    (-EBUSY).
 */
#ifndef GODWIT_GODWIT_H
#define GODWIT_GODWIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GW_API __attribute__((visibility("default")))

struct gw_context;
struct gw_mr;

/* The library's version, "0.2.0". */
GW_API const char *gw_version(void);

/* Faults made on purpose at the edge of the fabric, on what this context sends. The same seed and the same traffic
 * give the same faults. */
struct gw_faults {
	/* Probability that a packet is lost. */
	double drop;
	/* Probability that it is sent twice. */
	double duplicate;
	/* Probability that it is held back behind the next few. */
	double reorder;
	uint64_t seed;
};

struct gw_context_attr {
	/* "roce:ADDRESS" or "roce:ADDRESS@PORT": user-space RoCEv2 on a UDP socket. The address is one of this
	 * host's, IPv4 or IPv6, or the name of an interface; the port is 4791 unless given, and 0 asks the system for a
	 * free one.
	 * "verbs:DEVICE[/PORT][@GIDINDEX][,OPTION...]": an RDMA NIC, or the kernel's soft-RoCE, through libibverbs. The port
	 * is the first that is up, the GID a routable RoCE v2 one unless given. Options: "ud" has software place datagrams
	 * where the device could do more; "srq" shares receive requests among queue pairs, for thousands of them; "lanes=N"
	 * (to 8) queue pairs to a peer; "tc=N" the IP header's traffic class; "sl=N" the service level; "rate=N"
	 * (bits a second, with K, M or G) holds datagrams to less than the port's rate. Faults cannot be asked for.
	 * "auto": verbs where a device is ready, else user space; the log says which and why. */
	const char *fabric;
	/* Queue pairs open at once; default 16384. */
	uint32_t max_qps;
	/* Sends open at once over all queue pairs; default 4096. */
	uint32_t max_sends;
	/* Receives open at once over all queue pairs; default 4096. */
	uint32_t max_recvs;
	uint32_t flags;
	/* Memory for bitmaps and send logs, in bytes; default 16 MiB, touched as used. */
	uint64_t bitmap_bytes;
	const struct gw_faults *faults;
	/* Source ports that data to one peer is spread over, up to 8; default 1. */
	uint32_t lanes;
	/* Traffic class of packets sent: DSCP in the high six bits; the low two are ECN's and must be 0. */
	uint8_t traffic_class;
	uint8_t reserved8[3];
	uint64_t reserved[7];
};

/* Between two user-space ends that both say so, packets go without their ICRC: faster, and only the UDP checksum
 * guards them. Towards a NIC there always is one. */
#define GW_CONTEXT_SKIP_ICRC 1u
/* Data that is paced leaves when this process hands it over, also where the kernel could be given it early, with its time of
 * departure: user space, where packets leave through the fq queueing discipline. */
#define GW_CONTEXT_NO_DEPARTURES 2u

/*
 * Opens a context.
 * -EINVAL         a bad attribute or fabric string
 * -EADDRNOTAVAIL  the address is not this host's
 * -EADDRINUSE     the port is held by a program that does not share it, or by an RDMA device
 * -ENODEV         no such RDMA device, or no port of it is up
 * -ENOTSUP        built without libibverbs; a device without RoCE v2; faults where they cannot be made
 * -ENOMEM, -ENOBUFS
 * gw_context_error(NULL) has the reason in a sentence.
 */
GW_API int gw_context_open(const struct gw_context_attr *attr, struct gw_context **out);

/* Closes it and everything in it: nothing lands afterwards, every handle is gone, memory is registered no more. Peers
 * are told. -EBUSY from inside a callback. */
GW_API int gw_context_close(struct gw_context *ctx);

/* Registers memory that data may be sent from or land in. It must outlive every request that names it. -EBUSY from
 * deregistration while a request still does. */
GW_API int gw_mr_register(struct gw_context *ctx, void *addr, size_t length, struct gw_mr **out);
GW_API int gw_mr_deregister(struct gw_mr *mr);

/*
 * Registers memory of a GPU or another device, through the dma-buf `fd` which its driver exported: `length` bytes from
 * `offset` on. `addr` is what requests call the first of them, as a rule the device's own address. The library never
 * touches such memory, only the NIC does; the descriptor may be closed afterwards. A message of at most 512 bytes that the
 * peer told together with its announcement cannot be put there: it counts as lost (drop_unreachable) until it is repeated.
 *
 * What is in the way is said by gw_context_error().
 * -ENOTSUP  the fabric copies with the processor, or the device, its driver or libibverbs knows no dma-buf
 * -EBADF    not an open descriptor
 * -EINVAL   not a dma-buf, or one without this range
 * -ENOMEM, -ENOBUFS
 */
GW_API int gw_mr_register_dmabuf(struct gw_context *ctx, int fd, uint64_t offset, size_t length,
				 void *addr, struct gw_mr **out);

/* Does what there is to do without blocking and returns how many things that was. -EBUSY from inside a callback. */
GW_API int gw_progress(struct gw_context *ctx);

/* Sleeps until there is something to do, at most timeout_ns, then makes progress. -EINTR when a signal came. */
GW_API int gw_wait(struct gw_context *ctx, uint64_t timeout_ns);

/* Descriptors that gw_watch() fills in at most. */
#define GW_WATCH_MAX 32

struct pollfd;

/*
 * For a program that sleeps in poll() itself, with descriptors of its own beside those of the context. gw_watch() fills in
 * the descriptors to poll for, and the time of gw_now_ns() at which gw_progress() has to be called even if none of them
 * becomes ready: 0 for at once, UINT64_MAX for never. Returns how many there are. `room` is the number of entries in `fds`, at
 * least GW_WATCH_MAX. Call it after a gw_progress() that did nothing, and poll for the answer once: both may change with
 * every call on the context.
 *
 * gw_watched() is told the same entries after poll(), whether or not any was ready. The next call is gw_progress().
 *
 * -ENOTSUP in simulation, where time is virtual; -EBUSY from inside a callback.
 */
GW_API int gw_watch(struct gw_context *ctx, struct pollfd *fds, unsigned room, uint64_t *until_ns);
GW_API int gw_watched(struct gw_context *ctx, const struct pollfd *fds, unsigned count);

/* The context's clock: monotonic nanoseconds, virtual ones in simulation. */
GW_API uint64_t gw_now_ns(const struct gw_context *ctx);

/* What a context has left. */
struct gw_room {
	/* sends and receives that can be posted */
	uint32_t sends;
	uint32_t recvs;
	/* 1: registered memory is pinned, since a NIC accesses it */
	uint32_t pinned;
	uint32_t reserved;
};
GW_API int gw_context_room(const struct gw_context *ctx, struct gw_room *out);

/* Why the last call on this context failed, in a sentence for a person; "" when there is nothing to add to the errno. With
 * NULL: why the last gw_context_open() of this thread failed. */
GW_API const char *gw_context_error(const struct gw_context *ctx);

/* Counters, by index; their names are stable and fit JSON and Prometheus. */
GW_API unsigned gw_counter_count(void);
GW_API const char *gw_counter_name(unsigned counter); /* NULL past the last */
GW_API int gw_counter_find(const char *name);	      /* its index, or -ENOENT */
GW_API int gw_counter_read(const struct gw_context *ctx, unsigned counter, uint64_t *out);

/* All of them as text: one JSON object, or Prometheus' exposition format, where names begin with godwit_ and end in
 * _total. Returns the length without the final zero; -ENOSPC when it does not fit: 8 KiB always does. */
enum gw_text_format { GW_TEXT_JSON, GW_TEXT_PROMETHEUS };
GW_API int gw_counters_text(const struct gw_context *ctx, enum gw_text_format format, char *text,
			    size_t size);

enum gw_log_level { GW_LOG_ERROR, GW_LOG_WARN, GW_LOG_INFO, GW_LOG_DEBUG };
typedef void gw_log_fn(void *arg, enum gw_log_level level, const char *line);

/* Process-wide. Without a function lines go to stderr; the default level is GW_LOG_WARN. */
GW_API void gw_log_set(enum gw_log_level level, gw_log_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
