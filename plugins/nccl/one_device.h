/* SPDX-License-Identifier: BSD-3-Clause */
/* one_device.h: the answers of a plugin that has one device and no settings, for the plugins of tests and benchmarks. one_device.c
 * has core_finalize(), core_devices() and core_properties() of calls.h. */
#ifndef PLUGINS_NCCL_ONE_DEVICE_H
#define PLUGINS_NCCL_ONE_DEVICE_H

/* Name of the device; the plugin defines it. */
extern char one_device_name[];

#endif
