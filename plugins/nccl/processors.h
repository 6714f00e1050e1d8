/* SPDX-License-Identifier: BSD-3-Clause */
/* processors.h: sets of processors, and those near a device. */
#ifndef PLUGINS_NCCL_PROCESSORS_H
#define PLUGINS_NCCL_PROCESSORS_H

#include <sched.h>
#include <stdbool.h>

/* Reads a list as the kernel writes it, "0-3,8". False: it is none, or names no processor. */
bool processors_read(const char *list, cpu_set_t *out);

/* The processors on the NUMA node of a device, by its directory under /sys. False: not known, as of a virtual device. */
bool processors_near(const char *directory, cpu_set_t *out);

#endif
