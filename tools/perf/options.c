/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options come from one table that says to whom each belongs. What was not given is filled in at the end, for some
 * defaults depend on the test.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "iperf.h"
#include "scheme.h"
#include "tools/report.h"

#define NS_PER_SECOND	 UINT64_C(1000000000)
#define DURATION_MIN	 (NS_PER_SECOND / 100)
#define DURATION_DEFAULT UINT64_C(2000000000) /* ns */
#define PINGS_DEFAULT	 10000
#define DEPTH_DEFAULT	 16
#define SIZE_BANDWIDTH	 (UINT64_C(1) << 20)
#define SIZE_LATENCY	 64
#define MEMORY_DEFAULT	 (UINT64_C(1) << 30)
#define MEMORY_MIN	 (UINT64_C(1) << 20)
#define MEMORY_MAX	 (UINT64_C(1) << 40)
#define BYTES_MAX	 (UINT64_C(1) << 60)

enum {
	OPTION_BARE = OPTION_OWN,
	OPTION_BOTH,
	OPTION_BYTES,
	OPTION_CHANNEL,
	OPTION_CONGESTION,
	OPTION_COUNT,
	OPTION_DEPTH,
	OPTION_DURATION,
	OPTION_INTERVAL,
	OPTION_KEEP,
	OPTION_MEMORY,
	OPTION_POLL,
	OPTION_QPS,
	OPTION_RATE,
	OPTION_REVERSE,
	OPTION_SCHEME,
	OPTION_SIZE,
	OPTION_SLEEP,
	OPTION_TEST,
	OPTION_THREADS,
	OPTION_VERIFY,
	OPTION_WORKING_SET,
};

static const struct option long_options[] = {
	OPTIONS_SHARED,
	{ "bare", no_argument, NULL, OPTION_BARE },
	{ "both", no_argument, NULL, OPTION_BOTH },
	{ "bytes", required_argument, NULL, OPTION_BYTES },
	{ "channel", no_argument, NULL, OPTION_CHANNEL },
	{ "congestion", required_argument, NULL, OPTION_CONGESTION },
	{ "count", required_argument, NULL, OPTION_COUNT },
	{ "depth", required_argument, NULL, OPTION_DEPTH },
	{ "duration", required_argument, NULL, OPTION_DURATION },
	{ "interval", required_argument, NULL, OPTION_INTERVAL },
	{ "keep", no_argument, NULL, OPTION_KEEP },
	{ "memory", required_argument, NULL, OPTION_MEMORY },
	{ "poll", no_argument, NULL, OPTION_POLL },
	{ "qps", required_argument, NULL, OPTION_QPS },
	{ "rate", required_argument, NULL, OPTION_RATE },
	{ "reverse", no_argument, NULL, OPTION_REVERSE },
	{ "scheme", required_argument, NULL, OPTION_SCHEME },
	{ "size", required_argument, NULL, OPTION_SIZE },
	{ "sleep", no_argument, NULL, OPTION_SLEEP },
	{ "test", required_argument, NULL, OPTION_TEST },
	{ "threads", required_argument, NULL, OPTION_THREADS },
	{ "verify", no_argument, NULL, OPTION_VERIFY },
	{ "working-set", required_argument, NULL, OPTION_WORKING_SET },
	{ NULL, 0, NULL, 0 },
};

struct parser {
	struct perf_options options;
	struct report *report;
	const char *clients; /* the first option that only a client may give */
	char *host;	     /* of -c */
	bool server;	     /* -s */
	bool one_off;	     /* -1 */
	bool bare;
	bool channel;
	bool poll;
	bool sleep;
};

/* Reads one of the sizes that the option lists. */
static int read_one_size(struct parser *parser, const char *text, uint64_t min, uint64_t *out)
{
	int rc = units_read(UNITS_SIZE, text, min, PERF_SIZE_MAX, out);
	char why[UNITS_PROBLEM_SIZE];

	if (rc == -EINVAL)
		return report_usage(parser->report,
				    "--size \"%s\": \"%s\" %s; 64..1M sweeps, 64,4K,1M lists",
				    optarg, text, units_problem(UNITS_SIZE, text, why));
	return rc ? options_bad_value(
			    parser->report, "--size",
			    "a size from 1 to 1G, a sweep such as 64..1M or a list such as 64,4K,1M")
		  : 0;
}

static int add_size(struct parser *parser, uint64_t size)
{
	if (parser->options.size_count == PERF_SIZES_MAX)
		return report_usage(parser->report, "--size lists more than %d sizes",
				    PERF_SIZES_MAX);
	parser->options.sizes[parser->options.size_count++] = size;
	return 0;
}

/* One size, or LO..HI: from LO on, doubling, as far as HI. */
static int read_sizes(struct parser *parser, char *text)
{
	char *dots = strstr(text, "..");
	uint64_t low = 0, high;
	int rc;

	if (dots)
		*dots = '\0';
	rc = read_one_size(parser, text, 1, &low);
	high = low;
	if (rc == 0 && dots)
		rc = read_one_size(parser, dots + 2, low, &high);
	for (; rc == 0 && low <= high; low *= 2)
		rc = add_size(parser, low);
	return rc;
}

static int read_size(struct parser *parser)
{
	char text[512];
	char *part, *rest = text;
	int rc = 0;

	if ((size_t)snprintf(text, sizeof(text), "%s", optarg) >= sizeof(text))
		return report_usage(parser->report, "--size lists more than %d sizes",
				    PERF_SIZES_MAX);
	parser->options.size_count = 0;
	while (rc == 0 && (part = strsep(&rest, ",")))
		rc = read_sizes(parser, part);
	return rc;
}

static int read_number(struct parser *parser, const char *option, uint64_t max,
		       const char *expected, uint64_t *out)
{
	if (units_count(optarg, 1, max, out))
		return options_bad_value(parser->report, option, expected);
	return 0;
}

static int read_time(struct parser *parser, const char *option, uint64_t *out)
{
	return options_quantity(parser->report, option, UNITS_SECONDS, "a time from 10ms to 24h",
				DURATION_MIN, PERF_SECONDS_MAX * NS_PER_SECOND, out);
}

static int read_congestion(struct parser *parser)
{
	struct perf_plan *plan = &parser->options.plan;

	return options_read_congestion(parser->report, plan->congestion, sizeof(plan->congestion));
}

static int read_client_option(int id, struct parser *parser)
{
	struct perf_plan *plan = &parser->options.plan;
	uint64_t value = 0;
	int rc = 0;

	switch (id) {
	case OPTION_BARE:
		parser->bare = true;
		return 0;
	case OPTION_BOTH:
		plan->both = true;
		return 0;
	case OPTION_BYTES:
		return options_quantity(parser->report, "--bytes", UNITS_SIZE, "a size such as 1G",
					1, BYTES_MAX, &parser->options.bytes);
	case OPTION_CHANNEL:
		parser->channel = true;
		return 0;
	case OPTION_CONGESTION:
		return read_congestion(parser);
	case OPTION_COUNT:
		return read_number(parser, "--count", PERF_COUNT_MAX,
				   "a number of messages from 1 to 1000000000", &plan->count);
	case OPTION_DEPTH:
		rc = read_number(parser, "--depth", PERF_DEPTH_MAX, "a number from 1 to 512",
				 &value);
		plan->depth = (uint32_t)value;
		parser->options.depth_given = true;
		return rc;
	case OPTION_DURATION:
		return read_time(parser, "--duration", &plan->duration_ns);
	case OPTION_POLL:
		parser->poll = true;
		return 0;
	case OPTION_QPS:
		rc = read_number(parser, "--qps", PERF_QPS_MAX, "a number from 1 to 10000", &value);
		plan->qps = (uint32_t)value;
		return rc;
	case OPTION_RATE:
		return options_read_rate(parser->report, &plan->rate_bps);
	case OPTION_REVERSE:
		plan->reverse = true;
		return 0;
	case OPTION_SCHEME:
		plan->scheme = perf_scheme_find(optarg);
		if (!plan->scheme)
			return report_usage(parser->report, "--scheme \"%s\" is none of %s", optarg,
					    perf_scheme_names());
		return 0;
	case OPTION_SIZE:
		return read_size(parser);
	case OPTION_SLEEP:
		parser->sleep = true;
		return 0;
	case OPTION_TEST:
		if (perf_test_find(optarg, &plan->test))
			return options_bad_value(parser->report, "--test", "bw or lat");
		return 0;
	case OPTION_THREADS:
		rc = read_number(parser, "--threads", PERF_THREADS_MAX, "a number from 1 to 64",
				 &value);
		plan->threads = (uint32_t)value;
		return rc;
	case OPTION_VERIFY:
		plan->verify = true;
		return 0;
	default: /* OPTION_WORKING_SET */
		return options_quantity(parser->report, "--working-set", UNITS_SIZE,
					"a size from 1 to 1T", 1, PERF_WORKING_SET_MAX,
					&plan->working_set);
	}
}

static void claim_for_client(struct parser *parser, int index)
{
	if (!parser->clients)
		parser->clients = long_options[index].name;
}

static int read_option(int id, int index, char **argv, struct parser *parser)
{
	if (id == OPTION_LANES || id == OPTION_DSCP || id == OPTION_TRAFFIC_CLASS)
		claim_for_client(parser, index);
	if (id < OPTION_OWN)
		return options_read(id, argv, parser->report, &parser->options.common);
	if (id == OPTION_INTERVAL)
		return read_time(parser, "--interval", &parser->options.interval_ns);
	if (id == OPTION_KEEP) {
		parser->options.keep = true;
		return 0;
	}
	if (id == OPTION_MEMORY) {
		return options_quantity(parser->report, "--memory", UNITS_SIZE,
					"a size from 1M to 1T", MEMORY_MIN, MEMORY_MAX,
					&parser->options.memory_bytes);
	}
	claim_for_client(parser, index);
	return read_client_option(id, parser);
}

/* A letter of iperf3's: one of the options above, or an end of its own. */
static int read_letter(int id, char **argv, struct parser *parser)
{
	const struct perf_letter *letter = perf_letter_find(id, parser->report);
	int index = 0;

	if (!letter)
		return -EINVAL;
	switch (id) {
	case 'c':
		parser->host = optarg;
		return 0;
	case 's':
		parser->server = true;
		return 0;
	case '1':
		parser->one_off = true;
		return 0;
	}
	while (strcmp(long_options[index].name, letter->name) != 0)
		index++;
	return read_option(long_options[index].val, index, argv, parser);
}

/* The host is an argument or that of -c. With -s there is none, and the server goes on after a test, as iperf3's does. */
static int find_host(int argc, char **argv, struct parser *parser)
{
	char *host = parser->host ? parser->host : argc > optind ? argv[optind] : NULL;
	int wanted = parser->host || parser->server ? 0 : 1;

	if (parser->server && host)
		return report_usage(parser->report, "-s waits for a client; \"%s\" is too much",
				    host);
	if (argc - optind > wanted)
		return report_usage(parser->report, "\"%s\" is one argument too many",
				    argv[optind + wanted]);
	if (parser->server && !parser->one_off)
		parser->options.keep = true;
	return options_place(parser->report, &parser->options.common, host);
}

struct perf_plan perf_options_plan(const struct perf_options *options, uint64_t size)
{
	struct perf_plan plan = options->plan;

	plan.size = size;
	if (options->bytes) {
		uint64_t each = size * plan.qps;

		plan.count = (options->bytes + each - 1) / each;
	}
	if (!options->depth_given)
		plan.depth = perf_plan_fit(&plan, options->memory_bytes, DEPTH_DEFAULT);
	return plan;
}

/* Fills in the defaults that depend on the test. */
static void fill_in(struct parser *parser)
{
	struct perf_options *options = &parser->options;
	struct perf_plan *plan = &options->plan;
	bool latency = plan->test == PERF_LATENCY;
	char why[PERF_WHY];

	if (!plan->qps)
		plan->qps = plan->threads;
	if (!plan->scheme)
		plan->scheme = perf_scheme_default(parser->bare);
	plan->channel = parser->channel || (!parser->bare && plan->scheme->exact);
	if (!plan->count && !plan->duration_ns && !options->bytes) {
		plan->duration_ns = DURATION_DEFAULT;
		plan->count = latency ? PINGS_DEFAULT : 0;
	}
	plan->poll = parser->poll || (latency && !parser->sleep);
	plan->lanes = options->common.lanes ? options->common.lanes : 1;
	plan->traffic_class = options->common.traffic_class;
	plan->skip_icrc = options->common.icrc == ICRC_OFF;
	if (options->size_count)
		return;
	options->size_count = 1;
	options->sizes[0] = latency ? SIZE_LATENCY : SIZE_BANDWIDTH;
	/* Many queue pairs, and no size was asked for: one that fits. */
	while (options->sizes[0] > SIZE_LATENCY) {
		struct perf_plan tried = perf_options_plan(options, options->sizes[0]);

		if (perf_plan_check(&tried, options->memory_bytes, why) == 0)
			break;
		options->sizes[0] /= 2;
	}
}

static int check_client(struct parser *parser)
{
	struct perf_options *options = &parser->options;
	char why[PERF_WHY];

	if (options->keep)
		return report_usage(parser->report, "--keep is for the end that waits");
	if (parser->bare && parser->channel)
		return report_usage(parser->report, "--bare and --channel exclude each other");
	if (options->bytes && options->plan.count)
		return report_usage(parser->report, "--bytes and --count exclude each other");
	if (parser->poll && parser->sleep)
		return report_usage(parser->report, "--poll and --sleep exclude each other");
	if (options->depth_given && options->plan.test == PERF_LATENCY)
		return report_usage(parser->report,
				    "--depth is for bandwidth; pings go one at a time");
	fill_in(parser);
	for (unsigned i = 0; i < options->size_count; i++) {
		struct perf_plan plan = perf_options_plan(options, options->sizes[i]);

		if (perf_plan_check(&plan, options->memory_bytes, why))
			return report_usage(parser->report, "%s", why);
	}
	return 0;
}

int perf_options_parse(int argc, char **argv, struct report *report, struct perf_options *out)
{
	struct parser parser = {
		.options = { .memory_bytes = MEMORY_DEFAULT,
			     .plan = { .test = PERF_BANDWIDTH, .threads = 1 } },
		.report = report,
	};
	struct options *common = &parser.options.common;
	int id, index = 0, rc;

	options_begin(argc, argv, report, common);
	common->counterpart = "perf";
	while ((id = getopt_long(argc, argv, PERF_LETTERS, long_options, &index)) != -1) {
		rc = id < OPTION_BIND && id != ':' && id != '?'
			     ? read_letter(id, argv, &parser)
			     : read_option(id, index, argv, &parser);
		if (rc)
			return rc;
	}
	rc = find_host(argc, argv, &parser);
	if (rc)
		return rc;
	if (!common->host && parser.clients)
		return report_usage(report, "--%s is the client's to choose; to which host?",
				    parser.clients);
	if (common->host) {
		rc = check_client(&parser);
		if (rc)
			return rc;
	}
	report->json = common->json;
	report->quiet = common->quiet;
	*out = parser.options;
	return 0;
}
