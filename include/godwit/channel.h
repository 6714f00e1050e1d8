/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h: ordered send and receive of whole buffers to one peer. What an application uses.
 *
 * The i-th send on one end meets the i-th receive on the other, whatever their sizes. Every byte arrives, or the
 * operation says that it did not. Large buffers move without a copy on either side and are split so that the path stays
 * full; small ones share packets. A congestion controller and a pacer decide when data leaves.
 *
 * An operation ends once, with a status. A send that ended with 0 is in the peer's receive: so do not wait for a send
 * before posting the receive that the peer's own send needs. Operations may end in another order than they were posted.
 * A channel needs gw_progress() or gw_wait() on its context; callbacks run inside those.
 *
 * The two ends exchange a struct gw_channel_info by any means, and each connects to the other's. From then on silence
 * for peer_timeout_ns means that the peer is gone, also when nothing is open.
 */
#ifndef GODWIT_CHANNEL_H
#define GODWIT_CHANNEL_H

#include <godwit/flow.h>
#include <godwit/scheme.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_channel;
struct gw_op;

struct gw_channel_handler {
	/* The peer closed (-ECONNRESET), fell silent (-ETIMEDOUT) or broke the protocol (-EPROTO); the channel carries
	 * nothing any more. Every operation ends with the same status, before this call. Called once. May close it. */
	void (*gone)(struct gw_channel *channel, void *arg, int status, uint64_t now);
};

#define GW_CHANNEL_CRC                                                                             \
	1u /* what this end sends carries a CRC-32 of the whole buffer, and the receiver checks it */

struct gw_channel_attr {
	const char *congestion;	  /* controller: "default", "long-haul", "swift" or "none" */
	uint64_t rate_bps;	  /* never faster than this; 0: no cap */
	uint64_t peer_timeout_ns; /* default 10 s */
	uint32_t flags;
	uint32_t
		operations; /* unfinished at once, each way: up to 65536, rounded up to a power of two; default 4096 */
	uint32_t
		small_bytes; /* sends up to this are packed, and copied; the smaller of both ends'; default 4096 */
	uint32_t
		pack_bytes; /* that small sends are packed into; the smaller of both ends'; default 16 KiB */
	uint32_t packs; /* in flight at once, each way: 4 to 256; default 32 */
	uint32_t slots; /* large receives granted at once: a power of two up to 1024; default 256 */
	uint64_t part_bytes; /* larger receives are split; default 64 MiB */
	const struct gw_channel_handler *handler;
	void *arg;
	uint64_t
		eager_bytes; /* of the peer's first large send, that it sends before it heard anything; default 64 KiB */
	uint64_t reserved[3];
};

/* What a peer must know to connect, as bytes to be carried there by any means. */
struct gw_channel_info {
	uint8_t bytes[320];
};

/* -EINVAL (also: no controller of that name), -ENOMEM, -ENOBUFS (max_qps are open: a channel takes two) */
GW_API int gw_channel_create(struct gw_context *ctx, const struct gw_channel_attr *attr,
			     struct gw_channel **out);
GW_API int gw_channel_info(const struct gw_channel *channel, struct gw_channel_info *out);

/*
 * Local: nothing is sent that needs an answer.
 * -EINVAL           not such a description
 * -EPROTONOSUPPORT  made by a version or a fabric that this one does not speak
 * -EISCONN          connected before
 * -ENOBUFS          the context's receives or bitmap memory are used up; the channel can only be closed
 */
GW_API int gw_channel_connect(struct gw_channel *channel, const struct gw_channel_info *peer);

/* 0 while usable, -ENOTCONN before connect, or the status that `gone` was given. */
GW_API int gw_channel_status(const struct gw_channel *channel);

/* Tells the peer, and gives the channel and all its operations back: no callback follows, and all memory is the caller's.
 * An answer to a send that the peer has not heard yet is lost with it. */
GW_API int gw_channel_close(struct gw_channel *channel);

/* ---- operations ----------------------------------------------------------------------------------------------- */

struct gw_op_result {
	int status; /* 0, or why it failed */
	uint32_t reserved;
	uint64_t
		length; /* of the message; of a send that failed, or a receive that knows no length, 0 */
	uint64_t moved; /* bytes known to have arrived */
};

/* The operation ended: its memory is the caller's. Called once; the handle may be closed in it. */
typedef void gw_op_fn(struct gw_op *op, void *arg, const struct gw_op_result *result);

struct gw_op_attr {
	void *addr;	  /* not written to when sending */
	uint64_t length;  /* of a receive: the most that it takes */
	struct gw_mr *mr; /* may be null up to small_bytes */
	const struct gw_scheme *
		scheme; /* of a large one; both ends name the same, or the channel ends; default gw_selective_repeat */
	uint64_t deadline_ns; /* in the context's clock: ends with -ETIMEDOUT then; 0: none */
	gw_op_fn *done;	      /* may be null: ask gw_op_test() */
	void *arg;
	/* The scheme's, kept until the operation ended. A struct gw_erasure serves one part (part_bytes) at a time, and its
	 * max_length must hold one. */
	const void *options;
	uint64_t reserved[3];
};

/*
 * -ENOTCONN, -EINVAL, -EFAULT (memory not inside `mr`)
 * -ENOBUFS  `operations` are open, or more than eight schemes are in use
 * or the status of a channel that is gone.
 *
 * Ends with
 * -EMSGSIZE         the receive is smaller than the message: at both ends
 * -ECANCELED        gw_op_cancel() at either end
 * -ETIMEDOUT        past its deadline (the other end: -ECANCELED), or the peer fell silent
 * -ECONNRESET       the peer closed
 * -EBADMSG          the CRC says that the bytes changed
 * -EPROTONOSUPPORT  the two ends named different schemes
 * -EPROTO           the peer broke the protocol
 */
GW_API int gw_channel_send(struct gw_channel *channel, const struct gw_op_attr *attr,
			   struct gw_op **out);
GW_API int gw_channel_recv(struct gw_channel *channel, const struct gw_op_attr *attr,
			   struct gw_op **out);

/* 0 while it goes on; 1 when it ended, with *out set, which may be null. */
GW_API int gw_op_test(const struct gw_op *op, struct gw_op_result *out);

/* Makes progress until it ended: 0. -ETIMEDOUT when it has not, -EBUSY inside a callback, -EINTR when a signal came. */
GW_API int gw_op_wait(struct gw_op *op, uint64_t timeout_ns);

/* Ends it with -ECANCELED as soon as its memory is free, and its match at the other end too, unless that has it all
 * already. The numbering of the others does not change. -EALREADY when it ended. */
GW_API int gw_op_cancel(struct gw_op *op);

/* Gives the handle back. -EBUSY until it ended. */
GW_API int gw_op_close(struct gw_op *op);

/* ---- operations, in the other sense ---------------------------------------------------------------------------- */

/* A cap on what leaves; 0 is a kill switch: no data leaves until it is set again, and the peer is kept. */
GW_API int gw_channel_set_rate(struct gw_channel *channel, uint64_t bits_per_second);

struct gw_channel_stats {
	uint64_t sends, receives;	     /* ended well */
	uint64_t sent_bytes, received_bytes; /* of those */
	uint64_t failed;		     /* operations that ended otherwise */
	uint64_t packs, records;	     /* sent: packs of small things, and what was in them */
	uint64_t parts;			     /* messages that carried large sends */
	uint64_t skips;			     /* large receives that met no large send */
	uint64_t sends_open, receives_open;
	uint64_t rtt_ns;
	uint64_t rate_bps; /* that the pacer holds; UINT64_MAX: unpaced */
	uint64_t window_bytes;
	uint64_t in_flight_bytes;
	double loss;
	uint64_t reserved[8];
};
GW_API int gw_channel_stats(const struct gw_channel *channel, struct gw_channel_stats *out);

/* What it is doing, or why it is gone, in a sentence or two for a person: peer, operation, bytes missing, what holds it
 * up. Returns the length; cut if it does not fit. */
GW_API int gw_channel_explain(const struct gw_channel *channel, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
