/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h: ordered send and receive of whole buffers to one peer. This is the interface for applications.
 *
 * The i-th send of one end is matched with the i-th receive of the other, whatever their sizes. Every byte arrives, or the
 * operation ends with an error. Large buffers are sent without a copy at either end, in several parts; small buffers share
 * packets. A congestion controller and a pacer decide when data leaves.
 *
 * An operation ends once, with a status. A send ends with 0 when its data is in the peer's receive, so do not wait for a
 * send before posting the receive that the peer's own send needs. Operations may end in another order than they were posted.
 * A channel makes progress, and calls callbacks, only inside gw_progress(), gw_wait() or gw_op_wait().
 *
 * To connect, the two ends exchange their struct gw_channel_info by any means, and each passes the other's to
 * gw_channel_connect(). From then on a peer that is silent for peer_timeout_ns is declared dead, also when no operation is
 * open.
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
	/* The channel has failed: the peer closed it (-ECONNRESET), was silent (-ETIMEDOUT) or broke the protocol (-EPROTO).
	 * Every operation has ended with the same status before. Called once; may close the channel. */
	void (*gone)(struct gw_channel *channel, void *arg, int status, uint64_t now);
	/* The peer has been silent for peer_timeout_ns and would be given up. Non-zero: it is not, and this is asked again if it
	 * stays silent for a quarter of that time. For programs that know by other means that it lives. May be null. Must not
	 * close the channel. */
	int (*silent)(struct gw_channel *channel, void *arg, uint64_t now);
};

/* Flag: sends of this end carry a CRC-32 of the whole buffer, which the receiver checks. */
#define GW_CHANNEL_CRC 1u
/* Flag: this end keeps no memory for parity. What it sends and receives without a scheme is under Selective Repeat. Without
 * the flag a channel reserves some 130 MB of address space, of which it uses what parity was sent or received in; none where
 * registered memory is pinned (a NIC). */
#define GW_CHANNEL_NO_PARITY 2u
/* Flag, at both ends or connecting fails with -EMSGSIZE: packets hold whole lines of 128 bytes of a buffer, for receivers that
 * poll the memory of a large receive before its end. */
#define GW_CHANNEL_LINES 4u
/* Flag: that the channel has failed is logged as information, not as a warning: `gone` tells the program, and the program its user. */
#define GW_CHANNEL_QUIET 8u

struct gw_channel_attr {
	/* controller: "default", "long-haul", "swift" or "none"; null: "default" */
	const char *congestion;
	/* rate limit in bits of data per second; 0: none */
	uint64_t rate_bps;
	/* silence after which the peer is declared dead; default 10 s */
	uint64_t peer_timeout_ns;
	/* GW_CHANNEL_CRC */
	uint32_t flags;
	/* most open sends, and most open receives: up to 65536, rounded up to a power of two; default 4096 */
	uint32_t operations;
	/* bytes up to which a send is small: copied, and packed with others; the smaller value of both ends counts; default
	 * 4096 */
	uint32_t small_bytes;
	/* bytes in a pack, a message of small sends; the smaller value of both ends counts; default 16 KiB */
	uint32_t pack_bytes;
	/* most packs in flight in each direction: 4 to 256; default 32 */
	uint32_t packs;
	/* most large receives granted to the peer at a time: a power of two up to 1024; default 256 */
	uint32_t slots;
	/* bytes above which a receive is split into several messages; default 64 MiB */
	uint64_t part_bytes;
	/* callbacks; may be null */
	const struct gw_channel_handler *handler;
	/* argument of the callbacks */
	void *arg;
	/* bytes of its first large send that the peer may send before it has received a grant; default 64 KiB */
	uint64_t eager_bytes;
	/* as in struct gw_qp_attr */
	const char *peer_host;
	/* as in struct gw_qp_attr */
	const struct gw_seal *seal;
	/* as in struct gw_qp_attr */
	uint32_t rtt_hint_us;
	uint32_t reserved[1];
	/* another channel of the context, to the same host; null: none. Whichever of the two begins to send after a pause then goes on with
	 * the rate and the window that the other has found since. Not for channels on paths of their own, such as lanes. */
	struct gw_channel *beside;
};

/* The description that a peer needs to connect. The program carries it to the peer. */
struct gw_channel_info {
	uint8_t bytes[320];
};

/* Creates a channel, which uses two queue pairs. Returns 0, -EINVAL (also if there is no such controller), -ENOMEM, or
 * -ENOBUFS if fewer than two of the context's max_qps are left. */
GW_API int gw_channel_create(struct gw_context *ctx, const struct gw_channel_attr *attr,
			     struct gw_channel **out);
GW_API int gw_channel_info(const struct gw_channel *channel, struct gw_channel_info *out);

/*
 * Replaces the keys that a channel was created with, before it is connected: for keys that depend on both descriptions
 * (gw_rendezvous_secret_keys()). Returns 0, or
 * -EINVAL           it was created without gw_channel_attr.seal
 * -EISCONN          the channel was connected before
 */
GW_API int gw_channel_seal(struct gw_channel *channel, const struct gw_seal *keys);

/*
 * Connects to a peer by its description. Does not wait for the peer. Returns 0, or
 * -EINVAL           the bytes are not a description
 * -EPROTONOSUPPORT  the peer has an incompatible version or fabric
 * -EISCONN          the channel was connected before
 * -EPERM            one end seals its packets and the other does not
 * -ENOBUFS          the context's receives or bitmap memory are used up; the channel can only be closed
 */
GW_API int gw_channel_connect(struct gw_channel *channel, const struct gw_channel_info *peer);

/* Returns 0 if the channel is usable, -ENOTCONN before it is connected, or the status passed to `gone`. */
GW_API int gw_channel_status(const struct gw_channel *channel);

/* Closes the channel, tells the peer, and frees all operations: no callback follows, and all memory is the caller's. A
 * result that the peer has not received yet may be lost. */
GW_API int gw_channel_close(struct gw_channel *channel);

/* ---- operations ----------------------------------------------------------------------------------------------- */

struct gw_op_result {
	/* 0, or the error of the operation */
	int status;
	/* of a receive whose message is known: the send's label */
	uint16_t label;
	uint16_t reserved;
	/* bytes in the message; 0 for a send that failed, or a receive whose message is not known */
	uint64_t length;
	/* bytes known to have arrived */
	uint64_t moved;
};

/* Called once, when the operation has ended and its memory is the caller's. May close the handle, unless gw_op_wait() waits for it. */
typedef void gw_op_fn(struct gw_op *op, void *arg, const struct gw_op_result *result);

/* Called for each part of a large receive when it is over, before `done`: bytes `offset` to `offset` + `length` of the buffer. `recv`
 * is null if all of them arrived; otherwise gw_recv_next_hole() tells which packets are missing. What was sent ahead of the first
 * grant (eager_bytes) is in no part: it is all there if the operation ends with 0. */
typedef void gw_op_part_fn(void *arg, const struct gw_recv *recv, uint64_t offset, uint64_t length);

/* Flag of a send: if it is small (small_bytes), it ends with 0 as soon as it was copied. It arrives later, while the channel lives
 * and its program makes progress; of a failure only the channel's `gone` tells. */
#define GW_OP_BUFFERED 1u

struct gw_op_attr {
	/* the buffer; not written to by a send */
	void *addr;
	/* bytes in the buffer; a receive takes any message up to this */
	uint64_t length;
	/* registration of the buffer; may be null if it has at most small_bytes */
	struct gw_mr *mr;
	/* scheme for a large message, the same at both ends or the channel fails; null: the better of gw_selective_repeat and
	 * gw_auto's codes for each part, as the sender measures the path, with memory of the channel's; an end that names
	 * gw_selective_repeat can be its peer */
	const struct gw_scheme *scheme;
	/* time, in the context's clock, at which the operation ends with -ETIMEDOUT; 0: none */
	uint64_t deadline_ns;
	/* called at the end; may be null: use gw_op_test() */
	gw_op_fn *done;
	/* argument of `done` */
	void *arg;
	/* options of the scheme, valid until the operation has ended. A struct gw_erasure serves one part (part_bytes) at a
	 * time, and its max_length must be at least that. */
	const void *options;
	/* for schemes that leave holes, and operations with a deadline; with the argument of `done`; may be null */
	gw_op_part_fn *part;
	/* GW_OP_BUFFERED */
	uint64_t flags;
	/* of a send: a number of the caller's, which the matching receive's result has */
	uint16_t label;
	uint16_t reserved[3];
};

/*
 * Post an operation. Return 0, or
 * -ENOTCONN  the channel is not connected
 * -EINVAL
 * -EFAULT    the buffer is not inside `mr`
 * -ENOBUFS   `operations` are open, or more than eight schemes are in use
 * or the status of a channel that has failed.
 *
 * An operation ends with 0, or
 * -EMSGSIZE         the receive is smaller than the message; at both ends
 * -ECANCELED        gw_op_cancel() at either end, or the deadline of the other end passed
 * -ETIMEDOUT        its deadline passed, or the peer was silent
 * -ECONNRESET       the peer closed the channel
 * -EBADMSG          the CRC does not match the data
 * -EPROTONOSUPPORT  the two ends use different schemes
 * -EPROTO           the peer broke the protocol
 */
GW_API int gw_channel_send(struct gw_channel *channel, const struct gw_op_attr *attr,
			   struct gw_op **out);
GW_API int gw_channel_recv(struct gw_channel *channel, const struct gw_op_attr *attr,
			   struct gw_op **out);

/* Returns 0 while the operation is open; 1 when it has ended, and sets *out. `out` may be null. */
GW_API int gw_op_test(const struct gw_op *op, struct gw_op_result *out);

/* Makes progress until the operation has ended. Returns 0, -ETIMEDOUT if it has not ended in time, -EBUSY inside a callback,
 * or -EINTR after a signal. */
GW_API int gw_op_wait(struct gw_op *op, uint64_t timeout_ns);

/* Ends the operation with -ECANCELED as soon as its memory is no longer in use, and the matching one at the other end too,
 * unless that has received everything. The matching of other operations does not change. Returns 0, or -EALREADY if it has
 * ended. */
GW_API int gw_op_cancel(struct gw_op *op);

/* Frees the handle. Returns 0, or -EBUSY until the operation has ended. */
GW_API int gw_op_close(struct gw_op *op);

/* ---- rate, statistics ------------------------------------------------------------------------------------------ */

/* Sets the rate limit; GW_RATE_UNLIMITED removes it. At 0 no data leaves until it is set again, and the connection stays
 * open. */
GW_API int gw_channel_set_rate(struct gw_channel *channel, uint64_t bits_per_second);

struct gw_channel_stats {
	/* operations that ended with status 0, and their bytes */
	uint64_t sends, receives;
	uint64_t sent_bytes, received_bytes;
	/* operations that ended with an error */
	uint64_t failed;
	/* packs sent, and the small sends and control records in them */
	uint64_t packs, records;
	/* messages that carried large sends */
	uint64_t parts;
	/* large receives of the peer whose matching send was small */
	uint64_t skips;
	/* operations that have not ended */
	uint64_t sends_open, receives_open;
	/* smoothed round-trip time; 0: not measured */
	uint64_t rtt_ns;
	/* rate of the pacer; UINT64_MAX: no pacing */
	uint64_t rate_bps;
	/* window: most bytes in flight */
	uint64_t window_bytes;
	/* bytes sent and neither delivered nor lost, as the peer reported */
	uint64_t in_flight_bytes;
	/* share of packets lost, smoothed over some hundreds */
	double loss;
	/* sends that ended when they were copied, and are not known to have arrived */
	uint64_t unanswered;
	uint64_t reserved[7];
};
GW_API int gw_channel_stats(const struct gw_channel *channel, struct gw_channel_stats *out);

/* Writes a sentence or two for people: the peer, the oldest operation, the bytes that are missing, what it waits for, or why
 * the channel failed. Returns the length; the text is truncated if it does not fit. */
GW_API int gw_channel_explain(const struct gw_channel *channel, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
