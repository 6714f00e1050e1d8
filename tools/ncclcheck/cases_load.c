/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about loading, initializing and unloading a plugin, and what it says about itself. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "case.h"
#include "traffic.h"

#define RELOADS 3

static void check_properties(struct worker *w, int dev, const struct nccl_properties_v12 *p)
{
	if (!p->name || !p->name[0])
		worker_fail(w, "device %d has no name", dev);
	if (!(p->memory & NCCL_MEMORY_HOST))
		worker_fail(w, "device %d (%s) does not take host memory", dev, p->name);
	if (p->memory & NCCL_MEMORY_DMABUF && !w->net.reg_dmabuf)
		worker_fail(w, "device %d (%s) claims dma-buf memory and regMrDmaBuf is null", dev,
			    p->name);
	if (p->speed <= 0)
		worker_fail(w, "device %d (%s) has a speed of %d Mbit/s", dev, p->name, p->speed);
	if (!(p->latency >= 0))
		worker_fail(w, "device %d (%s) has a latency of %g us", dev, p->name, p->latency);
	if (p->max_connections <= 0 || p->max_receives <= 0)
		worker_fail(w, "device %d (%s): maxComms is %d and maxRecvs is %d", dev, p->name,
			    p->max_connections, p->max_receives);
	if (p->pci_path && access(p->pci_path, F_OK))
		worker_fail(
			w,
			"device %d (%s): the PCI path %s does not exist; null is for virtual devices",
			dev, p->name, p->pci_path);
	if (p->devices.count < 1 || p->devices.count > 8)
		worker_fail(w, "device %d (%s) consists of %d devices", dev, p->name,
			    p->devices.count);
	if (!p->max_p2p_bytes || p->max_p2p_bytes > NCCL_BYTES_MAX || !p->max_collective_bytes ||
	    p->max_collective_bytes > NCCL_BYTES_MAX)
		worker_fail(w, "device %d (%s): maxP2pBytes is %zu and maxCollBytes is %zu", dev,
			    p->name, p->max_p2p_bytes, p->max_collective_bytes);
}

static void run_load(struct worker *w)
{
	struct nccl_properties_v12 p;
	int count = 0;

	if (!w->net.name || !w->net.name[0])
		worker_fail(w, "the plugin has no name, so that NCCL_NET cannot ask for it");
	worker_begin(w);
	worker_step(w, "getProperties");
	worker_check(w, "devices", w->net.devices(&count));
	for (int dev = 0; dev < count; dev++) {
		worker_check(w, "getProperties", net_properties(&w->net, dev, &p));
		check_properties(w, dev, &p);
	}
	worker_check(w, "getProperties", net_properties(&w->net, 0, &p));
	worker_note(w, "\"%s\", %d device%s, the first is %s at %d Mbit/s", w->net.name, count,
		    count == 1 ? "" : "s", p.name, p.speed);
	worker_step(w, "finalize");
	worker_check(w, "finalize", net_finalize(&w->net));
}

static void run_init_twice(struct worker *w)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	void *listener = NULL, *first;

	worker_begin(w);
	first = w->net.context;
	worker_step(w, "second init");
	worker_check(w, "init", net_init(&w->net, 2, worker_log));
	worker_check(w, "listen", net_listen(&w->net, w->dev, handle, &listener));
	worker_check(w, "closeListen", net_close_listen(&w->net, listener));
	worker_check(w, "finalize", net_finalize(&w->net));
	w->net.context = first;
	worker_step(w, "first context after the end of the second");
	worker_check(w, "listen", net_listen(&w->net, w->dev, handle, &listener));
	worker_check(w, "closeListen", net_close_listen(&w->net, listener));
	worker_check(w, "finalize", net_finalize(&w->net));
	worker_step(w, "init after the last finalize");
	worker_check(w, "init", net_init(&w->net, 3, worker_log));
	worker_check(w, "listen", net_listen(&w->net, w->dev, handle, &listener));
	worker_check(w, "closeListen", net_close_listen(&w->net, listener));
	worker_check(w, "finalize", net_finalize(&w->net));
}

static void run_reload(struct worker *w)
{
	char why[512];

	for (int i = 0; i < RELOADS; i++) {
		struct pair pair;

		worker_begin(w);
		worker_connect(w, &pair);
		traffic_short(w, &pair, 100 + (uint64_t)i);
		worker_disconnect(w, &pair);
		/* A sender's last message has arrived, but the peer may still need answers. */
		worker_meet(w);
		worker_check(w, "finalize", net_finalize(&w->net));
		worker_step(w, "dlclose");
		net_close(&w->net);
		worker_sleep_ms(50);
		worker_step(w, "dlopen again");
		if (net_open(&w->net, w->plugin, w->net.version, why, sizeof(why)))
			worker_fail(w, "%s", why);
	}
}

const struct check_case cases_load[] = {
	{ "load", "every table is complete, init works, devices describe themselves", 1, 0, 0,
	  run_load },
	{ "init-twice", "two communicators, and one after both have ended", 1, 0, 0,
	  run_init_twice },
	{ "reload", "unloaded and loaded again after use, as NCCL does", 2, CASE_ONCE, 0,
	  run_reload },
	{ 0 },
};
