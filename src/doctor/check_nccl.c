/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's variables: those that lead to sockets, those that mean something else than they seem to, those out of range. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "exam.h"
#include "parse.h"

static void ib_disabled(struct exam *exam, const struct subject *subject)
{
	const struct variable *disable = nccl_variable(&exam->nccl, "NCCL_IB_DISABLE");
	const struct variable *net = nccl_variable(&exam->nccl, "NCCL_NET");

	if (disable && nccl_number(&exam->nccl, "NCCL_IB_DISABLE", 0) != 0)
		found(exam, subject, disable->where, "NCCL_IB_DISABLE=%s", disable->value);
	if (net && strcasecmp(net->value, "Socket") == 0)
		found(exam, subject, net->where, "NCCL_NET=%s", net->value);
}

static void hca_match(struct exam *exam, const struct subject *subject)
{
	const struct variable *hca = nccl_variable(&exam->nccl, "NCCL_IB_HCA");
	struct builder active = { 0 };
	unsigned taken = 0;

	if (!hca || !hca->value[0])
		return;
	for (size_t i = 0; i < exam->model->device_count; i++) {
		const struct device *device = &exam->model->devices[i];

		for (size_t j = 0; j < device->port_count; j++) {
			taken += nccl_takes_port(&exam->nccl, &device->ports[j]);
			if (device->ports[j].active)
				builder_print(&active, "%s%s", active.length ? ", " : "",
					      device->name);
		}
	}
	if (!taken)
		found(exam, subject, hca->where, "NCCL_IB_HCA=%s takes no active port (active: %s)",
		      hca->value, active.length ? active.text : "none");
	builder_free(&active);
}

static void hca_prefix(struct exam *exam, const struct subject *subject)
{
	const struct variable *hca = nccl_variable(&exam->nccl, "NCCL_IB_HCA");
	const struct model *model = exam->model;
	struct nccl_list list;

	if (!hca)
		return;
	nccl_list_read(hca->value, &list);
	if (list.exact)
		return;
	for (unsigned i = 0; i < list.count; i++) {
		const char *name = list.names[i].prefix, *other = NULL;
		bool exists = false;

		for (size_t j = 0; j < model->device_count; j++) {
			const char *device = model->devices[j].name;
			bool same = strcmp(device, name) == 0;

			exists |= same;
			if (!same && strncmp(device, name, strlen(name)) == 0)
				other = device;
		}
		if (exists && other)
			found(exam, subject, hca->where, "NCCL_IB_HCA=%s: %s also takes %s",
			      hca->value, name, other);
	}
}

static void net_fallback(struct exam *exam, const struct subject *subject)
{
	if (!nccl_text(&exam->nccl, "NCCL_NET"))
		found(exam, subject, "environment", "NCCL_NET is not set");
}

/* Variables with a range that NCCL or the NIC does not complain about. */
static const struct {
	const char *name;
	int64_t min;
	int64_t max;
	const char *words;
} ranges[] = {
	{ "NCCL_IB_RETRY_CNT", 0, 7, "0 to 7: three bits of a queue pair" },
	{ "NCCL_IB_TIMEOUT", 1, 31, "1 to 31; 0 and 32 up wait for ever; 20 is the default" },
	{ "NCCL_IB_QPS_PER_CONNECTION", 1, 128, "1 to 128" },
	{ "NCCL_IB_SL", 0, 15, "0 to 15, on RoCE 0 to 7" },
	{ "NCCL_IB_TC", 0, 255, "0 to 255" },
	{ "NCCL_IB_ROCE_VERSION_NUM", 1, 2, "1 or 2" },
	{ "NCCL_SOCKET_NTHREADS", 1, 16, "1 to 16" },
	{ "NCCL_NSOCKS_PERTHREAD", 1, 16, "1 to 16; at most 64 sockets in all" },
	{ "NCCL_CROSS_NIC", 0, 2, "0, 1 or 2" },
	{ "NCCL_BUFFSIZE", 65536, INT64_C(1) << 30, "64 KiB to 1 GiB, in bytes" },
};

static void ranges_check(struct exam *exam, const struct subject *subject)
{
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		const struct variable *variable = nccl_variable(&exam->nccl, ranges[i].name);
		struct finding *finding;
		int64_t value;
		bool number;

		if (!variable || !variable->value[0])
			continue;
		number = parse_signed(variable->value, &value);
		if (number && (value == -1 || (value >= ranges[i].min && value <= ranges[i].max)))
			continue;
		finding = found(exam, subject, variable->where, "%s=%s%s", ranges[i].name,
				variable->value, number ? "" : ", which is read as 0");
		finding->healthy = ranges[i].words;
		finding->fix =
			say(exam, "unset %s, or choose a value in its range", ranges[i].name);
	}
}

static void short_timeout(struct exam *exam, const struct subject *subject)
{
	const struct variable *variable = nccl_variable(&exam->nccl, "NCCL_IB_TIMEOUT");
	int64_t value = nccl_number(&exam->nccl, "NCCL_IB_TIMEOUT", 20);

	if (variable && value >= 1 && value < 16)
		found(exam, subject, variable->where, "NCCL_IB_TIMEOUT=%s: %.0f ms",
		      variable->value, 4.096e-3 * (double)(UINT64_C(1) << value));
}

static void one_qp(struct exam *exam, const struct subject *subject)
{
	if (nccl_number(&exam->nccl, "NCCL_IB_QPS_PER_CONNECTION", 1) == 1)
		found(exam, subject, "environment", "NCCL_IB_QPS_PER_CONNECTION is 1");
}

static void conf_file(struct exam *exam, const struct subject *subject)
{
	const struct variable *variable = nccl_variable(&exam->nccl, "NCCL_CONF_FILE");
	const struct fact *fact;

	if (!variable || variable->value[0] != '/')
		return;
	fact = reader_read(exam->model->reader, "%s", variable->value);
	if (fact->state == FACT_ABSENT || fact->state == FACT_DENIED)
		found(exam, subject, variable->where, "NCCL_CONF_FILE=%s cannot be read",
		      variable->value);
}

static void conf_overridden(struct exam *exam, const struct subject *subject)
{
	const struct nccl *nccl = &exam->nccl;

	for (size_t i = 0; i < nccl->count; i++) {
		const struct variable *here = &nccl->variables[i];
		const struct variable *first = nccl_variable(nccl, here->name);

		if (first != here && strncmp(here->name, "NCCL_", 5) == 0 &&
		    strcmp(first->value, here->value) != 0)
			found(exam, subject, here->where, "%s=%s, but %s has %s, which counts",
			      here->name, here->value, first->where, first->value);
	}
}

/* Counts the queue pairs of the job on all devices. Returns false if some device does not tell. */
static bool job_queue_pairs(struct exam *exam, unsigned *count)
{
	const struct model *model = exam->model;
	char own[32];

	*count = 0;
	snprintf(own, sizeof(own), " pid %.20s",
		 reader_read(model->reader, "/.godwit/job/pid")->text);
	for (size_t i = 0; i < model->device_count; i++) {
		const struct fact *fact = reader_read(model->reader, "/.godwit/netlink/rdma/qp/%s",
						      model->devices[i].name);
		const char *at = fact->text, *line;
		size_t length, tail = strlen(own);

		if (fact->state != FACT_KNOWN)
			return false;
		while (parse_line(&at, &line, &length))
			*count += length > tail && memcmp(line + length - tail, own, tail) == 0;
	}
	return true;
}

static void job_queues(struct exam *exam, const struct subject *subject)
{
	const struct fact *devices = reader_read(exam->model->reader, "/.godwit/job/devices");
	unsigned count;

	if (!strstr(devices->text, "/dev/infiniband/uverbs"))
		return;
	if (!job_queue_pairs(exam, &count)) {
		unseen_why(exam, subject, "/.godwit/netlink/rdma/qp",
			   "the kernel does not list queue pairs");
		return;
	}
	diagnosis_note(exam->diagnosis, "job", "",
		       say(exam, "%u queue pairs on RDMA devices", count));
	if (!count)
		found(exam, subject, "netlink, as rdma resource show qp",
		      "RDMA devices open, and no queue pair");
}

static void job_transport(struct exam *exam, const struct subject *subject)
{
	const struct fact *devices = reader_read(exam->model->reader, "/.godwit/job/devices");
	const struct fact *libraries = reader_read(exam->model->reader, "/.godwit/job/libraries");

	if (strstr(devices->text, "/dev/infiniband/uverbs"))
		return;
	if (!strstr(libraries->text, "nccl")) {
		unseen_why(exam, subject, libraries->path,
			   "the process has not loaded NCCL (is it the right one?)");
		return;
	}
	found(exam, subject,
	      say(exam, "/proc/%s/fd", reader_read(exam->model->reader, "/.godwit/job/pid")->text),
	      "no RDMA device is open%s",
	      strstr(libraries->text, "libnccl-net") ? ", although a network plugin is loaded"
						     : "");
}

static const struct check checks[] = {
	{
		.id = "job-transport",
		.severity = SEVERITY_ERROR,
		.impact = 100,
		.gates = GATE_RDMA | GATE_JOB,
		.title = "the running job does not use RDMA",
		.healthy = "/dev/infiniband/uverbsN open in the process",
		.why = "NCCL fell back to sockets, without an error: a tenth of the bandwidth.",
		.fix = "run once with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET and look for \"NET/\"; NCCL_NET=IB makes a fallback fatal",
		.explain =
			"With --pid: the process has NCCL mapped, and none of its descriptors is an RDMA device. A job that has not communicated yet looks the same.",
		.run = job_transport,
	},
	{
		.id = "job-queues",
		.severity = SEVERITY_WARNING,
		.impact = 76,
		.gates = GATE_RDMA | GATE_JOB,
		.title = "the running job has RDMA devices open and uses none",
		.healthy = "queue pairs of the process",
		.why = "NCCL looked at the NICs and then chose sockets; or the job has not communicated yet.",
		.fix = "run once with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET and look for \"NET/\"",
		.explain =
			"With --pid: counts the queue pairs that the kernel attributes to the process (as rdma resource show qp does). A process in another pid namespace is not recognized.",
		.run = job_queues,
	},
	{
		.id = "ib-disabled",
		.severity = SEVERITY_ERROR,
		.impact = 99,
		.gates = GATE_RDMA,
		.title = "a variable makes NCCL use sockets",
		.healthy = "unset",
		.why = "RDMA is there and will not be used.",
		.fix = "unset NCCL_IB_DISABLE NCCL_NET (look in /etc/nccl.conf and ~/.nccl.conf, too)",
		.explain = "A relic of a test on a machine without RDMA, most often.",
		.run = ib_disabled,
	},
	{
		.id = "hca-match",
		.severity = SEVERITY_ERROR,
		.impact = 97,
		.gates = GATE_RDMA,
		.title = "NCCL_IB_HCA takes no port",
		.healthy = "at least one active port",
		.why = "NCCL finds no InfiniBand device and falls back to sockets.",
		.fix = "NCCL_IB_HCA=mlx5 (a prefix), or the names that `ls /sys/class/infiniband` shows",
		.explain =
			"A list of prefixes, each with :PORT if need be; = before it: exact names; ^ before it: all but these.",
		.run = hca_match,
	},
	{
		.id = "hca-prefix",
		.severity = SEVERITY_WARNING,
		.impact = 67,
		.gates = GATE_RDMA,
		.title = "NCCL_IB_HCA takes more than it names",
		.healthy = "exact names: NCCL_IB_HCA==mlx5_1",
		.why = "Names are prefixes: mlx5_1 also takes mlx5_10 and mlx5_11, often a storage NIC.",
		.fix = "write NCCL_IB_HCA==mlx5_1,... with a leading =",
		.explain = "See hca-match.",
		.run = hca_prefix,
	},
	{
		.id = "net-fallback",
		.severity = SEVERITY_INFO,
		.impact = 30,
		.gates = GATE_RDMA,
		.title = "a fallback to sockets would be silent",
		.healthy = "NCCL_NET=IB, or the plugin's name",
		.why = "With NCCL_NET set NCCL ends with an error instead of running slowly.",
		.fix = "NCCL_NET=IB",
		.explain =
			"NCCL tries plugin, IB and Socket in turn and logs the reason at INFO only.",
		.run = net_fallback,
	},
	{
		.id = "nccl-range",
		.severity = SEVERITY_WARNING,
		.impact = 60,
		.gates = GATE_NCCL,
		.title = "a variable is out of range",
		.healthy = "in range",
		.why = "The value is cut to a few bits, or rejected when the first queue pair is made.",
		.fix = "unset it",
		.explain =
			"Checks NCCL_IB_RETRY_CNT, _TIMEOUT, _QPS_PER_CONNECTION, _SL, _TC, _ROCE_VERSION_NUM, NCCL_SOCKET_NTHREADS, NCCL_NSOCKS_PERTHREAD, NCCL_CROSS_NIC, NCCL_BUFFSIZE.",
		.run = ranges_check,
	},
	{
		.id = "short-timeout",
		.severity = SEVERITY_WARNING,
		.impact = 47,
		.gates = GATE_NCCL,
		.title = "the acknowledgement timeout is short",
		.healthy = "18 or more (20 is the default since NCCL 2.23)",
		.why = "A pause of the fabric of a second ends the job with error 12.",
		.fix = "unset NCCL_IB_TIMEOUT",
		.explain =
			"The timeout is 4.096 us * 2^value, and it is waited NCCL_IB_RETRY_CNT times.",
		.run = short_timeout,
	},
	{
		.id = "one-qp",
		.severity = SEVERITY_INFO,
		.impact = 25,
		.gates = GATE_RDMA,
		.title = "one queue pair for each connection",
		.healthy = "4 on fabrics with several tiers and ECMP",
		.why = "ECMP places flows by hash: one flow for each connection collides with others on one link while the next is idle.",
		.fix = "NCCL_IB_QPS_PER_CONNECTION=4 (NCCL_IB_SPLIT_DATA_ON_QPS=0)",
		.explain =
			"Each queue pair has a source port of its own. Adaptive routing in the fabric makes this unnecessary.",
		.run = one_qp,
	},
	{
		.id = "conf-file",
		.severity = SEVERITY_WARNING,
		.impact = 41,
		.gates = GATE_NCCL,
		.title = "NCCL's configuration file cannot be read",
		.healthy = "readable, or the variable unset",
		.why = "Settings that were meant for the job are missing, without a warning.",
		.fix = "correct NCCL_CONF_FILE",
		.explain =
			"NCCL 2.23 and newer read NCCL_CONF_FILE instead of ~/.nccl.conf, then /etc/nccl.conf; the environment counts before both.",
		.run = conf_file,
	},
	{
		.id = "conf-overridden",
		.severity = SEVERITY_INFO,
		.impact = 22,
		.gates = GATE_NCCL,
		.title = "a setting is overridden",
		.healthy = "one value",
		.why = "Whoever edits the file will see no effect.",
		.fix = "remove one of the two",
		.explain = "See conf-file for the order.",
		.run = conf_overridden,
	},
};

const struct check_group checks_nccl = CHECK_GROUP(checks);
