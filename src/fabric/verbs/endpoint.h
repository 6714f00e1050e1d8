/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.h: what a verbs endpoint consists of. Private to fabric/verbs.
 *
 * A fabric queue pair is a few queues: a lane or more that carry data, and one for control. A queue is one ibv_qp with
 * an account of what is posted to it. One more queue, the endpoint's own, opens and closes memory windows. Queues
 * complete into shared completion queues, in which each has reserved room for its worst case.
 *
 * A completion names its request by wr_id: what it was, the queue's seat in a table, the seat's epoch and an argument.
 * The epoch tells completions of a queue that is gone, or was set up anew, from those of its successor.
 */
#ifndef FABRIC_VERBS_ENDPOINT_H
#define FABRIC_VERBS_ENDPOINT_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "base/pool.h"
#include "fabric/address.h"
#include "fabric/fabric.h"
#include "fabric/rate_limit.h"
#include "fabric/verbs/size.h"
#include "fabric/verbs/verbs.h"

#define CQ_BATCH     32 /* completions taken from a queue at once */
#define CQS_MAX	     256
#define POST_BATCH   64	 /* requests posted at once */
#define BATCHES	     128 /* of writes outstanding on a queue pair; a power of two */
#define GRH_SIZE     40	 /* what a UD queue pair puts before each datagram */
#define CONTROL_CELL 2048u
#define KEY_SIZE     ADDRESS_UD_KEY_SIZE

/* ---- completion queues (cq.c) --------------------------------------------------------------------------------- */

struct cq {
	struct ibv_cq *ibv;
	uint32_t size;
	uint32_t reserved; /* by its users, for all they can have outstanding */
	uint32_t leaving;  /* of which by users that are gone: free once it was seen empty */
	uint64_t empties;  /* times it was seen empty */
	bool armed;
	uint32_t count;
	uint32_t next;
	struct ibv_wc taken[CQ_BATCH];
};

/* ---- queues (queue.c) ----------------------------------------------------------------------------------------- */

enum request { REQUEST_RECEIVE, REQUEST_WRITE, REQUEST_CONTROL, REQUEST_BIND, REQUEST_GROUP };

enum queue_kind { QUEUE_UC, QUEUE_UD, QUEUE_CONTROL, QUEUE_BINDER, QUEUE_GROUP };

/* Receive requests (supply.c). */
struct supply {
	struct verbs_endpoint *endpoint;
	struct queue *queue; /* whose they are; null: shared */
	struct ibv_srq *srq; /* null unless shared */
	uint32_t seat;	     /* the queue's, or its own when shared */
	uint32_t depth;
	uint32_t spent;	    /* used up, to be posted again */
	uint32_t cell_size; /* 0: requests without memory */
	uint32_t *spent_cells;
	uint8_t *memory;
	struct ibv_mr *mr;
};

struct queue {
	struct verbs_endpoint *endpoint;
	struct verbs_qp *owner;	   /* null: the binder, a group's, or its owner is gone */
	struct verbs_group *group; /* whose it is, if it is one's */
	struct ibv_qp *qp;
	struct cq *cq;
	struct list broken; /* among those to be healed */
	enum queue_kind kind;
	uint8_t lane;
	uint32_t seat;
	uint32_t qkey;
	uint32_t sends;	       /* depth */
	uint32_t send_room;    /* requests that may be posted now */
	struct supply *supply; /* of receive requests, its own or shared */
	/* UD: memory for what is sent, a cell a request. */
	struct ibv_mr *mr;
	uint8_t *send_cells;
	uint32_t send_cell_size;
	uint32_t send_next;
	/* Control: sends since the last that asked for a completion. */
	uint32_t unsignalled;
	/* What it was connected with: healing does it again. */
	bool connected;
	struct ibv_qp_attr to_peer;
	uint64_t broken_mark; /* its completion queue's count of empties when it broke */
	uint64_t heal_at;
	uint32_t heal_attempts;
};

/* ---- windows (window.c) --------------------------------------------------------------------------------------- */

enum window_state {
	WINDOW_BINDING,
	WINDOW_OPEN,
	WINDOW_UNBINDING,
	WINDOW_DRAINING, /* shut; completions from before may still be unread */
	WINDOW_FAILED,	 /* cannot be opened; still to be told */
};

struct verbs_window {
	struct list link; /* free, or waiting: to be bound, to be told, to be drained */
	struct verbs_qp *qp;
	struct ibv_mw *mw; /* null in UD mode */
	struct ibv_mr *mr;
	uint8_t *addr;
	uint64_t length;
	uint64_t mark;
	uint32_t slot;
	uint32_t generation;
	uint32_t key; /* UD mode */
	/* WINDOW_FAILED: why, -errno. */
	int status;
	uint8_t state;
	uint8_t failures;
	bool posted; /* a bind is under way */
};

/* ---- queue pairs (qp.c) --------------------------------------------------------------------------------------- */

/* Writes posted together; the last one asked for a completion. */
struct batch {
	uint16_t count;
	uint8_t lane;
	bool done;
};

struct verbs_qp {
	struct verbs_endpoint *endpoint;
	struct list link;
	struct list flushed_link;
	void *user;
	struct fabric_split split;
	uint32_t slots;
	uint32_t payload; /* 0: not connected */
	uint32_t qkey;	  /* of all its datagram queues */
	struct cq *cq;
	struct roce_address peer;
	unsigned lanes; /* in use, once connected */
	struct queue *lane[VERBS_LANES_MAX];
	struct queue *control;
	struct ibv_ah *ah;
	uint32_t flushed; /* writes done, not yet told */
	uint32_t batch_head;
	uint32_t batch_tail;
	struct batch batches[BATCHES];
	struct verbs_window *windows[]; /* by slot */
};

/* A control queue that outlives its queue pair until its last words are out. */
struct leaver {
	struct list link;
	struct queue *queue;
	struct ibv_ah *ah;
	uint32_t reserved; /* completions */
	uint64_t until_ns;
};

/* ---- the endpoint --------------------------------------------------------------------------------------------- */

/* What a write under a key that was taken back does on this device. */
enum stale_answer {
	STALE_UNKNOWN, /* could not be tried */
	STALE_DROPPED, /* nothing happens */
	STALE_ERROR,   /* an error completion at the receiver */
	STALE_BREAKS,  /* the receiver's queue pair falls into error */
	STALE_LANDS,   /* it lands: windows protect nothing here */
};

struct seat {
	struct queue *queue; /* one of the two, or neither */
	struct supply *supply;
	uint8_t epoch;
};

struct lent_cell {
	uint32_t seat;
	uint32_t cell;
	uint8_t epoch;
};

struct verbs_endpoint {
	struct fabric fabric;
	struct verbs_name name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	uint8_t port;
	uint8_t gid_index;
	union ibv_gid gid;
	uint32_t path_mtu;
	unsigned interface;	      /* of the GID; 0: not known */
	uint64_t rate_bps;	      /* of the port, or as asked; 0: not known */
	struct rate_limit rate_limit; /* of datagrams with data, and multicast */
	uint64_t now_ns;	      /* of the last poll, where something is paced */
	bool ud;
	bool dead; /* the device is gone */
	enum stale_answer stale;
	struct sizes sizes;
	char gid_why[160];
	char mode_why[128];
	struct cq *cqs[CQS_MAX];
	uint32_t cq_count;
	uint32_t cq_first; /* the one a poll starts with, in turn */
	struct seat *seats;
	uint32_t seat_count;
	struct queue *
		*numbers; /* queues by their number, open addressing, where supplies are shared */
	uint32_t numbers_mask;
	struct supply *shared_data;
	struct supply *shared_control;
	struct queue *binder;
	struct list qps;
	struct list broken;  /* queues to heal */
	struct list leavers; /* control queues with something still to say */
	struct list groups;
	struct list flushed; /* queue pairs with writes to report done */
	struct pool windows;
	struct list windows_free; /* with a memory window, longest unused first */
	uint32_t windows_idle;
	uint32_t windows_limit;
	struct list windows_queued;   /* to be bound or unbound */
	struct list windows_draining; /* shut */
	struct list windows_tell;     /* open, or drained */
	struct lent_cell lent[FABRIC_EVENTS];
	uint32_t lent_count;
	uint32_t polls;
	uint8_t entropy[256];
	uint32_t entropy_left;
	bool complained;
};

/* ---- wr_id ---------------------------------------------------------------------------------------------------- */

#define WR_FIELD 0xffffffu

static inline uint64_t wr_id(const struct verbs_endpoint *endpoint, uint32_t seat,
			     enum request request, uint32_t argument)
{
	uint8_t epoch = endpoint->seats[seat].epoch;

	return (uint64_t)request << 56 | (uint64_t)epoch << 48 | (uint64_t)seat << 24 |
	       (argument & WR_FIELD);
}

static inline enum request wr_request(uint64_t id)
{
	return (enum request)(id >> 56);
}

static inline uint32_t wr_argument(uint64_t id)
{
	return (uint32_t)id & WR_FIELD;
}

/* Where a completion's request came from; null when that is gone or was set up anew. */
static inline struct seat *wr_seat(const struct verbs_endpoint *endpoint, uint64_t id)
{
	uint32_t seat = (uint32_t)(id >> 24) & WR_FIELD;

	if (seat >= endpoint->seat_count || endpoint->seats[seat].epoch != (uint8_t)(id >> 48))
		return NULL;
	return &endpoint->seats[seat];
}

static inline uint8_t *supply_cell(const struct supply *supply, uint32_t cell)
{
	return supply->memory + (size_t)cell * supply->cell_size;
}

/* ---- device.c ------------------------------------------------------------------------------------------------- */
int device_open(struct verbs_endpoint *endpoint);
void device_close(struct verbs_endpoint *endpoint);
/* Reads what the device has to say of ports and queue pairs. */
void device_events(struct verbs_endpoint *endpoint);
const char *stale_text(enum stale_answer answer);

/* ---- probe.c: tries what a stale key does; decides between UC and UD. ------------------------------------------- */
int probe_mode(struct verbs_endpoint *endpoint);

/* ---- cq.c ----------------------------------------------------------------------------------------------------- */
/* A queue with room for so many more; opens one if need be. */
int cq_reserve(struct verbs_endpoint *endpoint, uint32_t entries, struct cq **out);
/* One more; it is the last of the endpoint's. */
int cq_open(struct verbs_endpoint *endpoint, uint32_t entries);
void cq_release(struct cq *cq, uint32_t entries);
void cqs_close(struct verbs_endpoint *endpoint);
/* The next completion, null when there is none now. */
struct ibv_wc *cq_next(struct cq *cq);
/* Asks for an event on the next completion of each; true when one is there already. */
bool cqs_arm(struct verbs_endpoint *endpoint);
void cqs_take_events(struct verbs_endpoint *endpoint);

/* ---- queue.c -------------------------------------------------------------------------------------------------- */
/* Whose it is the caller writes into it. */
int queue_create(struct verbs_endpoint *endpoint, enum queue_kind kind, unsigned lane,
		 uint32_t qkey, struct cq *cq, struct queue **out);
void queue_destroy(struct queue *queue);
/* As far as it can go without a peer: datagrams all the way, the rest to where they take receive requests. */
int queue_prepare(struct queue *queue);
int queue_connect(struct queue *queue, uint32_t qpn, const struct ibv_ah_attr *route,
		  uint32_t path_mtu);
void queue_break(struct queue *queue, const char *what);
/* Sets up anew what fell into error. */
void queues_heal(struct verbs_endpoint *endpoint);
struct ibv_ah_attr route_to(const struct verbs_endpoint *endpoint, const struct roce_address *peer);

int seat_take(struct verbs_endpoint *endpoint, uint32_t *out);
void seat_leave(struct verbs_endpoint *endpoint, uint32_t seat);

/* ---- supply.c ------------------------------------------------------------------------------------------------- */
/* With no queue it is shared, and filled. */
int supply_create(struct verbs_endpoint *endpoint, struct queue *queue, uint32_t depth,
		  uint32_t cell_size, struct supply **out);
void supply_destroy(struct supply *supply);
int supply_fill(struct supply *supply);
/* A request was used; `cell` where it had memory. */
void supply_spend(struct supply *supply, uint32_t cell);
/* Opens the endpoint's shared supplies, if it is to have any. */
int supplies_share(struct verbs_endpoint *endpoint);
struct queue *queue_by_number(const struct verbs_endpoint *endpoint, uint32_t number);
/* Makes the table anew. */
int queues_number(struct verbs_endpoint *endpoint);

/* ---- memory.c ------------------------------------------------------------------------------------------------- */
int verbs_mr_register(struct fabric *fabric, void *addr, size_t length, struct fabric_mr **out);
int verbs_mr_register_dmabuf(struct fabric *fabric, int fd, uint64_t offset, size_t length,
			     void *addr, struct fabric_mr **out);
void verbs_mr_deregister(struct fabric *fabric, struct fabric_mr *mr);

/* ---- qp.c ----------------------------------------------------------------------------------------------------- */
int verbs_qp_create(struct fabric *fabric, const struct fabric_qp_attr *attr,
		    struct fabric_qp **out);
void verbs_qp_destroy(struct fabric_qp *qp);
size_t verbs_qp_address(const struct fabric_qp *qp, uint8_t *out);
int verbs_qp_connect(struct fabric_qp *qp, const uint8_t *bytes, size_t length, uint32_t payload);
/* Destroys control queues that have nothing more to say, or took too long. */
void leavers_see_off(struct verbs_endpoint *endpoint, uint64_t now_ns);

/* ---- window.c ------------------------------------------------------------------------------------------------- */
int verbs_expose(struct fabric_qp *qp, uint32_t slot, uint32_t generation, struct fabric_mr *mr,
		 void *addr, uint64_t length);
int verbs_fence(struct fabric_qp *qp, uint32_t slot);
int windows_open(struct verbs_endpoint *endpoint);
void windows_close(struct verbs_endpoint *endpoint);
/* Nothing of this queue pair's is bound or told any more. */
void windows_forget(struct verbs_qp *qp);
void windows_bound(struct verbs_endpoint *endpoint, uint32_t index, bool good);
/* The binder was set up anew: what was under way is posted again. */
void windows_repost(struct verbs_endpoint *endpoint);
/* The device is gone and completes nothing: ends every bind and unbind that is under way. */
void windows_abandon(struct verbs_endpoint *endpoint);
int windows_poll(struct verbs_endpoint *endpoint, struct fabric_event *events, int most);

/* ---- write.c -------------------------------------------------------------------------------------------------- */
int verbs_write(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
		const struct fabric_write *writes, unsigned count);
void write_done(struct verbs_qp *qp, uint32_t number);
/* The lane was reset: whatever it had is done with, one way or another. */
void write_abandon(struct verbs_qp *qp, unsigned lane);

/* ---- control.c ------------------------------------------------------------------------------------------------ */
int verbs_control(struct fabric_qp *qp, const void *data, size_t length);
void control_done(struct queue *queue, uint32_t count);
bool control_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event);
/* A cell that an event of this poll points into. */
void lend(const struct supply *supply, uint32_t cell);
/* Cells that the last poll's events lent out go back. */
void control_take_back(struct verbs_endpoint *endpoint);

/* ---- ud.c ----------------------------------------------------------------------------------------------------- */
bool ud_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event);

/* ---- group.c -------------------------------------------------------------------------------------------------- */
extern const struct fabric_group_ops verbs_group_ops;
void groups_leave(struct verbs_endpoint *endpoint);
void group_done(struct verbs_group *group, uint32_t count);
/* Its queue was reset: whatever it had is done with, one way or another. */
void group_abandon(struct verbs_group *group);
bool group_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event);
/* Whether there is something to tell still. */
bool groups_have_sent(const struct verbs_endpoint *endpoint);
int groups_poll_sent(struct verbs_endpoint *endpoint, struct fabric_event *events, int most);

/* ---- poll.c --------------------------------------------------------------------------------------------------- */
int verbs_poll(struct fabric *fabric, struct fabric_event *events);
/* Takes what the binder's own completion queue has. */
void poll_binder(struct verbs_endpoint *endpoint);

/* ---- endpoint.c ----------------------------------------------------------------------------------------------- */
uint32_t verbs_random(struct verbs_endpoint *endpoint);
uint64_t verbs_now_ns(const struct fabric *fabric);

static inline struct verbs_endpoint *endpoint_of(const struct fabric *fabric)
{
	return container_of(fabric, struct verbs_endpoint, fabric);
}

static inline struct verbs_qp *verbs_qp(const struct fabric_qp *qp)
{
	return (struct verbs_qp *)(uintptr_t)qp;
}

static inline void drop(struct verbs_endpoint *endpoint, enum fabric_counter reason)
{
	endpoint->fabric.counters[reason]++;
}

#endif
