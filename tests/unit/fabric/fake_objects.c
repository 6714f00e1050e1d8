/* SPDX-License-Identifier: BSD-3-Clause */
/* The device and its objects: what libibverbs makes, asks and unmakes. Each is counted, so that none is left behind. */
#include "fake_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr

static struct ibv_device device = { .transport_type = IBV_TRANSPORT_IB, .name = "fake0" };

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
	fake_set_ops(context);
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
	attr->max_mw = FAKE_WINDOWS - 2;
	attr->max_srq_wr = fake.max_srq_wr;
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;

	(void)context;
	attr->state = IBV_PORT_ACTIVE;
	attr->active_mtu = IBV_MTU_1024;
	attr->active_speed = fake.speed;
	attr->active_width = fake.width;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return port == 1 ? 0 : EINVAL;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t most, uint32_t flags, size_t size)
{
	struct ibv_gid_entry entry = {
		.gid = { .raw = { [10] = 0xff, [11] = 0xff } },
		.gid_index = 3,
		.port_num = 1,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = if_nametoindex("lo"),
	};

	memcpy(entry.gid.raw + 12, fake_ip, sizeof(fake_ip));
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
	if (fake.fatal) {
		fake.fatal = false;
		event->event_type = IBV_EVENT_DEVICE_FATAL;
		return 0;
	}
	for (uint32_t i = 0; i < FAKE_QPS; i++)
		if (fake_qps[i] && fake_qps[i]->qp.context == context && fake_qps[i]->reached) {
			fake_qps[i]->reached = false;
			event->event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
			event->element.qp = &fake_qps[i]->qp;
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
	while (fake_qps[index])
		index++;
	qp = make(sizeof(*qp));
	qp->qp = (struct ibv_qp){ .context = pd->context,
				  .qp_context = init->qp_context,
				  .pd = pd,
				  .send_cq = init->send_cq,
				  .recv_cq = init->recv_cq,
				  .srq = init->srq,
				  .qp_type = init->qp_type,
				  .qp_num = FAKE_FIRST_QP + index };
	qp->rq = init->srq ? (struct fake_rq *)init->srq : make_rq(pd, init->cap.max_recv_wr);
	qp->send_depth = init->cap.max_send_wr;
	fake_qps[index] = qp;
	return &qp->qp;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	struct fake_cq *cq = (struct fake_cq *)ibv->recv_cq;
	uint32_t tail = cq->tail;

	fake_to_error(qp);
	cq->tail = tail; /* a destroyed queue pair completes nothing */
	fake_qps[ibv->qp_num - FAKE_FIRST_QP] = NULL;
	if (!ibv->srq)
		unmake(qp->rq);
	return unmake(qp);
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;

	if (attr->qp_state == IBV_QPS_ERR) {
		if (ibv->state != IBV_QPS_ERR)
			fake_to_error(qp);
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
	struct fake_ah *ah = make(sizeof(*ah));

	(void)pd;
	ah->gid = attr->grh.dgid;
	return &ah->ah;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int i = 0;

	(void)lid;
	while (i < FAKE_GROUPS && fake_members[i].qp)
		i++;
	if (i == FAKE_GROUPS || fake.no_multicast)
		return ENOMEM;
	fake.objects++;
	fake_members[i] = (struct fake_member){ (struct fake_qp *)qp, *gid };
	return 0;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	for (int i = 0; i < FAKE_GROUPS; i++) {
		if (fake_members[i].qp != (struct fake_qp *)qp ||
		    memcmp(&fake_members[i].gid, gid, sizeof(*gid)) != 0)
			continue;
		fake_members[i].qp = NULL;
		fake.objects--;
		return 0;
	}
	fake.misused = true;
	return EINVAL;
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
	if (access != (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND) ||
	    !fake_give_dmabuf(iova, offset, length))
		fake.misused = true;
	return ibv_reg_mr(pd, (void *)(uintptr_t)iova, length, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	for (uint32_t i = 0; i < FAKE_WINDOWS; i++)
		if (fake_windows[i] && fake_windows[i]->length && fake_windows[i]->mr == mr)
			return EBUSY;
	return unmake(mr);
}

struct ibv_mw *fake_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	uint32_t index = 1;
	struct fake_mw *mw;

	if (fake.no_windows)
		return NULL;
	while (fake_windows[index])
		index++;
	mw = make(sizeof(*mw));
	mw->mw = (struct ibv_mw){ .context = pd->context, .pd = pd, .type = type };
	mw->mw.rkey = mw->rkey = index << 8;
	fake_windows[index] = mw;
	return &mw->mw;
}

int fake_dealloc_mw(struct ibv_mw *ibv)
{
	fake_windows[ibv->rkey >> 8 & (FAKE_WINDOWS - 1)] = NULL;
	if (fake_waits((struct fake_mw *)ibv))
		fake.misused = true; /* the bind would hit nothing */
	return unmake(ibv);
}
