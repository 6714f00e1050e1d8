/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_inside.h: what the device that is not there consists of, shared by the file that carries requests out
 * (fake_verbs.c) and the one that makes and unmakes objects (fake_objects.c).
 */
#ifndef FAKE_INSIDE_H
#define FAKE_INSIDE_H

#include "fake_verbs.h"

#define FAKE_QPS       256
#define FAKE_PIECES    2
#define FAKE_FIRST_QP  100
#define FAKE_WINDOWS   4096
#define FAKE_GROUPS    16
#define FAKE_MULTICAST 0xffffffu /* the queue pair number that stands for a group */

struct fake_cq {
	struct ibv_cq cq;
	uint32_t head, tail, size;
	struct ibv_wc entries[];
};

struct fake_request {
	struct fake_request *next;
	struct fake_qp *qp;
	struct ibv_send_wr wr;
	struct ibv_sge pieces[FAKE_PIECES];
	/* of a bind */
	struct fake_mw *mw;
	struct ibv_mw_bind_info bind;
	uint32_t rkey;
};

/* Receive requests, of one queue pair or shared. */
struct fake_rq {
	struct ibv_srq srq;
	uint32_t depth, head, tail;
	struct {
		uint64_t wr_id;
		struct ibv_sge cell;
	} receives[];
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_rq *rq;
	uint32_t dest, qkey;
	uint32_t send_depth, sends;
	bool reached; /* its last receive request, an event says */
};

struct fake_mw {
	struct ibv_mw mw;
	struct ibv_mr *mr;
	uint64_t addr, length;
	uint32_t rkey;
};

struct fake_ah {
	struct ibv_ah ah;
	union ibv_gid gid; /* that it leads to */
};

/* A queue pair that is attached to a group. */
struct fake_member {
	struct fake_qp *qp; /* null: nobody */
	union ibv_gid gid;
};

extern const uint8_t fake_ip[4]; /* of every end */
extern struct fake_qp *fake_qps[FAKE_QPS];
extern struct fake_mw *fake_windows[FAKE_WINDOWS];
extern struct fake_member fake_members[FAKE_GROUPS];

/* Where requests go: what a context of the device does with them. */
void fake_set_ops(struct ibv_context *context);
/* Everything of the queue pair completes in error. */
void fake_to_error(struct fake_qp *qp);
/* Whether a request that waits is about this window. */
bool fake_waits(const struct fake_mw *mw);
/* From now on these addresses are the device's memory. */
bool fake_give_dmabuf(uint64_t addr, uint64_t offset, size_t length);

struct ibv_mw *fake_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int fake_dealloc_mw(struct ibv_mw *mw);

#endif
