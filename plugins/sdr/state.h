/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * state.h: what the library's files share.
 *
 * A context is one of Godwit's with a lock around it and a thread that keeps it going (service.c). Whatever hangs on
 * the context is touched under that lock only; the one exception is the bytes of a bitmap, which users read as they
 * change. Requests come from arrays made with the queue pair, so that posting allocates nothing here.
 */
#ifndef PLUGINS_SDR_STATE_H
#define PLUGINS_SDR_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <godwit/flow.h>

#include "sdr.h"
#include "sdr_mr.h"

struct sdr_context {
	struct gw_context *gw;
	pthread_mutex_t lock;
	pthread_t service;
	atomic_uint callers; /* threads that hold the lock or want it */
	atomic_bool asleep;  /* the service thread may be sleeping under the lock */
	atomic_bool stop;
	struct sdr_qp *qps;  /* all of them */
	struct sdr_mr **mrs; /* by the index in their key */
	uint32_t mr_room;
};

struct sdr_mr {
	struct sdr_context *ctx;
	struct gw_mr *gw;
	uint32_t lkey;
	uint32_t users; /* sends that will name it when their turn comes */
};

struct sdr_send_handle {
	struct sdr_qp *qp;
	struct gw_send *gw;
	struct sdr_send_handle *next_free;
	bool open;
	bool stream;
	int error; /* what kept a one-shot send from being put, or 0 */
	/* Of a one-shot send that starts inside its receive: what to put when that is granted. */
	struct sdr_mr *mr;
	const void *addr;
	uint64_t offset;
	uint32_t length;
};

struct sdr_recv_handle {
	struct sdr_qp *qp;
	struct gw_recv *gw;
	struct sdr_recv_handle *next_free;
	bool open;
	uint32_t max_length;
	uint32_t whole; /* packets below this have all landed */
	size_t chunks;
	uint8_t *bytes; /* a byte a chunk */
};

struct sdr_qp {
	struct sdr_context *ctx;
	struct gw_qp *gw;
	struct sdr_qp *next;
	bool send_enable, recv_enable;
	uint32_t chunk_log;
	uint32_t mtu; /* as asked for; packets may be smaller */
	uint64_t message_max;
	uint32_t rate_limit_kbps;
	struct gw_flow *flow;
	uint32_t handles; /* in each of the arrays */
	struct sdr_send_handle *sends, *sends_free;
	struct sdr_recv_handle *recvs, *recvs_free;
	uint8_t *bytes;
};

/* service.c: the lock and the thread */
int service_start(struct sdr_context *ctx);
void service_stop(struct sdr_context *ctx);
void service_enter(struct sdr_context *ctx);
/* `push`: does what there is to do before letting go, so that what was just posted leaves now. */
void service_leave(struct sdr_context *ctx, bool push);

/* environment.c: what $SDR_... say */
#define FABRIC_NAME 256
/* The fabric string for this device. -ENAMETOOLONG */
int environment_fabric(const char *dev_name, char out[FABRIC_NAME]);
/* Faults on purpose: 1, or 0 when none are asked for. -EINVAL */
int environment_faults(struct gw_faults *out);
void environment_ignored(void);
/* One line on stderr. Returns SDR_ERROR. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, about a call into Godwit that failed. */
int complain_gw(const char *call, int error);

/* mr.c: the memory that a key names, or NULL */
struct sdr_mr *mr_find(const struct sdr_context *ctx, uint32_t lkey);
void mr_free_all(struct sdr_context *ctx);

/* qp.c: closes the rate limit of a queue pair, before its context is closed; and frees it, after. */
void qp_unlimit(struct sdr_qp *qp);
void qp_free(struct sdr_qp *qp);

/* bitmap.c: from packets to bytes, after something landed */
void bitmap_update(struct sdr_recv_handle *handle);
uint64_t bitmap_expand(const struct sdr_recv_handle *handle, uint32_t chunk);

#endif
