/* SPDX-License-Identifier: BSD-3-Clause */
/* `godwit doctor`: examines a host, or a copy of one, and says what is wrong and what to do. Reads only. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/exam.h"
#include "doctor/pair.h"
#include "lab/units.h"
#include "pair.h"
#include "tools/command.h"
#include "tools/doctor/doctor.h"
#include "tools/interrupt.h"

#define NS_PER_MS	    UINT64_C(1000000)
#define INTERVAL_DEFAULT_MS 1000u
#define INTERVAL_MAX_NS	    (UINT64_C(3600) * 1000 * NS_PER_MS)
/* Longest wait for the other host unless --timeout says otherwise. */
#define PATH_TIMEOUT_NS (5000 * NS_PER_MS)
#define PATH_UDP_PORT	4791

struct job {
	struct reader_attr reader;
	struct exam_attr exam;
	const char *capture;
	/* arguments are logs of a job; directory with files of a cluster */
	bool logs;
	const char *cluster;
	bool json;
	bool verbose;
	/* the path to another host: wait for callers; one of them; options of both ends, of which some were given */
	bool serve;
	bool once;
	bool path_options;
	struct options path;
	struct report report;
};

static const struct option long_options[] = {
	{ "all", no_argument, NULL, 'v' },
	{ "capture", required_argument, NULL, 'c' },
	{ "cluster", required_argument, NULL, 'C' },
	{ "explain", required_argument, NULL, 'e' },
	{ "intent", required_argument, NULL, 'i' },
	{ "interval", required_argument, NULL, 't' },
	{ "json", no_argument, NULL, 'J' },
	{ "list", no_argument, NULL, 'l' },
	{ "nccl-log", no_argument, NULL, 'n' },
	{ "once", no_argument, NULL, '1' },
	{ "only", required_argument, NULL, 'o' },
	{ "pid", required_argument, NULL, 'p' },
	{ "root", required_argument, NULL, 'r' },
	{ "serve", no_argument, NULL, 'S' },
	{ "skip", required_argument, NULL, 's' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "bind", required_argument, NULL, OPTION_BIND },
	{ "dscp", required_argument, NULL, OPTION_DSCP },
	{ "from", required_argument, NULL, OPTION_FROM },
	{ "port", required_argument, NULL, OPTION_PORT },
	{ "quiet", no_argument, NULL, OPTION_QUIET },
	{ "secret-file", required_argument, NULL, OPTION_SECRET_FILE },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "udp-port", required_argument, NULL, OPTION_UDP_PORT },
	{ 0 },
};

int doctor_usage(const char *what, const char *value)
{
	fprintf(stderr, "godwit doctor: %s%s%s\n", what, value ? ": " : "", value ? value : "");
	return DIAGNOSIS_NOT_EXAMINED;
}

static int finish(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	perror("godwit doctor: cannot write to standard output");
	return DIAGNOSIS_NOT_EXAMINED;
}

static void list_check(const struct check *check)
{
	printf("%-20s %-8s ", check->id, severity_name(check->severity));
	print_wrapped(stdout, 30, 80, check->title);
}

static int list_checks(void)
{
	const struct check *check;

	for (size_t i = 0; (check = check_at(i)); i++)
		list_check(check);
	for (size_t i = 0; (check = pair_check_at(i)); i++)
		list_check(check);
	return finish();
}

static void explain_part(const char *name, const char *text)
{
	printf("\n%s\n  ", name);
	print_wrapped(stdout, 2, 80, text);
}

static int explain(const char *id)
{
	const struct check *check = check_find(check_at, id, strlen(id));

	if (!check)
		check = check_find(pair_check_at, id, strlen(id));
	if (!check)
		return doctor_usage("no such check (--list shows them)", id);
	printf("%s (%s)\n  ", check->id, severity_name(check->severity));
	print_wrapped(stdout, 2, 80, check->title);
	explain_part("healthy", check->healthy);
	explain_part("why it matters", check->why);
	explain_part("how it goes wrong", check->explain);
	explain_part("how to fix it", check->fix);
	return finish();
}

static int read_option(int id, struct job *job)
{
	uint64_t value;

	switch (id) {
	case 'c':
		job->capture = optarg;
		return 0;
	case 'C':
		job->cluster = optarg;
		return 0;
	case 'n':
		job->logs = true;
		return 0;
	case 'i':
		job->exam.intent = strcmp(optarg, "lossless") == 0 ? INTENT_LOSSLESS
				   : strcmp(optarg, "lossy") == 0  ? INTENT_LOSSY
								   : INTENT_UNKNOWN;
		return job->exam.intent
			       ? 0
			       : doctor_usage("--intent is lossless or lossy, not", optarg);
	case 't':
		if (units_read(UNITS_SECONDS, optarg, 0, INTERVAL_MAX_NS, &value) != 0)
			return doctor_usage("--interval is a time from 0 to 1h, not", optarg);
		job->exam.interval_ms = (unsigned)(value / NS_PER_MS);
		return 0;
	case 'J':
		job->json = true;
		return 0;
	case 'o':
		job->exam.only = optarg;
		return 0;
	case 'p':
		if (units_count(optarg, 1, INT32_MAX, &value) != 0)
			return doctor_usage("--pid is the number of a process, not", optarg);
		job->reader.pid = (long)value;
		return 0;
	case 'r':
		job->reader.root = optarg;
		return 0;
	case 's':
		job->exam.skip = optarg;
		return 0;
	case 'v':
		job->verbose = true;
		return 0;
	case 'S':
		job->serve = true;
		return 0;
	case '1':
		job->once = true;
		return 0;
	default:
		return DIAGNOSIS_NOT_EXAMINED;
	}
}

/* An option that all commands with two ends share. */
static int read_path_option(int id, char **argv, struct job *job)
{
	job->path_options = true;
	if (options_read(id, argv, &job->report, &job->path) != 0)
		return doctor_usage(job->report.error, NULL);
	return 0;
}

/* What to do next, from what was found. */
static const char *next_command(const struct job *job, const struct diagnosis *diagnosis)
{
	const struct finding *worst = diagnosis->finding_count ? &diagnosis->findings[0] : NULL;

	if (!worst || worst->severity == SEVERITY_INFO)
		return worst && strcmp(worst->check, "rdma-device") == 0
			       ? "godwit perf (here) and godwit perf THIS_HOST (elsewhere) measure the path over UDP"
			       : "godwit qualify proves the NICs between two hosts; --pid PID examines a running job";
	if (!job->verbose && diagnosis->finding_count > 1)
		return scratch_print((struct scratch *)&diagnosis->scratch,
				     "godwit doctor --explain %s; --verbose shows everything",
				     worst->check);
	return scratch_print((struct scratch *)&diagnosis->scratch, "godwit doctor --explain %s",
			     worst->check);
}

/* A host without RDMA gets an answer, not an error. */
static void say_without_rdma(struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < diagnosis->finding_count; i++) {
		if (strcmp(diagnosis->findings[i].check, "rdma-device") != 0 ||
		    diagnosis->findings[i].severity != SEVERITY_INFO)
			continue;
		diagnosis->summary = "no RDMA device";
		diagnosis_note(
			diagnosis, "here", "",
			"Godwit moves data over UDP sockets on this host, in RoCEv2 packets, as any user: godwit send, recv, perf.");
		diagnosis_note(
			diagnosis, "expected", "",
			"If this host should have an RDMA NIC: lspci | grep -iE 'mellanox|infiniband|ethernet'; modprobe mlx5_ib (or bnxt_re, irdma); in a container: --device=/dev/infiniband; a virtual machine needs a virtual function.");
		return;
	}
}

/* `figures`, if not null, joins the JSON object as "path"; its reference is taken. */
static int show(const struct job *job, struct diagnosis *diagnosis, json_t *figures)
{
	const struct diagnosis_style style = {
		.verbose = job->verbose, .colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR")
	};
	json_t *object;
	int status = diagnosis_status(diagnosis), rc;

	if (job->json) {
		object = diagnosis_json(diagnosis);
		if (!object)
			return doctor_usage("out of memory", NULL);
		if (figures)
			json_object_set(object, "path", figures);
		json_dumpf(object, stdout, JSON_INDENT(2));
		fputc('\n', stdout);
		json_decref(object);
	} else {
		diagnosis_print(diagnosis, &style, stdout);
	}
	json_decref(figures);
	rc = finish();
	return rc ? rc : status;
}

int doctor_show(const struct doctor_job *job, struct diagnosis *diagnosis)
{
	const struct job style = { .json = job->json, .verbose = job->verbose };

	return show(&style, diagnosis, NULL);
}

/* Logs of a job, or the files of a cluster. */
static int examine_files(const struct job *job, char **paths, int count)
{
	const struct doctor_job own = { .exam = job->exam,
					.json = job->json,
					.verbose = job->verbose };

	if (job->reader.root || job->reader.pid || job->capture || (job->logs && job->cluster))
		return doctor_usage(
			"--nccl-log and --cluster go neither together nor with --root, --pid or --capture",
			NULL);
	if (job->logs && count == 0)
		return doctor_usage("--nccl-log wants the names of logs, or - for standard input",
				    NULL);
	if (job->cluster && count)
		return doctor_usage("one argument too many", paths[0]);
	return job->logs ? doctor_logs(&own, paths, count) : doctor_cluster(&own, job->cluster);
}

static int examine(const struct job *job)
{
	struct diagnosis diagnosis = { 0 };
	struct reader *reader;
	int rc = reader_open(&job->reader, &reader), status;

	if (rc)
		return doctor_usage(rc == -EINVAL ? "neither a directory nor a capture"
						  : strerror(-rc),
				    job->reader.root);
	if (job->reader.pid) {
		const struct fact *environment = reader_read(reader, "/.godwit/environ");

		if (environment->state != FACT_KNOWN) {
			reader_close(reader);
			return doctor_usage(
				environment->state == FACT_ABSENT
					? "there is no process of that number"
					: "the process belongs to another user: run as that user or as root",
				NULL);
		}
	}
	rc = exam_run(reader, &job->exam, &diagnosis);
	if (rc) {
		status =
			doctor_usage("no such check in --only or --skip (--list shows them)", NULL);
	} else {
		say_without_rdma(&diagnosis);
		diagnosis.next = next_command(job, &diagnosis);
		status = show(job, &diagnosis, NULL);
		rc = job->capture ? reader_capture(reader, job->capture) : 0;
		if (rc)
			status = doctor_usage(strerror(-rc), job->capture);
	}
	diagnosis_free(&diagnosis);
	reader_close(reader);
	return status;
}

/* The path to the host that was named, or the other end of it. */
static int examine_path(struct job *job, char *host)
{
	struct diagnosis diagnosis = { 0 };
	json_t *figures = NULL;
	int rc, status;

	if (job->reader.root || job->reader.pid || job->capture)
		return doctor_usage("--root, --pid and --capture are for a host, not for a path",
				    NULL);
	if (options_place(&job->report, &job->path, host) != 0)
		return doctor_usage(job->report.error, NULL);
	if (!job->path.udp_port_given)
		job->path.udp_port = PATH_UDP_PORT;
	if (job->serve)
		return pair_serve(&job->report, &job->path, job->once);
	rc = pair_call(&job->report, &job->path, job->exam.only, job->exam.skip, &diagnosis,
		       &figures);
	if (rc)
		status = interrupt_signal() ? EXIT_BY_SIGNAL + interrupt_signal()
					    : doctor_usage(job->report.error, NULL);
	else
		status = show(job, &diagnosis, figures);
	diagnosis_free(&diagnosis);
	return status;
}

static int doctor_main(int argc, char **argv)
{
	struct job job = { .exam.interval_ms = INTERVAL_DEFAULT_MS, .report.command = "doctor" };
	int id, rc;

	options_begin(argc, argv, &job.report, &job.path);
	job.path.counterpart = "doctor";
	job.path.timeout_ns = PATH_TIMEOUT_NS;
	opterr = 0;
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (id == 'l')
			return list_checks();
		if (id == 'e')
			return explain(optarg);
		if (id == '?')
			rc = doctor_usage("unknown option, or one without its value",
					  argv[optind - 1]);
		else
			rc = id >= OPTION_BIND ? read_path_option(id, argv, &job)
					       : read_option(id, &job);
		if (rc)
			return rc;
	}
	if (job.logs || job.cluster)
		return examine_files(&job, argv + optind, argc - optind);
	if (argc - optind > (job.serve ? 0 : 1))
		return doctor_usage("one argument too many", argv[optind + !job.serve]);
	if (job.serve || optind < argc)
		return examine_path(&job, argv[optind]);
	if (job.path_options || job.once)
		return doctor_usage(
			"which host? --port and the like are for a path; or give --serve", NULL);
	if (job.reader.root && job.reader.pid)
		return doctor_usage("--pid is for this host, not for a copy", NULL);
	return examine(&job);
}

const struct command command_doctor = {
	.name = "doctor",
	.summary = "say what is wrong with RDMA on this host, and what to do",
	.usage =
		"usage: godwit doctor [OPTION ...]\n"
		"       godwit doctor HOST [OPTION ...]\n"
		"       godwit doctor --serve [OPTION ...]\n"
		"       godwit doctor [OPTION ...] --nccl-log FILE ...\n"
		"       godwit doctor [OPTION ...] --cluster DIR\n"
		"\n"
		"Examines RDMA devices, ports, addresses, limits, PFC and ECN, loss counters, PCIe,\n"
		"GPUDirect, NCCL's variables and plugins. Reads only, and needs no root.\n"
		"With HOST, where `godwit doctor --serve` waits, it examines the path between the two in\n"
		"some five seconds: TCP, UDP, NAT, MTU, loss, delay, rate, clocks, DSCP and ECN.\n"
		"\n"
		"options:\n"
		"  --verbose         show every finding, and each thing that was not visible\n"
		"  --all             the same\n"
		"  --pid PID         examine the environment, limits and files of this running job\n"
		"  --intent I        lossless or lossy: what the fabric is meant to be\n"
		"  --interval T      time between two samples of the counters (default 1s; 0: one sample)\n"
		"  --only LIST       run these checks, separated by commas\n"
		"  --skip LIST       leave these out\n"
		"  --list            list the checks\n"
		"  --explain CHECK   what it looks at, how it goes wrong, how to fix it\n"
		"  --capture FILE    also write all that was read to a tar file\n"
		"  --root PATH       examine a capture, or a directory with a copy of a host's files\n"
		"  --nccl-log        examine a job by its logs (NCCL_DEBUG=INFO): files, directories, or -\n"
		"  --cluster DIR     examine hosts together: captures, logs and results of godwit mesh\n"
		"  --json            print one JSON object\n"
		"\n"
		"options for a path:\n"
		"  --serve           wait for callers, one after the other\n"
		"  --once            with --serve: end after one\n"
		"  --port P          TCP port of the rendezvous (default 4791); also HOST:P, [IPV6]:P\n"
		"  --udp-port P      UDP port of this end (default 4791)\n"
		"  --bind ADDRESS    address of this host to use\n"
		"  --secret-file F   refuse an end that does not hold the secret in file F\n"
		"  --from NETWORK    with --serve: take callers from there only\n"
		"  --dscp N          DSCP that a transfer is going to use: for the commands at the end\n"
		"  --timeout T       wait this long for an answer (default 5s)\n"
		"  --quiet           with --serve: print nothing but errors\n"
		"\n"
		"exit status: 0 healthy, 1 warnings, 2 errors, 3 could not examine\n",
	.run = doctor_main,
};
