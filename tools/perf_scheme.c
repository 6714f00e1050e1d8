/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of schemes, and those of them that are the library's own: transfers under a struct gw_scheme. */
#include "perf_scheme.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <godwit/scheme.h>

#include "perf_bench.h"

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	perf_shot_sent(arg, result->status, now);
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	perf_shot_received(arg, result->status, now, now);
}

static int transfer_send(struct perf_shot *shot, const struct gw_scheme *scheme, const void *addr,
			 uint64_t length, uint32_t imm)
{
	struct gw_transfer_attr attr = {
		.addr = (void *)(uintptr_t)addr, /* a sender's memory is only read */
		.length = length,
		.mr = shot->flow->bench->send_area.mr,
		.flags = GW_SEND_IMM,
		.imm = imm,
		.done = sent,
		.arg = shot,
	};

	return gw_transfer_send(shot->flow->qp, scheme, &attr, &shot->send);
}

static int transfer_recv(struct perf_shot *shot, const struct gw_scheme *scheme, void *addr,
			 uint64_t length)
{
	struct gw_transfer_attr attr = {
		.addr = addr,
		.length = length,
		.mr = shot->flow->bench->recv_area.mr,
		.done = received,
		.arg = shot,
	};

	return gw_transfer_recv(shot->flow->qp, scheme, &attr, &shot->recv);
}

static int repeat_send(struct perf_shot *shot, const void *addr, uint64_t length, uint32_t imm)
{
	return transfer_send(shot, &gw_selective_repeat, addr, length, imm);
}

static int repeat_recv(struct perf_shot *shot, void *addr, uint64_t length)
{
	return transfer_recv(shot, &gw_selective_repeat, addr, length);
}

static const struct perf_scheme selective_repeat = {
	.name = "sr",
	.exact = true,
	.library = &gw_selective_repeat,
	.send = repeat_send,
	.recv = repeat_recv,
};

static const struct perf_scheme *const schemes[] = { &selective_repeat, &perf_raw };

#define SCHEME_COUNT (sizeof(schemes) / sizeof(schemes[0]))

const struct perf_scheme *perf_scheme_find(const char *name)
{
	for (size_t i = 0; i < SCHEME_COUNT; i++) {
		if (strcmp(schemes[i]->name, name) == 0)
			return schemes[i];
	}
	return NULL;
}

const struct perf_scheme *perf_scheme_default(void)
{
	return schemes[0];
}

const char *perf_scheme_names(void)
{
	static char names[SCHEME_COUNT * 18];
	size_t used = 0;

	for (size_t i = 0; i < SCHEME_COUNT; i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
					 schemes[i]->name);
	return names;
}
