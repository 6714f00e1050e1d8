/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of the host that cost a few per cent, or make latency uneven. */
#include <string.h>

#include "exam.h"
#include "parse.h"

static void numa_balancing(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact =
		reader_read(exam->model->reader, "/proc/sys/kernel/numa_balancing");

	if (seen(exam, subject, fact, false) && strcmp(fact->text, "0") != 0)
		found(exam, subject, fact->path, "%s", fact->text);
}

static void cpu_governor(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact = reader_read(
		exam->model->reader, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");

	if (seen(exam, subject, fact, false) && strcmp(fact->text, "performance") != 0)
		found(exam, subject, fact->path, "%s", fact->text);
}

static void clock_sync(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact = reader_read(exam->model->reader, "/.godwit/clock");
	uint64_t synchronized;

	if (seen(exam, subject, fact, true) &&
	    parse_value_number(fact->text, "synchronized", &synchronized) && !synchronized)
		found(exam, subject, "adjtimex()", "not synchronized");
}

static void numa_node(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact, *nodes;

	if (!subject->device->pci_path)
		return;
	nodes = reader_read(exam->model->reader, "/sys/devices/system/node/online");
	fact = reader_read(exam->model->reader, "%s/numa_node", subject->device->pci_path);
	if (seen(exam, subject, fact, false) && strcmp(fact->text, "-1") == 0 &&
	    nodes->state == FACT_KNOWN && strcmp(nodes->text, "0") != 0)
		found(exam, subject, fact->path, "-1 on a host with nodes %s", nodes->text);
}

static void ring_size(struct exam *exam, const struct subject *subject)
{
	const char *netdev = netdev_name(subject->port);
	const struct fact *fact =
		reader_read(exam->model->reader, "/.godwit/ethtool/%s/ring", netdev);
	struct finding *finding;
	uint64_t rx, most;

	if (!netdev[0] || !seen(exam, subject, fact, false) ||
	    !parse_value_number(fact->text, "rx", &rx) ||
	    !parse_value_number(fact->text, "rx_max", &most) || rx >= 1024 || most <= rx)
		return;
	finding = found(exam, subject, fact->path, "%llu of %llu", (unsigned long long)rx,
			(unsigned long long)most);
	finding->fix = say(exam, "ethtool -G %s rx %llu", netdev, (unsigned long long)most);
}

static const struct check checks[] = {
	{
		.id = "numa-balancing",
		.severity = SEVERITY_INFO,
		.impact = 27,
		.gates = GATE_RDMA,
		.title = "automatic NUMA balancing is on",
		.healthy = "0",
		.why = "The kernel unmaps pages to see who uses them: uneven latency for the processes that feed the GPUs.",
		.fix = "sysctl -w kernel.numa_balancing=0",
		.explain = "NCCL and RCCL warn about it in their logs.",
		.run = numa_balancing,
	},
	{
		.id = "cpu-governor",
		.severity = SEVERITY_INFO,
		.impact = 26,
		.gates = GATE_RDMA,
		.title = "the CPU saves power",
		.healthy = "performance",
		.why = "NCCL's proxy threads run on cores that clock up too late.",
		.fix = "cpupower frequency-set -g performance",
		.explain =
			"scaling_governor of the first CPU; schedutil and powersave of intel_pstate clock up quickly, and still cost some microseconds.",
		.run = cpu_governor,
	},
	{
		.id = "clock-sync",
		.severity = SEVERITY_WARNING,
		.impact = 24,
		.gates = GATE_RDMA,
		.title = "the clock is not synchronized",
		.healthy = "synchronized (chrony, ptp4l)",
		.why = "Logs of several hosts cannot be put in order, and one-way delays cannot be measured.",
		.fix = "systemctl enable --now chrony (or chronyd)",
		.explain =
			"The kernel's own word (adjtimex): whether somebody disciplines its clock. In a container it is the host's.",
		.run = clock_sync,
	},
	{
		.id = "numa-node",
		.severity = SEVERITY_INFO,
		.impact = 23,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA | GATE_HARDWARE,
		.title = "the firmware does not say where the NIC is",
		.healthy = "a node's number",
		.why = "Nobody can place processes near the NIC.",
		.fix = "a newer firmware of the host; virtual machines: a vNUMA topology",
		.explain = "numa_node of the PCI function.",
		.run = numa_node,
	},
	{
		.id = "ring-size",
		.severity = SEVERITY_INFO,
		.impact = 21,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_ACTIVE,
		.title = "the receive ring is short",
		.healthy = "1024 or more",
		.why = "Bursts of TCP and UDP (set-up, storage, Godwit over sockets) find no place.",
		.fix = "ethtool -G INTERFACE rx 4096",
		.explain = "RDMA itself does not use this ring.",
		.run = ring_size,
	},
};

const struct check_group checks_tuning = CHECK_GROUP(checks);
