/* SPDX-License-Identifier: BSD-3-Clause */
/* `godwit lab`: reads the command line into a struct lab_config, runs it, and reports. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "lab/commands.h"
#include "lab/lab.h"
#include "lab/units.h"

enum option_id {
	OPTION_LINK_KEY, /* one of a link's own settings: the option is named like it */
	OPTION_AT,
	OPTION_HOSTS,
	OPTION_JSON,
	OPTION_KILL_ON_FAILURE,
	OPTION_LINK,
	OPTION_MTU,
	OPTION_NO_OFFLOAD,
	OPTION_NO_SUMMARY,
	OPTION_PATH,
	OPTION_PATHS,
	OPTION_PCAP,
	OPTION_RTT,
	OPTION_SAMPLES,
	OPTION_SEED,
	OPTION_SHELL,
	OPTION_SLACK,
	OPTION_SUMMARY,
	OPTION_COUNT = 'n',
};

static const struct option long_options[] = {
	{ "at", required_argument, NULL, OPTION_AT },
	{ "burst", required_argument, NULL, OPTION_LINK_KEY },
	{ "dup", required_argument, NULL, OPTION_LINK_KEY },
	{ "ecn", required_argument, NULL, OPTION_LINK_KEY },
	{ "hosts", required_argument, NULL, OPTION_HOSTS },
	{ "jitter", required_argument, NULL, OPTION_LINK_KEY },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "kill-on-failure", no_argument, NULL, OPTION_KILL_ON_FAILURE },
	{ "link", required_argument, NULL, OPTION_LINK },
	{ "loss", required_argument, NULL, OPTION_LINK_KEY },
	{ "mtu", required_argument, NULL, OPTION_MTU },
	{ "no-offload", no_argument, NULL, OPTION_NO_OFFLOAD },
	{ "no-summary", no_argument, NULL, OPTION_NO_SUMMARY },
	{ "path", required_argument, NULL, OPTION_PATH },
	{ "paths", required_argument, NULL, OPTION_PATHS },
	{ "pcap", required_argument, NULL, OPTION_PCAP },
	{ "queue", required_argument, NULL, OPTION_LINK_KEY },
	{ "rate", required_argument, NULL, OPTION_LINK_KEY },
	{ "reorder", required_argument, NULL, OPTION_LINK_KEY },
	{ "rtt", required_argument, NULL, OPTION_RTT },
	{ "samples", required_argument, NULL, OPTION_SAMPLES },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "shell", optional_argument, NULL, OPTION_SHELL },
	{ "slack", required_argument, NULL, OPTION_SLACK },
	{ "summary", no_argument, NULL, OPTION_SUMMARY },
	{ NULL, 0, NULL, 0 },
};

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *format, ...)
{
	va_list arguments;

	fputs("godwit lab: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	return -EINVAL;
}

static int read_number(const char *option, uint64_t min, uint64_t max, uint64_t *out)
{
	if (units_count(optarg, min, max, out)) {
		return complain("%s%s \"%s\" is not a whole number from %llu to %llu",
				option[1] ? "--" : "-", option, optarg, (unsigned long long)min,
				(unsigned long long)max);
	}
	return 0;
}

/* --shell, --shell=HOST or --shell HOST: no command is named by a number. */
static int read_shell(char **argv, struct lab_config *config)
{
	uint64_t host = 0;

	if (!optarg && argv[optind] && argv[optind][strspn(argv[optind], "0123456789")] == '\0')
		optarg = argv[optind++];
	if (optarg && units_count(optarg, 0, LAB_HOSTS_MAX - 1, &host))
		return complain("--shell \"%s\" is not the number of a host", optarg);
	config->shell = (int)host;
	return 0;
}

/* Reads one option. *count is the number of hosts that run the first command. */
static int read_option(int id, const char *name, char **argv, struct lab_config *config,
		       unsigned *count)
{
	char error[LAB_ERROR_SIZE], why[UNITS_PROBLEM_SIZE];
	uint64_t value = 0;
	int rc = 0;

	switch (id) {
	case OPTION_LINK_KEY:
		rc = config_set(&config->every, name, optarg, error);
		return rc ? complain("--%s", error) : 0;
	case OPTION_HOSTS:
		rc = read_number(name, 1, LAB_HOSTS_MAX, &value);
		config->hosts = (unsigned)value;
		config->hosts_given = true;
		return rc;
	case OPTION_COUNT:
		rc = read_number("n", 1, LAB_HOSTS_MAX, &value);
		*count = (unsigned)value;
		return rc;
	case OPTION_MTU:
		rc = read_number(name, LAB_MTU_MIN, LAB_MTU_MAX, &value);
		config->mtu = (uint32_t)value;
		return rc;
	case OPTION_SEED:
		return read_number(name, 0, UINT64_MAX, &config->seed);
	case OPTION_RTT:
	case OPTION_SLACK:
		if (units_time_ns(optarg, id == OPTION_RTT ? &config->rtt_ns : &config->slack_ns))
			return complain("--%s \"%s\" %s", name, optarg,
					units_problem(UNITS_TIME, optarg, why));
		return 0;
	case OPTION_JSON:
		config->json = true;
		return 0;
	case OPTION_KILL_ON_FAILURE:
		config->kill_on_failure = true;
		return 0;
	case OPTION_NO_OFFLOAD:
		config->no_offload = true;
		return 0;
	case OPTION_SHELL:
		return read_shell(argv, config);
	case OPTION_SUMMARY:
	case OPTION_NO_SUMMARY:
		config->summary = id == OPTION_SUMMARY;
		config->summary_given = true;
		return 0;
	case OPTION_PATHS:
		rc = read_number(name, 1, LAB_PATHS_MAX, &value);
		config->path_count = (unsigned)value;
		return rc;
	case OPTION_SAMPLES:
		rc = config_samples(config, optarg, error);
		return rc ? complain("--samples \"%s\": %s", optarg, error) : 0;
	case OPTION_PCAP:
		config->capture = optarg;
		return 0;
	case OPTION_AT:
	case OPTION_LINK:
	case OPTION_PATH:
		return 0; /* when the hosts are known */
	case ':':
		return complain("%s needs a value", argv[optind - 1]);
	default:
		return complain("unknown or ambiguous option %s", argv[optind - 1]);
	}
}

/* Reads all options (first) or those about single hosts (second time). */
static int read_options(int argc, char **argv, bool single, struct lab_config *config,
			unsigned *count)
{
	char error[LAB_ERROR_SIZE];
	int id, index = 0, rc = 0;

	optind = 0;
	/* '+': the command's own options are not ours. ':' tells a missing value from an unknown option. */
	while (!rc && (id = getopt_long(argc, argv, "+:n:", long_options, &index)) != -1) {
		if (!single)
			rc = read_option(id, long_options[index].name, argv, config, count);
		else if (id == OPTION_SHELL) /* again, because it may take the next word */
			rc = read_shell(argv, config);
		else if (id == OPTION_LINK && config_override(config, optarg, error))
			rc = complain("--link \"%s\": %s", optarg, error);
		else if (id == OPTION_PATH && config_path(config, optarg, error))
			rc = complain("--path \"%s\": %s", optarg, error);
		else if (id == OPTION_AT && config_event(config, optarg, error))
			rc = complain("--at \"%s\": %s", optarg, error);
	}
	return rc;
}

static int read_config(int argc, char **argv, struct lab_config *config)
{
	char error[LAB_ERROR_SIZE];
	unsigned count = 0;

	config_init(config);
	if (read_options(argc, argv, false, config, &count))
		return -EINVAL;
	if (optind >= argc && config->shell < 0)
		return complain("which command?");
	if (commands_read(config, count, argv + optind, error))
		return complain("%s", error);
	config_links(config);
	if (read_options(argc, argv, true, config, &count))
		return -EINVAL;
	config_queues(config);
	if (!config->summary_given)
		config->summary = isatty(STDERR_FILENO) && !config->json;
	return 0;
}

/* One line, about the worse of the two. */
static void warn(const struct lab_config *config, const struct lab_result *result)
{
	const struct switch_counts *counts = &result->counts;
	uint64_t overruns = 0;

	for (unsigned i = 0; i < config->hosts; i++)
		overruns += result->overruns[i];
	if (overruns) {
		fprintf(stderr,
			"godwit lab: warning: the switch did not keep up and lost %llu packets that the configuration would not have; "
			"fewer hosts or a lower rate of sending would help\n",
			(unsigned long long)overruns);
		return;
	}
	if (!lab_was_late(config, counts))
		return;
	fprintf(stderr,
		"godwit lab: warning: the switch was late: of 100 packets one left %.2f ms or more after its time; "
		"fewer hosts or a lower --rate would help\n",
		(double)counts->late_p99_ns / 1e6);
}

static int lab_main(int argc, char **argv)
{
	static struct lab_config config;
	struct lab_outcome outcome;
	char error[LAB_ERROR_SIZE] = "";
	int failed, status = EXIT_DONE;

	if (read_config(argc, argv, &config))
		return EXIT_USAGE;
	if (lab_run(&config, &outcome, error)) {
		complain("%s", error);
		return EXIT_FAILED;
	}
	failed = outcome.result->first_failed;
	if (outcome.result->finished) {
		warn(&config, outcome.result);
		if (config.summary)
			lab_print_summary(&config, &outcome, stderr);
		if (config.json && lab_print_json(&config, &outcome, stdout))
			status = EXIT_FAILED;
	}
	if (failed != LAB_RUNNING)
		status = outcome.result->status[failed];
	if (outcome.signal)
		status = EXIT_BY_SIGNAL + outcome.signal;
	lab_forget(&outcome);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("godwit lab: cannot write to standard output");
		return EXIT_FAILED;
	}
	return status;
}

const struct command command_lab = {
	.name = "lab",
	.summary = "run a command on several hosts joined by an emulated network",
	.usage =
		"usage: godwit lab [OPTION ...] [-n COUNT] [--] COMMAND [ARGUMENT ...] [: [-n COUNT] COMMAND ...]\n"
		"\n"
		"Runs COMMAND in each of several network namespaces, joined by a switch that delays, limits\n"
		"and loses packets. Everything is gone when it ends. Needs root, or user namespaces.\n"
		"\n"
		"Host i is 10.200.0.(i+1) and fd00:200::(i+1); the names are host0, host1, ... COMMAND finds\n"
		"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and\n"
		"GODWIT_HOST_0, GODWIT_HOST_1, ... in its environment.\n"
		"\n"
		"options:\n"
		"  -n COUNT            hosts that run the command that follows; without it one, and the last\n"
		"                      command on all that are left. \":\" separates commands\n"
		"  --hosts N           how many (default: as the commands need; 2 for one without -n)\n"
		"  --rtt T             round trip without queues: 25ms, 200us (default 0)\n"
		"  --rate R            of every link: 10G, 200Mbit (default: no limit)\n"
		"  --queue SIZE        of every link: 64K (default: rate times round trip, at least 64K)\n"
		"  --ecn SIZE          mark packets that find more than this waiting\n"
		"  --loss P            lose this share on the way from host to host: 1e-3 or 0.1%\n"
		"  --burst N[:T]       lose that share in bursts of N packets on average, none longer than T\n"
		"  --dup P             deliver this share twice\n"
		"  --reorder P[:T]     hold this share back, by up to T (default 1ms)\n"
		"  --jitter T          delay each packet by up to T more\n"
		"  --link H:up|down:K=V,...\n"
		"                      other settings for one link: rate, delay, jitter, queue, ecn, loss, burst,\n"
		"                      dup, reorder, mtu; H is a host's number or all\n"
		"  --paths N           side by side in the middle, 1 to 16; a flow takes one (default 1)\n"
		"  --path K:loss=P,burst=N\n"
		"                      losses of path K, from 0 on, besides those of the links\n"
		"  --at T:H:CHANGE     after time T: down, up, rate=R or loss=P; H may be pathK\n"
		"  --mtu N             1280 to 65535 (default 1500)\n"
		"  --seed N            where chance begins: the same seed loses the same packets (default 0)\n"
		"  --shell[=HOST]      run a shell on this host (default 0); the commands run on the others and\n"
		"                      end with it\n"
		"  --no-offload        no segmentation offload: hosts send single packets\n"
		"  --slack T           packets may leave this much late; the switch takes less of the processors\n"
		"  --kill-on-failure   end the other commands when one fails\n"
		"  --json              print counts of every link; the commands' output goes to stderr\n"
		"  --summary           print a table of what each link forwarded and dropped, as on a terminal\n"
		"  --no-summary        print none\n"
		"  --pcap FILE         record the packets that cross the switch\n"
		"  --samples T:FILE    every time T, what each link has carried and what waits for it\n",
	.run = lab_main,
};
