/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of memory that the NIC may read and write: the host's, by address, or another device's, by dma-buf. A
 * registration opens nothing to peers; windows do, each for its own range.
 *
 * Whether a dma-buf can be registered depends on the device, its driver, the kernel, libibverbs and the exporter, and
 * cannot be asked beforehand. So it is tried, and the errno is explained.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/endpoint.h"

/* Registers for reading and writing, else for reading only: memory that cannot be written can still be sent. */
int verbs_mr_register(struct fabric *fabric, void *addr, size_t length, struct fabric_mr **out)
{
	struct verbs_endpoint *endpoint = endpoint_of(fabric);
	int access = endpoint->ud ? 0 : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	struct ibv_mr *mr = ibv_reg_mr(endpoint->pd, addr, length, access);

	if (!mr && access)
		mr = ibv_reg_mr(endpoint->pd, addr, length, 0);
	if (!mr) {
		int error = errno ? -errno : -ENOMEM;

		snprintf(
			fabric->error, sizeof(fabric->error), "%s cannot register %zu bytes: %s%s",
			endpoint->name.device, length, strerror(-error),
			error == -ENOMEM ? "; raise the limit of locked memory (ulimit -l)"
			: error == -EFAULT
				? "; memory of a GPU is registered by its dma-buf, or needs a kernel module"
				: "");
		return error;
	}
	*out = (struct fabric_mr *)mr;
	return 0;
}

static int refuse(struct verbs_endpoint *endpoint, int error, const char *why)
{
	snprintf(endpoint->fabric.error, sizeof(endpoint->fabric.error),
		 "%s cannot register a dma-buf: %s", endpoint->name.device, why);
	return error;
}

#ifdef HAVE_IBV_REG_DMABUF_MR
static int explain(struct verbs_endpoint *endpoint, int error)
{
	switch (error) {
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
	case ENOSYS:
		return refuse(
			endpoint, -ENOTSUP,
			"the device, its driver or this kernel (5.12 and later do) takes none");
	case EBADF:
		return refuse(endpoint, -EBADF, "the descriptor is not open");
	case EINVAL:
		return refuse(endpoint, -EINVAL,
			      "the descriptor is no dma-buf, or holds no such range");
	default:
		return refuse(endpoint, -error, strerror(error));
	}
}

int verbs_mr_register_dmabuf(struct fabric *fabric, int fd, uint64_t offset, size_t length,
			     void *addr, struct fabric_mr **out)
{
	struct verbs_endpoint *endpoint = endpoint_of(fabric);
	struct ibv_mr *mr;

	if (endpoint->ud)
		return refuse(endpoint, -ENOTSUP,
			      "it is used with datagrams, which the processor has to copy");
	errno = 0;
	mr = ibv_reg_dmabuf_mr(endpoint->pd, offset, length, (uintptr_t)addr, fd,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	if (!mr)
		return explain(endpoint, errno ? errno : ENOMEM);
	*out = (struct fabric_mr *)mr;
	return 0;
}
#else
int verbs_mr_register_dmabuf(struct fabric *fabric, int fd, uint64_t offset, size_t length,
			     void *addr, struct fabric_mr **out)
{
	(void)fd;
	(void)offset;
	(void)length;
	(void)addr;
	(void)out;
	return refuse(endpoint_of(fabric), -ENOTSUP,
		      "the libibverbs that Godwit was built with is older than version 34");
}
#endif

void verbs_mr_deregister(struct fabric *fabric, struct fabric_mr *mr)
{
	int error = ibv_dereg_mr((struct ibv_mr *)mr);

	if (error)
		log_warn("verbs:%s: memory is still held after its deregistration: %s",
			 endpoint_of(fabric)->name.device, strerror(error));
}
