/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * godwit ncclcheck: does an NCCL net plugin keep what NCCL relies on? Loads the plugin as NCCL does, in processes of their own,
 * and goes through a list of cases with every version of the interface that it exports. No GPU is needed.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "run.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/report.h"
#include "worker.h"

#define PORT_DEFAULT	    "4793"
#define TIMEOUT_DEFAULT	    30
#define SILENCE_DEFAULT	    130
#define CONNECTIONS_DEFAULT 100
#define CHANNELS_DEFAULT    2
#define CASES_MAX	    64

enum {
	OPTION_ASK = 256,
	OPTION_BIND,
	OPTION_CASE,
	OPTION_CHANNELS,
	OPTION_CONNECTIONS,
	OPTION_DEVICE,
	OPTION_JSON,
	OPTION_DIFFER,
	OPTION_LIST,
	OPTION_PEER,
	OPTION_PORT,
	OPTION_SILENCE,
	OPTION_SLOW,
	OPTION_TIMEOUT,
	OPTION_VERBOSE,
	OPTION_VERSION_ONLY,
	OPTION_WAIT,
};

static const struct option long_options[] = {
	{ "ask", required_argument, NULL, OPTION_ASK },
	{ "bind", required_argument, NULL, OPTION_BIND },
	{ "case", required_argument, NULL, OPTION_CASE },
	{ "channels", required_argument, NULL, OPTION_CHANNELS },
	{ "connections", required_argument, NULL, OPTION_CONNECTIONS },
	{ "device", required_argument, NULL, OPTION_DEVICE },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "differ", required_argument, NULL, OPTION_DIFFER },
	{ "list", no_argument, NULL, OPTION_LIST },
	{ "peer", required_argument, NULL, OPTION_PEER },
	{ "port", required_argument, NULL, OPTION_PORT },
	{ "silence", required_argument, NULL, OPTION_SILENCE },
	{ "slow", no_argument, NULL, OPTION_SLOW },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "verbose", no_argument, NULL, OPTION_VERBOSE },
	{ "version-only", required_argument, NULL, OPTION_VERSION_ONLY },
	{ "wait", no_argument, NULL, OPTION_WAIT },
	{ NULL, 0, NULL, 0 },
};

struct ncclcheck {
	struct report report;
	struct run run;
	char plugin[PATH_MAX];
	/* address to wait on, or null */
	const char *bind;
	/* the cases that were named; none: all */
	const struct check_case *named[CASES_MAX];
	unsigned named_count;
	bool list, slow, wait;
	/* the only version to try; 0: all */
	unsigned version;
	/* process to ask; 0: none */
	unsigned ask;
	/* versions that the plugin exports, a bit each */
	uint32_t versions;
	unsigned count[3];
	json_t *results;
};

static int read_number(struct report *report, const char *option, unsigned least, unsigned most,
		       unsigned *out)
{
	char *end;
	unsigned long value = strtoul(optarg, &end, 10);

	if (optarg[0] < '0' || optarg[0] > '9' || *end || value < least || value > most)
		return report_usage(report, "--%s \"%s\" is not a number from %u to %u", option,
				    optarg, least, most);
	*out = (unsigned)value;
	return 0;
}

static int read_cases(struct ncclcheck *check)
{
	char *next = NULL;

	for (char *name = strtok_r(optarg, ",", &next); name; name = strtok_r(NULL, ",", &next)) {
		const struct check_case *found = case_find(name);

		if (!found || check->named_count == CASES_MAX)
			return report_usage(&check->report,
					    "there is no case \"%s\"; --list names them", name);
		check->named[check->named_count++] = found;
	}
	return 0;
}

static int read_option(struct ncclcheck *check, int id, char **argv)
{
	struct report *report = &check->report;
	struct run *run = &check->run;
	unsigned dev = 0;
	int rc = 0;

	switch (id) {
	case OPTION_ASK:
		return read_number(report, "ask", 1, INT_MAX, &check->ask);
	case OPTION_BIND:
		check->bind = optarg;
		return 0;
	case OPTION_CASE:
		return read_cases(check);
	case OPTION_CHANNELS:
		return read_number(report, "channels", 1, 64, &run->channels);
	case OPTION_CONNECTIONS:
		return read_number(report, "connections", 1, 100000, &run->connections);
	case OPTION_DEVICE:
		rc = read_number(report, "device", 0, 1000, &dev);
		run->dev = (int)dev;
		return rc;
	case OPTION_JSON:
		report->json = true;
		return 0;
	case OPTION_LIST:
		check->list = true;
		return 0;
	case OPTION_PEER:
		run->peer = optarg;
		return 0;
	case OPTION_PORT:
		run->port = optarg;
		return read_number(report, "port", 1, 65535, &dev);
	case OPTION_DIFFER:
		if (!strchr(optarg, '=') || optarg[0] == '=')
			return report_usage(report, "--differ takes NAME=VALUE, not %s", optarg);
		return setenv(WORKER_DIFFER, optarg, 1);
	case OPTION_SILENCE:
		return read_number(report, "silence", 1, 3600, &run->silence_s);
	case OPTION_SLOW:
		check->slow = true;
		return 0;
	case OPTION_TIMEOUT:
		return read_number(report, "timeout", 1, 3600, &run->timeout_s);
	case OPTION_VERBOSE:
		run->verbose = true;
		return 0;
	case OPTION_VERSION_ONLY:
		return read_number(report, "version-only", NCCL_VERSION_OLDEST, NCCL_VERSION_NEWEST,
				   &check->version);
	case OPTION_WAIT:
		check->wait = true;
		return 0;
	default:
		return report_usage(report, id == ':' ? "%s needs a value" : "unknown option %s",
				    argv[optind - 1]);
	}
}

static int parse(int argc, char **argv, struct ncclcheck *check)
{
	struct report *report = &check->report;
	int id, rc;

	optind = 1;
	while ((id = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		rc = read_option(check, id, argv);
		if (rc)
			return rc;
	}
	if (check->list || check->ask)
		return 0;
	if (optind == argc)
		return report_usage(report, "which plugin?");
	if (argc - optind > 1)
		return report_usage(report, "\"%s\" is one argument too many", argv[optind + 1]);
	/* dlopen() looks for a name without a slash elsewhere, and workers may have another directory. */
	if (!realpath(argv[optind], check->plugin))
		return report_fail(report, -errno, "%s: %s", argv[optind], strerror(errno));
	check->run.plugin = check->plugin;
	return 0;
}

static void print_list(void)
{
	const struct check_case *c;

	for (size_t i = 0; (c = case_at(i)); i++)
		printf("%-15s %s%s\n", c->name, c->what, c->flags & CASE_SLOW ? " (slow)" : "");
}

static bool is_named(const struct ncclcheck *check, const struct check_case *c)
{
	for (unsigned i = 0; i < check->named_count; i++) {
		if (check->named[i] == c)
			return true;
	}
	return !check->named_count && (!(c->flags & CASE_SLOW) || check->slow);
}

static void keep(struct ncclcheck *check, const struct check_case *c, int version,
		 const struct run_outcome *outcome)
{
	static const char *const words[] = { "pass", "FAIL", "skip" };
	static const char *const results[] = { "pass", "fail", "skipped" };
	json_t *entry = json_object();

	check->count[outcome->verdict]++;
	json_object_set_new(entry, "case", json_string(c->name));
	json_object_set_new(entry, "version", json_integer(version));
	json_object_set_new(entry, "result", json_string(results[outcome->verdict]));
	json_object_set_new(entry, "text", report_text(outcome->text));
	json_object_set_new(entry, "seconds", json_real(outcome->seconds));
	json_object_set_new(entry, "metrics", outcome->metrics ? outcome->metrics : json_object());
	json_array_append_new(check->results, entry);
	if (check->report.json)
		return;
	printf("%s  v%-2d  %-15s %s\n", words[outcome->verdict], version, c->name,
	       outcome->text[0] ? outcome->text : c->what);
	output_flush();
}

static void try_version(struct ncclcheck *check, int version, int newest, int oldest)
{
	const struct check_case *c;

	for (size_t i = 0; (c = case_at(i)); i++) {
		struct run_outcome outcome;

		if (!is_named(check, c) || (c->flags & CASE_ONCE && version != newest))
			continue;
		run_case(&check->run, c, version, c->flags & CASE_MIXED ? oldest : version,
			 &outcome);
		keep(check, c, version, &outcome);
		/* Without a device the others would say the same. */
		if (i == 0 && outcome.verdict == RUN_SKIP)
			return;
	}
}

static int check_plugin(struct ncclcheck *check)
{
	struct report *report = &check->report;
	int newest = 0, oldest = 0;
	char why[512];

	if (run_versions(&check->run, &check->versions, why, sizeof(why)))
		return report_fail(report, -ENOEXEC, "%s cannot be loaded: %s", check->plugin, why);
	for (int version = NCCL_VERSION_NEWEST; version >= NCCL_VERSION_OLDEST; version--) {
		if (!(check->versions & 1u << version))
			continue;
		oldest = version;
		if (!check->version || (unsigned)version == check->version)
			newest = newest ? newest : version;
	}
	if (!newest && check->version)
		return report_fail(report, -ENOENT, "%s exports no ncclNetPlugin_v%u",
				   check->plugin, check->version);
	if (!newest)
		return report_fail(report, -ENOENT,
				   "%s exports none of ncclNetPlugin_v8 to ncclNetPlugin_v12%s",
				   check->plugin,
				   check->versions ? ", only older or newer ones" : "");
	for (int version = newest; version >= oldest; version--) {
		if (check->versions & 1u << version &&
		    (!check->version || (unsigned)version == check->version))
			try_version(check, version, newest, oldest);
	}
	run_dismiss(&check->run);
	return 0;
}

/* The verdict, once all cases were tried. */
static void conclude(struct ncclcheck *check)
{
	struct report *report = &check->report;
	const unsigned *count = check->count;

	report->body = json_pack("{s:s, s:i, s:i, s:i, s:o}", "plugin", check->plugin, "passed",
				 count[RUN_PASS], "failed", count[RUN_FAIL], "skipped",
				 count[RUN_SKIP], "cases", check->results);
	snprintf(report->outcome, sizeof(report->outcome), "%u passed, %u failed, %u skipped",
		 count[RUN_PASS], count[RUN_FAIL], count[RUN_SKIP]);
	if (count[RUN_FAIL])
		report_fail(report, -EIO, "%u passed, %u failed, %u skipped", count[RUN_PASS],
			    count[RUN_FAIL], count[RUN_SKIP]);
	else if (!count[RUN_PASS])
		report_fail(report, -ENODEV, "nothing could be tried, %u skipped", count[RUN_SKIP]);
}

static void ask(struct ncclcheck *check)
{
	struct report *report = &check->report;
	int rc = ask_process((pid_t)check->ask);

	if (rc == -ECONNREFUSED)
		report_fail(report, rc, "process %u does not use libnccl-net-godwit.so here",
			    check->ask);
	else if (rc == -EACCES)
		report_fail(report, rc, "process %u belongs to another user", check->ask);
	else if (rc)
		report_fail(report, rc, "process %u: %s", check->ask, strerror(-rc));
}

static int run_command(int argc, char **argv)
{
	struct ncclcheck check = { .report = { .command = argv[0] },
				   .run = { .port = PORT_DEFAULT,
					    .timeout_s = TIMEOUT_DEFAULT,
					    .silence_s = SILENCE_DEFAULT,
					    .connections = CONNECTIONS_DEFAULT,
					    .channels = CHANNELS_DEFAULT } };
	int rc;

	if (argc > 1 && !strcmp(argv[1], "worker"))
		return worker_main(argc - 1, argv + 1);
	rc = parse(argc, argv, &check);
	if (rc)
		return report_finish(&check.report);
	if (check.list) {
		print_list();
		return EXIT_DONE;
	}
	if (check.ask) {
		ask(&check);
		return report_finish(&check.report);
	}
	if (check.wait) {
		rc = run_serve(&check.run, check.bind);
		if (rc)
			report_fail(&check.report, rc, "cannot wait on port %s: %s", check.run.port,
				    strerror(-rc));
		return report_finish(&check.report);
	}
	check.results = json_array();
	if (!check_plugin(&check))
		conclude(&check);
	return report_finish(&check.report);
}

const struct command command_ncclcheck = {
	.name = "ncclcheck",
	.summary = "try an NCCL net plugin without a GPU",
	.usage =
		"usage: godwit ncclcheck [OPTION ...] PLUGIN.so\n"
		"       godwit ncclcheck --wait PLUGIN.so    (the other host, for --peer)\n"
		"       godwit ncclcheck --ask PID\n"
		"       godwit ncclcheck --list\n"
		"\n"
		"Loads a net plugin as NCCL does and tries what NCCL relies on, with every version of the\n"
		"interface from 8 to 12 that it exports. Each case runs in processes of its own, which are killed\n"
		"when their time is over. The exit status is 0 if no case failed and one passed.\n"
		"\n"
		"options:\n"
		"  --case NAME       try this case only; several with commas between\n"
		"  --version-only N  try this version only\n"
		"  --slow            also the cases that take long: peers that die or stop\n"
		"  --device N        the device that is used (default 0)\n"
		"  --timeout S       seconds that a case may take (default 30; some get more)\n"
		"  --differ N=VALUE  environment of the second process only, for the case `mismatch`\n"
		"  --silence S       seconds after which a dead peer must be an error (default 130)\n"
		"  --connections N   of the case `connections` (default 100)\n"
		"  --channels N      of the cases `channels`, `steps` and `operations` (default 2)\n"
		"  --peer HOST       the second process runs there, where --wait was started first or will be\n"
		"  --wait            serve the second process of another host, until that is done\n"
		"  --bind ADDR       with --wait: the address to wait on (default: any)\n"
		"  --port P          TCP port between the two hosts (default 4793)\n"
		"  --ask PID         print what a process that uses libnccl-net-godwit.so is waiting for\n"
		"  --list            print the cases\n"
		"  --json            print one JSON object instead of a line for each case\n"
		"  --verbose         print what the plugin logs\n",
	.run = run_command,
};
