/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks on a job's logs: which network its ranks really use, and why not a better one. */
#include <string.h>

#include "job.h"

/* Why this process' NCCL did not take RDMA, as far as it says; null if it does not. */
static const char *socket_reason(struct exam *exam, const struct joblog_process *process)
{
	const char *value;

	if ((value = joblog_variable(process, "NCCL_NET")) && strcasecmp(value, "Socket") == 0)
		return "NCCL_NET=Socket asks for it";
	if ((value = joblog_variable(process, "NCCL_IB_DISABLE")) && strcmp(value, "0") != 0)
		return say(exam, "NCCL_IB_DISABLE=%s is set", value);
	if (process->plugin_error)
		return say(exam, "the plugin did not load: %s", process->plugin_error);
	if (process->no_verbs)
		return "libibverbs.so.1 is not installed";
	if (process->plugin_missing && joblog_variable(process, "NCCL_NET_PLUGIN"))
		return say(exam, "the plugin was not found (%s)%s", process->plugin_missing,
			   process->no_device ? " and NET/IB found no RDMA device" : "");
	if (process->no_device && (value = joblog_variable(process, "NCCL_IB_HCA")))
		return say(exam, "NET/IB found no device that NCCL_IB_HCA=%s takes", value);
	if (process->no_device)
		return "NET/IB found no RDMA device";
	return NULL;
}

/* Whether the process was meant to have RDMA: it says so in a variable, or a plugin failed. */
static bool wanted_rdma(const struct joblog_process *process)
{
	const char *disabled = joblog_variable(process, "NCCL_IB_DISABLE");

	return process->plugin_error || process->nic_count ||
	       (disabled && strcmp(disabled, "0") != 0) ||
	       joblog_variable(process, "NCCL_IB_HCA") ||
	       joblog_variable(process, "NCCL_IB_GID_INDEX") ||
	       joblog_variable(process, "NCCL_NET_PLUGIN");
}

static bool uses_sockets(const struct joblog *log, const struct joblog_process *process,
			 const void *arg)
{
	return process->network && strcmp(process->network, "Socket") == 0;
}

static bool has_network(const struct joblog_process *process)
{
	return process->network && strcmp(process->network, "Socket") != 0;
}

/* Whether the job needs a network: several hosts, or connections that use one. */
static bool needs_network(const struct joblog *log)
{
	struct job_transports transports;

	job_transports(log, &transports);
	if (transports.net_pairs || job_hosts(log) > 1)
		return true;
	for (uint32_t i = 0; i < log->member_count; i++) {
		if (log->members[i].nodes > 1)
			return true;
	}
	return false;
}

static void check_sockets(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	const struct joblog_process *first = NULL;
	const char *reason = NULL, *ranks;
	bool wanted = false;
	uint32_t count;
	struct finding *finding;

	ranks = job_ranks(exam, uses_sockets, NULL, &count);
	if (!ranks || !needs_network(log))
		return;
	for (uint32_t i = 0; i < log->process_count; i++) {
		const struct joblog_process *process = &log->processes[i];

		wanted |= has_network(process);
		if (!uses_sockets(log, process, NULL))
			continue;
		wanted |= wanted_rdma(process);
		if (!first)
			first = process;
		if (!reason)
			reason = socket_reason(exam, process);
	}
	finding = job_found(exam, ranks, &first->network_place, "Using network Socket%s%s",
			    reason ? ": " : "", reason ? reason : "");
	if (!wanted)
		finding->severity = SEVERITY_WARNING;
	finding->brief = say(exam, "%s talk%s over TCP sockets instead of RDMA%s%s%s", ranks,
			     count == 1 ? "s" : "", reason ? " (" : "", reason ? reason : "",
			     reason ? ")" : "");
}

static const char *get_network(const struct joblog_process *process, const void *arg)
{
	return process->network;
}

static const char *get_plugin(const struct joblog_process *process, const void *arg)
{
	if (!process->network)
		return NULL;
	return process->plugin ? process->plugin : "(none)";
}

/* Adds a finding if a text differs between the ranks. */
static void differ(struct exam *exam,
		   const char *(*get)(const struct joblog_process *process, const void *arg),
		   const char *what)
{
	struct joblog_place place = { 0 };
	const char *minority = NULL, *text = job_differs(exam, get, NULL, &minority, &place);
	struct finding *finding;

	if (!text)
		return;
	finding = job_found(exam, minority, &place, "%s", text);
	finding->brief = say(exam, "%s: %s from the others'", minority, what);
}

static void check_network_mixed(struct exam *exam, const struct subject *subject)
{
	differ(exam, get_network, "a network that differs");
}

static void check_plugin_mixed(struct exam *exam, const struct subject *subject)
{
	differ(exam, get_plugin, "a network plugin that differs");
}

static bool failed_plugin(const struct joblog *log, const struct joblog_process *process,
			  const void *arg)
{
	return process->plugin_error && process->plugin_error == arg;
}

static bool missing_plugin(const struct joblog *log, const struct joblog_process *process,
			   const void *arg)
{
	return !process->plugin && !process->plugin_error && process->plugin_missing == arg &&
	       arg && joblog_variable(process, "NCCL_NET_PLUGIN") &&
	       strcmp(joblog_variable(process, "NCCL_NET_PLUGIN"), "none") != 0;
}

static void check_plugin(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	const char *told = NULL;

	for (uint32_t i = 0; i < log->process_count; i++) {
		const struct joblog_process *process = &log->processes[i];
		const char *error = process->plugin_error, *missing = process->plugin_missing;
		const char *ranks;
		struct finding *finding;

		if (error && error != told && !process->plugin) {
			told = error;
			ranks = job_ranks(exam, failed_plugin, error, NULL);
			finding = job_found(exam, ranks, &process->plugin_place, "%s", error);
			finding->brief =
				say(exam, "NCCL's network plugin does not load on %s", ranks);
		} else if (missing_plugin(log, process, missing) && missing != told) {
			told = missing;
			ranks = job_ranks(exam, missing_plugin, missing, NULL);
			finding = job_found(exam, ranks, &process->plugin_place,
					    "NCCL_NET_PLUGIN=%s, and none of these was found: %s",
					    joblog_variable(process, "NCCL_NET_PLUGIN"), missing);
			finding->brief = say(
				exam, "the plugin that NCCL_NET_PLUGIN names is not found on %s",
				ranks);
		}
	}
}

static void check_no_network(struct exam *exam, const struct subject *subject)
{
	for (uint32_t i = 0; i < exam->job->event_count; i++) {
		const struct joblog_event *event = &exam->job->events[i];

		if (event->kind == EVENT_NO_NETWORK)
			job_found(exam,
				  joblog_process_name(&exam->diagnosis->scratch, exam->job,
						      event->process),
				  &event->place, "%s", event->text);
	}
}

static const char *get_nics(const struct joblog_process *process, const void *arg)
{
	static const char *const numbers[] = { "none", "1", "2", "3", "4", "5", "6", "7", "8" };

	if (!process->nics)
		return NULL;
	return process->nic_count <= 8 ? numbers[process->nic_count] : "more than 8";
}

static void check_nics(struct exam *exam, const struct subject *subject)
{
	differ(exam, get_nics, "a number of NICs that differs");
}

static bool without_gdr(const struct joblog_pair *pair)
{
	return strncmp(pair->transport, "NET/", 4) == 0 && !job_is_socket(pair->transport) &&
	       !strstr(pair->transport, "/GDRDMA");
}

static void check_gdr(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	const struct joblog_pair *first = NULL;
	const struct joblog_process *said = NULL;
	uint32_t without = 0, total = 0;
	const char *level = NULL, *reason;
	struct finding *finding;

	for (uint32_t i = 0; i < log->pair_count; i++) {
		const struct joblog_pair *pair = &log->pairs[i];

		total +=
			strncmp(pair->transport, "NET/", 4) == 0 && !job_is_socket(pair->transport);
		if (!without_gdr(pair))
			continue;
		without++;
		if (!first)
			first = pair;
	}
	if (!without)
		return;
	for (uint32_t i = 0; i < log->process_count && !level; i++) {
		if (!said && log->processes[i].gdr_reason)
			said = &log->processes[i];
		level = joblog_variable(&log->processes[i], "NCCL_NET_GDR_LEVEL");
	}
	reason = level	? say(exam, "NCCL_NET_GDR_LEVEL=%s is set", level)
		 : said ? said->gdr_reason
			: "the log does not say why: NCCL_DEBUG_SUBSYS=INIT,NET,ENV does";
	finding = job_found(exam, job_pair_name(exam, first), &first->place,
			    "%u of %u network pairs without GDRDMA; %s", without, total, reason);
	/* Networks that NCCL does not have itself may have no use for it. */
	if (strncmp(first->transport, "NET/IB", 6) != 0)
		finding->severity = SEVERITY_INFO;
	finding->brief =
		say(exam, "%u of %u network pairs run without GPUDirect RDMA", without, total);
}

static void check_intra(struct exam *exam, const struct subject *subject)
{
	const struct joblog *log = exam->job;
	const struct joblog_pair *first = NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; i < log->pair_count; i++) {
		const struct joblog_pair *pair = &log->pairs[i];
		uint32_t from, to;

		if (strncmp(pair->transport, "NET/", 4) != 0)
			continue;
		job_pair_ends(log, pair, &from, &to);
		if (from == JOBLOG_NONE || to == JOBLOG_NONE || from == to ||
		    !joblog_same_host(&log->processes[from], &log->processes[to]))
			continue;
		count++;
		if (!first)
			first = pair;
	}
	if (first)
		job_found(exam, job_pair_name(exam, first), &first->place,
			  "%u pair%s of ranks on one host over %s", count, count == 1 ? "" : "s",
			  first->transport);
}

static bool disables_p2p(const struct joblog *log, const struct joblog_process *process,
			 const void *arg)
{
	const char *value = joblog_variable(process, "NCCL_P2P_DISABLE");

	return value && strcmp(value, "0") != 0;
}

static void check_p2p(struct exam *exam, const struct subject *subject)
{
	struct job_transports transports;
	const char *ranks = job_ranks(exam, disables_p2p, NULL, NULL);

	job_transports(exam->job, &transports);
	for (unsigned i = 0; i < transports.count; i++) {
		const struct job_transport *row = &transports.row[i];
		struct finding *finding;

		if (strcmp(row->name, "SHM") != 0)
			continue;
		finding = job_found(exam, ranks ? ranks : job_pair_name(exam, row->example),
				    &row->example->place, "%u pairs of ranks over SHM%s",
				    row->pairs, ranks ? "; NCCL_P2P_DISABLE=1 is set" : "");
		if (!ranks)
			finding->severity = SEVERITY_INFO;
	}
}

static void check_mismatch(struct exam *exam, const struct subject *subject)
{
	for (uint32_t i = 0; i < exam->job->event_count; i++) {
		const struct joblog_event *event = &exam->job->events[i];
		struct finding *finding;

		if (event->kind != EVENT_MISMATCH)
			continue;
		finding = job_found(
			exam,
			joblog_process_name(&exam->diagnosis->scratch, exam->job, event->process),
			&event->place, "%s", event->text);
		if (!event->number)
			finding->severity = SEVERITY_INFO;
	}
}

static const struct check checks[] = {
	{ "log-sockets", SEVERITY_ERROR, 93, SCOPE_JOB, GATE_NONE,
	  "ranks talk over TCP sockets instead of RDMA", "Using network IB, or a plugin's",
	  "Sockets move a fraction of what the NICs can, and every byte crosses the CPU: collectives between hosts are several times slower.",
	  "mend the reason above; godwit doctor on that host shows its RDMA; NCCL_NET=IB (or the plugin's name) makes a fallback an error",
	  "NCCL tries its plugin, then NET/IB, then sockets, and says which one it took in one line of level INFO only. Reasons: NCCL_IB_DISABLE=1, NCCL_NET=Socket, a plugin that is missing or does not load, no libibverbs, no active port, /dev/infiniband not passed to the container.",
	  check_sockets },
	{ "log-network-mixed", SEVERITY_ERROR, 96, SCOPE_JOB, GATE_NONE,
	  "ranks use different networks", "one network on all ranks",
	  "A rank on sockets and a rank on RDMA cannot connect: the job hangs in its first collective or fails there.",
	  "give all hosts the same driver, container, plugin and NCCL_* variables",
	  "One host whose driver is not loaded, or whose container lacks /dev/infiniband or the plugin, is enough.",
	  check_network_mixed },
	{ "log-plugin", SEVERITY_ERROR, 90, SCOPE_JOB, GATE_NONE,
	  "NCCL's network plugin did not load", "NET/Plugin: Loaded net plugin",
	  "NCCL goes on with its own network without a warning.",
	  "ldd PLUGIN shows a missing library; LD_LIBRARY_PATH must name its directory inside the container; NCCL_NET_PLUGIN=none if none is wanted",
	  "NCCL looks for libnccl-net.so, or for what NCCL_NET_PLUGIN names: as it stands, and as libnccl-net-NAME.so. A library that exists and lacks another one fails with the loader's words at level INFO.",
	  check_plugin },
	{ "log-plugin-mixed", SEVERITY_ERROR, 88, SCOPE_JOB, GATE_NONE,
	  "ranks have different network plugins", "one plugin and one interface version",
	  "Two plugins, or two versions of one, do not speak with each other: the job hangs at its first connection.",
	  "install one plugin everywhere: the same container image on all hosts",
	  "libnccl-net.so in some containers only, a host with an older HPC-X or OFI plugin.",
	  check_plugin_mixed },
	{ "log-no-network", SEVERITY_ERROR, 95, SCOPE_JOB, GATE_NONE,
	  "the network that NCCL_NET names is not there", "a network that loads",
	  "NCCL ends with an error instead of falling back.",
	  "unset NCCL_NET, or mend the plugin or driver that it names",
	  "NCCL_NET takes the name that a plugin gives itself, in any case of letters; IB and Socket are NCCL's own.",
	  check_no_network },
	{ "log-nics", SEVERITY_WARNING, 80, SCOPE_JOB, GATE_NONE,
	  "ranks see different numbers of RDMA NICs", "the same number on every host",
	  "NCCL builds as many rings as the poorest host can carry, or mixes rails.",
	  "godwit doctor on the host with fewer: a port that is down is skipped without a warning",
	  "A port that is down, a NIC that a container does not get, NCCL_IB_HCA that differs. The line is NET/IB : Using.",
	  check_nics },
	{ "log-gdr", SEVERITY_WARNING, 85, SCOPE_JOB, GATE_NONE,
	  "network traffic does not use GPUDirect RDMA", "via NET/IB/N/GDRDMA",
	  "Every byte is copied through host memory on both sides: often half the bandwidth or less.",
	  "modprobe nvidia_peermem, or a driver and a kernel with dma-buf; unset NCCL_NET_GDR_LEVEL; godwit doctor --only gpudirect,gpu-distance,acs",
	  "NCCL uses GPUDirect where the NIC can register the GPU's memory and where both are close enough: within the CPU socket (PHB is too far by default on some platforms). NCCL_DEBUG_SUBSYS=INIT,NET,ENV prints which of both it was.",
	  check_gdr },
	{ "log-net-intra", SEVERITY_WARNING, 60, SCOPE_JOB, GATE_NONE,
	  "ranks on one host talk over the network", "P2P or SHM within a host",
	  "NVLink, PCIe and shared memory are faster, and the NIC's rate is spent on it.",
	  "unset NCCL_P2P_DISABLE and NCCL_SHM_DISABLE; give containers of one host one IPC and PID namespace (--ipc=host --pid=host)",
	  "Containers of one job on one host that see neither each other's /dev/shm nor each other's GPUs.",
	  check_intra },
	{ "log-p2p", SEVERITY_WARNING, 50, SCOPE_JOB, GATE_NONE,
	  "GPUs of one host talk through host memory", "P2P between GPUs of one host",
	  "Shared memory is slower than NVLink or PCIe peer-to-peer by several times.",
	  "unset NCCL_P2P_DISABLE; nvidia-smi topo -p2p r shows which GPUs can; ACS and the IOMMU forbid it",
	  "Expected on hosts whose GPUs have no peer-to-peer; a remark then.", check_p2p },
	{ "log-nic-mismatch", SEVERITY_ERROR, 87, SCOPE_JOB, GATE_NONE,
	  "the NICs of two ranks do not fit together", "one kind of link, and rail to rail",
	  "InfiniBand and RoCE ports cannot connect; rails that cross cost a hop, or do not reach each other.",
	  "NCCL_IB_HCA with ports of one kind, in the same order on every host",
	  "Hosts that number their NICs differently, a port in Ethernet mode among InfiniBand ports, a rail that is down on one host.",
	  check_mismatch },
};

const struct check_group checks_job_network = CHECK_GROUP(checks);
