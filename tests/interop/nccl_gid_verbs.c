/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libibverbs.so.1 for `nccl-gid`: one RoCE device with the GIDs of the file $FAKE_GIDS ("INDEX 32-HEX-DIGITS" lines). NCCL
 * sets its queue pairs up on it and sends nothing. ibv_modify_qp() prints the index of the source GID.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_get_device_list

#define GIDS 16

static struct ibv_device device = { .name = "fake0",
				    .dev_name = "uverbs0",
				    .dev_path = "/sys/class/infiniband_verbs/uverbs0",
				    .ibdev_path = "/sys/class/infiniband/fake0" };

static void read_gids(uint8_t gids[GIDS][16])
{
	FILE *file = fopen(getenv("FAKE_GIDS"), "r");
	unsigned index, byte;
	char digits[64];

	while (file && fscanf(file, "%u %63s", &index, digits) == 2) {
		for (unsigned i = 0; index < GIDS && i < 16; i++) {
			sscanf(digits + 2 * i, "%2x", &byte);
			gids[index][i] = (uint8_t)byte;
		}
	}
	if (file)
		fclose(file);
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
	*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *which)
{
	return which->name;
}

static int nothing(void)
{
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *which)
{
	struct ibv_context *context = calloc(1, sizeof(*context) + 4096);

	context->device = which;
	context->async_fd = context->cmd_fd = eventfd(0, 0);
	context->num_comp_vectors = 1;
	context->ops.poll_cq = (void *)nothing;
	context->ops.post_send = (void *)nothing;
	context->ops.post_recv = (void *)nothing;
	context->ops.req_notify_cq = (void *)nothing;
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	for (;;)
		sleep(1000);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){ .phys_port_cnt = 1,
					  .max_qp = 1000,
					  .max_cqe = 65536,
					  .max_mr = 10000,
					  .sys_image_guid = 42,
					  .node_guid = 42,
					  .vendor_id = 1 };
	return 0;
}

/* NCCL's structure is the one of today; the old one in the prototype is its beginning. */
int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (void *)out;

	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = 6;
	attr->active_width = 2;
	attr->active_speed = 64;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->lid = 0;
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
	uint8_t gids[GIDS][16] = { 0 };

	if (index < 0 || index >= GIDS)
		return -1;
	read_gids(gids);
	memcpy(gid->raw, gids[index], 16);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	*mr = (struct ibv_mr){ .context = pd->context,
			       .pd = pd,
			       .addr = address,
			       .length = length,
			       .lkey = 1,
			       .rkey = 1 };
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *argument,
			     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	cq->context = context;
	cq->cqe = entries;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t number = 100;
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->pd = pd;
	qp->qp_num = number++;
	return qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_AV)
		fprintf(stderr, "FAKE sgid_index %d\n", attr->ah_attr.grh.sgid_index);
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return 0;
}

int ibv_fork_init(void)
{
	return 0;
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return "event";
}
