/* SPDX-License-Identifier: BSD-3-Clause */
#include "steering.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>

#include "host.h"

/* Where a /sys of the host's network is mounted for a moment; a lab needs /dev/net/tun, so the directory exists. */
#define STAGE "/dev"

bool steering_mask(const cpu_set_t *processors, unsigned hosts, char mask[STEERING_MASK_SIZE])
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < 32; i++)
		bits |= (uint32_t)(CPU_ISSET(i, processors) != 0) << i;
	snprintf(mask, STEERING_MASK_SIZE, "%" PRIx32, bits);
	return (unsigned)CPU_COUNT(processors) >= 2 * hosts && bits != 0;
}

void steering_start(unsigned hosts)
{
	char mask[STEERING_MASK_SIZE];
	cpu_set_t processors;
	FILE *file;

	if (sched_getaffinity(0, sizeof(processors), &processors) ||
	    !steering_mask(&processors, hosts, mask))
		return;
	if (mount("sysfs", STAGE, "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return;
	file = fopen(STAGE "/class/net/" HOST_INTERFACE "/queues/rx-0/rps_cpus", "we");
	if (file) {
		fputs(mask, file);
		fclose(file);
	}
	umount2(STAGE, MNT_DETACH);
}
