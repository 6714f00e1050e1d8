/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.h: operations that all ranks of a group take part in.
 *
 * A communicator is a group of processes, ranks 0 to size - 1. Every rank opens it and calls the same operations in the same
 * order, with the same counts, types, roots and algorithms. The ranks find each other through the environment that torchrun,
 * mpirun and srun set, or through the attributes. Rank 0 waits for the others on a TCP port; data does not go that way.
 *
 * An operation is posted, makes progress while gw_comm_progress(), gw_comm_wait() or gw_coll_wait() runs in any rank, and ends
 * once, with a status. Several may be in flight; they may end in another order. Buffers are the library's until the end.
 *
 * Exact: an operation ends with 0 only if every byte is right. When a rank dies or aborts, every operation of every other rank
 * ends with an error, and gw_comm_error() names that rank.
 *
 * A communicator belongs to one thread at a time; gw_comm_wake() alone may come from another.
 */
#ifndef GODWIT_COLLECTIVE_H
#define GODWIT_COLLECTIVE_H

#include <godwit/godwit.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_comm;
struct gw_coll;

/* Ranks of a communicator, at most. */
#define GW_COMM_RANKS_MAX 4096

/* Threads of a communicator, at most. */
#define GW_COMM_THREADS_MAX 64

/* Flag: reductions of this communicator add the contributions of ranks in the order 0, 1, 2 and so on, whatever the size, the
 * segments and the network: the same input gives the same bits on any number of runs. */
#define GW_COMM_FIXED_ORDER 1u
/* Flag: packets between ranks are clear although there is a secret. The same on all ranks. A NIC cannot seal packets, and needs
 * this; multicast needs it too. */
#define GW_COMM_CLEAR 2u
/* Flag of this rank: it makes progress at all times, in another thread or in a loop, also between operations. Operations then end when
 * their result is there, by half a round trip or more earlier where messages are small; without the flag they end when what
 * this rank has sent has arrived as well, since nobody would repeat what is lost. */
#define GW_COMM_SERVED 4u

struct gw_comm_attr {
	/* This process's rank, and the number of ranks. Size 0: both from the environment. */
	uint32_t rank;
	uint32_t size;
	/* Host of rank 0, a name or an address; null: from the environment. */
	const char *root;
	/* TCP port on which rank 0 waits; 0: from the environment. */
	uint16_t port;
	/* Threads that share each large operation, the caller's among them; the same on all ranks; default 1. Each has a context and
	 * channels of its own, and does a part of the operation. Operations of less than 64 KiB a thread, bounded ones, and those of
	 * communicators that are split off, are the caller's alone. */
	uint16_t threads;
	/* GW_COMM_FIXED_ORDER, GW_COMM_CLEAR, GW_COMM_SERVED */
	uint32_t flags;
	/* As in struct gw_context_attr; null: "roce:ADDRESS@0" with the address from which rank 0 is reached. */
	const char *fabric;
	/* File with a secret that all ranks have (rendezvous.h): strangers are refused, and packets between ranks are encrypted and
	 * authenticated. Null: none. */
	const char *secret_file;
	/* Congestion controller, as in struct gw_channel_attr. */
	const char *congestion;
	/* Rate limit of each channel in bits of data a second; 0: none. */
	uint64_t rate_bps;
	/* How long the ranks wait for each other at the start, in ns; default 60 s. */
	uint64_t meet_ns;
	/* Silence after which a rank is taken for dead, in ns; default 10 s. */
	uint64_t peer_timeout_ns;
	/* Operations that make progress side by side, up to 16; later ones wait for their turn; the same on all ranks; default 4. */
	uint32_t tracks;
	/* Bytes into which large messages are cut, so that reducing and sending overlap; the same on all ranks; default: by
	 * size and ranks. */
	uint32_t segment_bytes;
	/* Bounded operations (bounded_collective.h) whose results are kept for a rank that is late, 256 MiB of them at most: so far the
	 * others may be ahead of it; up to 65536, default 256. */
	uint64_t ahead;
	uint64_t reserved[7];
};

/*
 * Opens a communicator: returns when all ranks have come. Attributes may be null: all from the environment.
 * -EINVAL        a bad attribute, or an environment that no launcher sets
 * -ETIMEDOUT     not all ranks came; gw_comm_error(NULL) names those that are missing
 * -EADDRINUSE    rank 0's port is taken
 * -EEXIST        two processes have the same rank
 * -EPROTO        ranks disagree about the size of the communicator, or were opened with other tracks, threads, segments or order
 * -ENOTSUP       there is a secret, and the fabric cannot seal packets (GW_COMM_CLEAR)
 * and as gw_rendezvous_connect() and gw_context_open(). gw_comm_error(NULL) has the reason in a sentence.
 */
GW_API int gw_comm_open(const struct gw_comm_attr *attr, struct gw_comm **out);

/* Waits, for peer_timeout_ns at most, until every rank closes; then frees the communicator and its operations. */
GW_API int gw_comm_close(struct gw_comm *comm);

GW_API uint32_t gw_comm_rank(const struct gw_comm *comm);
GW_API uint32_t gw_comm_size(const struct gw_comm *comm);

/*
 * Creates a communicator of those ranks of `comm` that give the same color, in the order of their keys, equal keys in that of
 * their ranks. Every rank of `comm` calls this; one that gives GW_COMM_NONE gets a null pointer. Blocks, and
 * returns -EBUSY inside a callback. The new one shares the network of the old one, which is closed after it.
 */
#define GW_COMM_NONE UINT32_MAX
GW_API int gw_comm_split(struct gw_comm *comm, uint32_t color, uint32_t key, struct gw_comm **out);

/* Ends every operation of every rank with -ECANCELED and tells all ranks why, in a sentence of up to 200 bytes. The
 * communicator can then only be closed. */
GW_API int gw_comm_abort(struct gw_comm *comm, const char *why);

/* Returns 0 while the communicator is usable, or what its operations end with. */
GW_API int gw_comm_status(const struct gw_comm *comm);

/* Why it failed, in a sentence, with the rank that caused it; "" if it has not. With NULL: why the last gw_comm_open() of this
 * thread failed. */
GW_API const char *gw_comm_error(const struct gw_comm *comm);

/* ---- progress --------------------------------------------------------------------------------------------------- */

/* Does what can be done without blocking and returns how many things that was. */
GW_API int gw_comm_progress(struct gw_comm *comm);

/* Sleeps until there is something to do, at most timeout_ns, then makes progress. -EINTR after a signal. */
GW_API int gw_comm_wait(struct gw_comm *comm, uint64_t timeout_ns);

/* For a thread that serves a communicator: makes progress, and sleeps in between, until gw_comm_wake(). Returns 0 then, or
 * -ETIMEDOUT, or -EINTR after a signal. Operations end with their `done`. */
GW_API int gw_comm_serve(struct gw_comm *comm, uint64_t timeout_ns);

/* Lets gw_comm_serve() return, or its next call if none is under way. Any thread may call this, while another one uses the
 * communicator: to have it post what is in a queue, for example. */
GW_API int gw_comm_wake(struct gw_comm *comm);

/* ---- operations ------------------------------------------------------------------------------------------------- */

enum gw_type {
	GW_FLOAT32,
	GW_FLOAT16,
	GW_BFLOAT16,
	GW_FLOAT64,
	GW_INT8,
	GW_UINT8,
	GW_INT32,
	GW_UINT32,
	GW_INT64,
	GW_UINT64,
};

enum gw_reduction {
	GW_SUM,
	/* the sum, divided by the number of ranks */
	GW_MEAN,
	GW_MIN,
	GW_MAX,
};

enum gw_algorithm {
	/* chosen by the library, from size, ranks and the measured network */
	GW_ALGORITHM_AUTO,
	/* neighbours in a ring; least traffic for large sizes */
	GW_ALGORITHM_RING,
	/* pairs at distances 1, 2, 4: fewest steps */
	GW_ALGORITHM_DOUBLING,
	/* a binary tree: broadcast */
	GW_ALGORITHM_TREE,
	/* every rank to every other: two steps, and a fixed order of reduction */
	GW_ALGORITHM_DIRECT,
	/* packets that the network copies: broadcast, allgather. The first such operation finds out whether they reach every rank. If
	 * not, other algorithms take over, and the log says so once. After it, AUTO may choose multicast, too. */
	GW_ALGORITHM_MULTICAST,
};

struct gw_coll_result {
	/* 0, or the error */
	int status;
	uint32_t reserved;
};

/* Called once, at the end, inside a call that makes progress. May post operations, and close this one unless gw_coll_wait() waits for it. */
typedef void gw_coll_fn(struct gw_coll *coll, void *arg, const struct gw_coll_result *result);

struct gw_coll_attr {
	/* What this rank gives. May be null where it gives nothing. */
	const void *send;
	/* What it gets. In place: `recv` and `send` are the same, or (allgather, reduce-scatter) the smaller buffer is this
	 * rank's block of the larger. Otherwise they do not overlap. */
	void *recv;
	/* Elements, see each operation. */
	uint64_t count;
	enum gw_type type;
	enum gw_reduction reduction;
	/* the rank that has the data: broadcast */
	uint32_t root;
	enum gw_algorithm algorithm;
	/* called at the end; may be null: use gw_coll_test() */
	gw_coll_fn *done;
	/* argument of `done` */
	void *arg;
	/* registrations of the two buffers with gw_comm_context(); null: registered for the time of the operation */
	struct gw_mr *send_mr;
	struct gw_mr *recv_mr;
	uint64_t reserved[6];
};

/*
 * Post an operation. Return 0, or
 * -EINVAL    a bad attribute, or an algorithm that the operation has not
 * -ENOMEM
 * or the status of a communicator that has failed.
 *
 * barrier:         ends when every rank has posted it; attributes may be null
 * broadcast:       `count` elements of root's `send` arrive at every rank's `recv`; at the root `recv` may be null
 * allgather:       every rank gives `count` elements; all get size * count, in the order of ranks
 * reduce_scatter:  every rank gives size * count elements; rank r gets the r-th `count` of their reduction
 * allreduce:       every rank gives `count` elements and gets `count`, their reduction
 * alltoall:        every rank gives size * count elements, the r-th `count` of which go to rank r; and gets as many
 *
 * An operation ends with 0, -ECANCELED (gw_comm_abort()), -ECONNRESET or -ETIMEDOUT (a rank died), or -EPROTO (ranks disagree
 * about the operation).
 */
GW_API int gw_barrier(struct gw_comm *comm, const struct gw_coll_attr *attr, struct gw_coll **out);
GW_API int gw_broadcast(struct gw_comm *comm, const struct gw_coll_attr *attr,
			struct gw_coll **out);
GW_API int gw_allgather(struct gw_comm *comm, const struct gw_coll_attr *attr,
			struct gw_coll **out);
GW_API int gw_reduce_scatter(struct gw_comm *comm, const struct gw_coll_attr *attr,
			     struct gw_coll **out);
GW_API int gw_allreduce(struct gw_comm *comm, const struct gw_coll_attr *attr,
			struct gw_coll **out);
GW_API int gw_alltoall(struct gw_comm *comm, const struct gw_coll_attr *attr, struct gw_coll **out);

/* Bytes of an element; 0: no such type. */
GW_API size_t gw_type_size(enum gw_type type);

/* Returns 0 while the operation is open; 1 when it has ended, and sets *out. `out` may be null. */
GW_API int gw_coll_test(const struct gw_coll *coll, struct gw_coll_result *out);

/* Makes progress until the operation has ended. Returns its status, -ETIMEDOUT also if it has not ended in time
 * (gw_coll_test() tells), or -EINTR after a signal. */
GW_API int gw_coll_wait(struct gw_coll *coll, uint64_t timeout_ns);

/* Frees the handle. -EBUSY until the operation has ended. */
GW_API int gw_coll_close(struct gw_coll *coll);

/* The context that the communicator uses, for registrations. */
GW_API struct gw_context *gw_comm_context(const struct gw_comm *comm);

/* Writes a sentence or two for people about the oldest open operation: which it is, which rank it waits for, what is missing.
 * Returns the length; the text is truncated if it does not fit. */
GW_API int gw_comm_explain(const struct gw_comm *comm, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
