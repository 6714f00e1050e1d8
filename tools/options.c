/* SPDX-License-Identifier: BSD-3-Clause */
/* One table of long options serves both `send` and `recv`; what belongs to one only is refused in the other. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/flow.h>

#include "address.h"
#include "report.h"
#include "scheme.h"

#define PORT_DEFAULT	4791
#define NS_PER_MS	UINT64_C(1000000)
#define TIMEOUT_DEFAULT (10000 * NS_PER_MS)
#define TIMEOUT_MIN	(100 * NS_PER_MS)
#define TIMEOUT_MAX	(86400000 * NS_PER_MS)
#define DSCP_MAX	63

enum { OPTION_BLOCK = OPTION_OWN, OPTION_CONGESTION, OPTION_MAX_SIZE, OPTION_RATE, OPTION_SCHEME };

static const struct option long_options[] = {
	OPTIONS_SHARED,
	{ "block", required_argument, NULL, OPTION_BLOCK },
	{ "congestion", required_argument, NULL, OPTION_CONGESTION },
	{ "max-size", required_argument, NULL, OPTION_MAX_SIZE },
	{ "rate", required_argument, NULL, OPTION_RATE },
	{ "scheme", required_argument, NULL, OPTION_SCHEME },
	{ NULL, 0, NULL, 0 },
};

int options_bad_value(struct report *report, const char *option, const char *expected)
{
	return report_usage(report, "%s \"%s\" is not %s", option, optarg, expected);
}

int options_quantity(struct report *report, const char *option, enum units_kind kind,
		     const char *expected, uint64_t min, uint64_t max, uint64_t *out)
{
	int rc = units_read(kind, optarg, min, max, out);
	char why[UNITS_PROBLEM_SIZE];

	if (rc == -EINVAL)
		return report_usage(report, "%s \"%s\" %s", option, optarg,
				    units_problem(kind, optarg, why));
	return rc ? options_bad_value(report, option, expected) : 0;
}

static int read_port(struct report *report, const char *option, uint64_t min, uint16_t *out)
{
	uint64_t value;

	if (units_count(optarg, min, UINT16_MAX, &value))
		return options_bad_value(report, option,
					 min ? "a port from 1 to 65535" : "a port from 0 to 65535");
	*out = (uint16_t)value;
	return 0;
}

static int read_probability(struct report *report, const char *option, struct options *options,
			    double *out)
{
	char why[UNITS_PROBLEM_SIZE];

	if (units_share(optarg, out))
		return report_usage(report, "%s \"%s\" %s", option, optarg,
				    units_problem(UNITS_SHARE, optarg, why));
	options->faulty = true;
	return 0;
}

static int read_traffic_class(struct report *report, struct options *options)
{
	uint64_t value;

	/* The low two bits are for the network to write to. */
	if (units_count(optarg, 0, UINT8_MAX, &value) || value & 3)
		return options_bad_value(report, "--traffic-class",
					 "a multiple of 4 from 0 to 252");
	options->traffic_class = (uint8_t)value;
	return 0;
}

static int read_dscp(struct report *report, struct options *options)
{
	uint64_t value;

	if (units_count(optarg, 0, DSCP_MAX, &value))
		return options_bad_value(report, "--dscp", "a number from 0 to 63");
	options->traffic_class = (uint8_t)(value << 2);
	return 0;
}

static int read_lanes(struct report *report, struct options *options)
{
	uint64_t value;

	if (units_count(optarg, 1, LANES_MAX, &value))
		return options_bad_value(report, "--lanes", "a number from 1 to 8");
	options->lanes = (uint32_t)value;
	return 0;
}

static int read_icrc(struct report *report, struct options *options)
{
	if (strcmp(optarg, "on") == 0)
		options->icrc = ICRC_ON;
	else if (strcmp(optarg, "off") == 0)
		options->icrc = ICRC_OFF;
	else
		return options_bad_value(report, "--icrc", "on or off");
	return 0;
}

int options_find_congestion(const char *name)
{
	const char *known;

	for (unsigned i = 0; (known = gw_congestion_name(i)); i++) {
		if (strcmp(known, name) == 0)
			return 0;
	}
	return -ENOENT;
}

int options_read_congestion(struct report *report, char *out, size_t size)
{
	char known[128] = "";
	size_t used = 0;
	const char *name;

	if (options_find_congestion(optarg) == 0) {
		snprintf(out, size, "%s", optarg);
		return 0;
	}
	for (unsigned i = 0; (name = gw_congestion_name(i)); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
					 name);
	return report_usage(report, "--congestion \"%s\" is none of %s", optarg, known);
}

int options_read_rate(struct report *report, uint64_t *out)
{
	return options_quantity(report, "--rate", UNITS_RATE, "a rate from 1 bit/s to 9000T", 1,
				UINT64_MAX, out);
}

int options_read(int id, char **argv, struct report *report, struct options *options)
{
	switch (id) {
	case OPTION_BIND:
		options->bind = optarg;
		return 0;
	case OPTION_DROP:
		return read_probability(report, "--drop", options, &options->faults.drop);
	case OPTION_DSCP:
		return read_dscp(report, options);
	case OPTION_DUP:
		return read_probability(report, "--dup", options, &options->faults.duplicate);
	case OPTION_FROM:
		options->from = optarg;
		return 0;
	case OPTION_ICRC:
		return read_icrc(report, options);
	case OPTION_JSON:
		options->json = true;
		return 0;
	case OPTION_LANES:
		return read_lanes(report, options);
	case OPTION_PORT:
		options->port_given = true;
		return read_port(report, "--port", 1, &options->port);
	case OPTION_QUIET:
		options->quiet = true;
		return 0;
	case OPTION_REORDER:
		return read_probability(report, "--reorder", options, &options->faults.reorder);
	case OPTION_SEAL:
		options->seal = true;
		return 0;
	case OPTION_SECRET_FILE:
		options->secret_file = optarg;
		return 0;
	case OPTION_SEED:
		if (units_count(optarg, 0, UINT64_MAX, &options->faults.seed))
			return options_bad_value(report, "--seed", "a whole number");
		return 0;
	case OPTION_TIMEOUT:
		return options_quantity(report, "--timeout", UNITS_SECONDS,
					"a time from 100ms to 24h", TIMEOUT_MIN, TIMEOUT_MAX,
					&options->timeout_ns);
	case OPTION_TRAFFIC_CLASS:
		return read_traffic_class(report, options);
	case OPTION_UDP_PORT:
		options->udp_port_given = true;
		return read_port(report, "--udp-port", 0, &options->udp_port);
	case ':':
		return report_usage(report, "%s needs a value", argv[optind - 1]);
	default:
		return report_usage(report, "unknown or ambiguous option %s", argv[optind - 1]);
	}
}

/* Options of `recv` only. */
static int read_receivers(bool sending, struct report *report, struct options *options)
{
	if (sending)
		return report_usage(report, "--max-size is the receiver's to choose");
	return options_quantity(report, "--max-size", UNITS_SIZE, "a size from 0 to 8E", 0,
				INT64_MAX, &options->max_size);
}

/* Options of `send` only. */
static int read_senders(int id, const char *name, bool sending, struct report *report,
			struct options *options)
{
	uint64_t value = 0;
	int rc;

	if (!sending)
		return report_usage(report, "--%s is the sender's to choose", name);
	if (id == OPTION_CONGESTION)
		return options_read_congestion(report, options->congestion,
					       sizeof(options->congestion));
	if (id == OPTION_RATE)
		return options_read_rate(report, &options->rate_bps);
	if (id == OPTION_SCHEME) {
		options->scheme = scheme_find(optarg);
		return options->scheme ? 0
				       : report_usage(report, "--scheme \"%s\" is none of %s",
						      optarg, scheme_names());
	}
	rc = options_quantity(report, "--block", UNITS_SIZE, "a size from 4K to 16M", BLOCK_MIN,
			      BLOCK_MAX, &value);
	options->block = (uint32_t)value;
	return rc;
}

void options_begin(int argc, char **argv, struct report *report, struct options *out)
{
	const char *secret_file = getenv("GODWIT_SECRET_FILE");

	*out = (struct options){
		.port = PORT_DEFAULT,
		.timeout_ns = TIMEOUT_DEFAULT,
		.secret_file = secret_file && secret_file[0] ? secret_file : NULL,
	};
	/* Even a command line that cannot be read is answered in JSON if it asked for that. */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		report->json |= strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-J") == 0;
}

static int read_address(struct report *report, const char *what, char *text, char **host,
			uint16_t *port)
{
	int rc = address_split(text, host, port);

	if (rc == -ERANGE)
		return report_usage(
			report, "%s\"%s\" does not end in a port from 1 to 65535 after its colon",
			what, text);
	if (rc)
		return report_usage(
			report, "%s\"%s\" is not an address: write HOST, HOST:PORT or [IPV6]:PORT",
			what, text);
	return 0;
}

static int take_port(struct report *report, struct options *options, const char *host,
		     uint16_t port)
{
	if (!port)
		return 0;
	if (options->port_given && options->port != port)
		return report_usage(report, "port %u of %s and --port %u differ", port, host,
				    options->port);
	options->port = port;
	options->port_given = true;
	return 0;
}

int options_place(struct report *report, struct options *options, char *host)
{
	uint16_t port = 0;
	char *bind = NULL;
	int rc = 0;

	options->host = NULL;
	if (host && options->from)
		return report_usage(report, "--from is for the end that waits");
	if (options->seal && !options->secret_file)
		return report_usage(report,
				    "--seal takes its keys from a secret: give --secret-file, too");
	if (host && host[0] == '\0')
		return report_usage(report, "the name of the host is empty");
	if (host) {
		rc = read_address(report, "", host, &host, &port);
		if (rc == 0)
			rc = take_port(report, options, host, port);
		options->host = host;
	}
	if (rc || !options->bind)
		return rc;
	rc = read_address(report, "--bind ", options->bind, &bind, &port);
	if (rc)
		return rc;
	if (port && host)
		return report_usage(
			report,
			"--bind %s takes no port here: --udp-port chooses this end's, --port the other's",
			bind);
	options->bind = bind;
	return take_port(report, options, bind, port);
}

int options_parse(int argc, char **argv, bool sending, struct report *report, struct options *out)
{
	struct options options;
	int wanted = sending ? 2 : 1;
	int id, index = 0, rc;

	options_begin(argc, argv, report, &options);
	options.block = BLOCK_DEFAULT;
	options.max_size = INT64_MAX;
	options.scheme = scheme_default();
	options.counterpart = sending ? "recv" : "send";
	/* A leading ':' tells a missing value from an unknown option; "-x" must not pass as anything. */
	while ((id = getopt_long(argc, argv, ":", long_options, &index)) != -1) {
		if (id == OPTION_MAX_SIZE)
			rc = read_receivers(sending, report, &options);
		else if (id >= OPTION_OWN)
			rc = read_senders(id, long_options[index].name, sending, report, &options);
		else
			rc = options_read(id, argv, report, &options);
		if (rc)
			return rc;
	}
	if (argc - optind < wanted)
		return report_usage(report, argc == optind ? "which file?" : "to which host?");
	if (argc - optind > wanted)
		return report_usage(report, "\"%s\" is one argument too many",
				    argv[optind + wanted]);
	options.file = argv[optind];
	if (options.file[0] == '\0')
		return report_usage(report, "the name of the file is empty");
	rc = options_place(report, &options, sending ? argv[optind + 1] : NULL);
	if (rc)
		return rc;
	report->json = options.json;
	report->quiet = options.quiet;
	report->file = options.file;
	report->lanes = options.lanes ? options.lanes : 1;
	report->traffic_class = options.traffic_class;
	*out = options;
	return 0;
}
