/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lossy: goodput over a path that loses packets, and where the link's time went.
 *
 *	lossy [--rtt MS] [--rate MBIT] [--loss SHARE] [--back SHARE] [--burst PACKETS] [--size KIB] [--depth N]
 *	      [--messages N] [--seed N]
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "lossy.h"

static void print_header(void)
{
	printf("%8s %7s %5s %5s %5s %6s %3s | %8s %6s | %6s %6s %6s %6s %6s %6s | %6s %6s %6s %7s %7s\n",
	       "rtt ms", "Mbit/s", "loss", "back", "burst", "KiB", "in", "goodput", "share", "busy",
	       "pacer", "window", "credit", "msg", "grant", "again", "dup", "stalls", "control",
	       "virt s");
}

static void print_row(const struct lossy_path *path, const struct lossy_result *r)
{
	printf("%8.2f %7.0f %5.3f %5.3f %5.1f %6.0f %3u | %8.2f %6.3f | %6.3f %6.3f %6.3f %6.3f %6.3f %6.3f | %6.3f %6.4f %6llu %7llu %7.2f%s\n",
	       (double)path->rtt_ns / 1e6, (double)path->rate_bps / 1e6, path->loss, path->back,
	       path->burst, (double)path->size / 1024, path->depth, r->goodput_bps / 1e6, r->share,
	       r->busy, r->idle[IDLE_PACER], r->idle[IDLE_WINDOW], r->idle[IDLE_CREDIT],
	       r->idle[IDLE_MESSAGE], r->idle[IDLE_GRANT], (double)r->again / (double)r->sent,
	       (double)r->duplicate / (double)r->sent, (unsigned long long)r->stalls,
	       (unsigned long long)r->control, (double)r->took_ns / 1e9,
	       r->ended ? "" : " NEVER ENDED");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rtt", required_argument, NULL, 'r' },
		{ "rate", required_argument, NULL, 'b' },
		{ "loss", required_argument, NULL, 'l' },
		{ "back", required_argument, NULL, 'a' },
		{ "burst", required_argument, NULL, 'u' },
		{ "size", required_argument, NULL, 's' },
		{ "depth", required_argument, NULL, 'd' },
		{ "messages", required_argument, NULL, 'm' },
		{ "seed", required_argument, NULL, 'e' },
		{ "stall", required_argument, NULL, 't' },
		{ "run", required_argument, NULL, 'n' },
		{ "explain", no_argument, NULL, 'x' },
		{ "quiet", no_argument, NULL, 'q' },
		{ NULL, 0, NULL, 0 },
	};
	struct lossy_path path = { .rtt_ns = 10000000,
				   .rate_bps = 300000000,
				   .size = 1 << 20,
				   .depth = 16,
				   .run_ns = 20000000,
				   .back = -1 };
	struct lossy_result result;
	bool explain = false, header = true;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		double value = optarg ? strtod(optarg, NULL) : 0;

		switch (option) {
		case 'r':
			path.rtt_ns = (uint64_t)(value * 1e6);
			break;
		case 'b':
			path.rate_bps = (uint64_t)(value * 1e6);
			break;
		case 'l':
			path.loss = value;
			break;
		case 'a':
			path.back = value;
			break;
		case 'u':
			path.burst = value;
			break;
		case 's':
			path.size = (uint64_t)(value * 1024);
			break;
		case 'd':
			path.depth = (uint32_t)value;
			break;
		case 'm':
			path.messages = (uint32_t)value;
			break;
		case 't':
			path.stall_ns = (uint64_t)(value * 1e6);
			break;
		case 'n':
			path.run_ns = (uint64_t)(value * 1e6);
			break;
		case 'e':
			path.seed = (uint64_t)value;
			break;
		case 'x':
			explain = true;
			break;
		case 'q':
			header = false;
			break;
		default:
			return 2;
		}
	}
	if (path.back < 0)
		path.back = path.loss;
	if (header)
		print_header();
	lossy_run(&path, &result);
	print_row(&path, &result);
	if (explain)
		printf("%s\n", result.explain);
	return !result.ended;
}
