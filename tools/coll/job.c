/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `godwit coll`. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "lab/units.h"
#include "letters.h"
#include "tools/options.h"
#include "tools/ranks.h"
#include "words.h"

#define SIZE_MAX_BYTES (UINT64_C(1) << 40)

/* GW_RECOVER_PREVIOUS needs an earlier result, which nobody has here. */
static const char *const recoveries[] = { "count", "zero", "keep", "hadamard", "coded", NULL };
static const enum gw_recovery recovery_values[] = { GW_RECOVER_COUNT, GW_RECOVER_ZERO,
						    GW_RECOVER_KEEP, GW_RECOVER_HADAMARD,
						    GW_RECOVER_CODED };

enum {
	OWN_ALGORITHM = OPTION_OWN,
	OWN_BOUNDED,
	OWN_CLEAR,
	OWN_CONGESTION,
	OWN_DEADLINE,
	OWN_FABRIC,
	OWN_FACTOR,
	OWN_FIXED_ORDER,
	OWN_FLOOR,
	OWN_IN_FLIGHT,
	OWN_IN_PLACE,
	OWN_ITERATIONS,
	OWN_MEET,
	OWN_NO_CHECK,
	OWN_RANK,
	OWN_RANKS,
	OWN_RATE,
	OWN_REDUCTION,
	OWN_REPAIR,
	OWN_ROOT,
	OWN_ROOT_HOST,
	OWN_SEGMENT,
	OWN_SIZE,
	OWN_THREADS,
	OWN_TRACKS,
	OWN_TYPE,
	OWN_WARMUP,
};

static const struct option long_options[] = {
	{ "algorithm", required_argument, NULL, OWN_ALGORITHM },
	{ "bounded", required_argument, NULL, OWN_BOUNDED },
	{ "clear", no_argument, NULL, OWN_CLEAR },
	{ "congestion", required_argument, NULL, OWN_CONGESTION },
	{ "deadline", required_argument, NULL, OWN_DEADLINE },
	{ "fabric", required_argument, NULL, OWN_FABRIC },
	{ "factor", required_argument, NULL, OWN_FACTOR },
	{ "fixed-order", no_argument, NULL, OWN_FIXED_ORDER },
	{ "floor", required_argument, NULL, OWN_FLOOR },
	{ "in-flight", required_argument, NULL, OWN_IN_FLIGHT },
	{ "in-place", no_argument, NULL, OWN_IN_PLACE },
	{ "iterations", required_argument, NULL, OWN_ITERATIONS },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "meet", required_argument, NULL, OWN_MEET },
	{ "no-check", no_argument, NULL, OWN_NO_CHECK },
	{ "port", required_argument, NULL, OPTION_PORT },
	{ "rank", required_argument, NULL, OWN_RANK },
	{ "ranks", required_argument, NULL, OWN_RANKS },
	{ "rate", required_argument, NULL, OWN_RATE },
	{ "reduction", required_argument, NULL, OWN_REDUCTION },
	{ "repair", no_argument, NULL, OWN_REPAIR },
	{ "root", required_argument, NULL, OWN_ROOT },
	{ "root-host", required_argument, NULL, OWN_ROOT_HOST },
	{ "secret-file", required_argument, NULL, OPTION_SECRET_FILE },
	{ "segment", required_argument, NULL, OWN_SEGMENT },
	{ "size", required_argument, NULL, OWN_SIZE },
	{ "threads", required_argument, NULL, OWN_THREADS },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "tracks", required_argument, NULL, OWN_TRACKS },
	{ "type", required_argument, NULL, OWN_TYPE },
	{ "warmup", required_argument, NULL, OWN_WARMUP },
	{ NULL, 0, NULL, 0 },
};

static int count(struct report *report, const char *option, uint64_t least, uint64_t most,
		 uint64_t *out)
{
	if (!units_count(optarg, least, most, out))
		return 0;
	return report_usage(report, "%s \"%s\" is not a number from %llu to %llu", option, optarg,
			    (unsigned long long)least, (unsigned long long)most);
}

static int count32(struct report *report, const char *option, uint64_t least, uint64_t most,
		   uint32_t *out)
{
	uint64_t value = 0;
	int error = count(report, option, least, most, &value);

	*out = (uint32_t)value;
	return error;
}

/* "64K", or "4K..64M". */
static int read_sizes(struct coll_job *job)
{
	char text[64], *dots;

	snprintf(text, sizeof(text), "%s", optarg);
	dots = strstr(text, "..");
	if (dots)
		*dots = '\0';
	if (strlen(optarg) >= sizeof(text) ||
	    units_read(UNITS_SIZE, text, 0, SIZE_MAX_BYTES, &job->from) ||
	    units_read(UNITS_SIZE, dots ? dots + 2 : text, 0, SIZE_MAX_BYTES, &job->to) ||
	    job->to < job->from)
		return report_usage(
			&job->report,
			"--size \"%s\" is not a size or a range of sizes, such as 64K or 4K..64M",
			optarg);
	return 0;
}

static int read_bounded(struct coll_job *job, int id)
{
	struct report *report = &job->report;
	uint64_t percent;
	int which, error;

	job->bounded = true;
	switch (id) {
	case OWN_BOUNDED:
		error = coll_word(report, "--bounded", optarg, recoveries, &which);
		job->limits.recovery = error ? 0 : recovery_values[which];
		return error;
	case OWN_DEADLINE:
		return options_quantity(report, "--deadline", UNITS_SECONDS,
					"a time from 10us to 1h", 10000, UINT64_C(3600000000000),
					&job->limits.deadline_ns);
	case OWN_FLOOR:
		error = count(report, "--floor", 1, 100, &percent);
		job->limits.floor_ppm = error ? 0 : (uint32_t)percent * 10000;
		return error;
	default:
		job->limits.flags |= GW_BOUNDED_REPAIR;
		return 0;
	}
}

/* Which operations can be bounded, and how. */
static int check_bounded(struct coll_job *job)
{
	if (job->operation != COLL_ALLREDUCE && job->operation != COLL_REDUCE_SCATTER)
		return report_usage(&job->report, "--bounded is for allreduce and reduce_scatter");
	if (job->algorithm)
		return report_usage(&job->report, "--bounded and --algorithm do not go together");
	if (job->type > GW_FLOAT64)
		return report_usage(&job->report,
				    "--bounded is for floating-point types, and not for %s",
				    coll_type_name(job->type));
	if (job->limits.recovery == GW_RECOVER_HADAMARD &&
	    ((job->type != GW_FLOAT32 && job->type != GW_BFLOAT16) || job->reduction > GW_MEAN))
		return report_usage(
			&job->report,
			"--bounded hadamard is for sums and means of float32 and bfloat16");
	if (job->limits.flags && !job->limits.floor_ppm)
		return report_usage(&job->report, "--repair needs a --floor");
	return 0;
}

static int read_own(struct coll_job *job, int id)
{
	struct report *report = &job->report;
	uint64_t value;
	int which, error;

	switch (id) {
	case OWN_ALGORITHM:
		error = coll_word(report, "--algorithm", optarg, coll_algorithms, &which);
		job->algorithm = error ? 0 : (enum gw_algorithm)which;
		return error;
	case OWN_TYPE:
		error = coll_word(report, "--type", optarg, coll_types, &which);
		job->type = error ? 0 : (enum gw_type)which;
		return error;
	case OWN_REDUCTION:
		error = coll_word(report, "--reduction", optarg, coll_reductions, &which);
		job->reduction = error ? 0 : (enum gw_reduction)which;
		return error;
	case OWN_BOUNDED:
	case OWN_DEADLINE:
	case OWN_FLOOR:
	case OWN_REPAIR:
		return read_bounded(job, id);
	case OWN_CONGESTION:
		job->comm.congestion = optarg;
		return options_find_congestion(optarg)
			       ? report_usage(report, "there is no controller \"%s\"", optarg)
			       : 0;
	case OWN_FABRIC:
		job->comm.fabric = optarg;
		return 0;
	case OWN_FACTOR:
		return count(report, "--factor", 2, 1024, &job->factor);
	case OWN_CLEAR:
		job->comm.flags |= GW_COMM_CLEAR;
		return 0;
	case OWN_FIXED_ORDER:
		job->comm.flags |= GW_COMM_FIXED_ORDER;
		return 0;
	case OWN_IN_FLIGHT:
		return count(report, "--in-flight", 1, 64, &job->in_flight);
	case OWN_IN_PLACE:
		job->in_place = true;
		return 0;
	case OWN_ITERATIONS:
		return count(report, "--iterations", 1, 1000000, &job->iterations);
	case OWN_MEET:
		return options_quantity(report, "--meet", UNITS_SECONDS, "a time from 1s to 1h",
					UINT64_C(1000000000), UINT64_C(3600000000000),
					&job->comm.meet_ns);
	case OWN_NO_CHECK:
		job->no_check = true;
		return 0;
	case OWN_RANK:
		return count32(report, "--rank", 0, GW_COMM_RANKS_MAX - 1, &job->comm.rank);
	case OWN_RANKS:
		return count32(report, "--ranks", 1, GW_COMM_RANKS_MAX, &job->comm.size);
	case OWN_RATE:
		return options_read_rate(report, &job->comm.rate_bps);
	case OWN_ROOT:
		return count32(report, "--root", 0, GW_COMM_RANKS_MAX - 1, &job->root);
	case OWN_ROOT_HOST:
		job->comm.root = optarg;
		return 0;
	case OWN_SEGMENT:
		error = options_quantity(report, "--segment", UNITS_SIZE, "a size from 1K to 64M",
					 1024, UINT64_C(64) << 20, &value);
		job->comm.segment_bytes = error ? 0 : (uint32_t)value;
		return error;
	case OWN_SIZE:
		return read_sizes(job);
	case OWN_THREADS:
		error = count(report, "--threads", 1, GW_COMM_THREADS_MAX, &value);
		job->comm.threads = error ? 0 : (uint16_t)value;
		return error;
	case OWN_TRACKS:
		return count32(report, "--tracks", 1, 16, &job->comm.tracks);
	case OWN_WARMUP:
		return count(report, "--warmup", 0, 1000000, &job->warmup);
	case OPTION_PORT:
		error = count(report, "--port", 1, 65535, &value);
		job->comm.port = error ? 0 : (uint16_t)value;
		return error;
	case OPTION_SECRET_FILE:
		job->comm.secret_file = optarg;
		return 0;
	case OPTION_TIMEOUT:
		return options_quantity(report, "--timeout", UNITS_SECONDS, "a time from 1s to 1h",
					UINT64_C(1000000000), UINT64_C(3600000000000),
					&job->comm.peer_timeout_ns);
	case OPTION_JSON:
		report->json = true;
		return 0;
	default:
		return -EINVAL;
	}
}

/* A letter of nccl-tests: one of the options above, or one that needs no word here. */
static int read_letter(struct coll_job *job, int id)
{
	struct report *report = &job->report;
	uint64_t value = 0;
	const char *name;
	int index = 0, error;

	switch (id) {
	case 'b':
	case 'e':
		return options_quantity(report, id == 'b' ? "-b" : "-e", UNITS_SIZE,
					"a size from 0 to 1T", 0, SIZE_MAX_BYTES,
					id == 'b' ? &job->from : &job->to);
	case 'c':
		error = count(report, "-c", 0, 1, &value);
		job->no_check = !value;
		return error;
	case 'g':
	case 't':
		return units_count(optarg, 1, 1, &value)
			       ? report_usage(report, "-%c \"%s\": each process is one rank here",
					      id, optarg)
			       : 0;
	}
	name = coll_letter_option(id, report);
	if (!name)
		return -EINVAL;
	while (strcmp(long_options[index].name, name) != 0)
		index++;
	return read_own(job, long_options[index].val);
}

/* Reports an option that is none, or that lacks its value. */
static int bad_option(struct report *report, char **argv, int id)
{
	char letter[] = { '-', (char)optopt, '\0' };
	/* getopt_long() goes on to the next argument only when all letters of one are read. */
	bool is_letter = optopt > ' ' && optopt < 127;

	return report_usage(report, "%s %s", is_letter ? letter : argv[optind - 1],
			    id == ':' ? "needs a value" : "is no option of coll");
}

int coll_job_read(int argc, char **argv, struct coll_job *job)
{
	struct report *report = &job->report;
	int id, which, error;

	*job = (struct coll_job){ .from = UINT64_C(4) << 10,
				  .to = UINT64_C(16) << 20,
				  .factor = 4,
				  .in_flight = 1,
				  .warmup = 5,
				  .comm = { .rank = RANKS_NOT_GIVEN },
				  .report = { .command = "coll" } };
	optind = 1;
	opterr = 0;
	for (int i = 1; i < argc; i++)
		report->json |= !strcmp(argv[i], "--json");
	while ((id = getopt_long(argc, argv, COLL_LETTERS, long_options, NULL)) != -1) {
		if (id == '?' || id == ':')
			return bad_option(report, argv, id);
		error = id < OPTION_BIND ? read_letter(job, id) : read_own(job, id);
		if (error)
			return error;
	}
	if (optind == argc) {
		char all[160];

		coll_list_words(coll_operations, all, sizeof(all));
		return report_usage(report, "which operation? %s", all);
	}
	if (argc - optind > 1)
		return report_usage(report, "\"%s\" is one argument too many", argv[optind + 1]);
	error = coll_word(report, "operation", argv[optind], coll_operations, &which);
	if (error)
		return error;
	job->operation = (enum coll_operation)which;
	if (job->from > job->to)
		return report_usage(report,
				    "sizes cannot begin at %llu bytes (-b) and end at %llu (-e)",
				    (unsigned long long)job->from, (unsigned long long)job->to);
	error = ranks_check(report, &job->comm);
	if (error)
		return error;
	return job->bounded ? check_bounded(job) : 0;
}
