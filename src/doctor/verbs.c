/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What only libibverbs tells: which devices user space finds a provider for, and what an opened device says of its ports.
 * Nothing is created on a device but what the question about dma-buf fails to create.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

static int list_devices(struct builder *out)
{
	int count = 0;
	struct ibv_device **devices = ibv_get_device_list(&count);

	if (!devices)
		return errno ? -errno : -ENOENT;
	for (int i = 0; i < count; i++)
		builder_print(out, "%s\n", ibv_get_device_name(devices[i]));
	ibv_free_device_list(devices);
	return 0;
}

static int ask_port(struct ibv_context *context, const char *rest, struct builder *out)
{
	struct ibv_port_attr attr;
	int port = atoi(rest);

	if (port < 1 || port > 255)
		return -ENOENT;
	if (ibv_query_port(context, (uint8_t)port, &attr) != 0)
		return -EIO;
	builder_print(out, "active_mtu %u\nmax_mtu %u\ngid_table %d\n", 128u << attr.active_mtu,
		      128u << attr.max_mtu, attr.gid_tbl_len);
	return 0;
}

/* NCCL's own question: a descriptor that cannot be one is refused as such only by a driver that knows dma-buf. */
static int ask_dmabuf(struct ibv_context *context, struct builder *out)
{
#ifdef HAVE_IBV_REG_DMABUF_MR
	struct ibv_pd *pd = ibv_alloc_pd(context);
	const struct ibv_mr *mr;
	int error;

	if (!pd)
		return -errno;
	errno = 0;
	mr = ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
	error = errno;
	ibv_dealloc_pd(pd);
	builder_print(out, "dmabuf %s\n",
		      !mr && (error == EOPNOTSUPP || error == EPROTONOSUPPORT) ? "no" : "yes");
	return 0;
#else
	return -ENOSYS;
#endif
}

/* "port/mlx5_0/1" and "dmabuf/mlx5_0" */
static int ask_device(const char *name, struct builder *out, bool port)
{
	size_t length = strcspn(name, "/");
	int count = 0, rc = -ENOENT;
	struct ibv_device **devices = ibv_get_device_list(&count);

	for (int i = 0; devices && i < count; i++) {
		const char *theirs = ibv_get_device_name(devices[i]);
		struct ibv_context *context;

		if (strlen(theirs) != length || strncmp(theirs, name, length) != 0)
			continue;
		context = ibv_open_device(devices[i]);
		if (!context) {
			rc = errno ? -errno : -EIO;
			break;
		}
		rc = port ? ask_port(context, name + length + (name[length] == '/'), out)
			  : ask_dmabuf(context, out);
		ibv_close_device(context);
		break;
	}
	if (devices)
		ibv_free_device_list(devices);
	return rc;
}

int probe_verbs(const char *rest, long pid, struct builder *out)
{
	if (strcmp(rest, "devices") == 0)
		return list_devices(out);
	if (strncmp(rest, "port/", 5) == 0)
		return ask_device(rest + 5, out, true);
	if (strncmp(rest, "dmabuf/", 7) == 0)
		return ask_device(rest + 7, out, false);
	return -ENOENT;
}
