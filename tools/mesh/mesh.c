/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `godwit mesh`: measures every pair of hosts of a job, and says which hosts, links and paths are worse than the others.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "heat.h"
#include "job.h"
#include "json.h"
#include "survey.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/ranks.h"
#include "verdict.h"

#define SCHEMA "godwit-mesh/1"

/* Exit statuses, as those of the doctor. */
enum { EXIT_HEALTHY, EXIT_FINDINGS, EXIT_MISUSED, EXIT_COULD_NOT };

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print_json(const struct matrix *matrix, const struct verdict *verdict, double seconds)
{
	json_t *root = json_pack("{s:s s:o s:o s:o s:f}", "schema", SCHEMA, "hosts",
				 matrix_hosts_json(matrix), "pairs", matrix_pairs_json(matrix),
				 "findings", verdict_json(verdict, matrix), "seconds", seconds);

	json_dumpf(root, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
	fputc('\n', stdout);
	json_decref(root);
}

static int write_html(struct report *report, const char *name, const struct matrix *matrix,
		      const struct verdict *verdict)
{
	FILE *file = fopen(name, "w");
	int rc;

	if (!file)
		return report_fail(report, -errno, "cannot write %s: %s", name, strerror(errno));
	heat_html(file, matrix, verdict);
	rc = ferror(file) ? EIO : 0;
	if (fclose(file) && !rc)
		rc = errno;
	return rc ? report_fail(report, -rc, "cannot write %s: %s", name, strerror(rc)) : 0;
}

/* What rank 0 does with the result. Returns the exit status. */
static int tell(struct mesh_job *job, const struct matrix *matrix, double seconds)
{
	struct verdict verdict = { 0 };
	int rc = verdict_reach(matrix, &verdict);

	if (rc)
		report_fail(&job->report, rc, "no memory for findings");
	if (!rc && job->html)
		rc = write_html(&job->report, job->html, matrix, &verdict);
	if (!rc && job->report.json)
		print_json(matrix, &verdict, seconds);
	else if (!rc)
		heat_print(matrix, &verdict, seconds);
	if (!rc)
		rc = output_flush();
	if (rc)
		report_fail(&job->report, rc, "cannot write to standard output: %s", strerror(-rc));
	rc = rc ? EXIT_COULD_NOT : verdict.count ? EXIT_FINDINGS : EXIT_HEALTHY;
	verdict_close(&verdict);
	return rc;
}

static int finish(const struct report *report, int status)
{
	if (!report->error[0])
		return status;
	fprintf(stderr, "godwit mesh: %s\n", report->error);
	if (report->json) {
		json_t *root = json_pack("{s:s s:o}", "schema", SCHEMA, "error",
					 report_text(report->error));

		json_dumpf(root, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
		fputc('\n', stdout);
		json_decref(root);
	}
	return report->usage	? EXIT_MISUSED
	       : report->signal ? EXIT_BY_SIGNAL + report->signal
				: EXIT_COULD_NOT;
}

static int open_comm(int argc, char **argv, struct mesh_job *job, struct gw_comm **comm)
{
	int rc = mesh_job_read(argc, argv, job);

	if (rc)
		return rc;
	interrupt_install();
	/* A path that does not work is a finding, and no warning of the library's. */
	gw_log_set(GW_LOG_ERROR, NULL, NULL);
	rc = gw_comm_open(&job->comm, comm);
	return rc ? report_fail(&job->report, rc, "%s",
				gw_comm_error(NULL)[0] ? gw_comm_error(NULL) : strerror(-rc))
		  : 0;
}

static int mesh_main(int argc, char **argv)
{
	struct mesh_job job;
	struct report *report = &job.report;
	struct gw_comm *comm;
	struct matrix matrix = { 0 };
	double start = now_s();
	int rc = open_comm(argc, argv, &job, &comm), status = EXIT_HEALTHY;
	bool speaks;

	if (rc) {
		report->json = report->json && ranks_may_speak(argc, argv);
		return finish(report, EXIT_COULD_NOT);
	}
	/* One rank speaks for all. */
	speaks = gw_comm_rank(comm) == 0;
	report->json = report->json && speaks;
	if (gw_comm_size(comm) > MESH_RANKS_MAX)
		rc = report_fail(report, -E2BIG, "%u ranks are too many: %u at the most",
				 gw_comm_size(comm), MESH_RANKS_MAX);
	if (!rc)
		rc = survey(&job, comm, &matrix);
	report->signal = interrupt_signal();
	if (rc && !gw_comm_status(comm))
		gw_comm_abort(comm, report->error);
	gw_comm_close(comm);
	if (!rc && speaks)
		status = tell(&job, &matrix, now_s() - start);
	matrix_close(&matrix);
	return finish(report, status);
}

const struct command command_mesh = {
	.name = "mesh",
	.summary = "measure every pair of hosts of a job and find the slow and lossy ones",
	.usage =
		"usage: godwit mesh [OPTION ...]\n"
		"\n"
		"Measures each pair of the hosts that a launcher started it on: latency, bandwidth alone and\n"
		"with all hosts at once, packet loss, in both directions and from several source ports.\n"
		"Names hosts, pairs and paths that are slower or lose more than the others:\n"
		"\n"
		"  mpirun --map-by node -n 8 godwit mesh --html mesh.html\n"
		"  torchrun --nnodes 8 --nproc-per-node 1 --no-python godwit mesh\n"
		"  srun -N 8 --ntasks-per-node 1 godwit mesh --json\n"
		"\n"
		"options:\n"
		"  --html FILE       write a heat map that a browser shows without a network\n"
		"  --json            print one JSON object, from rank 0\n"
		"  --ports N         source ports to try for each pair, 1 to 8 (default 4)\n"
		"  --passes N        times to measure everything; the best counts (default 2)\n"
		"  --time T          time of each part of a measurement (default 60ms)\n"
		"  --fabric F        roce:ADDRESS, verbs:DEVICE (default: by the address of rank 0)\n"
		"  --rank N          the rank of this process, in place of a launcher's environment,\n"
		"  --ranks N         of so many,\n"
		"  --root-host H     with rank 0 on host H,\n"
		"  --port P          where it waits on this TCP port (default 4796)\n"
		"  --secret-file F   refuse ranks that do not hold the secret in file F\n"
		"  --meet T          how long ranks wait for each other (default 60s)\n"
		"  --timeout T       silence after which a rank is lost (default 10s)\n"
		"\n"
		"exit status: 0 healthy, 1 findings, 2 bad usage, 3 could not measure\n",
	.run = mesh_main,
};
