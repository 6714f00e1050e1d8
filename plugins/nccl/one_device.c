/* SPDX-License-Identifier: BSD-3-Clause */
#include "one_device.h"

#include "calls.h"

#define MAX_CONNECTIONS 65536
/* Mbit/s. NCCL's Socket transport says the same of any interface, and it steers NCCL's choices. */
#define SPEED 10000

int core_finalize(void *context)
{
	(void)context;
	return NCCL_SUCCESS;
}

int core_devices(int *count)
{
	*count = 1;
	return NCCL_SUCCESS;
}

int core_properties(int dev, struct nccl_properties_v12 *out)
{
	*out = (struct nccl_properties_v12){ .name = one_device_name,
					     .memory = NCCL_MEMORY_HOST,
					     .speed = SPEED,
					     .max_connections = MAX_CONNECTIONS,
					     .max_receives = 1,
					     .devices = { .count = 1, .dev = { dev } },
					     .max_p2p_bytes = NCCL_BYTES_MAX_V8,
					     .max_collective_bytes = NCCL_BYTES_MAX_V8,
					     .max_multi_request = 1,
					     .rail = NCCL_UNDEFINED,
					     .plane = NCCL_UNDEFINED };
	return NCCL_SUCCESS;
}
