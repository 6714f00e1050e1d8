/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's insides: queue pairs by number, rings of receive requests and of completions, one list of requests that
 * wait. Nothing is lost on the way but what a device would drop: no receive request, no such window.
 */
#include "fake_verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

#define QPS	 256
#define PIECES	 2
#define FIRST_QP 100
#define WINDOWS	 4096
#define GRH	 40
#define DMABUFS	 8

struct fake_cq {
	struct ibv_cq cq;
	uint32_t head, tail, size;
	struct ibv_wc entries[];
};

struct fake_request {
	struct fake_request *next;
	struct fake_qp *qp;
	struct ibv_send_wr wr;
	struct ibv_sge pieces[PIECES];
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

struct fake fake;
static struct fake_qp *qps[QPS];
static struct fake_mw *windows[WINDOWS];
static struct fake_request *first_request, **last_request = &first_request;
static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IB, .name = "fake0" };

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

static void *make(size_t size)
{
	fake.objects++;
	return calloc(1, size);
}

static int unmake(void *object)
{
	fake.objects--;
	free(object);
	return 0;
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
	return number >= FIRST_QP && number < FIRST_QP + QPS ? qps[number - FIRST_QP] : NULL;
}

static bool receives(const struct fake_qp *qp)
{
	return qp && (qp->qp.state == IBV_QPS_RTR || qp->qp.state == IBV_QPS_RTS);
}

static void to_error(struct fake_qp *qp)
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
	const struct fake_mw *mw = windows[rkey >> 8 & (WINDOWS - 1)];

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
			to_error(to);
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

static void carry_datagram(const struct fake_request *request)
{
	struct fake_qp *to = find_qp(request->wr.wr.ud.remote_qpn);
	struct ibv_wc wc = { .opcode = IBV_WC_RECV,
			     .byte_len = GRH + length_of(request),
			     .imm_data = request->wr.imm_data,
			     .src_qp = request->qp->qp.qp_num };

	if (!receives(to) || to->qkey != request->wr.wr.ud.remote_qkey)
		return;
	if (to->rq->head == to->rq->tail) {
		fake.no_request++;
		return;
	}
	if (request->wr.opcode == IBV_WR_SEND_WITH_IMM)
		wc.wc_flags = IBV_WC_WITH_IMM;
	if (wc.byte_len > to->rq->receives[to->rq->head % to->rq->depth].cell.length)
		fake.misused = true;
	gather(request,
	       (uint8_t *)(uintptr_t)to->rq->receives[to->rq->head % to->rq->depth].cell.addr +
		       GRH);
	complete_receive(to, &wc);
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
		to_error(qp);
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
		if (wr->num_sge > PIECES)
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

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	uint32_t index = 1;
	struct fake_mw *mw;

	if (fake.no_windows)
		return NULL;
	while (windows[index])
		index++;
	mw = make(sizeof(*mw));
	mw->mw = (struct ibv_mw){ .context = pd->context, .pd = pd, .type = type };
	mw->mw.rkey = mw->rkey = index << 8;
	windows[index] = mw;
	return &mw->mw;
}

static int dealloc_mw(struct ibv_mw *ibv)
{
	windows[ibv->rkey >> 8 & (WINDOWS - 1)] = NULL;
	for (struct fake_request *r = first_request; r; r = r->next)
		if (r->mw == (struct fake_mw *)ibv)
			fake.misused = true; /* the bind would hit nothing */
	return unmake(ibv);
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

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (count)
		*count = 1;
	list[0] = &device;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *ibv)
{
	return ibv->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	struct ibv_context *context = make(sizeof(*context));

	context->device = ibv;
	context->async_fd = open("/dev/null", O_RDONLY);
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.post_srq_recv = post_srq_recv;
	context->ops.alloc_mw = alloc_mw;
	context->ops.dealloc_mw = dealloc_mw;
	context->ops.bind_mw = bind_mw;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	close(context->async_fd);
	return unmake(context);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 1;
	attr->max_cqe = fake.max_cqe;
	attr->max_qp_wr = fake.max_qp_wr;
	attr->max_mw = WINDOWS - 2;
	attr->max_srq_wr = fake.max_srq_wr;
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;

	(void)context;
	attr->state = IBV_PORT_ACTIVE;
	attr->active_mtu = IBV_MTU_1024;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return port == 1 ? 0 : EINVAL;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t most, uint32_t flags, size_t size)
{
	static const struct ibv_gid_entry entry = {
		.gid = { .raw = { [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1 } },
		.gid_index = 3,
		.port_num = 1,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
	};

	(void)context;
	(void)most;
	(void)flags;
	memcpy(entries, &entry, size);
	return 1;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = make(sizeof(*pd));

	pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return unmake(pd);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = make(sizeof(*channel));

	channel->context = context;
	channel->fd = open("/dev/null", O_RDONLY);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	return unmake(channel);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq;

	(void)vector;
	if (entries > fake.max_cqe)
		return NULL;
	cq = make(sizeof(*cq) + (size_t)entries * sizeof(cq->entries[0]));
	cq->cq =
		(struct ibv_cq){ .context = context, .channel = channel, .cq_context = cq_context };
	cq->size = (uint32_t)entries;
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return unmake(cq);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	(void)channel;
	(void)cq;
	(void)context;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	(void)cq;
	(void)count;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	for (uint32_t i = 0; i < QPS; i++)
		if (qps[i] && qps[i]->qp.context == context && qps[i]->reached) {
			qps[i]->reached = false;
			event->event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
			event->element.qp = &qps[i]->qp;
			return 0;
		}
	return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

static struct fake_rq *make_rq(struct ibv_pd *pd, uint32_t depth)
{
	struct fake_rq *rq = make(sizeof(*rq) + depth * sizeof(rq->receives[0]));

	rq->srq.context = pd->context;
	rq->depth = depth;
	return rq;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	return init->attr.max_wr ? &make_rq(pd, init->attr.max_wr)->srq : NULL;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return unmake(srq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp;
	uint32_t index = 0;

	if (init->qp_type == IBV_QPT_UC && fake.no_uc) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	while (qps[index])
		index++;
	qp = make(sizeof(*qp));
	qp->qp = (struct ibv_qp){ .context = pd->context,
				  .qp_context = init->qp_context,
				  .pd = pd,
				  .send_cq = init->send_cq,
				  .recv_cq = init->recv_cq,
				  .srq = init->srq,
				  .qp_type = init->qp_type,
				  .qp_num = FIRST_QP + index };
	qp->rq = init->srq ? (struct fake_rq *)init->srq : make_rq(pd, init->cap.max_recv_wr);
	qp->send_depth = init->cap.max_send_wr;
	qps[index] = qp;
	return &qp->qp;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	struct fake_cq *cq = (struct fake_cq *)ibv->recv_cq;
	uint32_t tail = cq->tail;

	to_error(qp);
	cq->tail = tail; /* a destroyed queue pair completes nothing */
	qps[ibv->qp_num - FIRST_QP] = NULL;
	if (!ibv->srq)
		unmake(qp->rq);
	return unmake(qp);
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;

	if (attr->qp_state == IBV_QPS_ERR) {
		if (ibv->state != IBV_QPS_ERR)
			to_error(qp);
		return 0;
	}
	if (attr->qp_state == IBV_QPS_RESET && !ibv->srq)
		qp->rq->head = qp->rq->tail;
	if (mask & IBV_QP_DEST_QPN)
		qp->dest = attr->dest_qp_num;
	if (mask & IBV_QP_QKEY)
		qp->qkey = attr->qkey;
	ibv->state = attr->qp_state;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)pd;
	(void)attr;
	return make(sizeof(struct ibv_ah));
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return unmake(ah);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *mr = make(sizeof(*mr));

	(void)access;
	*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = length };
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, length, (int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	(void)fd;
	errno = fake.dmabuf_error;
	if (offset + length > fake.device_length)
		errno = EINVAL;
	if (errno)
		return NULL;
	if (dmabuf_count == DMABUFS || access != (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND))
		fake.misused = true;
	dmabufs[dmabuf_count].addr = iova;
	dmabufs[dmabuf_count].offset = offset;
	dmabufs[dmabuf_count++].length = length;
	return ibv_reg_mr(pd, (void *)(uintptr_t)iova, length, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	for (uint32_t i = 0; i < WINDOWS; i++)
		if (windows[i] && windows[i]->length && windows[i]->mr == mr)
			return EBUSY;
	return unmake(mr);
}
