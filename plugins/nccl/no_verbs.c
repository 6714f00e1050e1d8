/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the place of libibverbs in the plugin, which has to load where that is missing: there is no device. What follows an open
 * device is never called.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

void **ibv_get_device_list(int *count);

void **ibv_get_device_list(int *count)
{
	if (count)
		*count = 0;
	errno = ENOSYS;
	return NULL;
}

#define NEVER(name)                                                                                \
	void name(void);                                                                           \
	void name(void)                                                                            \
	{                                                                                          \
		abort();                                                                           \
	}

NEVER(_ibv_query_gid_table)
NEVER(ibv_ack_async_event)
NEVER(ibv_ack_cq_events)
NEVER(ibv_alloc_pd)
NEVER(ibv_attach_mcast)
NEVER(ibv_close_device)
NEVER(ibv_create_ah)
NEVER(ibv_create_comp_channel)
NEVER(ibv_create_cq)
NEVER(ibv_create_qp)
NEVER(ibv_create_srq)
NEVER(ibv_dealloc_pd)
NEVER(ibv_dereg_mr)
NEVER(ibv_destroy_ah)
NEVER(ibv_destroy_comp_channel)
NEVER(ibv_destroy_cq)
NEVER(ibv_destroy_qp)
NEVER(ibv_destroy_srq)
NEVER(ibv_detach_mcast)
NEVER(ibv_event_type_str)
NEVER(ibv_free_device_list)
NEVER(ibv_get_async_event)
NEVER(ibv_get_cq_event)
NEVER(ibv_get_device_name)
NEVER(ibv_modify_qp)
NEVER(ibv_open_device)
NEVER(ibv_query_device)
NEVER(ibv_query_port)
NEVER(ibv_reg_dmabuf_mr)
NEVER(ibv_reg_mr)
NEVER(ibv_reg_mr_iova2)
NEVER(ibv_wc_status_str)
