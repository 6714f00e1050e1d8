/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *	0 version 4 | 4 test 4 | 8 flags 4 | 12 queue pairs 4 | 16 depth 4 | 20 threads less one 1 | 21 zero 1 | 22 traffic class 1 | 23 lanes 1 | 24 size 8 | 32 count 8 | 40 duration 8
 *	 48 working set 8 | 56 the scheme's name 16, padded with zeros | 72 rate cap 8 | 80 the controller's name 16, likewise
 *
 * The scheme goes by name, so that ends that know different schemes can say which one is missing.
 */
#include "plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "tools/options.h"
#include "scheme.h"
#include "tools/text.h"

#define FLAG_BOTH      1u
#define FLAG_VERIFY    2u
#define FLAG_POLL      4u
#define FLAG_SKIP_ICRC 8u
#define FLAG_CHANNEL   16u
#define FLAG_REVERSE   32u
#define FLAGS	       (FLAG_BOTH | FLAG_VERIFY | FLAG_POLL | FLAG_SKIP_ICRC | FLAG_CHANNEL | FLAG_REVERSE)

#define NAME_OFFSET	  56
#define RATE_OFFSET	  72
#define CONTROLLER_OFFSET 80
#define CACHE_LINE	  64
/* What the library keeps for a queue pair at worst: the log of what it sent, half a megabyte, and its requests. */
#define QP_BYTES      (UINT64_C(576) << 10)
#define NS_PER_SECOND UINT64_C(1000000000)

static const char *const test_names[] = { [PERF_BANDWIDTH] = "bw", [PERF_LATENCY] = "lat" };

const char *perf_test_name(enum perf_test test)
{
	return test_names[test];
}

int perf_test_find(const char *name, enum perf_test *out)
{
	for (unsigned i = 0; i < sizeof(test_names) / sizeof(test_names[0]); i++) {
		if (strcmp(test_names[i], name) == 0) {
			*out = (enum perf_test)i;
			return 0;
		}
	}
	return -ENOENT;
}

const char *perf_plan_congestion(const struct perf_plan *plan)
{
	if (plan->congestion[0] != '\0')
		return plan->congestion;
	return plan->channel ? "default" : "none";
}

uint32_t perf_plan_receives(const struct perf_plan *plan)
{
	return plan->depth > 1 ? plan->depth : 2;
}

bool perf_plan_coded(const struct perf_plan *plan)
{
	return plan->scheme->coded && !(plan->channel && plan->scheme->automatic);
}

uint32_t perf_plan_messages(const struct perf_plan *plan)
{
	return perf_plan_receives(plan) * (perf_plan_coded(plan) ? 2 : 1);
}

uint64_t perf_plan_stride(const struct perf_plan *plan)
{
	return (plan->size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

uint64_t perf_plan_area(const struct perf_plan *plan, uint32_t messages)
{
	uint64_t least = perf_plan_stride(plan) * plan->qps * messages;

	return plan->working_set > least ? plan->working_set : least;
}

uint64_t perf_plan_memory(const struct perf_plan *plan)
{
	uint64_t bytes = perf_plan_area(plan, perf_plan_receives(plan)) + plan->qps * QP_BYTES;

	if (plan->both || plan->test == PERF_LATENCY)
		bytes += perf_plan_area(plan, plan->depth);
	/* Parity takes as much as data at the most. */
	if (perf_plan_coded(plan))
		bytes += bytes;
	return bytes;
}

static bool fits(const struct perf_plan *plan, uint64_t memory_bytes)
{
	return perf_plan_memory(plan) <= memory_bytes &&
	       (uint64_t)plan->qps * perf_plan_messages(plan) <= PERF_MESSAGES_MAX;
}

uint32_t perf_plan_fit(const struct perf_plan *plan, uint64_t memory_bytes, uint32_t most)
{
	struct perf_plan tried = *plan;

	for (tried.depth = most; tried.depth > 1; tried.depth--) {
		if (fits(&tried, memory_bytes))
			break;
	}
	return tried.depth;
}

static int refuse(char why[PERF_WHY], const char *what)
{
	snprintf(why, PERF_WHY, "%s", what);
	return -EINVAL;
}

/* Checks what is the same at every end. Only numbers within bounds are multiplied. */
static int check_bounds(const struct perf_plan *plan, char why[PERF_WHY])
{
	if (plan->size < 1 || plan->size > PERF_SIZE_MAX)
		return refuse(why, "a message has 1 byte to 1G");
	if (plan->qps < 1 || plan->qps > PERF_QPS_MAX)
		return refuse(why, "there can be 1 to 10000 queue pairs");
	if (plan->depth < 1 || plan->depth > PERF_DEPTH_MAX)
		return refuse(why, "the depth can be 1 to 512");
	if (plan->threads < 1 || plan->threads > PERF_THREADS_MAX)
		return refuse(why, "there can be 1 to 64 threads");
	if (plan->threads > plan->qps)
		return refuse(why, "every thread needs a channel: raise --qps or lower --threads");
	if (plan->threads > 1 && plan->test == PERF_LATENCY)
		return refuse(why, "--threads is for bandwidth");
	if (plan->lanes < 1 || plan->lanes > LANES_MAX)
		return refuse(why, "there can be 1 to 8 lanes");
	if (plan->traffic_class & 3)
		return refuse(why, "a traffic class is a multiple of 4");
	if (!plan->count && !plan->duration_ns)
		return refuse(why, "neither a count nor a duration ends it");
	if (plan->count > (plan->test == PERF_LATENCY ? PERF_PINGS_MAX : PERF_COUNT_MAX))
		return refuse(why, plan->test == PERF_LATENCY
					   ? "at most 16777216 pings are counted"
					   : "at most 1000000000 messages are counted");
	if (plan->duration_ns > PERF_SECONDS_MAX * NS_PER_SECOND)
		return refuse(why, "a measurement lasts 86400 seconds at most");
	if (plan->working_set > PERF_WORKING_SET_MAX)
		return refuse(why, "a working set has 1T at most");
	if (plan->channel && plan->qps > PERF_QPS_MAX / 2)
		return refuse(
			why,
			"there can be 1 to 5000 channels, of two queue pairs each; --bare takes 10000 queue pairs");
	if (plan->congestion[0] != '\0' && options_find_congestion(plan->congestion)) {
		snprintf(why, PERF_WHY, "there is no controller \"%s\"", plan->congestion);
		return -EINVAL;
	}
	if (plan->channel && !plan->scheme->exact)
		return refuse(why, "a channel is exact: raw and bounded are for bare queue pairs");
	if ((plan->both || plan->reverse) && plan->test == PERF_LATENCY)
		return refuse(why,
			      "--both and --reverse are for bandwidth; pings go both ways anyway");
	if (plan->both && plan->reverse)
		return refuse(why, "--both goes both ways anyway; --reverse is for one way");
	if (perf_plan_coded(plan) && plan->depth > PERF_DEPTH_MAX / 2)
		return refuse(why, "under a code the depth can be 1 to 256");
	if ((uint64_t)plan->qps * perf_plan_messages(plan) > PERF_MESSAGES_MAX) {
		snprintf(
			why, PERF_WHY,
			"%u queue pairs with a depth of %u are more than %d messages at once; lower --depth",
			plan->qps, perf_plan_receives(plan), PERF_MESSAGES_MAX);
		return -EINVAL;
	}
	return 0;
}

int perf_plan_check(const struct perf_plan *plan, uint64_t memory_bytes, char why[PERF_WHY])
{
	char size[TEXT_SIZE], limit[TEXT_SIZE];
	uint64_t need;
	int rc = check_bounds(plan, why);

	if (rc)
		return rc;
	need = perf_plan_memory(plan);
	if (need > memory_bytes) {
		snprintf(
			why, PERF_WHY,
			"%s are needed for the messages, and --memory allows %s; lower --size, --depth or --qps",
			text_bytes(need, size), text_bytes(memory_bytes, limit));
		return -EINVAL;
	}
	if (plan->working_set &&
	    plan->working_set < perf_plan_stride(plan) * plan->qps * plan->depth) {
		snprintf(
			why, PERF_WHY,
			"a working set of %s does not hold the messages under way, %s; lower --depth or --qps",
			text_bytes(plan->working_set, size),
			text_bytes(perf_plan_stride(plan) * plan->qps * plan->depth, limit));
		return -EINVAL;
	}
	return 0;
}

void perf_plan_encode(const struct perf_plan *plan, uint8_t out[PERF_PLAN_BYTES])
{
	memset(out, 0, PERF_PLAN_BYTES);
	put_be32(out, PERF_VERSION);
	put_be32(out + 4, plan->test);
	put_be32(out + 8,
		 (plan->both ? FLAG_BOTH : 0) | (plan->verify ? FLAG_VERIFY : 0) |
			 (plan->poll ? FLAG_POLL : 0) | (plan->skip_icrc ? FLAG_SKIP_ICRC : 0) |
			 (plan->channel ? FLAG_CHANNEL : 0) | (plan->reverse ? FLAG_REVERSE : 0));
	put_be32(out + 12, plan->qps);
	put_be32(out + 16, plan->depth);
	out[20] = (uint8_t)(plan->threads - 1);
	out[22] = plan->traffic_class;
	out[23] = (uint8_t)plan->lanes;
	put_be64(out + 24, plan->size);
	put_be64(out + 32, plan->count);
	put_be64(out + 40, plan->duration_ns);
	put_be64(out + 48, plan->working_set);
	memcpy(out + NAME_OFFSET, plan->scheme->name, strnlen(plan->scheme->name, PERF_NAME_BYTES));
	put_be64(out + RATE_OFFSET, plan->rate_bps);
	memcpy(out + CONTROLLER_OFFSET, plan->congestion,
	       strnlen(plan->congestion, PERF_NAME_BYTES));
}

int perf_plan_decode(const uint8_t *in, size_t length, struct perf_plan *out, char why[PERF_WHY])
{
	char name[PERF_NAME_BYTES + 1] = "";
	struct perf_plan plan;
	uint32_t flags;

	if (length >= 4 && get_be32(in) != PERF_VERSION) {
		snprintf(
			why, PERF_WHY,
			"this end speaks version %d of the measurement, the client version %" PRIu32,
			PERF_VERSION, get_be32(in));
		return -EPROTO;
	}
	if (length != PERF_PLAN_BYTES) {
		refuse(why, "that is no plan for a measurement");
		return -EPROTO;
	}
	flags = get_be32(in + 8);
	if (get_be32(in + 4) > PERF_LATENCY || flags & ~FLAGS || in[21]) {
		refuse(why, "the plan asks for what this end does not know");
		return -EPROTO;
	}
	memcpy(name, in + NAME_OFFSET, PERF_NAME_BYTES);
	plan = (struct perf_plan){
		.test = (enum perf_test)get_be32(in + 4),
		.scheme = perf_scheme_find(name),
		.size = get_be64(in + 24),
		.count = get_be64(in + 32),
		.duration_ns = get_be64(in + 40),
		.working_set = get_be64(in + 48),
		.qps = get_be32(in + 12),
		.threads = in[20] + 1u,
		.depth = get_be32(in + 16),
		.lanes = in[23],
		.traffic_class = in[22],
		.skip_icrc = flags & FLAG_SKIP_ICRC,
		.both = flags & FLAG_BOTH,
		.verify = flags & FLAG_VERIFY,
		.poll = flags & FLAG_POLL,
		.channel = flags & FLAG_CHANNEL,
		.reverse = flags & FLAG_REVERSE,
		.rate_bps = get_be64(in + RATE_OFFSET),
	};
	memcpy(plan.congestion, in + CONTROLLER_OFFSET, PERF_NAME_BYTES);
	if (!plan.scheme) {
		snprintf(why, PERF_WHY, "this end has no scheme \"%s\"; it knows %s", name,
			 perf_scheme_names());
		return -EPROTO;
	}
	*out = plan;
	return 0;
}
