/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile: what forged packets do to a transfer. Nothing, is the claim: no byte lands, no memory is lost, and the transfer
 * is as fast as before once they stop. A second of transfer is measured before the first forged packet and a second right
 * after the last one. Memory is compared with that after the first fifth of the packets. Ends with 1 when a byte was wrong,
 * an end gave up or grew, or nothing moved afterwards.
 *
 * With sealed packets the forgeries include packets that were overheard, of the same connection, from before PSNs and keys changed, and
 * of an earlier connection. In the end such replays alone are sent, and their receivers have to count each as refused.
 */
#include "hostile.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP_NS  UINT64_C(1000000000)
#define WINDOW_NS   UINT64_C(1000000000)
#define GROWTH_MAX  (UINT64_C(1) << 20)
#define SETTLING    5		    /* memory counts from this part of the packets on */
#define STEP	    UINT64_C(10000) /* packets between looks at the victims */
#define REPLAYED    UINT64_C(20000) /* packets overheard that are sent alone */
#define ANSWER_NS   UINT64_C(100000000)
#define ANSWERS	    50
#define OVERHEAR_NS UINT64_C(100000)
#define NS_A_SECOND 1e9

struct sample {
	uint64_t at_ns;
	uint64_t bytes;
	uint64_t resident[ENDS];
};

struct run {
	struct ends ends;
	pid_t pids[ENDS];
	struct spray *spray;
	uint64_t seed;
	uint64_t packets;
	bool sealed;
	struct sample start, before, settled, sprayed, after;
	/* Packets that were refused, or lost in a full socket, before and after the replays alone. */
	uint64_t refused[2];
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
	struct timespec left = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (nanosleep(&left, &left))
		;
}

static uint64_t resident_bytes(pid_t pid)
{
	unsigned long total, resident = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fscanf(file, "%lu %lu", &total, &resident) != 2)
		resident = 0;
	fclose(file);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void look(const struct run *run, struct sample *out)
{
	out->at_ns = now_ns();
	out->bytes = atomic_load(&run->ends.board->bytes);
	for (int end = 0; end < ENDS; end++)
		out->resident[end] = resident_bytes(run->pids[end]);
}

static double rate_bps(const struct sample *from, const struct sample *to)
{
	return (double)(to->bytes - from->bytes) * 8 * NS_A_SECOND /
	       (double)(to->at_ns - from->at_ns);
}

static pid_t start(struct ends *ends, void (*what)(struct ends *))
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0) {
		perror("hostile: fork");
		exit(1);
	}
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	what(ends);
	_exit(1);
}

/* Packets that both ends have refused by now, and those that did not fit into their sockets. */
static uint64_t refused(struct run *run)
{
	static const char *const names[] = { "drop_replay", "drop_seal", "drop_overrun" };
	struct board *board = run->ends.board;
	unsigned asked = atomic_fetch_add(&board->asked, 1) + 1;
	uint64_t sum = 0;

	for (int end = 0; end < ENDS; end++) {
		while (atomic_load(&board->answered[end]) != asked && !atomic_load(&board->failed))
			pause_ns(OVERHEAR_NS);
		for (unsigned i = 0; i < gw_counter_count() && i < BOARD_COUNTERS; i++)
			for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
				if (!strcmp(gw_counter_name(i), names[n]))
					sum += board->counters[end][i];
	}
	return sum;
}

/* Waits, and overhears sealed packets meanwhile. */
static void warm_up(struct run *run, struct recorder *recorder)
{
	uint64_t until = now_ns() + WARM_UP_NS;

	while (now_ns() < until) {
		for (int end = 0; recorder && end < ENDS; end++)
			replay_record(recorder, end, false);
		pause_ns(recorder ? OVERHEAR_NS : WARM_UP_NS);
	}
	if (recorder && !replay_complete(recorder) &&
	    !atomic_exchange(&run->ends.board->failed, true))
		snprintf(run->ends.board->why, sizeof(run->ends.board->why),
			 "no packets were overheard");
}

static void attack(struct run *run)
{
	struct recorder *recorder = hostile_open(&run->ends, run->sealed);
	uint64_t left = run->packets;

	run->spray = spray_open(&run->ends, recorder, run->seed);
	run->pids[RECEIVER] = start(&run->ends, hostile_receive);
	run->pids[SENDER] = start(&run->ends, hostile_send);
	warm_up(run, recorder);
	look(run, &run->start);
	pause_ns(WINDOW_NS);
	look(run, &run->before);
	run->settled = run->before;
	while (left && !atomic_load(&run->ends.board->failed)) {
		uint64_t some = left < STEP ? left : STEP;

		spray(run->spray, some);
		left -= some;
		/* Buffers are touched when first used, and a flood uses all of them. */
		if (left > run->packets - run->packets / SETTLING)
			look(run, &run->settled);
	}
	look(run, &run->sprayed);
	pause_ns(WINDOW_NS);
	look(run, &run->after);
	if (recorder) {
		run->refused[0] = refused(run);
		spray_replays(run->spray, REPLAYED);
		/* A slow receiver has some of them in its socket yet. */
		for (unsigned i = 0; i < ANSWERS; i++) {
			pause_ns(ANSWER_NS);
			run->refused[1] = refused(run);
			if (run->refused[1] - run->refused[0] >= REPLAYED)
				break;
		}
	}
	atomic_store(&run->ends.board->stop, true);
	for (int end = 0; end < ENDS; end++) {
		int status;

		waitpid(run->pids[end], &status, 0);
		if (status && !atomic_exchange(&run->ends.board->failed, true))
			snprintf(run->ends.board->why, sizeof(run->ends.board->why),
				 "the %s died, status %d", end == SENDER ? "sender" : "receiver",
				 status);
	}
}

static const char *verdict(const struct run *run)
{
	if (atomic_load(&run->ends.board->failed))
		return run->ends.board->why;
	for (int end = 0; end < ENDS; end++) {
		if (run->after.resident[end] > run->settled.resident[end] + GROWTH_MAX)
			return end == SENDER ? "the sender grew" : "the receiver grew";
	}
	if (run->sealed && run->refused[1] - run->refused[0] < REPLAYED)
		return "packets that were overheard and sent again were not all refused";
	if (run->sealed && !run->ends.board->crossed[SENDER])
		return "too few packets: PSNs did not begin anew";
	if (run->after.bytes == run->sprayed.bytes)
		return "nothing moved in the second after the last forged packet";
	return "";
}

static void print_counters(const struct run *run, int end)
{
	const char *between = "";

	for (unsigned i = 0; i < gw_counter_count() && i < BOARD_COUNTERS; i++) {
		uint64_t value = run->ends.board->counters[end][i];

		if (!value)
			continue;
		printf("%s\"%s\": %" PRIu64, between, gw_counter_name(i), value);
		between = ", ";
	}
}

static void print(const struct run *run)
{
	double before = rate_bps(&run->start, &run->before);
	double during = rate_bps(&run->before, &run->sprayed);
	double after = rate_bps(&run->sprayed, &run->after);
	double seconds = (double)(run->sprayed.at_ns - run->before.at_ns) / NS_A_SECOND;
	const char *between = "", *name;
	uint64_t sent;

	printf("{\"environment\": \"loopback\", \"seed\": %" PRIu64 ", \"packets\": %" PRIu64
	       ", \"seconds\": %.3f, \"packets_a_second\": %.0f,\n \"kinds\": {",
	       run->seed, run->packets, seconds, (double)run->packets / seconds);
	for (unsigned i = 0; (name = spray_kind(run->spray, i, &sent)); i++) {
		if (!sent)
			continue;
		printf("%s\"%s\": %" PRIu64, between, name, sent);
		between = ", ";
	}
	printf("},\n");
	if (run->sealed)
		printf(" \"replayed_alone\": {\"sent\": %" PRIu64 ", \"refused_or_lost\": %" PRIu64
		       "},\n",
		       REPLAYED, run->refused[1] - run->refused[0]);
	printf(" \"goodput_bps\": {\"before\": %.0f, \"during\": %.0f, \"after\": %.0f}, \"recovered\": %.4f,\n",
	       before, during, after, before > 0 ? after / before : 0);
	printf(" \"messages_verified\": %" PRIu64 ", \"resident_bytes\": {",
	       atomic_load(&run->ends.board->messages));
	for (int end = 0; end < ENDS; end++)
		printf("%s\"%s\": {\"settled\": %" PRIu64 ", \"after\": %" PRIu64 "}",
		       end ? ", " : "", end == SENDER ? "sender" : "receiver",
		       run->settled.resident[end], run->after.resident[end]);
	printf("},\n \"counters\": {\"sender\": {");
	print_counters(run, SENDER);
	printf("},\n \"receiver\": {");
	print_counters(run, RECEIVER);
	printf("}}, \"wrong\": \"%s\"}\n", verdict(run));
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "packets", required_argument, NULL, 'p' },
						 { "seal", no_argument, NULL, 'e' },
						 { "seed", required_argument, NULL, 's' },
						 { NULL, 0, NULL, 0 } };
	static struct run run = { .packets = 1000000, .seed = 1 };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'p')
			run.packets = strtoull(optarg, NULL, 10);
		else if (c == 'e')
			run.sealed = true;
		else if (c == 's')
			run.seed = strtoull(optarg, NULL, 10);
		else
			run.packets = 0;
	}
	if (!run.packets || optind != argc) {
		fputs("usage: hostile [--packets N] [--seal] [--seed N]\n", stderr);
		return 2;
	}
	attack(&run);
	print(&run);
	return verdict(&run)[0] != '\0';
}
