/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.h: what a verbs endpoint consists of. Private to fabric/verbs.
 *
 * A queue pair of the fabric is made of several *queues*: one a lane, which carries data, and one for control. A queue is
 * one ibv_qp with an account of the requests posted to it. One more queue, the endpoint's *binder*, opens and closes memory
 * windows. Queues complete into shared completion queues, in which each has reserved room for its worst case.
 *
 * A completion names its request by wr_id: its kind, the queue's *seat* (its index in a table), the seat's epoch, and an
 * argument. The epoch counts up when a queue is destroyed or reset, so that late completions are recognised.
 */
#ifndef FABRIC_VERBS_ENDPOINT_H
#define FABRIC_VERBS_ENDPOINT_H

#include <infiniband/verbs.h>

#include "base/entropy.h"
#include "base/list.h"
#include "base/pool.h"
#include "fabric/address.h"
#include "fabric/fabric.h"
#include "fabric/rate_limit.h"
#include "fabric/sends_done.h"
#include "fabric/verbs/queue.h"
#include "fabric/verbs/size.h"
#include "fabric/verbs/verbs.h"

/* Batches of writes outstanding on a queue pair; a power of two. */
#define BATCHES 128
/* Bytes that a UD queue pair puts before each datagram received. */
#define GRH_SIZE 40
/* Bytes for a control datagram. */
#define CONTROL_CELL 2048u
#define KEY_SIZE     ADDRESS_UD_KEY_SIZE

/* ---- windows (window.c) --------------------------------------------------------------------------------------- */

enum window_state {
	WINDOW_BINDING,
	WINDOW_OPEN,
	WINDOW_UNBINDING,
	/* Closed; completions of packets that landed before may still be unread. */
	WINDOW_DRAINING,
	/* Cannot be opened, which is still to be told. */
	WINDOW_FAILED,
};

struct verbs_window {
	/* Link in one of the endpoint's lists: free, to be bound or unbound, to be drained, to be told. */
	struct list link;
	struct verbs_qp *qp;
	/* Null in UD mode, and after a bind that failed for good. */
	struct ibv_mw *mw;
	struct ibv_mr *mr;
	uint8_t *addr;
	/* Bytes. */
	uint64_t length;
	/* WINDOW_DRAINING: cq->empties of the queue pair at the time it was closed. */
	uint64_t mark;
	uint32_t slot;
	uint32_t generation;
	/* UD mode: its key. */
	uint32_t key;
	/* WINDOW_FAILED: the reason, -errno. */
	int status;
	/* enum window_state */
	uint8_t state;
	/* Binds that failed since it was exposed. */
	uint8_t failures;
	/* Whether a bind is under way. */
	bool posted;
};

/* ---- queue pairs (qp.c) --------------------------------------------------------------------------------------- */

/* Writes posted together, of which the last asked for a completion. */
struct batch {
	uint16_t count;
	uint8_t lane;
	bool done;
};

struct verbs_qp {
	struct verbs_endpoint *endpoint;
	/* Link in the endpoint's list of queue pairs. */
	struct list link;
	void *user;
	struct fabric_split split;
	/* as in struct fabric_qp_attr */
	uint32_t *late;
	uint32_t slots;
	/* Data in a full packet, bytes; 0: not connected. */
	uint32_t payload;
	/* Q_Key of all its datagram queues. */
	uint32_t qkey;
	struct cq *cq;
	struct roce_address peer;
	/* Lanes in use, once connected. */
	unsigned lanes;
	struct queue *lane[VERBS_LANES_MAX];
	struct queue *control;
	/* Address handle of the peer. */
	struct ibv_ah *ah;
	struct sends_done sent;
	/* Ring of batches in the order of posting: next to report, and next free; both count on without end. */
	uint32_t batch_head;
	uint32_t batch_tail;
	struct batch batches[BATCHES];
	/* By slot; null: not exposed. */
	struct verbs_window *windows[];
};

/* A control queue that outlives its queue pair for a moment, until its last datagrams have left. */
struct leaver {
	/* Link in the endpoint's list. */
	struct list link;
	struct queue *queue;
	struct ibv_ah *ah;
	/* Entries that the queue pair had reserved in the completion queue. */
	uint32_t reserved;
	/* When it is destroyed. */
	uint64_t until_ns;
};

/* ---- the endpoint --------------------------------------------------------------------------------------------- */

/* What this device does with a write under a key that was taken back. */
enum stale_answer {
	/* It could not be tried. */
	STALE_UNKNOWN,
	/* It drops the write in silence. */
	STALE_DROPPED,
	/* The receiver gets an error completion. */
	STALE_ERROR,
	/* The receiver's queue pair falls into error. */
	STALE_BREAKS,
	/* The write lands: windows protect nothing. */
	STALE_LANDS,
};

/* Who completions with this seat in their wr_id belong to: a queue, a shared supply, or nobody. */
struct seat {
	struct queue *queue;
	struct supply *supply;
	uint8_t epoch;
};

/* A cell of received bytes that an event of the last poll points into. */
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
	/* Channel that completion queues raise events on. */
	struct ibv_comp_channel *channel;
	uint8_t port;
	uint8_t gid_index;
	union ibv_gid gid;
	/* Bytes. */
	uint32_t path_mtu;
	/* Index of the interface that has the GID; 0: not known. */
	unsigned interface;
	/* Rate of the port, or as asked, bits a second; 0: not known. */
	uint64_t rate_bps;
	/* Of UD datagrams with data, and multicast. */
	struct rate_limit rate_limit;
	/* Time of the last poll, where the rate limit needs it. */
	uint64_t now_ns;
	/* UD mode. */
	bool ud;
	/* Whether the device has failed. */
	bool dead;
	enum stale_answer stale;
	struct sizes sizes;
	/* Why this GID and this mode, in words. */
	char gid_why[160];
	char mode_why[128];
	/* Completion queues; the first is the binder's. */
	struct cq *cqs[CQS_MAX];
	uint32_t cq_count;
	/* Completion queue that the next poll begins with; counts on without end. */
	uint32_t cq_first;
	struct seat *seats;
	uint32_t seat_count;
	/* Where supplies are shared: queues by queue pair number, open addressing. */
	struct queue **numbers;
	uint32_t numbers_mask;
	/* Shared receive requests; null: not shared. */
	struct supply *shared_data;
	struct supply *shared_control;
	struct queue *binder;
	struct list qps;
	/* Queues in error, to be set up again. */
	struct list broken;
	struct list leavers;
	struct list groups;
	/* Queue pairs and groups with writes to report done. */
	struct list sent;
	struct pool windows;
	/* Windows not in use that have a memory window, longest unused first, and how many. */
	struct list windows_free;
	uint32_t windows_idle;
	/* Windows at most. */
	uint32_t windows_limit;
	/* To be bound or unbound. */
	struct list windows_queued;
	/* Closed, with completions to be read. */
	struct list windows_draining;
	/* With an event to tell. */
	struct list windows_tell;
	/* Cells that the last poll's events point into. */
	struct lent_cell lent[FABRIC_EVENTS];
	uint32_t lent_count;
	uint32_t polls;
	struct entropy entropy;
	/* Whether it was said that queue pairs fall into error. */
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

/* Seat of a completion's request; null where that queue is gone or was reset since. */
static inline struct seat *wr_seat(const struct verbs_endpoint *endpoint, uint64_t id)
{
	uint32_t seat = (uint32_t)(id >> 24) & WR_FIELD;

	if (seat >= endpoint->seat_count || endpoint->seats[seat].epoch != (uint8_t)(id >> 48))
		return NULL;
	return &endpoint->seats[seat];
}

/* ---- device.c ------------------------------------------------------------------------------------------------- */
int device_open(struct verbs_endpoint *endpoint);
void device_close(struct verbs_endpoint *endpoint);
/* Reads events of the device: of ports, of queue pairs, of itself. */
void device_events(struct verbs_endpoint *endpoint);
/* In words. */
const char *stale_text(enum stale_answer answer);

/* ---- probe.c --------------------------------------------------------------------------------------------------- */
/* Tries what the device does with a stale key, and chooses UC or UD mode. */
int probe_mode(struct verbs_endpoint *endpoint);

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
/* Destroys the control queues whose time is over. */
void leavers_see_off(struct verbs_endpoint *endpoint, uint64_t now_ns);

/* ---- window.c ------------------------------------------------------------------------------------------------- */
int verbs_expose(struct fabric_qp *qp, uint32_t slot, uint32_t generation, struct fabric_mr *mr,
		 void *addr, uint64_t length, uint32_t payload);
int verbs_fence(struct fabric_qp *qp, uint32_t slot);
int windows_open(struct verbs_endpoint *endpoint);
void windows_close(struct verbs_endpoint *endpoint);
/* Gives up all windows of a queue pair that is being destroyed. */
void windows_forget(struct verbs_qp *qp);
/* A bind or unbind of window `index` completed. */
void windows_bound(struct verbs_endpoint *endpoint, uint32_t index, bool good);
/* The binder was reset: posts again what was under way. */
void windows_repost(struct verbs_endpoint *endpoint);
/* The device is gone and completes nothing: ends every bind and unbind that is under way. */
void windows_abandon(struct verbs_endpoint *endpoint);
/* Posts binds that wait, and fills in events of windows; returns how many. */
int windows_poll(struct verbs_endpoint *endpoint, struct fabric_event *events, int most);

/* ---- write.c -------------------------------------------------------------------------------------------------- */
int verbs_write(struct fabric_qp *qp, unsigned lane, const struct fabric_target *target,
		const struct fabric_write *writes, unsigned count);
/* The batch with this number completed. */
void write_done(struct verbs_qp *qp, uint32_t number);
/* The lane was reset: its batches count as done. */
void write_abandon(struct verbs_qp *qp, unsigned lane);

/* ---- control.c ------------------------------------------------------------------------------------------------ */
int verbs_control(struct fabric_qp *qp, const void *data, size_t length);
/* So many control sends completed. */
void control_done(struct queue *queue, uint32_t count);
/* Handles a control datagram; true when it made an event. */
bool control_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event);
/* Notes a cell that an event of this poll points into. */
void lend(const struct supply *supply, uint32_t cell);
/* Gives back the cells that the last poll's events pointed into. */
void control_take_back(struct verbs_endpoint *endpoint);

/* ---- ud.c ----------------------------------------------------------------------------------------------------- */
/* Handles a data datagram; true when it made an event. */
bool ud_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event);

/* ---- group.c -------------------------------------------------------------------------------------------------- */
extern const struct fabric_group_ops verbs_group_ops;
void groups_leave(struct verbs_endpoint *endpoint);
/* So many sends of the group completed. */
void group_done(struct verbs_group *group, uint32_t count);
/* The group's queue was reset: its sends count as done. */
void group_abandon(struct verbs_group *group);
/* Handles a multicast packet; true when it made an event. */
bool group_take(struct queue *queue, const struct ibv_wc *wc, struct fabric_event *event);

/* ---- poll.c --------------------------------------------------------------------------------------------------- */
int verbs_poll(struct fabric *fabric, struct fabric_event *events);
/* Handles all completions of the binder. */
void poll_binder(struct verbs_endpoint *endpoint);

/* ---- endpoint.c ----------------------------------------------------------------------------------------------- */
uint64_t verbs_now_ns(const struct fabric *fabric);

static inline struct verbs_endpoint *endpoint_of(const struct fabric *fabric)
{
	return container_of(fabric, struct verbs_endpoint, fabric);
}

static inline struct verbs_qp *verbs_qp(const struct fabric_qp *qp)
{
	return (struct verbs_qp *)(uintptr_t)qp;
}

/* Counts a packet that is dropped for this reason. */
static inline void drop(struct verbs_endpoint *endpoint, enum fabric_counter reason)
{
	endpoint->fabric.counters[reason]++;
}

#endif
