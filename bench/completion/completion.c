/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * completion: how long messages take, in simulation with the production code, and what the planner predicts for the same
 * path. One scheme and one path a run; completion.py asks for many and makes tables of them.
 *
 * Prints a JSON object: the times of all messages, the lossless time by arithmetic, and the prediction.
 */
#include "completion.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_DEFAULT 1

/* sr-rto, sr, auto, mds:K:M[:DEPTH], xor:K:M[:DEPTH] */
static int parse_scheme(const char *text, struct completion_options *o)
{
	unsigned k, m, depth = DEPTH_DEFAULT;
	char kind[4];
	bool plain;

	if (!strcmp(text, "sr") || !strcmp(text, "sr-rto")) {
		o->scheme = text[2] ? COMPLETION_RTO : COMPLETION_SR;
		o->params.scheme = text[2] ? PLAN_SR_RTO : PLAN_SR_NACK;
		return 0;
	}
	if (!strcmp(text, "auto")) {
		o->scheme = COMPLETION_AUTO;
		return 0;
	}
	if (sscanf(text, "%3[a-z]:%u:%u:%u", kind, &k, &m, &depth) < 3 || !k || !m || !depth)
		return -EINVAL;
	plain = !strcmp(kind, "xor");
	if ((!plain && strcmp(kind, "mds")) || (plain && k % m))
		return -EINVAL;
	o->scheme = COMPLETION_CODED;
	o->params = (struct plan_params){
		.scheme = plain ? PLAN_XOR : PLAN_MDS, .k = k, .m = m, .interleave = depth
	};
	o->code = plain ? GW_CODE_XOR : GW_CODE_REED_SOLOMON;
	o->k = k;
	o->m = m;
	o->depth = depth;
	return 0;
}

static int parse(int argc, char **argv, struct completion_options *o)
{
	static const struct option options[] = { { "scheme", required_argument, NULL, 's' },
						 { "rtt-ns", required_argument, NULL, 't' },
						 { "rate-bps", required_argument, NULL, 'b' },
						 { "loss", required_argument, NULL, 'x' },
						 { "burst", required_argument, NULL, 'u' },
						 { "control-arrives", no_argument, NULL, 'a' },
						 { "size", required_argument, NULL, 'l' },
						 { "chunk", required_argument, NULL, 'c' },
						 { "messages", required_argument, NULL, 'm' },
						 { "seed", required_argument, NULL, 'r' },
						 { NULL, 0, NULL, 0 } };
	int c;

	*o = (struct completion_options){ .params = { .scheme = PLAN_SR_NACK },
					  .rtt_ns = 25000000,
					  .rate_bps = UINT64_C(400000000000),
					  .loss = 1e-3,
					  .burst = 1,
					  .size = UINT64_C(128) << 20,
					  .chunk = 65536,
					  .messages = 200,
					  .seed = 1 };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 10) : 0;

		switch (c) {
		case 's':
			if (parse_scheme(optarg, o))
				return -EINVAL;
			break;
		case 't':
			o->rtt_ns = value;
			break;
		case 'b':
			o->rate_bps = value;
			break;
		case 'x':
			o->loss = strtod(optarg, NULL);
			break;
		case 'u':
			o->burst = strtod(optarg, NULL);
			break;
		case 'a':
			o->control_arrives = true;
			break;
		case 'l':
			o->size = value;
			break;
		case 'c':
			o->chunk = (uint32_t)value;
			break;
		case 'm':
			o->messages = (uint32_t)value;
			break;
		case 'r':
			o->seed = value;
			break;
		default:
			return -EINVAL;
		}
	}
	return optind == argc && o->rtt_ns && o->rate_bps && o->size && o->chunk >= 64 &&
			       o->chunk % 4 == 0 && o->messages && o->loss >= 0 && o->loss < 0.5
		       ? 0
		       : -EINVAL;
}

/* The same path as the planner sees it. */
static int predict(const struct completion_options *o, struct plan_result *out)
{
	struct plan_choice choice;
	struct plan_path path;
	int error;

	plan_path_init(&path, o->rtt_ns, o->rate_bps, o->loss);
	path.burst = o->burst;
	path.payload = o->chunk;
	path.overhead = COMPLETION_OVERHEAD;
	path.report_share = 0;
	path.rs_bytes_a_second = path.xor_bytes_a_second = 0; /* coding takes no virtual time */
	if (o->control_arrives)
		path.control_loss = 0;
	if (o->scheme == COMPLETION_AUTO) {
		error = plan_choose(&path, o->size, PLAN_MEAN, &choice);
		*out = choice.result;
		return error;
	}
	return plan_predict(&o->params, &path, o->size, o->seed, 0, out);
}

static void print_estimate(const char *name, const struct plan_estimate *estimate)
{
	printf(", \"%s\": %.0f", name, estimate->ns);
}

int main(int argc, char **argv)
{
	struct completion_options options;
	struct completion_counts counts;
	struct plan_result predicted;
	uint64_t *times_ns;

	if (parse(argc, argv, &options) || predict(&options, &predicted)) {
		fputs("usage: completion [--scheme sr|sr-rto|auto|mds:K:M[:DEPTH]|xor:K:M[:DEPTH]] [--rtt-ns N] [--rate-bps N] [--loss P] [--burst B] [--control-arrives] [--size BYTES] [--chunk BYTES] [--messages N] [--seed N]\n",
		      stderr);
		return 2;
	}
	times_ns = calloc(options.messages, sizeof(*times_ns));
	if (!times_ns)
		return 1;
	completion_run(&options, times_ns, &counts);
	printf("{\"ideal_ns\": %.0f, \"predicted_ns\": {\"exact\": %s", predicted.ideal_ns,
	       predicted.exact ? "true" : "false");
	print_estimate("mean", &predicted.mean);
	print_estimate("p50", &predicted.p50);
	print_estimate("p99", &predicted.p99);
	print_estimate("p99.9", &predicted.p999);
	printf("}, \"sent_packets\": %" PRIu64 ", \"retransmitted_packets\": %" PRIu64
	       ", \"control_packets\": %" PRIu64,
	       counts.sent_packets, counts.retransmitted_packets, counts.control_packets);
	printf(", \"events\": %" PRIu64 ", \"hash\": \"%016" PRIx64 "\", \"patience_ns\": [%" PRIu64
	       ", %" PRIu64 "]",
	       counts.events, counts.hash, counts.patience_ns[0], counts.patience_ns[1]);
	printf(", \"choice\": \"%s\", \"times_ns\": [", counts.choice);
	for (uint32_t i = 0; i < options.messages; i++)
		printf("%s%" PRIu64, i ? ", " : "", times_ns[i]);
	puts("]}");
	free(times_ns);
	return 0;
}
