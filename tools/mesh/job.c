/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `godwit mesh`. */
#include "job.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "lab/units.h"
#include "matrix.h"
#include "tools/options.h"
#include "tools/ranks.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum {
	OWN_FABRIC = OPTION_OWN,
	OWN_HTML,
	OWN_MEET,
	OWN_PASSES,
	OWN_PORTS,
	OWN_RANK,
	OWN_RANKS,
	OWN_ROOT_HOST,
	OWN_TIME,
};

static const struct option long_options[] = {
	{ "fabric", required_argument, NULL, OWN_FABRIC },
	{ "html", required_argument, NULL, OWN_HTML },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "meet", required_argument, NULL, OWN_MEET },
	{ "passes", required_argument, NULL, OWN_PASSES },
	{ "port", required_argument, NULL, OPTION_PORT },
	{ "ports", required_argument, NULL, OWN_PORTS },
	{ "rank", required_argument, NULL, OWN_RANK },
	{ "ranks", required_argument, NULL, OWN_RANKS },
	{ "root-host", required_argument, NULL, OWN_ROOT_HOST },
	{ "secret-file", required_argument, NULL, OPTION_SECRET_FILE },
	{ "time", required_argument, NULL, OWN_TIME },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ NULL, 0, NULL, 0 },
};

static int count32(struct report *report, const char *option, uint64_t least, uint64_t most,
		   uint32_t *out)
{
	uint64_t value;

	if (units_count(optarg, least, most, &value))
		return report_usage(report, "%s \"%s\" is not a number from %llu to %llu", option,
				    optarg, (unsigned long long)least, (unsigned long long)most);
	*out = (uint32_t)value;
	return 0;
}

static int read_own(struct mesh_job *job, int id)
{
	struct report *report = &job->report;
	uint32_t port = 0;
	int rc;

	switch (id) {
	case OWN_FABRIC:
		job->comm.fabric = optarg;
		return 0;
	case OWN_HTML:
		job->html = optarg;
		return 0;
	case OWN_MEET:
		return options_quantity(report, "--meet", UNITS_SECONDS, "a time from 1s to 1h", S,
					3600 * S, &job->comm.meet_ns);
	case OWN_PASSES:
		return count32(report, "--passes", 1, 100, &job->passes);
	case OWN_PORTS:
		return count32(report, "--ports", 1, MATRIX_PORTS_MAX, &job->ports);
	case OWN_RANK:
		return count32(report, "--rank", 0, MESH_RANKS_MAX - 1, &job->comm.rank);
	case OWN_RANKS:
		return count32(report, "--ranks", 1, MESH_RANKS_MAX, &job->comm.size);
	case OWN_ROOT_HOST:
		job->comm.root = optarg;
		return 0;
	case OWN_TIME:
		return options_quantity(report, "--time", UNITS_SECONDS, "a time from 10ms to 10s",
					10 * MS, 10 * S, &job->time_ns);
	case OPTION_PORT:
		rc = count32(report, "--port", 1, 65535, &port);
		job->comm.port = (uint16_t)port;
		return rc;
	case OPTION_SECRET_FILE:
		job->comm.secret_file = optarg;
		return 0;
	case OPTION_TIMEOUT:
		return options_quantity(report, "--timeout", UNITS_SECONDS, "a time from 1s to 1h",
					S, 3600 * S, &job->comm.peer_timeout_ns);
	case OPTION_JSON:
		report->json = true;
		return 0;
	default:
		return -EINVAL;
	}
}

int mesh_job_read(int argc, char **argv, struct mesh_job *job)
{
	struct report *report = &job->report;
	int id;

	*job = (struct mesh_job){ .ports = 4,
				  .passes = 2,
				  .time_ns = 60 * MS,
				  .comm = { .rank = RANKS_NOT_GIVEN },
				  .report = { .command = "mesh" } };
	optind = 1;
	opterr = 0;
	for (int i = 1; i < argc; i++)
		report->json |= !strcmp(argv[i], "--json");
	while ((id = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		int rc;

		if (id == '?' || id == ':')
			return report_usage(report, "%s %s", argv[optind - 1],
					    id == ':' ? "needs a value" : "is no option of mesh");
		rc = read_own(job, id);
		if (rc)
			return rc;
	}
	if (optind < argc)
		return report_usage(report, "\"%s\" is one argument too many", argv[optind]);
	return ranks_check(report, &job->comm);
}
