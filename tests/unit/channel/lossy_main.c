/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lossy: goodput over a path that loses packets, and where the link's time went.
 *
 *	lossy [--rtt MS] [--rate MBIT] [--loss SHARE] [--back SHARE] [--burst PACKETS] [--size KIB] [--depth N]
 *	      [--messages N] [--stall MS] [--run MS] [--jitter MS] [--reorder SHARE --held MS] [--payload BYTES] [--auto]
 *	      [--step MS:MBIT] [--outage MS:MS] [--back-rate MBIT] [--dup SHARE] [--lanes N] [--rest N]
 *	      [--congestion NAME] [--queue PACKETS] [--every MS] [--seed N] [--explain] [--quiet]
 *	lossy --check
 *
 * Without --check it runs one path: 10 ms, 300 Mbit/s, 16 messages of 1 MiB under way and no loss unless told otherwise. The
 * way back loses as much as the way there. --stall stops both hosts again and again for up to so long, with up to --run in
 * between. --step changes the rate of the way there after so long, and --outage stops both ways after so long, for so long. --rest
 * pauses after so many messages, until all have ended.
 * --reorder holds that share of the packets back, each for up to --held. --auto leaves the choice of the scheme to
 * the channel. --queue is what a host buffers, with which the receiver's credit begins: as an ordinary user about 180. --every
 * prints a line about the sender each time that so much time has passed. --explain adds what the channel says about itself, --quiet leaves the heading out.
 *
 * --check runs the paths below, each RUNS times, and fails where the mean goodput is less than the share of what the path leaves
 * that it must have.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "lossy.h"

#define US  UINT64_C(1000)
#define MS  UINT64_C(1000000)
#define MB  UINT64_C(1000000)
#define KIB UINT64_C(1024)

struct kept {
	struct lossy_path path;
	double least;
};

/* Runs of each kept path, with other losses; the mean of their shares counts. */
#define RUNS 8
/* Most that the controller may believe to arrive on a steady path, as a multiple of the path's rate. */
#define BELIEVED_MOST 1.1

/* What each is about: */
static const struct kept kept[] = {
	/* the loss itself: both ways, one way, in bursts, and so much that most rounds of repeats are lost too */
	{ { 10 * MS, 300 * MB, 0.01, 0.01, 0, 1024 * KIB, 16, .messages = 80 }, 0.95 },
	{ { 10 * MS, 300 * MB, 0.1, 0.1, 0, 1024 * KIB, 16, .messages = 80 }, 0.9 },
	{ { 10 * MS, 300 * MB, 0.3, 0.3, 0, 1024 * KIB, 16, .messages = 80 }, 0.85 },
	{ { 10 * MS, 300 * MB, 0.5, 0.5, 0, 1024 * KIB, 16, .messages = 80 }, 0.7 },
	{ { 10 * MS, 300 * MB, 0.3, 0, 0, 1024 * KIB, 16, .messages = 80 }, 0.9 },
	{ { 10 * MS, 300 * MB, 0, 0.3, 0, 1024 * KIB, 16, .messages = 80 }, 0.95 },
	{ { 10 * MS, 300 * MB, 0.3, 0.3, 8, 1024 * KIB, 16, .messages = 80 }, 0.8 },
	/* hosts that are busy, so that reports are seldom and losses are told in lumps */
	{ { 10 * MS, 300 * MB, 0.3, 0.3, 0, 1024 * KIB, 16, .stall_ns = 4 * MS, .run_ns = MS },
	  0.55 },
	{ { 10 * MS, 300 * MB, 0.1, 0.1, 0, 1024 * KIB, 16, .stall_ns = 4 * MS, .run_ns = MS },
	  0.5 },
	{ { 10 * MS, 300 * MB, 0, 0, 0, 1024 * KIB, 16, .stall_ns = 10 * MS, .run_ns = MS }, 0.5 },
	{ { 10 * MS, 300 * MB, 0.3, 0.3, 0, 1024 * KIB, 16, .stall_ns = 8 * MS, .run_ns = 2 * MS },
	  0.3 },
	/* a link that needs longer for a packet than the round trip takes, and messages whose last packet is short */
	{ { 100 * US, 5 * MB, 0.01, 0.01, 0, 128 * KIB, 16, .messages = 60 }, 0.96 },
	/* windows of a few packets, all of which may be lost, and the report about them */
	{ { 100 * US, 2 * MB, 0.3, 0.3, 0, 64 * KIB, 16, .messages = 60 }, 0.65 },
	{ { 100 * US, 300 * MB, 0.3, 0.3, 0, 256 * KIB, 16, .messages = 200 }, 0.8 },
	{ { 100 * US, 300 * MB, 0.5, 0.5, 0, 256 * KIB, 16, .messages = 100 }, 0.7 },
	{ { 100 * US, 5 * MB, 0.3, 0.3, 0, 256 * KIB, 4, .messages = 40 }, 0.6 },
	/* slow links: a report for every ten packets takes longer than the round trip, and their jitter is a few packets' time */
	{ { 1240 * US, 11 * MB, 0.012, 0, 0, 83 * KIB, 16, .messages = 80, .payload = 1200 }, 0.9 },
	{ { 90 * US, 74 * MB, 0, 0, 0, 540 * KIB, 16, .messages = 80 }, 0.95 },
	{ { 8440 * US, 16 * MB, 0.0012, 0.0012, 3, 117 * KIB, 16, .messages = 80,
	    .jitter_ns = 2400 * US },
	  0.96 },
	{ { 2010 * US, 13 * MB, 0, 0, 0, 90 * KIB, 16, .messages = 80, .jitter_ns = 2100 * US },
	  0.95 },
	{ { 900 * US, 9 * MB, 0.11, 0.11, 0, 57 * KIB, 16, .messages = 200,
	    .jitter_ns = 1330 * US },
	  0.82 },
	{ { 1550 * US, 24 * MB, 0.0022, 0.0022, 0, 170 * KIB, 16, .messages = 80,
	    .jitter_ns = 2700 * US },
	  0.93 },
	/* jitter of twice the round trip, on paths so short that swift has them; losses, which are no congestion, too */
	{ { 1 * MS, 300 * MB, 0, 0, 0, 1024 * KIB, 16, .messages = 80, .jitter_ns = 2 * MS },
	  0.87 },
	{ { 1 * MS, 300 * MB, 0.01, 0.01, 0, 1024 * KIB, 16, .messages = 80, .jitter_ns = 2 * MS },
	  0.87 },
	{ { 200 * US, 300 * MB, 0.01, 0.01, 0, 1024 * KIB, 16, .messages = 80,
	    .jitter_ns = 400 * US },
	  0.9 },
	/* the start: how much more the first windows hold than the path decides how much is sent again */
	{ { 10 * MS, 1000 * MB, 0, 0, 0, 1024 * KIB, 16, .messages = 30 }, 0.97 },
	{ { 57 * MS, 228 * MB, 0, 0, 0, 1024 * KIB, 16, .messages = 30 }, 0.96 },
	/* the end of the start: the queue that it made is drained, and not the link; as an ordinary user */
	{ { 398 * MS, 208 * MB, 0, 0, 0, 1024 * KIB, 16, .messages = 60, .queue = 180 }, 0.93 },
	{ { 191 * MS, 176 * MB, 0, 0, 0, 1024 * KIB, 16, .messages = 60, .queue = 180 }, 0.97 },
	/* a pause while the queue of the start drains: what the path holds is known all the same */
	{ { 398 * MS, 208 * MB, 0, 0, 0, 1024 * KIB, 16, .messages = 150, .queue = 180,
	    .rest = 18 },
	  0.88 },
	/* packets that become seven times as large: those that left before do not count as large */
	{ { 10 * MS, 300 * MB, 0, 0, 0, 1024 * KIB, 16, .messages = 60, .payload = 8936 }, 0.97 },
	/* a rate that falls: paths 118, 57 and 50 of docs/anywhere.md */
	{ { 994 * US, 78 * MB, 0.00026, 0.00026, 0, 572 * KIB, 16, .messages = 40,
	    .reorder = 0.0035, .reorder_ns = 1300 * US, .automatic = true, .step_ns = 1207 * MS,
	    .step_bps = 25 * MB },
	  0.95 },
	{ { 6700 * US, 34 * MB, 0, 0, 0, 248 * KIB, 16, .messages = 40, .payload = 8536,
	    .automatic = true, .duplicate = 0.008, .step_ns = 1711 * MS, .step_bps = 20 * MB },
	  0.95 },
	{ { 770 * US, 25 * MB, 0.105, 0.0003, 0, 162 * KIB, 16, .messages = 40, .payload = 8936,
	    .automatic = true, .back_bps = 5 * MB, .step_ns = 1766 * MS, .step_bps = 10 * MB },
	  0.9 },
	/* one that rises in an outage, with jitter and four lanes: sixteen messages that wait for repairs do not fill it, and one
	 * run in ten has less than a third */
	{ { 90500 * US, 78 * MB, 0.138, 0.138, 0, 495 * KIB, 16, .messages = 120, .payload = 8936,
	    .jitter_ns = 80 * MS, .automatic = true, .step_ns = 1790 * MS, .step_bps = 160 * MB,
	    .outage_ns = 873 * MS, .outage_length_ns = 1753 * MS, .lanes = 4 },
	  0.3 },
	/* one message at a time, each of which waits for the last: 8 ms on the link and 25 ms until the answer */
	{ { 25 * MS, 1000 * MB, 0, 0, 0, 1024 * KIB, 1, .messages = 30 }, 0.24 },
	{ { 25 * MS, 1000 * MB, 0, 0, 0, 1024 * KIB, 1, .messages = 30, .payload = 8936 }, 0.24 },
	/* the same from hosts that are busy: what they take for a queue costs such messages no rate for ever */
	{ { 25 * MS, 1000 * MB, 0, 0, 0, 1024 * KIB, 1, .messages = 60, .stall_ns = 6 * MS,
	    .run_ns = 5 * MS },
	  0.2 },
	/* auto: streams that fill the link get no parity to speak of */
	{ { 10 * MS, 300 * MB, 0.3, 0.3, 8, 1024 * KIB, 16, .messages = 80, .automatic = true },
	  0.85 },
	{ { 31500 * US, 6 * MB, 0.0015, 0.0015, 0, 45 * KIB, 16, .messages = 80, .payload = 8936,
	    .automatic = true },
	  0.92 },
	{ { 10300 * US, 2 * MB, 0, 0, 0, 15 * KIB, 16, .messages = 80, .jitter_ns = 12 * MS,
	    .payload = 7200, .reorder = 0.15, .reorder_ns = 16 * MS, .automatic = true },
	  0.85 },
	/* the same where packets became larger and the start lost many: the rate that decides about parity is told in bytes */
	{ { 119450 * US, 3 * MB, 0, 0, 0, 22 * KIB, 16, .messages = 60, .payload = 8038,
	    .queue = 180, .automatic = true },
	  0.9 },
	{ { 164 * MS, 3480 * UINT64_C(1000), 0, 0, 0, 33 * KIB, 16, .messages = 60, .payload = 4020,
	    .jitter_ns = 46 * MS, .queue = 180, .automatic = true },
	  0.92 },
	/* auto: messages of two or three packets, sixteen of which fill a slow link that loses many */
	{ { 1100 * US, 2 * MB, 0.013, 0.026, 0, 15 * KIB, 16, .messages = 200, .payload = 8896,
	    .automatic = true },
	  0.93 },
	{ { 45500 * US, 2460 * UINT64_C(1000), 0.276, 0.167, 0, 13 * KIB, 16, .messages = 200,
	    .payload = 4736, .automatic = true },
	  0.8 },
	/* a short path on which the start meets much loss */
	{ { MS, 1000 * MB, 0.4, 0.4, 0, 256 * KIB, 16, .messages = 200 }, 0.65 },
	/* long paths */
	{ { 57 * MS, 50 * MB, 0.4, 0.4, 0, 1024 * KIB, 16, .messages = 40 }, 0.7 },
	{ { 400 * MS, 50 * MB, 0.1, 0.1, 0, 4096 * KIB, 16, .messages = 40 }, 0.75 },
	/* packets that are late by up to three round trips, so that few of a round are not */
	{ { 57 * MS, 228 * MB, 0, 0, 0, 1217 * KIB, 16, .messages = 60, .jitter_ns = 88 * MS },
	  0.6 },
	{ { 57 * MS, 228 * MB, 0.05, 0.05, 0, 1217 * KIB, 16, .messages = 60,
	    .jitter_ns = 88 * MS },
	  0.4 },
	{ { 57 * MS, 228 * MB, 0.27, 0.27, 0, 1217 * KIB, 16, .messages = 60,
	    .jitter_ns = 88 * MS },
	  0.25 },
};

static void print_header(void)
{
	printf("%8s %7s %5s %5s %5s %6s %3s %5s | %8s %6s | %6s %6s | %6s %6s %6s %6s %6s %6s | %6s %6s %6s %7s %7s\n",
	       "rtt ms", "Mbit/s", "loss", "back", "burst", "KiB", "in", "stall", "goodput",
	       "share", "ctl", "twice", "busy", "pacer", "window", "credit", "msg", "grant",
	       "again", "dup", "stalls", "control", "virt s");
}

static void print_row(const struct lossy_path *path, const struct lossy_result *r)
{
	printf("%8.2f %7.0f %5.3f %5.3f %5.1f %6.0f %3u %5.1f | %8.2f %6.3f | %6.3f %6.3f | %6.3f %6.3f %6.3f %6.3f %6.3f %6.3f | %6.3f %6.4f %6llu %7llu %7.2f%s\n",
	       (double)path->rtt_ns / 1e6, (double)path->rate_bps / 1e6, path->loss, path->back,
	       path->burst, (double)path->size / 1024, path->depth, (double)path->stall_ns / 1e6,
	       r->goodput_bps / 1e6, r->share, r->control_share, r->twice_share, r->busy,
	       r->idle[IDLE_PACER], r->idle[IDLE_WINDOW], r->idle[IDLE_CREDIT],
	       r->idle[IDLE_MESSAGE], r->idle[IDLE_GRANT], (double)r->again / (double)r->sent,
	       (double)r->duplicate / (double)r->sent, (unsigned long long)r->stalls,
	       (unsigned long long)r->control, (double)r->took_ns / 1e9,
	       r->ended ? "" : " NEVER ENDED");
	fflush(stdout);
}

/* True if packets arrive as evenly as the link sends them. */
static bool is_steady(const struct lossy_path *path)
{
	return path->loss == 0 && !path->jitter_ns && !path->stall_ns && path->duplicate == 0;
}

/* Returns how many of the kept paths have too little. */
static int check(void)
{
	int failed = 0;

	print_header();
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		double share = 0, believed = 0;
		bool ended = true;

		for (uint64_t run = 0; run < RUNS; run++) {
			struct lossy_path path = kept[i].path;
			struct lossy_result result;

			path.seed += run;
			lossy_run(&path, &result);
			print_row(&path, &result);
			ended &= result.ended;
			share += result.share / RUNS;
			believed = result.believed > believed ? result.believed : believed;
		}
		if (!ended || share < kept[i].least) {
			failed++;
			printf("too little: the share must be %.2f, it is %.3f\n", kept[i].least,
			       share);
		}
		if (is_steady(&kept[i].path) && believed > BELIEVED_MOST) {
			failed++;
			printf("the controller believed that %.2f of the path's rate arrive\n",
			       believed);
		}
	}
	return failed;
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
		{ "stall", required_argument, NULL, 't' },
		{ "run", required_argument, NULL, 'n' },
		{ "jitter", required_argument, NULL, 'j' },
		{ "payload", required_argument, NULL, 'p' },
		{ "reorder", required_argument, NULL, 'o' },
		{ "held", required_argument, NULL, 'h' },
		{ "auto", no_argument, NULL, 'y' },
		{ "congestion", required_argument, NULL, 'g' },
		{ "seed", required_argument, NULL, 'e' },
		{ "explain", no_argument, NULL, 'x' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "queue", required_argument, NULL, 'w' },
		{ "every", required_argument, NULL, 'v' },
		{ "step", required_argument, NULL, 'S' },
		{ "outage", required_argument, NULL, 'O' },
		{ "back-rate", required_argument, NULL, 'B' },
		{ "dup", required_argument, NULL, 'D' },
		{ "lanes", required_argument, NULL, 'L' },
		{ "rest", required_argument, NULL, 'R' },
		{ "check", no_argument, NULL, 'c' },
		{ NULL, 0, NULL, 0 },
	};
	struct lossy_path path = { .rtt_ns = 10 * MS,
				   .rate_bps = 300 * MB,
				   .size = 1024 * KIB,
				   .depth = 16,
				   .run_ns = 20 * MS,
				   .back = -1 };
	struct lossy_result result;
	bool explain = false, quiet = false;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		char *rest = NULL;
		double value = optarg ? strtod(optarg, &rest) : 0;
		double second = rest && *rest == ':' ? strtod(rest + 1, NULL) : 0;

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
		case 'j':
			path.jitter_ns = (uint64_t)(value * 1e6);
			break;
		case 'p':
			path.payload = (uint32_t)value;
			break;
		case 'o':
			path.reorder = value;
			break;
		case 'h':
			path.reorder_ns = (uint64_t)(value * 1e6);
			break;
		case 'y':
			path.automatic = true;
			break;
		case 'g':
			path.congestion = optarg;
			break;
		case 'e':
			path.seed = (uint64_t)value;
			break;
		case 'x':
			explain = true;
			break;
		case 'q':
			quiet = true;
			break;
		case 'w':
			path.queue = (uint32_t)value;
			break;
		case 'v':
			path.every_ns = (uint64_t)(value * 1e6);
			break;
		case 'S':
			path.step_ns = (uint64_t)(value * 1e6);
			path.step_bps = (uint64_t)(second * 1e6);
			break;
		case 'O':
			path.outage_ns = (uint64_t)(value * 1e6);
			path.outage_length_ns = (uint64_t)(second * 1e6);
			break;
		case 'B':
			path.back_bps = (uint64_t)(value * 1e6);
			break;
		case 'D':
			path.duplicate = value;
			break;
		case 'L':
			path.lanes = (uint32_t)value;
			break;
		case 'R':
			path.rest = (uint32_t)value;
			break;
		case 'c':
			return check() > 0;
		default:
			return 2;
		}
	}
	if (path.back < 0)
		path.back = path.loss;
	if (!quiet)
		print_header();
	lossy_run(&path, &result);
	print_row(&path, &result);
	if (explain)
		printf("%s\n", result.explain);
	return !result.ended;
}
