/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h: messages over unreliable packets, with partial completion.
 *
 * The model is SDR's. A receiver posts a buffer; the library grants it to the peer (clear-to-send). A sender's i-th
 * message lands in the receiver's i-th posted receive, one packet at a time, in any order, each in its own place. What
 * arrived is a bitmap that the receiver may read at any moment, chunk by chunk or packet by packet, and it completes
 * the receive when it likes, also with holes. Nothing here repairs a loss: that is a scheme's work (scheme.h), and a
 * scheme uses only what is in this header and in control.h.
 *
 * Ending a receive takes two steps. *Completed*: it stops counting; the bitmap is frozen. *Released*: the fabric has
 * fenced it; nothing can land there any more, for ever, and the memory is the caller's again.
 */
#ifndef GODWIT_MESSAGE_H
#define GODWIT_MESSAGE_H

#include <godwit/godwit.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_qp;
struct gw_send;
struct gw_recv;
struct gw_nack; /* control.h */

/* ---- queue pairs ---------------------------------------------------------------------------------------------- */

struct gw_qp_handler {
	/* The peer closed (-ECONNRESET) or has been silent for too long (-ETIMEDOUT). Every request of the queue pair
	 * ends with the same status, before or after this call. Called once. */
	void (*gone)(struct gw_qp *qp, void *arg, int status, uint64_t now);
	/* Buffers of the peer's became known; gw_qp_next_grant() tells what those are that no waiting send takes. Must
	 * not close the queue pair. */
	void (*granted)(struct gw_qp *qp, void *arg, uint64_t now);
	/* The time of gw_qp_timer() has come. */
	void (*timer)(struct gw_qp *qp, void *arg, uint64_t now);
	/* The context is being closed, and the queue pair with it unless this call does so itself. */
	void (*closed)(struct gw_qp *qp, void *arg);
	/* The peer has been silent for peer_timeout_ns and would be given up. Non-zero: it is not, and this is asked again if it
	 * stays silent for a quarter of that time. For owners who know by other means that it lives. Must not close the queue
	 * pair. */
	int (*silent)(struct gw_qp *qp, void *arg, uint64_t now);
};

/* Keys that seal packets: each packet is encrypted and authenticated under keys derived from these. Both ends of a queue pair
 * have them, one's tx being the other's rx; gw_rendezvous_keys() makes such a pair. The same pair may serve any number of
 * queue pairs between two ends. */
struct gw_seal {
	uint8_t tx[32];
	uint8_t rx[32];
};

struct gw_qp_attr {
	/* Bytes in a packet at the most, a multiple of 4; default: the largest the path carries. */
	uint32_t payload;
	/* Packets that one bit of the chunk bitmap stands for: 1 to 64, a power of two; default 16. */
	uint32_t chunk_packets;
	/* Receives granted at once: a power of two up to 2^slot_bits; default 64. */
	uint32_t slots;
	/* Split of the immediate, in bits: 10 + 18 + 4 unless all three are given, with the sum 32. */
	uint8_t slot_bits;
	uint8_t packet_bits;
	uint8_t user_bits;
	/* Every packet size is a multiple of 2^payload_shift bytes, up to 10, at both ends; 0: of 4. So a line of that length which
	 * somebody polls while data lands is never split between two packets. */
	uint8_t payload_shift;
	/* Every packet size divides this number of bytes; 0: any size will do. */
	uint32_t payload_divides;
	/* Silence after which the peer is given up while anything is open, in ns; default 10 s. */
	uint64_t peer_timeout_ns;
	/* Time for which a slot rests before reuse, in ns; default: what the fabric needs. */
	uint64_t packet_lifetime_ns;
	const struct gw_qp_handler *handler;
	void *arg;
	/* The first receive takes at least so much, and is posted with the connect, before any progress is made: then the
	 * peer may send into it at once, ahead of every handshake, where the fabric can promise that. 0: no promise. */
	uint64_t first_bytes;
	/* Numeric address of the host that the peer's description comes from, over a connection that the host answered on
	 * (gw_rendezvous_remote()). A peer with that address gets data at once; to any other address nothing but probes go
	 * until it has answered one, which takes a round trip. Null: not known. */
	const char *peer_host;
	/* Keys to seal packets with; copied. The peer has to seal, too. Null: packets are clear. */
	const struct gw_seal *seal;
	/* Round-trip time in us as another protocol has measured it (gw_rendezvous_rtt_ns()). Until the first measurement, waits for
	 * the peer follow from it with a margin; after that it is not used. 0: not known, and the first waits are long. */
	uint32_t rtt_hint_us;
	uint32_t reserved[1];
};

/* What a peer must know to connect, as bytes to be carried there by any means. */
struct gw_qp_info {
	uint8_t bytes[128];
};

/* -EINVAL, -ENOMEM, -ENOBUFS (max_qps are open), -ENOTSUP (this fabric cannot seal packets) */
GW_API int gw_qp_create(struct gw_context *ctx, const struct gw_qp_attr *attr, struct gw_qp **out);
GW_API int gw_qp_info(const struct gw_qp *qp, struct gw_qp_info *out);

/*
 * Replaces the keys that a queue pair was created with, before it is connected: for keys that depend on both descriptions
 * (gw_rendezvous_secret_keys()).
 * -EINVAL          it was created without gw_qp_attr.seal
 * -EISCONN         it is connected, or was
 */
GW_API int gw_qp_seal(struct gw_qp *qp, const struct gw_seal *keys);

/*
 * Connects to the queue pair that `peer` describes. Local: nothing is sent.
 * -EINVAL          not such a description
 * -EPROTONOSUPPORT made by a version or a fabric that this one does not speak
 * -EISCONN         connected before
 * -EMSGSIZE        the two ends split the immediate differently
 * -EPERM           one end seals its packets and the other does not
 * -ENETUNREACH     no way from this fabric's address to the peer's
 */
GW_API int gw_qp_connect(struct gw_qp *qp, const struct gw_qp_info *peer);

/* Tells the peer, ends every request with -ECANCELED (handles stay valid until closed) and gives the handle back. */
GW_API int gw_qp_close(struct gw_qp *qp);

/* 0 while usable, -ENOTCONN before connect, or the status that `gone` was given. */
GW_API int gw_qp_status(const struct gw_qp *qp);

/* The peer's address for a person, "" before it is connected. Returns its length; cut if it does not fit. */
GW_API int gw_qp_peer(const struct gw_qp *qp, char *text, size_t size);

/* ---- sending -------------------------------------------------------------------------------------------------- */

/* What became of a message at the receiver. */
struct gw_result {
	/* Packets that had not arrived when it completed; 0: whole. GW_MISSING_UNKNOWN: never announced. */
	uint32_t missing;
	uint32_t reserved;
};
#define GW_MISSING_UNKNOWN UINT32_MAX

/* Each may be null. */
struct gw_send_handler {
	/* The receiver's buffer for this message is known; `capacity` is its size. Puts may start. */
	void (*granted)(struct gw_send *send, void *arg, uint64_t capacity, uint64_t now);
	/* Everything put so far was handed to the fabric; there is room for further puts. `now` is when the last of it leaves,
	 * which may be some milliseconds in the future. */
	void (*drained)(struct gw_send *send, void *arg, uint64_t now);
	/* The receiver's scheme acknowledges and names holes. */
	void (*nack)(struct gw_send *send, void *arg, const struct gw_nack *nack, uint64_t now);
	/* The receiver's scheme says something of its own. */
	void (*control)(struct gw_send *send, void *arg, const void *data, size_t length,
			uint64_t now);
	void (*timer)(struct gw_send *send, void *arg, uint64_t now);
	/* The receiver completed this message. After `done`, too, while the handle is open. */
	void (*result)(struct gw_send *send, void *arg, const struct gw_result *result,
		       uint64_t now);
	/* The send ended: its memory is the caller's. Called once; the handle may be closed in it. */
	void (*done)(struct gw_send *send, void *arg, int status, uint64_t now);
	/* Streams: large packets reach the peer no longer, and the message goes on in smaller ones (gw_send_payload()). What
	 * was put and not sent is dropped. Everything counts as sent once: the receiver asks for what it lacks. Null: such a
	 * path ends the queue pair with -EMSGSIZE. */
	void (*recut)(struct gw_send *send, void *arg, uint64_t now);
};

#define GW_SEND_IMM 1u /* the message carries attr.imm */
/* Streams: as long as the receive it lands in turns out to be. attr.length must be 0. */
#define GW_SEND_FILL 2u

struct gw_send_attr {
	/* Memory of a one-shot send; streams name memory in each put. */
	const void *addr;
	/* Bytes of the whole message; at most 2^packet_bits of the smallest packets. */
	uint64_t length;
	struct gw_mr *mr;
	uint32_t flags;
	uint32_t imm;
	/* Number of the scheme, told to the receiver in the announcement with the geometry. */
	uint8_t scheme;
	uint8_t reserved8[3];
	uint32_t reserved32;
	uint32_t geometry[2];
	const struct gw_send_handler *handler;
	void *arg;
	uint64_t reserved[4];
};

/*
 * One-shot: sends every packet of the buffer once. Ends (`done`, status 0) when the memory may be used again.
 * -ENOTCONN, -EINVAL
 * -EFAULT    the memory is not inside `mr`
 * -EMSGSIZE  longer than the immediate can count
 * -ENOBUFS   max_sends are open
 * or the status of a queue pair that is gone. Ends with -EMSGSIZE when the posted receive is too small.
 */
GW_API int gw_send_post(struct gw_qp *qp, const struct gw_send_attr *attr, struct gw_send **out);

/* Streamed: as gw_send_post, but nothing is sent until it is put. */
GW_API int gw_stream_start(struct gw_qp *qp, const struct gw_send_attr *attr, struct gw_send **out);

/*
 * Sends [offset, offset + length) of the message from `addr`. Any range, in any order, any number of times; offset on
 * a packet boundary, length too unless it reaches the message's end. A range to be repeated that still waits to be is
 * not put twice.
 * -EAGAIN   not granted yet, or GW_PUTS_MAX puts are waiting (`drained` tells)
 * -ERANGE   outside the message or off a packet boundary
 * -EFAULT   the memory is not inside `mr`
 * -EINVAL   not a stream
 * -EALREADY ended
 */
GW_API int gw_stream_put(struct gw_send *stream, uint64_t offset, const void *addr, uint64_t length,
			 struct gw_mr *mr);
#define GW_PUTS_MAX 128

/* Bytes of data in a full packet of this message, as the receiver's grant names them. -EAGAIN until granted. They change
 * at most once, with `recut`. */
GW_API int gw_send_payload(const struct gw_send *send, uint32_t *out);

/* How many puts wait to be sent, wholly or in part. Puts of packets that were sent before go first. -EINVAL not a
 * stream. */
GW_API int gw_stream_waiting(const struct gw_send *stream);

/* No more puts. The stream is done when the last put was handed over. -EINVAL not a stream, -EALREADY. */
GW_API int gw_stream_end(struct gw_send *stream);

/* As gw_stream_end(), and what was put and not sent yet is not sent. The receiver is told nothing: it goes on waiting
 * for the rest until it completes its receive. */
GW_API int gw_stream_abort(struct gw_send *stream);

/* 0 while it goes on, 1 when it ended well, or the -errno it ended with. */
GW_API int gw_send_test(const struct gw_send *send);

/* Gives the handle back. One that has not ended is abandoned: what was not sent yet is not sent, and what the fabric has
 * taken it may still read, until the queue pair is closed. */
GW_API int gw_send_close(struct gw_send *send);

/* The peer's buffer that the next send posted will get. */
struct gw_grant {
	uint64_t capacity;
	/* Number that the receiver chose. */
	uint32_t tag;
	uint32_t reserved;
};

/* -EAGAIN while it is not known. Whoever posts a send only when it is can let the receiver's tag decide which. */
GW_API int gw_qp_next_grant(const struct gw_qp *qp, struct gw_grant *out);

/* ---- receiving ------------------------------------------------------------------------------------------------ */

struct gw_recv_handler {
	/* The sender's announcement arrived: length, immediate and scheme are known. */
	void (*announced)(struct gw_recv *recv, void *arg, uint64_t now);
	/* Packets landed since the last call, the announcement arrived, or gw_recv_watch() asked for it. At most once for
	 * each gw_progress(). */
	void (*progress)(struct gw_recv *recv, void *arg, uint64_t now);
	/* The sender's scheme says something of its own. */
	void (*control)(struct gw_recv *recv, void *arg, const void *data, size_t length,
			uint64_t now);
	void (*timer)(struct gw_recv *recv, void *arg, uint64_t now);
	/* Nothing lands any more: the memory is the caller's. status is 0 when the caller completed it, else why the
	 * queue pair ended it. Called once; the handle may be closed in it. */
	void (*released)(struct gw_recv *recv, void *arg, int status, uint64_t now);
	/* Large packets arrive no longer, and the message goes on in smaller ones: packets, chunks and holes are numbered
	 * anew, what landed stays landed, and what has not is provably lost (gw_recv_passed()). Only `status.payload` and
	 * what depends on it changes, so that a handler that keeps no packet numbers needs no such call. */
	void (*recut)(struct gw_recv *recv, void *arg, uint64_t now);
};

struct gw_recv_attr {
	void *addr;
	uint64_t length;
	struct gw_mr *mr;
	const struct gw_recv_handler *handler;
	void *arg;
	/* Number told to the sender with the grant; the library gives it no meaning. */
	uint32_t tag;
	uint32_t flags;
	uint64_t reserved[3];
};

/* Not all of it is sent, or not in order: its holes say nothing of the path. */
#define GW_RECV_SPARSE 1u
/* Its packets are as large as those of the receive posted before it. */
#define GW_RECV_SAME_SIZE 2u

/*
 * Posts a buffer for the next message. More than `slots` may be posted; the rest are granted as slots come free.
 * -ENOTCONN, -EINVAL, -EFAULT (memory not inside `mr`), -EMSGSIZE (more packets than the immediate can count),
 * -ENOBUFS (max_recvs are open, or no bitmap memory), or the status of a queue pair that is gone.
 */
GW_API int gw_recv_post(struct gw_qp *qp, const struct gw_recv_attr *attr, struct gw_recv **out);

#define GW_RECV_ANNOUNCED 1u
#define GW_RECV_FULL	  2u /* every packet of the announced length has landed */
#define GW_RECV_COMPLETED 4u
#define GW_RECV_RELEASED  8u

struct gw_recv_status {
	uint32_t flags;
	/* Packets of the announced length; 0 until announced. */
	uint32_t packets;
	/* Announced length, in bytes. */
	uint64_t length;
	/* Different packets that have landed. */
	uint32_t landed;
	/* One past the highest of them. */
	uint32_t highest;
	uint8_t scheme;
	uint8_t reserved8[3];
	uint32_t geometry[2];
	/* Bytes in a full packet; 0 until it is granted. Changes at most once, with `recut`. */
	uint32_t payload;
};
GW_API int gw_recv_status(const struct gw_recv *recv, struct gw_recv_status *out);

/*
 * The chunk bitmap, live until the receive is completed and readable until it is closed: bit i of words[i / 64] says
 * that every packet of chunk i has landed. A last, short chunk counts once the length was announced.
 */
GW_API int gw_recv_bitmap(const struct gw_recv *recv, const uint64_t **words, uint32_t *chunks);

/* The packets of one chunk, lowest bit first. -ERANGE past the buffer. */
GW_API int gw_recv_expand(const struct gw_recv *recv, uint32_t chunk, uint64_t *packets);

struct gw_run {
	uint32_t first;
	uint32_t count;
};

/* The first run of packets in [from, below) that have not landed. 1 with *out set, 0 when there is none. `below` is
 * cut to the buffer's end. */
GW_API int gw_recv_next_hole(const struct gw_recv *recv, uint32_t from, uint32_t below,
			     struct gw_run *out);

/* The sender's immediate. -EAGAIN until known, -ENODATA when the message has none. */
GW_API int gw_recv_imm(const struct gw_recv *recv, uint32_t *imm);

/* Ends the receive, whole or not. -EALREADY. */
GW_API int gw_recv_complete(struct gw_recv *recv);

/* 0 while the fabric may still touch the memory, 1 when released, -errno when the queue pair's end released it. */
GW_API int gw_recv_test(const struct gw_recv *recv);

/* Gives the handle back. -EBUSY until released: complete it first. */
GW_API int gw_recv_close(struct gw_recv *recv);

#ifdef __cplusplus
}
#endif
#endif
