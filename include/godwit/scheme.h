/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scheme.h: reliability as software on top of messages.
 *
 * A scheme is two handler tables, one for each end, and a begin call that arms them. It keeps its state in the
 * request's own memory (gw_send_state, gw_recv_state), acts through message.h and control.h, and says when it is
 * finished. The library's own schemes are written against these headers alone; a user's is their equal.
 *
 * State begins with struct gw_transfer, which the functions below own.
 */
#ifndef GODWIT_SCHEME_H
#define GODWIT_SCHEME_H

#include <godwit/control.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gw_scheme;

/* What a transfer came to. */
struct gw_transfer_result {
	/* 0, or why it failed. */
	int status;
	/* Packets that did not arrive, when that is known. */
	uint32_t missing;
	/* Bytes of the message. */
	uint64_t length;
};

typedef void gw_transfer_fn(void *arg, const struct gw_transfer_result *result, uint64_t now);

struct gw_transfer_attr {
	/* Memory of the message; not written to when sending. */
	void *addr;
	uint64_t length;
	struct gw_mr *mr;
	/* GW_SEND_IMM or 0. */
	uint32_t flags;
	uint32_t imm;
	/* Called once, when the memory is the caller's again. */
	gw_transfer_fn *done;
	void *arg;
	/* Tag of a receive, as in struct gw_recv_attr. */
	uint32_t tag;
	uint32_t reserved32;
	/* The scheme's own options, read before the call returns; null: its defaults. */
	const void *options;
	uint64_t reserved[3];
};

/* The head of a scheme's state. */
struct gw_transfer {
	const struct gw_scheme *scheme;
	void *addr;
	uint64_t length;
	struct gw_mr *mr;
	gw_transfer_fn *done;
	void *arg;
	struct gw_transfer_result result;
	int finished;
	/* Tag of a receive. */
	uint32_t tag;
	/* For `begin`. Afterwards it points at something only where the scheme has its callers keep it. */
	const void *options;
};

struct gw_scheme {
	const char *name;
	/* Number on the wire; 1 to 127 are the library's, 128 to 255 a user's. */
	uint8_t id;
	/* Called before there is a request, at either end: whether the options make sense (0 or -errno), and the
	 * geometry that a sender announces. A scheme without it takes no options. */
	int (*prepare)(struct gw_qp *qp, const struct gw_transfer_attr *attr, uint32_t geometry[2]);
	/* Called when the request exists and before anything happened to it. */
	void (*send_begin)(struct gw_send *send, uint64_t now);
	void (*recv_begin)(struct gw_recv *recv, uint64_t now);
	/* `done` and `released` are gw_transfer_sent and gw_transfer_received, or functions that end in them. */
	struct gw_send_handler send;
	struct gw_recv_handler recv;
};

/* Posts a transfer under a scheme; the errors of gw_stream_start() and gw_recv_post(). The handle is closed with
 * gw_send_close() or gw_recv_close() after `done`. */
GW_API int gw_transfer_send(struct gw_qp *qp, const struct gw_scheme *scheme,
			    const struct gw_transfer_attr *attr, struct gw_send **out);
GW_API int gw_transfer_recv(struct gw_qp *qp, const struct gw_scheme *scheme,
			    const struct gw_transfer_attr *attr, struct gw_recv **out);

/* For a scheme: the transfer ends with this. The send's stream is ended, the receive completed; the caller hears of it
 * when its memory is free. A second finish is ignored. */
GW_API void gw_transfer_finish_send(struct gw_send *send, int status, uint32_t missing);
GW_API void gw_transfer_finish_recv(struct gw_recv *recv, int status, uint32_t missing);

/* What a scheme's tables hold for `done` and `released`: they tell the caller. */
GW_API void gw_transfer_sent(struct gw_send *send, void *arg, int status, uint64_t now);
GW_API void gw_transfer_received(struct gw_recv *recv, void *arg, int status, uint64_t now);

/* Exact: every packet arrives. The receiver names holes as soon as they are provable, the sender repeats those. */
extern GW_API const struct gw_scheme gw_selective_repeat;

#ifdef __cplusplus
}
#endif
#endif
