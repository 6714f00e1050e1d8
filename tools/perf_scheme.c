/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of schemes, and those of them that are the library's own: transfers under a struct gw_scheme. */
#include "perf_scheme.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <godwit/auto.h>
#include <godwit/bounded.h>
#include <godwit/erasure.h>

#include "perf_bench.h"

#define BOUNDED_PATIENCES 6

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
		.options = shot->erasure,
	};

	return gw_transfer_send(shot->flow->qp, scheme, &attr, &shot->send);
}

static int transfer_recv(struct perf_shot *shot, const struct gw_scheme *scheme,
			 const void *options, void *addr, uint64_t length)
{
	struct gw_transfer_attr attr = {
		.addr = addr,
		.length = length,
		.mr = shot->flow->bench->recv_area.mr,
		.done = received,
		.arg = shot,
		.options = options,
	};

	return gw_transfer_recv(shot->flow->qp, scheme, &attr, &shot->recv);
}

static int repeat_send(struct perf_shot *shot, const void *addr, uint64_t length, uint32_t imm)
{
	return transfer_send(shot, &gw_selective_repeat, addr, length, imm);
}

static int repeat_recv(struct perf_shot *shot, void *addr, uint64_t length)
{
	return transfer_recv(shot, &gw_selective_repeat, NULL, addr, length);
}

static int code_send(struct perf_shot *shot, const void *addr, uint64_t length, uint32_t imm)
{
	return transfer_send(shot, &gw_erasure, addr, length, imm);
}

static int code_recv(struct perf_shot *shot, void *addr, uint64_t length)
{
	return transfer_recv(shot, &gw_erasure, shot->erasure, addr, length);
}

static int auto_send(struct perf_shot *shot, const void *addr, uint64_t length, uint32_t imm)
{
	return transfer_send(shot, &gw_auto, addr, length, imm);
}

static int auto_recv(struct perf_shot *shot, void *addr, uint64_t length)
{
	return transfer_recv(shot, &gw_auto, shot->erasure, addr, length);
}

static int bounded_send(struct perf_shot *shot, const void *addr, uint64_t length, uint32_t imm)
{
	return transfer_send(shot, &gw_bounded, addr, length, imm);
}

/*
 * In as much time as messages of this size took of late, but not before an announcement that was lost has been repeated:
 * of unknown length, a message tells nothing. What is missing is counted, and need not be made zeros.
 */
static int bounded_recv(struct perf_shot *shot, void *addr, uint64_t length)
{
	uint64_t usual = gw_pace_timeout_ns(&shot->flow->pace, 1, length);
	uint64_t least = BOUNDED_PATIENCES * gw_qp_patience_ns(shot->flow->qp);
	struct gw_bounded_options options = { .flags = GW_BOUNDED_KEEP,
					      .ceiling_ppm = 1000000,
					      .pace = &shot->flow->pace };

	if (usual && usual < least)
		options.deadline_ns = least;
	return transfer_recv(shot, &gw_bounded, &options, addr, length);
}

static const struct perf_scheme selective_repeat = {
	.name = "sr",
	.exact = true,
	.library = &gw_selective_repeat,
	.send = repeat_send,
	.recv = repeat_recv,
};

static const struct perf_scheme erasure = {
	.name = "ec",
	.exact = true,
	.coded = true,
	.library = &gw_erasure,
	.send = code_send,
	.recv = code_recv,
};

static const struct perf_scheme automatic = {
	.name = "auto",
	.exact = true,
	.coded = true,
	.library = &gw_auto,
	.send = auto_send,
	.recv = auto_recv,
};

static const struct perf_scheme bounded = {
	.name = "bounded",
	.send = bounded_send,
	.recv = bounded_recv,
};

static const struct perf_scheme *const schemes[] = { &selective_repeat, &erasure, &automatic,
						     &bounded, &perf_raw };

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
