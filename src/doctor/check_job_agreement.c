/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks on a job's logs: whether its ranks agree on versions, variables and channels, and can reach each other to begin. */
#include <string.h>

#include "job.h"

#define VARIABLES_TOLD 12u

static const char *get_version(const struct joblog_process *process, const void *arg)
{
	return process->version;
}

static void check_version(struct exam *exam, const struct subject *subject)
{
	struct joblog_place place = { 0 };
	const char *minority = NULL;
	const char *text = job_differs(exam, get_version, NULL, &minority, &place);
	struct finding *finding;

	if (text) {
		finding = job_found(exam, minority, &place, "%s", text);
		finding->brief = say(exam, "%s run another NCCL version", minority);
		return;
	}
	for (uint32_t i = 0; i < exam->job->event_count; i++) {
		const struct joblog_event *event = &exam->job->events[i];

		if (event->kind == EVENT_VERSION) {
			job_found(exam,
				  joblog_process_name(&exam->diagnosis->scratch, exam->job,
						      event->process),
				  &event->place, "%s", event->text);
			return;
		}
	}
}

/* Variables that are one rank's own by their nature. */
static bool differs_by_nature(const char *name)
{
	static const char *const names[] = { "NCCL_HOSTID",	     "NCCL_DEBUG_FILE",
					     "NCCL_COMM_ID",	     "NCCL_TOPO_DUMP_FILE",
					     "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE_RANK" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

/* Whether a process came far enough to have read its variables. */
static bool initialized(const struct joblog *log, const struct joblog_process *process)
{
	for (unsigned i = 0; i < process->recent_count; i++) {
		if (log->members[process->recent[i]].completed)
			return true;
	}
	return false;
}

struct variable_query {
	const struct joblog *log;
	const char *name;
};

static const char *get_variable(const struct joblog_process *process, const void *arg)
{
	const struct variable_query *query = arg;
	const char *value = joblog_variable(process, query->name);

	if (value)
		return value;
	return initialized(query->log, process) ? "(not set)" : NULL;
}

static void check_environment(struct exam *exam, const struct subject *subject)
{
	struct joblog *log = exam->job;
	struct joblog_index names = { 0 };
	unsigned told = 0;

	for (uint32_t i = 0; i < log->process_count; i++) {
		for (const struct joblog_variable *v = log->processes[i].variables; v;
		     v = v->next) {
			struct variable_query query = { log, v->name };
			uint64_t key = joblog_hash(19, v->name, strlen(v->name));
			struct joblog_place place = { 0 };
			const char *minority = NULL, *text;
			struct finding *finding;

			if (joblog_get(&names, key) != JOBLOG_NONE || names.count > 256)
				continue;
			joblog_set(log, &names, key, 1);
			if (differs_by_nature(v->name))
				continue;
			text = job_differs(exam, get_variable, &query, &minority, &place);
			if (!text || told++ >= VARIABLES_TOLD)
				continue;
			finding = job_found(exam, minority, &place, "%s: %s", v->name, text);
			finding->brief = say(exam, "%s differs on %s", v->name, minority);
		}
	}
}

static void check_rings(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;

	for (uint32_t i = 0; i < log->communicator_count; i++) {
		const struct joblog_member *least = NULL, *most = NULL;

		for (uint32_t at = log->communicators[i].member; at != JOBLOG_NONE;
		     at = log->members[at].next) {
			const struct joblog_member *member = &log->members[at];

			if (!member->channels)
				continue;
			if (!least || member->channels < least->channels)
				least = member;
			if (!most || member->channels > most->channels)
				most = member;
		}
		if (!least || least->channels == most->channels)
			continue;
		job_found(exam, job_rank_name(exam, i, least->rank), &least->place,
			  "%u channels of collectives, %s has %u", least->channels,
			  job_rank_name(exam, i, most->rank), most->channels);
		return;
	}
}

static bool unreachable_bootstrap(const char *text)
{
	return strncmp(text, "lo:", 3) == 0 || strstr(text, ":127.") || strstr(text, ":[::1]") ||
	       strstr(text, ":::1<");
}

static bool doubtful_bootstrap(const char *text)
{
	static const char *const names[] = { "docker", "veth",	  "virbr", "br-",
					     "cni",    "flannel", "lxcbr" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strncmp(text, names[i], strlen(names[i])) == 0)
			return true;
	}
	return strstr(text, ":169.254.") || strstr(text, ":fe80:");
}

static void check_bootstrap(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	bool several = job_hosts(log) > 1;

	for (uint32_t i = 0; i < log->event_count; i++) {
		const struct joblog_event *event = &log->events[i];

		if (event->kind == EVENT_BOOTSTRAP)
			job_found(
				exam,
				joblog_process_name(&exam->diagnosis->scratch, log, event->process),
				&event->place, "%s", event->text);
	}
	for (uint32_t i = 0; several && i < log->process_count; i++) {
		const struct joblog_process *process = &log->processes[i];
		struct finding *finding;

		if (!process->bootstrap || (!unreachable_bootstrap(process->bootstrap) &&
					    !doubtful_bootstrap(process->bootstrap)))
			continue;
		finding = job_found(exam, joblog_process_name(&exam->diagnosis->scratch, log, i),
				    &process->bootstrap_place, "%s, in a job on several hosts",
				    process->bootstrap);
		finding->brief = say(exam, "%s meets its peers over %s", finding->object,
				     process->bootstrap);
		if (!unreachable_bootstrap(process->bootstrap))
			finding->severity = SEVERITY_WARNING;
		return;
	}
}

static const struct check checks[] = {
	{ "log-version", SEVERITY_ERROR, 97, SCOPE_JOB, GATE_NONE,
	  "ranks run different versions of NCCL", "one version on all ranks",
	  "NCCL refuses such a communicator, or hangs in it.",
	  "the same container image on all hosts; LD_LIBRARY_PATH and LD_PRELOAD must not name another libnccl.so",
	  "PyTorch brings its own NCCL; a module or a container on one host that has another one comes first there.",
	  check_version },
	{ "log-environment", SEVERITY_WARNING, 70, SCOPE_JOB, GATE_NONE,
	  "a variable of NCCL differs between ranks", "the same NCCL_* variables on all ranks",
	  "Ranks that disagree on algorithms, channels or adapters hang or run at the pace of the slowest.",
	  "export it in the job's script for all ranks; look for nccl.conf on the hosts named above",
	  "A value in /etc/nccl.conf or ~/.nccl.conf of some hosts, a launcher that does not pass the environment on (mpirun -x, srun --export).",
	  check_environment },
	{ "log-rings", SEVERITY_WARNING, 65, SCOPE_JOB, GATE_NONE,
	  "ranks of one communicator have different numbers of channels", "one number",
	  "Channels must match on all ranks: a collective can hang.",
	  "the same NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS and topology file on all ranks",
	  "NCCL agrees on the least number; a topology file or a tuner plugin on some hosts breaks that.",
	  check_rings },
	{ "log-bootstrap", SEVERITY_ERROR, 84, SCOPE_JOB, GATE_NONE,
	  "ranks meet over an interface that others cannot reach",
	  "an interface that all hosts reach",
	  "Initialization hangs or fails before the first collective.",
	  "NCCL_SOCKET_IFNAME=INTERFACE on all hosts (=eth0 for exactly that name)",
	  "NCCL takes the first interface that is up, InfiniBand first, docker and lo last; NCCL_SOCKET_IFNAME=^docker0 alone lets lo in again.",
	  check_bootstrap },
};

const struct check_group checks_job_agreement = CHECK_GROUP(checks);
