/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of schemes, and those of them that are the library's own: transfers under a struct gw_scheme. */
#include "scheme.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <godwit/auto.h>
#include <godwit/bounded.h>
#include <godwit/erasure.h>

#include "bench.h"

#define BOUNDED_PATIENCES 6
/* A peer that is gone ends the test sooner. */
#define ANNOUNCED_NS (UINT64_C(3600) * 1000000000)

static void sent(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	perf_shot_sent(arg, result->status, now);
}

static void received(void *arg, const struct gw_transfer_result *result, uint64_t now)
{
	perf_shot_received(arg, result->status, now, now);
}

static int transfer_send(struct perf_shot *shot, const void *addr, uint64_t length, uint32_t imm)
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

	return gw_transfer_send(shot->flow->qp, shot->flow->bench->plan.scheme->library, &attr,
				&shot->send);
}

static int recv_with(struct perf_shot *shot, const void *options, void *addr, uint64_t length)
{
	struct gw_transfer_attr attr = {
		.addr = addr,
		.length = length,
		.mr = shot->flow->bench->recv_area.mr,
		.done = received,
		.arg = shot,
		.options = options,
	};

	return gw_transfer_recv(shot->flow->qp, shot->flow->bench->plan.scheme->library, &attr,
				&shot->recv);
}

static int transfer_recv(struct perf_shot *shot, void *addr, uint64_t length)
{
	return recv_with(shot, shot->erasure, addr, length);
}

/*
 * The deadline follows the time that messages of this size took recently, and leaves room for one repeat of a lost
 * announcement. One that is lost more often is awaited: it has the immediate, without which the flow's end would be missed.
 * Missing bytes are counted and not filled with zeros.
 */
static int bounded_recv(struct perf_shot *shot, void *addr, uint64_t length)
{
	uint64_t usual = gw_pace_timeout_ns(&shot->flow->pace, 1, length);
	uint64_t least = BOUNDED_PATIENCES * gw_qp_patience_ns(shot->flow->qp);
	struct gw_bounded_options options = { .flags = GW_BOUNDED_KEEP,
					      .ceiling_ppm = 1000000,
					      .give_up_ns = ANNOUNCED_NS,
					      .pace = &shot->flow->pace };

	if (usual && usual < least)
		options.deadline_ns = least;
	return recv_with(shot, &options, addr, length);
}

static const struct perf_scheme selective_repeat = {
	.name = "sr",
	.exact = true,
	.library = &gw_selective_repeat,
	.send = transfer_send,
	.recv = transfer_recv,
};

static const struct perf_scheme erasure = {
	.name = "ec",
	.exact = true,
	.coded = true,
	.library = &gw_erasure,
	.send = transfer_send,
	.recv = transfer_recv,
};

static const struct perf_scheme automatic = {
	.name = "auto",
	.exact = true,
	.coded = true,
	.automatic = true,
	.library = &gw_auto,
	.send = transfer_send,
	.recv = transfer_recv,
};

static const struct perf_scheme bounded = {
	.name = "bounded",
	.library = &gw_bounded,
	.send = transfer_send,
	.recv = bounded_recv,
};

static const struct perf_scheme *const schemes[] = { &automatic, &selective_repeat, &erasure,
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

const struct perf_scheme *perf_scheme_default(bool bare)
{
	return bare ? &selective_repeat : &automatic;
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
