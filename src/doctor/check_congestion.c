/* SPDX-License-Identifier: BSD-3-Clause */
/* DCQCN: notification point and reaction point, and the priority of the notifications. */
#include <string.h>

#include "exam.h"
#include "parse.h"
#include "qos.h"

#define CC_PARAMS "/sys/kernel/debug/mlx5"

static const struct fact *cc_param(struct exam *exam, const struct subject *subject,
				   const char *name)
{
	return reader_read(exam->model->reader, CC_PARAMS "/%s/cc_params/%s",
			   subject->device->pci ? subject->device->pci : "", name);
}

static void dcqcn(struct exam *exam, const struct subject *subject)
{
	static const char *const ends[] = { "roce_np", "roce_rp" };
	const char *name, *netdev = netdev_name(subject->port);
	struct finding *finding;
	unsigned priority;
	struct qos qos;

	qos_read(exam, subject->port, &qos);
	priority = qos_priority(&qos, qos_traffic_class(exam, subject->port, &name));
	for (size_t i = 0; i < 2; i++) {
		const struct fact *fact =
			reader_read(exam->model->reader, "/sys/class/net/%s/ecn/%s/enable/%u",
				    netdev, ends[i], priority);

		if (fact->state == FACT_ABSENT) {
			/* Inbox drivers show parameters to root only, and no switch: it is always on there. */
			fact = cc_param(exam, subject, "rp_min_rate");
			if (fact->state == FACT_ABSENT)
				unseen_why(exam, subject, fact->path,
					   "neither MLNX_OFED's sysfs nor debugfs shows it");
			else if (fact->state != FACT_KNOWN)
				unseen(exam, subject, fact);
			return;
		}
		if (!seen(exam, subject, fact, false) || strcmp(fact->text, "0") != 0)
			continue;
		finding = found(exam, subject, fact->path, "%s is off for priority %u",
				i ? "the reaction point" : "the notification point", priority);
		finding->fix = say(exam, "echo 1 > %s", fact->path);
	}
}

static void cnp_ignored(struct exam *exam, const struct subject *subject)
{
	const struct counter *counter = counters_find(&subject->port->counters, "rp_cnp_ignored");
	uint64_t count;

	if (counter_delta(counter, &count) && count)
		found(exam, subject, counter->path, "%llu ignored in %u ms",
		      (unsigned long long)count, exam->model->interval_ms);
}

static void cnp_priority(struct exam *exam, const struct subject *subject)
{
	const struct fact *dscp =
		reader_read(exam->model->reader, "/sys/class/net/%s/ecn/roce_np/cnp_dscp",
			    netdev_name(subject->port));
	struct finding *finding;
	unsigned data;
	const char *name;
	struct qos qos;
	uint64_t value;

	if (dscp->state == FACT_ABSENT)
		dscp = cc_param(exam, subject, "np_cnp_dscp");
	if (!seen(exam, subject, dscp, false) || !parse_number(dscp->text, &value) || value > 63)
		return;
	qos_read(exam, subject->port, &qos);
	data = qos_priority(&qos, qos_traffic_class(exam, subject->port, &name));
	if (qos.trust != TRUST_DSCP || qos_priority(&qos, (unsigned)value << 2) != data)
		return;
	finding = found(exam, subject, dscp->path, "CNPs have DSCP %llu: priority %u, as the data",
			(unsigned long long)value, data);
	finding->fix = say(exam, "echo 48 > %s", dscp->path);
}

static const struct check checks[] = {
	{
		.id = "dcqcn",
		.severity = SEVERITY_WARNING,
		.impact = 65,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_MLX5 | GATE_PHYSICAL,
		.title = "congestion control of the NIC is off",
		.healthy = "1 at both ends",
		.why = "Without it only PFC or loss slows a sender: pauses spread, or packets drop.",
		.fix = "echo 1 > /sys/class/net/INTERFACE/ecn/roce_rp/enable/3 (and roce_np)",
		.explain =
			"DCQCN: a switch marks packets (ECN), the receiver's NIC sends a CNP (notification point), the sender's NIC slows down (reaction point). MLNX_OFED and DOCA have switches for each priority in sysfs; inbox drivers have it on, and show its parameters in debugfs, to root.",
		.run = dcqcn,
	},
	{
		.id = "cnp-ignored",
		.severity = SEVERITY_WARNING,
		.impact = 62,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_MLX5,
		.title = "the NIC ignores congestion notifications",
		.healthy = "0",
		.why = "The fabric asks this sender to slow down and it does not.",
		.fix = "echo 1 > /sys/class/net/INTERFACE/ecn/roce_rp/enable/PRIORITY",
		.explain =
			"rp_cnp_ignored counts CNPs that arrived while the reaction point was off for their priority.",
		.run = cnp_ignored,
	},
	{
		.id = "cnp-priority",
		.severity = SEVERITY_WARNING,
		.impact = 44,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_USED | GATE_MLX5 | GATE_PHYSICAL,
		.title = "congestion notifications travel with the data",
		.healthy = "DSCP 48, a priority of their own (6)",
		.why = "A CNP that waits behind the queue, or is paused with it, comes too late.",
		.fix = "echo 48 > /sys/class/net/INTERFACE/ecn/roce_np/cnp_dscp",
		.explain =
			"Read from MLNX_OFED's sysfs, or from debugfs cc_params/np_cnp_dscp (root).",
		.run = cnp_priority,
	},
};

const struct check_group checks_congestion = CHECK_GROUP(checks);
