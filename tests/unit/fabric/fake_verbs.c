/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device does: requests of queue pairs by number, rings of receive requests and of completions, one list of
 * requests that wait. Nothing is lost on the way but what a device would drop: no receive request, no such window.
 */
#include "fake_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GRH	   40
#define DMABUFS	   8
#define GRH_SOURCE 32 /* of an IPv4 packet */

struct fake fake;
const uint8_t fake_ip[4] = { 192, 0, 2, 1 };
struct fake_qp *fake_qps[FAKE_QPS];
struct fake_mw *fake_windows[FAKE_WINDOWS];
struct fake_member fake_members[FAKE_GROUPS];
static struct fake_request *first_request, **last_request = &first_request;

static struct {
	uint64_t addr, offset;
	size_t length;
} dmabufs[DMABUFS];
static uint32_t dmabuf_count;

void fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	dmabuf_count = 0;
	fake.max_cqe = 32767;
	fake.max_qp_wr = 1 << 20;
	fake.max_srq_wr = 1 << 20;
}

static void complete(struct ibv_cq *ibv, const struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;

	if (cq->tail - cq->head == cq->size) {
		fake.overflowed = true;
		return;
	}
	cq->entries[cq->tail++ % cq->size] = *wc;
}

static void complete_receive(struct fake_qp *qp, struct ibv_wc *wc)
{
	wc->wr_id = qp->rq->receives[qp->rq->head++ % qp->rq->depth].wr_id;
	wc->qp_num = qp->qp.qp_num;
	complete(qp->qp.recv_cq, wc);
}

static struct fake_qp *find_qp(uint32_t number)
{
	return number >= FAKE_FIRST_QP && number < FAKE_FIRST_QP + FAKE_QPS
		       ? fake_qps[number - FAKE_FIRST_QP]
		       : NULL;
}

static bool receives(const struct fake_qp *qp)
{
	return qp && (qp->qp.state == IBV_QPS_RTR || qp->qp.state == IBV_QPS_RTS);
}

void fake_to_error(struct fake_qp *qp)
{
	struct ibv_wc flushed = { .status = IBV_WC_WR_FLUSH_ERR };
	struct fake_request **place = &first_request;

	qp->qp.state = IBV_QPS_ERR;
	qp->reached = qp->qp.srq;
	while (!qp->qp.srq && qp->rq->head != qp->rq->tail)
		complete_receive(qp, &flushed);
	last_request = &first_request;
	while (*place) {
		struct fake_request *request = *place;

		if (request->qp != qp) {
			place = &request->next;
			last_request = place;
			continue;
		}
		flushed.wr_id = request->wr.wr_id;
		flushed.qp_num = qp->qp.qp_num;
		complete(qp->qp.send_cq, &flushed);
		qp->sends--;
		*place = request->next;
		free(request);
	}
	last_request = place;
}

static const struct fake_mw *find_window(uint32_t rkey)
{
	const struct fake_mw *mw = fake_windows[rkey >> 8 & (FAKE_WINDOWS - 1)];

	return mw && mw->length && mw->rkey == rkey ? mw : NULL;
}

/* Where the device finds an address: as it is, unless it was given to a dma-buf. */
static void *reach(uint64_t addr)
{
	for (uint32_t i = 0; i < dmabuf_count; i++)
		if (addr - dmabufs[i].addr < dmabufs[i].length)
			return fake.device_memory + dmabufs[i].offset + (addr - dmabufs[i].addr);
	return (void *)(uintptr_t)addr;
}

static void gather(const struct fake_request *request, uint8_t *to)
{
	for (int i = 0; i < request->wr.num_sge; i++) {
		memcpy(to, reach(request->pieces[i].addr), request->pieces[i].length);
		to += request->pieces[i].length;
	}
}

static uint32_t length_of(const struct fake_request *request)
{
	uint32_t length = 0;

	for (int i = 0; i < request->wr.num_sge; i++)
		length += request->pieces[i].length;
	return length;
}

static void carry_write(const struct fake_request *request)
{
	struct fake_qp *to = find_qp(request->qp->dest);
	const struct fake_mw *mw = find_window(request->wr.wr.rdma.rkey);
	uint64_t addr = request->wr.wr.rdma.remote_addr;
	uint32_t length = length_of(request);
	struct ibv_wc wc = { .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
			     .byte_len = length,
			     .imm_data = request->wr.imm_data,
			     .wc_flags = IBV_WC_WITH_IMM };

	if (!receives(to))
		return;
	if (to->rq->head == to->rq->tail) {
		fake.no_request++;
		return;
	}
	if (!mw || addr < mw->addr || addr + length > mw->addr + mw->length) {
		if (fake.stale == FAKE_BREAKS)
			fake_to_error(to);
		if (fake.stale == FAKE_DROPS && to->qp.srq) {
			wc.status = IBV_WC_REM_ACCESS_ERR;
			complete_receive(to, &wc);
		}
		if (fake.stale != FAKE_LANDS)
			return;
	}
	gather(request, reach(addr));
	complete_receive(to, &wc);
}

static void deliver(const struct fake_request *request, struct fake_qp *to)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV,
			     .byte_len = GRH + length_of(request),
			     .imm_data = request->wr.imm_data,
			     .src_qp = request->qp->qp.qp_num };
	const struct ibv_sge *cell;
	uint8_t *bytes;

	if (!receives(to) || to->qkey != request->wr.wr.ud.remote_qkey)
		return;
	if (to->rq->head == to->rq->tail) {
		fake.no_request++;
		return;
	}
	cell = &to->rq->receives[to->rq->head % to->rq->depth].cell;
	bytes = (uint8_t *)(uintptr_t)cell->addr;
	if (request->wr.opcode == IBV_WR_SEND_WITH_IMM)
		wc.wc_flags = IBV_WC_WITH_IMM;
	if (wc.byte_len > cell->length)
		fake.misused = true;
	memcpy(bytes + GRH_SOURCE, fake_ip, sizeof(fake_ip));
	gather(request, bytes + GRH);
	complete_receive(to, &wc);
}

static void carry_datagram(const struct fake_request *request)
{
	const struct fake_ah *ah = (const struct fake_ah *)request->wr.wr.ud.ah;

	if (request->wr.wr.ud.remote_qpn != FAKE_MULTICAST) {
		deliver(request, find_qp(request->wr.wr.ud.remote_qpn));
		return;
	}
	for (int i = 0; i < FAKE_GROUPS; i++)
		if (fake_members[i].qp && !memcmp(&fake_members[i].gid, &ah->gid, sizeof(ah->gid)))
			deliver(request, fake_members[i].qp);
}

static enum ibv_wc_status carry_bind(struct fake_request *request)
{
	struct fake_mw *mw = request->mw;

	if (fake.bad_binds) {
		fake.bad_binds--;
		return IBV_WC_MW_BIND_ERR;
	}
	mw->mr = request->bind.mr;
	mw->addr = request->bind.addr;
	mw->length = request->bind.length;
	mw->rkey = request->rkey;
	return IBV_WC_SUCCESS;
}

static void carry_out(struct fake_request *request)
{
	struct fake_qp *qp = request->qp;
	struct ibv_wc wc = { .wr_id = request->wr.wr_id, .qp_num = qp->qp.qp_num };

	if (request->mw)
		wc.status = carry_bind(request);
	else if (request->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		carry_write(request);
	else
		carry_datagram(request);
	qp->sends--;
	if (request->wr.send_flags & IBV_SEND_SIGNALED || wc.status)
		complete(qp->qp.send_cq, &wc);
	free(request);
	if (wc.status)
		fake_to_error(qp);
}

void fake_run(const struct ibv_qp *qp)
{
	struct fake_request **place = &first_request;

	while (*place) {
		struct fake_request *request = *place;

		if (qp && &request->qp->qp != qp) {
			place = &request->next;
			continue;
		}
		*place = request->next;
		if (!*place)
			last_request = place;
		carry_out(request);
		place = &first_request;
	}
}

static int post(struct fake_qp *qp, struct fake_request *request)
{
	if (qp->qp.state != IBV_QPS_RTS) {
		free(request);
		return EINVAL;
	}
	if (qp->sends == qp->send_depth)
		fake.overflowed = true;
	qp->sends++;
	request->qp = qp;
	*last_request = request;
	last_request = &request->next;
	if (!fake.held)
		fake_run(NULL);
	return 0;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		struct fake_request *request = calloc(1, sizeof(*request));

		request->wr = *wr;
		if (wr->num_sge > FAKE_PIECES)
			fake.misused = true;
		memcpy(request->pieces, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
		if (post((struct fake_qp *)ibv, request)) {
			*bad = wr;
			return EINVAL;
		}
	}
	return 0;
}

static int supply(struct fake_rq *rq, const struct ibv_recv_wr *wr)
{
	for (; wr; wr = wr->next) {
		if (rq->tail - rq->head == rq->depth)
			fake.misused = true;
		rq->receives[rq->tail % rq->depth].wr_id = wr->wr_id;
		if (wr->num_sge)
			rq->receives[rq->tail % rq->depth].cell = wr->sg_list[0];
		rq->tail++;
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)bad;
	if (qp->srq || qp->state == IBV_QPS_RESET)
		fake.misused = true;
	return supply(((struct fake_qp *)qp)->rq, wr);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)bad;
	return supply((struct fake_rq *)srq, wr);
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *ibv, struct ibv_mw_bind *bind)
{
	struct fake_request *request = calloc(1, sizeof(*request));

	request->mw = (struct fake_mw *)ibv;
	request->bind = bind->bind_info;
	request->wr.wr_id = bind->wr_id;
	request->wr.send_flags = bind->send_flags;
	request->rkey = ibv_inc_rkey(ibv->rkey);
	if (!bind->bind_info.mr)
		fake.misused = true;
	if (fake.refused_binds) {
		fake.refused_binds--;
		free(request);
		return EPERM;
	}
	if (post((struct fake_qp *)qp, request))
		return EINVAL;
	ibv->rkey = ibv_inc_rkey(ibv->rkey);
	return 0;
}

static int poll_cq(struct ibv_cq *ibv, int most, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;
	int n = 0;

	while (n < most && cq->head != cq->tail)
		wc[n++] = cq->entries[cq->head++ % cq->size];
	return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return 0;
}

bool fake_waits(const struct fake_mw *mw)
{
	for (const struct fake_request *r = first_request; r; r = r->next)
		if (r->mw == mw)
			return true;
	return false;
}

bool fake_give_dmabuf(uint64_t addr, uint64_t offset, size_t length)
{
	if (dmabuf_count == DMABUFS)
		return false;
	dmabufs[dmabuf_count].addr = addr;
	dmabufs[dmabuf_count].offset = offset;
	dmabufs[dmabuf_count++].length = length;
	return true;
}

void fake_set_ops(struct ibv_context *context)
{
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.post_srq_recv = post_srq_recv;
	context->ops.alloc_mw = fake_alloc_mw;
	context->ops.dealloc_mw = fake_dealloc_mw;
	context->ops.bind_mw = bind_mw;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
}
