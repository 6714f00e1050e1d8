/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: the objects of the library.
 *
 * A context is a Godwit context with a thread that makes progress: a service of one. Every object of the context is
 * accessed by the thread that owns it, except for the bytes of a bitmap, which users read while they change. Requests are
 * taken from arrays that are allocated with the queue pair, so that posting allocates nothing here.
 */
#ifndef PLUGINS_SDR_STATE_H
#define PLUGINS_SDR_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/flow.h>
#include <godwit/service.h>

#include "sdr.h"
#include "sdr_mr.h"

struct sdr_context {
	struct gw_service *service;
	/* the service's only context */
	struct gw_context *gw;
	/* file with the secret that packets are sealed with; NULL: they are clear */
	char *secret_file;
	/* list of all queue pairs */
	struct sdr_qp *qps;
	/* memory regions, by the index in their key, and entries in the table */
	struct sdr_mr **mrs;
	uint32_t mr_room;
};

struct sdr_mr {
	struct sdr_context *ctx;
	/* NULL: not registered; the entry can be reused */
	struct gw_mr *gw;
	uint32_t lkey;
	/* open sends that will put data from it later */
	uint32_t users;
};

struct sdr_send_handle {
	struct sdr_qp *qp;
	struct gw_send *gw;
	struct sdr_send_handle *next_free;
	/* posted, and not completed by sdr_send_poll() */
	bool open;
	/* a streaming send */
	bool stream;
	/* -errno if the data of a one-shot send could not be put, or 0 */
	int error;
	/* For a one-shot send with an offset: the data to put when the receive is granted; mr is NULL otherwise */
	struct sdr_mr *mr;
	const void *addr;
	uint64_t offset;
	uint32_t length;
};

struct sdr_recv_handle {
	struct sdr_qp *qp;
	struct gw_recv *gw;
	struct sdr_recv_handle *next_free;
	/* posted, and not completed */
	bool open;
	/* bytes in the buffer */
	uint32_t max_length;
	/* number of packets from the first on that have all landed */
	uint32_t whole;
	/* the published bitmap: chunks in the buffer, and one byte for each */
	size_t chunks;
	uint8_t *bytes;
};

/* Bytes of a queue pair's description: a header, and Godwit's own description. */
#define INFO_HEADER 16
#define INFO_BYTES  (INFO_HEADER + sizeof(struct gw_qp_info))

struct sdr_qp {
	struct sdr_context *ctx;
	struct gw_qp *gw;
	struct sdr_qp *next;
	bool send_enable, recv_enable;
	/* logarithm of the bytes in a chunk */
	uint32_t chunk_log;
	/* bytes in a packet as requested, at most a chunk; packets may be smaller */
	uint32_t mtu;
	/* most bytes in a message */
	uint64_t message_max;
	/* the description as the peer gets it; its first byte is 0 until it was asked for */
	uint8_t info[INFO_BYTES];
	/* rate limit, 0: none, and the flow that applies it after connecting */
	uint32_t rate_limit_kbps;
	struct gw_flow *flow;
	/* entries in each of the arrays below */
	uint32_t handles;
	struct sdr_send_handle *sends, *sends_free;
	struct sdr_recv_handle *recvs, *recvs_free;
	/* memory of all bitmaps */
	uint8_t *bytes;
};

/* context.c: the calling thread owns the context from one of these to the other. With `push` it makes progress first, so that
 * what was just posted leaves at once. */
void service_enter(struct sdr_context *ctx);
void service_leave(struct sdr_context *ctx, bool push);

/* environment.c: the settings in environment variables $SDR_... */
#define FABRIC_NAME 256
/* Writes the fabric string for a device. Returns 0 or -ENAMETOOLONG. */
int environment_fabric(const char *dev_name, char out[FABRIC_NAME]);
/* Reads the faults to inject. Returns 1, 0 if there are none, or -EINVAL. */
int environment_faults(struct gw_faults *out);
/* Prints a line for each variable of the published library that has no effect here. */
void environment_ignored(void);
/* Prints one line to stderr. Returns SDR_ERROR. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a call of Godwit that returned an error. */
int complain_gw(const char *call, int error);

/* mr.c: returns the memory region of a key, or NULL. */
struct sdr_mr *mr_find(const struct sdr_context *ctx, uint32_t lkey);
void mr_free_all(struct sdr_context *ctx);

/* seal.c: the secret of a context, from $GODWIT_SECRET_FILE. -errno, with a line on stderr. */
int seal_open(struct sdr_context *ctx);
/* Fills in keys that nobody knows: a queue pair needs some until its peer is known. -errno */
int seal_placeholder(struct gw_seal *out);
/* Sets the queue pair's keys, which follow from the secret and both descriptions. SDR_ERROR, with a line on stderr. */
int seal_connect(struct sdr_qp *qp, const uint8_t peer[INFO_BYTES]);

/* qp.c: closes the rate limit of a queue pair, before its context is closed; and frees it, after. */
void qp_unlimit(struct sdr_qp *qp);
void qp_free(struct sdr_qp *qp);

/* bitmap.c: sets the bytes of chunks that landed; and returns the packets of one chunk as bits. */
void bitmap_update(struct sdr_recv_handle *handle);
uint64_t bitmap_expand(const struct sdr_recv_handle *handle, uint32_t chunk);

#endif
