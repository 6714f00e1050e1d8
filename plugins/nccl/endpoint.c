/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: opened when NCCL first listens or connects on a device, and kept until the process ends. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meet.h"
#include "processors.h"

/* Requests and bitmaps of all connections of a context. Memory is touched as it is used. */
#define MAX_REQUESTS 65536
#define BITMAP_BYTES (UINT64_C(256) << 20)
#define TRAFFIC_MASK 0xfc

static void ignored(void *arg, const char *address, const char *why)
{
	(void)arg;
	say_info("a connection from %s was not taken: %s", address, why);
}

/* Chooses the processors for the engine threads of a device. False: any that this process may use. */
static bool choose_processors(const struct device *device, cpu_set_t *out)
{
	cpu_set_t mine, near;

	if (process.settings.processors)
		return processors_read(process.settings.processors, out);
	if (process.settings.anywhere || !processors_near(device->pci_path, &near) ||
	    sched_getaffinity(0, sizeof(mine), &mine))
		return false;
	CPU_AND(out, &mine, &near);
	return CPU_COUNT(out) && !CPU_EQUAL(out, &mine);
}

/* Opens a service whose threads run on the chosen processors, because a thread has those of the one that creates it. */
static int open_there(const struct device *device, const struct gw_service_attr *attr,
		      struct gw_service **out)
{
	cpu_set_t before, chosen;
	int error;

	if (!choose_processors(device, &chosen) || sched_getaffinity(0, sizeof(before), &before))
		return gw_service_open(attr, out);
	if (sched_setaffinity(0, sizeof(chosen), &chosen)) {
		error = -errno;
		say_warn("engine threads cannot run on the processors of GODWIT_CPUS=%s: %s",
			 process.settings.processors ? process.settings.processors : "",
			 strerror(-error));
		return error;
	}
	error = gw_service_open(attr, out);
	sched_setaffinity(0, sizeof(before), &before);
	return error;
}

static int open_service(struct endpoint *e)
{
	const struct settings *settings = &process.settings;
	struct gw_faults faults = { .drop = settings->drop,
				    .reorder = settings->reorder,
				    .seed = 1 };
	struct gw_context_attr context = { .max_sends = MAX_REQUESTS,
					   .max_recvs = MAX_REQUESTS,
					   .bitmap_bytes = BITMAP_BYTES,
					   .lanes = settings->lanes,
					   .traffic_class = e->traffic_class };
	struct gw_service_attr attr = { .context = &context,
					.threads = settings->threads,
					.spin_ns = settings->spin_ns,
					.name = "godwit-nccl" };
	int error;

	context.fabric = e->device->fabric;
	context.flags = settings->icrc ? 0 : GW_CONTEXT_SKIP_ICRC;
	if (settings->drop > 0 || settings->reorder > 0)
		context.faults = &faults;
	error = open_there(e->device, &attr, &e->service);
	if (error)
		say_warn("%s: cannot open %s: %s", e->device->name, e->device->fabric,
			 gw_context_error(NULL)[0] ? gw_context_error(NULL) : strerror(-error));
	return error;
}

static int open_listener(struct endpoint *e)
{
	struct gw_rendezvous_attr attr = { .flags = GW_RENDEZVOUS_ANY_PORT, .ignored = ignored };
	int error;

	meet_attr(&attr);
	attr.bind = e->device->address;
	error = gw_rendezvous_listen(&attr, &e->meets);
	if (error)
		say_warn("%s: cannot listen on %s: %s", e->device->name, e->device->address,
			 gw_rendezvous_error());
	return error;
}

int endpoint_get(int dev, int traffic_class, struct endpoint **out)
{
	uint8_t class = traffic_class < 0 ? 0 : (uint8_t)(traffic_class & TRAFFIC_MASK);
	struct endpoint *e;
	int error;

	if (dev < 0 || dev >= process.devices)
		return -ENODEV;
	for (e = process.endpoints; e; e = e->next) {
		if (e->device == &process.device[dev] && e->traffic_class == class) {
			*out = e;
			return 0;
		}
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->device = &process.device[dev];
	e->traffic_class = class;
	error = open_service(e);
	if (!error) {
		error = open_listener(e);
		if (error)
			gw_service_close(e->service);
	}
	if (error) {
		free(e);
		return error;
	}
	e->next = process.endpoints;
	process.endpoints = e;
	*out = e;
	return 0;
}
