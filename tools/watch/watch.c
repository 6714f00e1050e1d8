/* SPDX-License-Identifier: BSD-3-Clause */
/* `godwit watch`: every RDMA and Ethernet port, again and again. Reads only. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "doctor/watch.h"
#include "lab/units.h"
#include "tools/command.h"
#include "tools/interrupt.h"

#define NS_PER_MS	UINT64_C(1000000)
#define INTERVAL_NS	(1000 * NS_PER_MS)
#define INTERVAL_MIN_NS (100 * NS_PER_MS)
#define INTERVAL_MAX_NS (UINT64_C(3600) * 1000 * NS_PER_MS)

struct watch {
	const char *root;
	const char *record;
	const char *replay;
	const char *prometheus;
	uint64_t interval_ns;
	/* views to show; 0: no end */
	uint64_t count;
	bool everything;
	bool json;
	/* a table is shown; on a terminal, in the place of the last one */
	bool table;
	bool terminal;
	struct watch_recorder *recorder;
	struct watch_replay *player;
};

static const struct option long_options[] = {
	{ "all", no_argument, NULL, 'a' },
	{ "count", required_argument, NULL, 'c' },
	{ "interval", required_argument, NULL, 'i' },
	{ "json", no_argument, NULL, 'J' },
	{ "prometheus", required_argument, NULL, 'p' },
	{ "record", required_argument, NULL, 'r' },
	{ "replay", required_argument, NULL, 'R' },
	{ "root", required_argument, NULL, 'd' },
	{ 0 },
};

static int fail(int status, const char *what, const char *value)
{
	fprintf(stderr, "godwit watch: %s%s%s\n", what, value ? ": " : "", value ? value : "");
	return status;
}

static int read_option(int id, struct watch *watch)
{
	switch (id) {
	case 'a':
		watch->everything = true;
		return 0;
	case 'c':
		return units_count(optarg, 1, UINT32_MAX, &watch->count) == 0
			       ? 0
			       : fail(EXIT_USAGE, "--count is a number from 1 on, not", optarg);
	case 'i':
		return units_read(UNITS_SECONDS, optarg, INTERVAL_MIN_NS, INTERVAL_MAX_NS,
				  &watch->interval_ns) == 0
			       ? 0
			       : fail(EXIT_USAGE, "--interval is a time from 100ms to 1h, not",
				      optarg);
	case 'J':
		watch->json = true;
		return 0;
	case 'p':
		watch->prometheus = optarg;
		return 0;
	case 'r':
		watch->record = optarg;
		return 0;
	case 'R':
		watch->replay = optarg;
		return 0;
	case 'd':
		watch->root = optarg;
		return 0;
	default:
		return fail(EXIT_USAGE, "unknown option, or one without its value", NULL);
	}
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whoever reads the file sees a whole one: it is written beside its place and moved there. */
static int write_prometheus(const char *path, const struct watch_sample *sample)
{
	char beside[4096];
	FILE *file;
	int rc = 0;

	if (snprintf(beside, sizeof(beside), "%s.%ld.tmp", path, (long)getpid()) >=
	    (int)sizeof(beside))
		return -ENAMETOOLONG;
	file = fopen(beside, "we");
	if (!file)
		return -errno;
	watch_prometheus(sample, file);
	fchmod(fileno(file), 0644);
	if (ferror(file) || fflush(file) != 0)
		rc = -EIO;
	if (fclose(file) != 0 && !rc)
		rc = -errno;
	if (rc == 0 && rename(beside, path) != 0)
		rc = -errno;
	if (rc)
		unlink(beside);
	return rc;
}

/* Sleeps. Returns false if a signal came. */
static bool wait_for(uint64_t ns)
{
	struct pollfd fd = { .fd = interrupt_fd(), .events = POLLIN };
	const struct timespec wait = { .tv_sec = (time_t)(ns / 1000000000),
				       .tv_nsec = (long)(ns % 1000000000) };

	return ppoll(&fd, 1, &wait, NULL) == 0 || !interrupt_signal();
}

/* Takes the next sample. Returns 1, 0 at the end, or -errno. */
static int next_sample(struct watch *watch, struct watch_sample *out)
{
	const struct reader_attr attr = { .root = watch->root };
	struct reader *reader;
	int rc;

	if (watch->player)
		return watch_replay_next(watch->player, watch->everything, out);
	rc = reader_open(&attr, &reader);
	if (rc)
		return rc;
	watch_read(reader, now_ns(), watch->everything, out);
	return 1;
}

static int show(const struct watch *watch, const struct watch_sample *before,
		const struct watch_sample *now)
{
	struct watch_view view;
	json_t *line;

	watch_compare(before, now, &view);
	if (watch->json) {
		line = watch_json(&view);
		json_dumpf(line, stdout, JSON_COMPACT);
		fputc('\n', stdout);
		json_decref(line);
	} else if (watch->table) {
		if (watch->terminal)
			fputs("\033[H\033[J", stdout);
		watch_print(&view, watch->terminal && !getenv("NO_COLOR"), stdout);
		if (!watch->terminal)
			fputc('\n', stdout);
	}
	watch_view_free(&view);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		/* Whoever read has enough: that is no mistake. */
		if (errno != EPIPE)
			perror("godwit watch: cannot write to standard output");
		return errno == EPIPE ? 1 : -EIO;
	}
	return 0;
}

static int write_out(struct watch *watch, const struct watch_sample *now)
{
	int rc = watch->recorder ? watch_record(watch->recorder, now) : 0;

	if (rc) {
		fail(0, watch->record, strerror(-rc));
		return rc;
	}
	rc = watch->prometheus ? write_prometheus(watch->prometheus, now) : 0;
	if (rc)
		fail(0, watch->prometheus, strerror(-rc));
	return rc;
}

static int go_round(struct watch *watch)
{
	struct watch_sample before = { 0 }, now;
	uint64_t shown = 0;
	bool waited = true;
	int rc;

	while (waited && (rc = next_sample(watch, &now)) > 0) {
		if (before.reader)
			watch_carry(&before, &now);
		rc = write_out(watch, &now);
		/* There are rates from the second sample on. */
		if (rc == 0 && before.reader) {
			rc = show(watch, &before, &now);
			shown++;
		} else if (rc == 0 && watch->terminal && watch->table) {
			rc = show(watch, NULL, &now);
		}
		if (before.reader)
			watch_sample_free(&before);
		before = now;
		if (rc || (watch->count && shown >= watch->count)) {
			rc = rc < 0 ? rc : 0;
			break;
		}
		if (!watch->player || watch->terminal)
			waited = wait_for(watch->interval_ns);
	}
	if (before.reader)
		watch_sample_free(&before);
	if (rc == -EINVAL && watch->player)
		return fail(EXIT_FAILED, "the recording is damaged", watch->replay);
	return rc < 0 ? fail(EXIT_FAILED, strerror(-rc), watch->root) : EXIT_DONE;
}

static int check(struct watch *watch)
{
	struct stat status;

	if (watch->replay && (watch->root || watch->record || watch->prometheus))
		return fail(EXIT_USAGE,
			    "--replay shows a recording: not with --root, --record, --prometheus",
			    NULL);
	if (watch->root && stat(watch->root, &status) != 0)
		return fail(EXIT_FAILED, watch->root, strerror(errno));
	if (watch->root && !S_ISDIR(status.st_mode))
		return fail(
			EXIT_USAGE,
			"--root is a directory whose files change; godwit doctor reads a capture",
			NULL);
	watch->terminal = isatty(STDOUT_FILENO) && !watch->json;
	/* In a pipe or a service what was asked for is written, and no table beside it. */
	watch->table = !watch->json && (watch->terminal || (!watch->record && !watch->prometheus));
	if (watch->table && !watch->terminal && !watch->count && !watch->replay)
		watch->count = 1;
	return 0;
}

static int watch_main(int argc, char **argv)
{
	struct watch watch = { .interval_ns = INTERVAL_NS };
	int id, rc;

	opterr = 0;
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		rc = read_option(id, &watch);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return fail(EXIT_USAGE, "one argument too many", argv[optind]);
	rc = check(&watch);
	if (rc)
		return rc;
	rc = interrupt_install();
	if (rc == 0 && watch.replay)
		rc = watch_replay_open(watch.replay, &watch.player);
	if (rc)
		return fail(EXIT_FAILED, watch.replay,
			    rc == -EINVAL ? "not a recording of godwit watch" : strerror(-rc));
	rc = watch.record ? watch_record_open(watch.record, &watch.recorder) : 0;
	if (rc)
		return fail(EXIT_FAILED, watch.record, strerror(-rc));
	rc = go_round(&watch);
	watch_replay_close(watch.player);
	if (watch_record_close(watch.recorder) != 0 && rc == 0)
		rc = fail(EXIT_FAILED, "the recording could not be written", watch.record);
	/* Ctrl-C is how one leaves. */
	return rc;
}

const struct command command_watch = {
	.name = "watch",
	.summary = "show rates, loss, congestion and pauses of every port",
	.usage =
		"usage: godwit watch [OPTION ...]\n"
		"\n"
		"Shows every RDMA and Ethernet port once a second, the one with most trouble first: bits a\n"
		"second each way and the share of the line rate, packets, losses, retransmissions, CNPs, ECN\n"
		"marks, time paused, and the queue pairs of each process. Reads only, and needs no root.\n"
		"\"?\" is what is not known, \"-\" what a port does not have.\n"
		"\n"
		"options:\n"
		"  --interval T      time between samples: 1s (default), 100ms to 1h\n"
		"  --count N         end after N views (default: no end; in a pipe, one table)\n"
		"  --all             loopback and virtual interfaces, too\n"
		"  --json            print one JSON object a line\n"
		"  --record FILE     write every sample to a file\n"
		"  --replay FILE     show such a file\n"
		"  --prometheus FILE write the counters for node_exporter's textfile collector\n"
		"  --root DIR        read the files of a host below this directory\n",
	.run = watch_main,
};
