/* SPDX-License-Identifier: BSD-3-Clause */
/* `godwit plan`: what a message would take under each scheme, at one point, along a line or over a map. */
#include <stdio.h>

#include "tools/command.h"
#include "job.h"

static int plan_main(int argc, char **argv)
{
	static struct plan_job job;
	int rc;

	if (plan_job_read(argc, argv, &job))
		return EXIT_USAGE;
	if (job.map)
		rc = plan_print_map(&job);
	else if (job.sweep_count)
		rc = plan_print_sweep(&job);
	else
		rc = plan_print_point(&job);
	if (rc)
		return EXIT_FAILED;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("godwit plan: cannot write to standard output");
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

const struct command command_plan = {
	.name = "plan",
	.summary = "predict how long a message takes under each reliability scheme",
	.usage =
		"usage: godwit plan --rtt T --rate R --loss P --size S [OPTION ...]\n"
		"\n"
		"Predicts the completion time of a message under Selective Repeat and under erasure codes,\n"
		"and says which to take and why. Sends nothing.\n"
		"\n"
		"options:\n"
		"  --rtt T             round trip: 25ms, 200us\n"
		"  --rate R            of the wire, in bits a second: 400G, 1Gbit\n"
		"  --loss P            share of the packets lost: 1e-3 or 0.1%\n"
		"  --size S            of the message: 128MiB, 64K\n"
		"  --burst N           packets lost in a row, on average (default: independent losses)\n"
		"  --goal G            what to choose by: mean, p50, p99 or p99.9 (default mean)\n"
		"  --deadline T        also: what a message that ends at T would have\n"
		"  --payload S         bytes of data in a packet (default 4096)\n"
		"  --overhead S        bytes a packet costs beside them (default 102)\n"
		"  --chunk N           packets that are lost and repeated as one (default 1)\n"
		"  --rto N             timer of sr-rto in round trips (default 3)\n"
		"  --cores N           that code (default 1)\n"
		"  --rs-speed B        Reed-Solomon on one core, data bytes times parity packets a second\n"
		"  --xor-speed B       XOR on one core, data bytes a second\n"
		"  --paper             as SDR-RDMA models it: chunks of 64 KiB, coding free, no headers\n"
		"  --scheme NAME       show this: sr-rto, sr-nack, mds:K:M, xor:K:M, mds:K:M:INTERLEAVE; repeatable\n"
		"  --sweep Q=A..B[:N]  Q is loss, size, rtt or rate, from A to B in N points (default 11)\n"
		"  --map               which scheme wins over two sweeps (default loss and size)\n"
		"  --svg FILE          draw the sweep or the map\n"
		"  --samples N         play N messages instead of using closed forms\n"
		"  --seed N            where chance begins (default 0)\n"
		"  --json              print one JSON object\n",
	.run = plan_main,
};
