/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tries what the device does with a write under a key that was taken back, which decides whether its memory windows keep
 * late packets out. No list of products says so. When the endpoint opens, the binder, a UC queue pair, is connected to
 * itself and makes three writes: one under a valid key, one under the same key after the window was closed, and one under a
 * new key. A queue pair delivers in order, so that the outcome of the second is known when the third has arrived.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fabric/verbs/endpoint.h"

#define PAGE	    4096
#define PIECE	    64
#define PATIENCE_NS UINT64_C(500000000)
#define NAP_NS	    20000

/* Immediates of the three writes. */
enum { LIVE = 1, STALE = 2, FRESH = 3 };

struct probe {
	struct verbs_endpoint *endpoint;
	struct queue *queue;
	struct ibv_mr *mr;
	struct ibv_mw *mw[2];
	/* Memory: the first half is written to, the second read from. */
	uint8_t *page;
	bool bind_failed;
	/* Whether the last bind completed. */
	bool bound;
	bool arrived[FRESH + 1];
	/* Whether a receive request completed in error. */
	bool error;
	/* Whether the queue pair is in error. */
	bool broken;
};

static void look(struct probe *probe, const struct ibv_wc *wc)
{
	uint32_t imm;

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		probe->broken = true;
	if (wr_request(wc->wr_id) == REQUEST_BIND) {
		probe->bound = wc->status == IBV_WC_SUCCESS;
		probe->bind_failed = !probe->bound;
	} else if (wr_request(wc->wr_id) == REQUEST_RECEIVE) {
		imm = ntohl(wc->imm_data);
		if (wc->status != IBV_WC_SUCCESS)
			probe->error = true;
		else if (imm <= FRESH)
			probe->arrived[imm] = true;
	} else if (wc->status != IBV_WC_SUCCESS) {
		probe->broken = true;
	}
}

/* Waits until the flag is set, an error, or half a second; returns the flag. */
static bool await(struct probe *probe, const bool *flag)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t until = verbs_now_ns(&probe->endpoint->fabric) + PATIENCE_NS;

	while (!*flag && !probe->broken && !probe->bind_failed &&
	       verbs_now_ns(&probe->endpoint->fabric) < until) {
		struct ibv_wc wc;

		if (ibv_poll_cq(probe->queue->cq->ibv, 1, &wc) > 0)
			look(probe, &wc);
		else
			nanosleep(&nap, NULL);
	}
	return *flag;
}

static bool bind_window(struct probe *probe, struct ibv_mw *mw, bool opens)
{
	struct ibv_mw_bind request = {
		.wr_id = wr_id(probe->endpoint, probe->queue->seat, REQUEST_BIND, WR_FIELD),
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = probe->mr },
	};

	if (opens) {
		request.bind_info.addr = (uintptr_t)probe->page;
		request.bind_info.length = PAGE / 2;
		request.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	}
	probe->bound = false;
	return !ibv_bind_mw(probe->queue->qp, mw, &request) && await(probe, &probe->bound);
}

static bool write_under(struct probe *probe, uint32_t rkey, uint32_t imm)
{
	uint8_t *source = probe->page + PAGE / 2 + (size_t)imm * PIECE;
	struct ibv_sge piece = { (uintptr_t)source, PIECE, probe->mr->lkey };
	struct ibv_send_wr request = {
		.wr_id = wr_id(probe->endpoint, probe->queue->seat, REQUEST_WRITE, 0),
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(imm),
		.wr.rdma = { .remote_addr = (uintptr_t)probe->page + (size_t)imm * PIECE,
			     .rkey = rkey },
	};
	struct ibv_send_wr *bad;

	memset(source, (int)(0x40 + imm), PIECE);
	return !ibv_post_send(probe->queue->qp, &request, &bad);
}

static bool landed(const struct probe *probe, uint32_t imm)
{
	return probe->page[imm * PIECE] == 0x40 + imm;
}

/* Makes the three writes and sets the endpoint's `stale`. False when windows cannot be bound at all. */
static bool ask(struct probe *probe, enum stale_answer *answer)
{
	uint32_t stale_key;

	*answer = STALE_UNKNOWN;
	if (!bind_window(probe, probe->mw[0], true))
		return false;
	stale_key = probe->mw[0]->rkey;
	if (!write_under(probe, stale_key, LIVE) || !await(probe, &probe->arrived[LIVE]) ||
	    !landed(probe, LIVE))
		return true; /* the device does not send to itself: not known */
	if (!bind_window(probe, probe->mw[0], false) || !bind_window(probe, probe->mw[1], true))
		return false;
	if (!write_under(probe, stale_key, STALE))
		return true;
	/* If the first one broke the queue pair this may not even be taken. */
	write_under(probe, probe->mw[1]->rkey, FRESH);
	await(probe, &probe->arrived[FRESH]);
	if (landed(probe, STALE))
		*answer = STALE_LANDS;
	else if (probe->broken)
		*answer = STALE_BREAKS;
	else if (probe->error)
		*answer = STALE_ERROR;
	else if (probe->arrived[FRESH])
		*answer = STALE_DROPPED;
	bind_window(probe, probe->mw[1], false);
	return true;
}

/* As above, with all that it needs. False when there are no windows. */
static bool try_windows(struct verbs_endpoint *endpoint)
{
	struct probe probe = { .endpoint = endpoint, .queue = endpoint->binder };
	bool good = false;

	if (posix_memalign((void **)&probe.page, PAGE, PAGE))
		return false;
	memset(probe.page, 0, PAGE);
	probe.mr = ibv_reg_mr(endpoint->pd, probe.page, PAGE,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	for (int i = 0; i < 2 && probe.mr; i++)
		probe.mw[i] = ibv_alloc_mw(endpoint->pd, IBV_MW_TYPE_1);
	if (probe.mr && probe.mw[0] && probe.mw[1])
		good = ask(&probe, &endpoint->stale);
	for (int i = 0; i < 2; i++)
		if (probe.mw[i])
			ibv_dealloc_mw(probe.mw[i]);
	if (probe.mr)
		ibv_dereg_mr(probe.mr);
	free(probe.page);
	return good;
}

static int open_binder(struct verbs_endpoint *endpoint)
{
	struct roce_address self = { .family = 6 };
	struct ibv_ah_attr route;
	int error;

	error = queue_create(endpoint, QUEUE_BINDER, 0, 0, endpoint->cqs[0], &endpoint->binder);
	if (error)
		return error;
	memcpy(self.ip, endpoint->gid.raw, sizeof(self.ip));
	route = route_to(endpoint, &self);
	error = queue_connect(endpoint->binder, endpoint->binder->qp->qp_num, &route,
			      size_path_mtu(PIECE));
	if (error) {
		queue_destroy(endpoint->binder);
		endpoint->binder = NULL;
	}
	return error;
}

static void use_ud(struct verbs_endpoint *endpoint, const char *why)
{
	endpoint->ud = true;
	snprintf(endpoint->mode_why, sizeof(endpoint->mode_why),
		 "UD datagrams, placed by software (%s)", why);
	if (endpoint->binder)
		queue_destroy(endpoint->binder);
	endpoint->binder = NULL;
}

int probe_mode(struct verbs_endpoint *endpoint)
{
	int error;

	if (endpoint->name.ud) {
		use_ud(endpoint, "as asked");
		return 0;
	}
	if (open_binder(endpoint)) {
		use_ud(endpoint, "the device gives no UC queue pair");
		return 0;
	}
	if (!try_windows(endpoint)) {
		use_ud(endpoint, "the device binds no memory windows of type 1");
		return 0;
	}
	if (endpoint->stale == STALE_LANDS) {
		use_ud(endpoint, "its memory windows do not keep late packets out");
		return 0;
	}
	/* A new binder, whatever state the probe has left the old one in. */
	queue_destroy(endpoint->binder);
	endpoint->binder = NULL;
	error = open_binder(endpoint);
	snprintf(endpoint->mode_why, sizeof(endpoint->mode_why),
		 "UC writes under memory windows (a write under a stale key %s)",
		 stale_text(endpoint->stale));
	return error;
}
