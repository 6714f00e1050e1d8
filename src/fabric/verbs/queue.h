/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.h: completion queues, queues and receive requests: what libibverbs calls a CQ, a QP, and the work requests posted
 * to it. Private to fabric/verbs.
 */
#ifndef FABRIC_VERBS_QUEUE_H
#define FABRIC_VERBS_QUEUE_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "fabric/address.h"

struct verbs_endpoint;
struct verbs_group;
struct verbs_qp;

/* Completions taken from a completion queue at once. */
#define CQ_BATCH 32
/* Completion queues of an endpoint at most. */
#define CQS_MAX 256
/* Requests posted at once. */
#define POST_BATCH 64

/* ---- completion queues (cq.c) --------------------------------------------------------------------------------- */

struct cq {
	struct ibv_cq *ibv;
	/* Entries. */
	uint32_t size;
	/* Entries reserved by queues, for all requests that they can have outstanding. */
	uint32_t reserved;
	/* Of these, entries of queues that are gone: free once the completion queue was seen empty. */
	uint32_t leaving;
	/* Times that it was seen empty. */
	uint64_t empties;
	/* Whether the next completion raises an event on the channel. */
	bool armed;
	/* Completions taken, and the next one of them to handle. */
	uint32_t count;
	uint32_t next;
	struct ibv_wc taken[CQ_BATCH];
};

/* ---- queues (queue.c) ----------------------------------------------------------------------------------------- */

/* Kinds of request, in wr_id. */
enum request { REQUEST_RECEIVE, REQUEST_WRITE, REQUEST_CONTROL, REQUEST_BIND, REQUEST_GROUP };

enum queue_kind { QUEUE_UC, QUEUE_UD, QUEUE_CONTROL, QUEUE_BINDER, QUEUE_GROUP };

/* Receive requests, of one queue or shared by many (supply.c). */
struct supply {
	struct verbs_endpoint *endpoint;
	/* Queue that they are posted to; null: shared. */
	struct queue *queue;
	/* Shared receive queue; null: not shared. */
	struct ibv_srq *srq;
	/* Seat of the queue, or of the supply itself where it is shared. */
	uint32_t seat;
	/* Requests. */
	uint32_t depth;
	/* Requests that were used and are to be posted again. */
	uint32_t spent;
	/* Bytes of memory of each request; 0: none. */
	uint32_t cell_size;
	/* Cells of the spent requests. */
	uint32_t *spent_cells;
	/* All cells, and their registration. */
	uint8_t *memory;
	struct ibv_mr *mr;
};

struct queue {
	struct verbs_endpoint *endpoint;
	/* Queue pair that it is part of; null: the binder, a group's queue, or a queue whose owner was destroyed. */
	struct verbs_qp *owner;
	/* Group that it is part of; null: none. */
	struct verbs_group *group;
	struct ibv_qp *qp;
	struct cq *cq;
	/* Link in the endpoint's list of broken queues. */
	struct list broken;
	enum queue_kind kind;
	uint8_t lane;
	uint32_t seat;
	uint32_t qkey;
	/* Send requests that it holds, and how many may be posted now. */
	uint32_t sends;
	uint32_t send_room;
	/* Receive requests, its own or shared. */
	struct supply *supply;
	/* UD: registration and memory of send requests, one cell each; bytes of a cell; next cell to use. */
	struct ibv_mr *mr;
	uint8_t *send_cells;
	uint32_t send_cell_size;
	uint32_t send_next;
	/* Control: sends since the last one that asked for a completion. */
	uint32_t unsignalled;
	/* Whether it is connected, and with which attributes: they are used again after an error. */
	bool connected;
	struct ibv_qp_attr to_peer;
	/* cq->empties at the time it broke. */
	uint64_t broken_mark;
	/* When to try next to set it up again, and attempts so far. */
	uint64_t heal_at;
	uint32_t heal_attempts;
};

static inline uint8_t *supply_cell(const struct supply *supply, uint32_t cell)
{
	return supply->memory + (size_t)cell * supply->cell_size;
}

/* ---- cq.c ----------------------------------------------------------------------------------------------------- */
/* Reserves entries in a completion queue, a new one if need be. -ENOBUFS: there is no room. */
int cq_reserve(struct verbs_endpoint *endpoint, uint32_t entries, struct cq **out);
/* Opens one more completion queue, the endpoint's last. */
int cq_open(struct verbs_endpoint *endpoint, uint32_t entries);
/* Gives reserved entries back. */
void cq_release(struct cq *cq, uint32_t entries);
void cqs_close(struct verbs_endpoint *endpoint);
/* Takes the next completion; null: none now. */
struct ibv_wc *cq_next(struct cq *cq);
/* Asks for an event on the next completion of every queue; true when there is a completion already. */
bool cqs_arm(struct verbs_endpoint *endpoint);
/* Takes the events off the channel. */
void cqs_take_events(struct verbs_endpoint *endpoint);

/* ---- queue.c -------------------------------------------------------------------------------------------------- */
/* Makes a queue, as far as it gets without a peer (queue_prepare()); the caller sets its owner or group. */
int queue_create(struct verbs_endpoint *endpoint, enum queue_kind kind, unsigned lane,
		 uint32_t qkey, struct cq *cq, struct queue **out);
void queue_destroy(struct queue *queue);
/* Takes a queue as far as it gets without a peer: datagram queues are ready, others have their receive requests. */
int queue_prepare(struct queue *queue);
/* Connects a UC queue to the peer's queue pair. */
int queue_connect(struct queue *queue, uint32_t qpn, const struct ibv_ah_attr *route,
		  uint32_t path_mtu);
/* Puts a queue into error; `what` is the reason for the log. It is set up again once its completions were read. */
void queue_break(struct queue *queue, const char *what);
/* Sets up again the queues that are in error, as far as their time has come. */
void queues_heal(struct verbs_endpoint *endpoint);
struct ibv_ah_attr route_to(const struct verbs_endpoint *endpoint, const struct roce_address *peer);

/* Takes a free seat, and gives it back. */
int seat_take(struct verbs_endpoint *endpoint, uint32_t *out);
void seat_leave(struct verbs_endpoint *endpoint, uint32_t seat);

/* ---- supply.c ------------------------------------------------------------------------------------------------- */
/* Makes receive requests for a queue; with a null queue shared ones, which are posted at once. */
int supply_create(struct verbs_endpoint *endpoint, struct queue *queue, uint32_t depth,
		  uint32_t cell_size, struct supply **out);
void supply_destroy(struct supply *supply);
/* Posts all requests. */
int supply_fill(struct supply *supply);
/* Notes that a request was used, with `cell` where it had memory, and posts used ones again by batches. */
void supply_spend(struct supply *supply, uint32_t cell);
/* Makes the endpoint's shared requests where they were asked for. */
int supplies_share(struct verbs_endpoint *endpoint);
/* The queue with this queue pair number; null: none. */
struct queue *queue_by_number(const struct verbs_endpoint *endpoint, uint32_t number);
/* Makes the table of queues by number again, after queues came or went. */
int queues_number(struct verbs_endpoint *endpoint);

#endif
