/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: up, fast, of one kind, with a subnet manager where one is needed, with large packets. */
#include <string.h>

#include "exam.h"
#include "parse.h"

/* Bytes of a RoCE packet beside its data, as the kernel counts them when it derives the MTU of a port. */
#define ROCE_OVERHEAD 96u

static bool names_device(const struct nccl *nccl, const struct port *port)
{
	struct nccl_list list;

	nccl_list_read(nccl_text(nccl, "NCCL_IB_HCA"), &list);
	return list.count && !list.inverted &&
	       nccl_list_takes(&list, port->device->name, (int)port->number);
}

static void port_state(struct exam *exam, const struct subject *subject)
{
	const struct port *port = subject->port;
	struct nccl_list list;
	struct finding *finding;

	nccl_list_read(nccl_text(&exam->nccl, "NCCL_IB_HCA"), &list);
	if (!seen(exam, subject, port->state, true) || port->active ||
	    !nccl_list_takes(&list, port->device->name, (int)port->number))
		return;
	finding = found(exam, subject, port->state->path, "%s, physically %s", port->state->text,
			port->phys_state->state == FACT_KNOWN ? port->phys_state->text : "unknown");
	/* A port that somebody switched off, and that no variable asks for, may be meant to be off. */
	if (strncmp(port->phys_state->text, "3:", 2) == 0 && !names_device(&exam->nccl, port))
		finding->severity = SEVERITY_WARNING;
	if (port->link_layer == LINK_ETHERNET && port->netdev)
		finding->fix =
			say(exam, "ip link set %s up; then ethtool %s shows why there is no link",
			    port->netdev->name, port->netdev->name);
}

/* The fastest active port of a NIC of the same kind. */
static const struct port *fastest_like(const struct exam *exam, const struct port *port)
{
	struct reader *reader = exam->model->reader;
	const struct fact *kind = reader_read(reader, "%s/hca_type", port->device->path);
	const struct port *best = NULL;

	for (size_t i = 0; i < exam->model->device_count; i++) {
		const struct device *device = &exam->model->devices[i];

		if (strcmp(reader_read(reader, "%s/hca_type", device->path)->text, kind->text) != 0)
			continue;
		for (size_t j = 0; j < device->port_count; j++) {
			const struct port *other = &device->ports[j];

			if (other->active && (!best || other->rate_bps > best->rate_bps))
				best = other;
		}
	}
	return best;
}

static void port_rate(struct exam *exam, const struct subject *subject)
{
	const struct port *port = subject->port, *best;

	if (!port->rate_bps) {
		unseen(exam, subject, port->rate);
		return;
	}
	best = fastest_like(exam, port);
	if (best && best->rate_bps > port->rate_bps)
		found(exam, subject, port->rate->path, "%s, while %s has %s", port->rate->text,
		      best->name, best->rate->text);
	else if (strstr(port->rate->text, "(1X"))
		found(exam, subject, port->rate->path, "%s: one lane of four", port->rate->text);
}

static void link_layer_mix(struct exam *exam, const struct subject *subject)
{
	const struct port *of[3] = { NULL };

	for (size_t i = 0; i < exam->model->device_count; i++) {
		const struct device *device = &exam->model->devices[i];

		for (size_t j = 0; j < device->port_count; j++) {
			const struct port *port = &device->ports[j];

			if (nccl_takes_port(&exam->nccl, port))
				of[port->link_layer] = port;
		}
	}
	if (of[LINK_INFINIBAND] && of[LINK_ETHERNET])
		found(exam, subject, "/sys/class/infiniband/*/ports/*/link_layer",
		      "%s is InfiniBand, %s is Ethernet", of[LINK_INFINIBAND]->name,
		      of[LINK_ETHERNET]->name);
}

static void subnet_manager(struct exam *exam, const struct subject *subject)
{
	const struct port *port = subject->port;
	const struct fact *fact = reader_read(exam->model->reader, "%s/sm_lid", port->path);
	uint64_t lid;

	if (!seen(exam, subject, fact, true) || !parse_number(fact->text, &lid))
		return;
	if (lid == 0)
		found(exam, subject, fact->path, "sm_lid 0, port %s", port->state->text);
}

/* The MTU of the port, asked of the device or derived from the interface. Returns 0 if unknown. */
static unsigned active_mtu(struct exam *exam, const struct port *port, const char **where)
{
	const struct fact *fact = reader_read(exam->model->reader, "/.godwit/verbs/port/%s/%u",
					      port->device->name, port->number);
	uint64_t value;
	unsigned mtu = 4096;

	*where = fact->path;
	if (fact->state == FACT_KNOWN && parse_value_number(fact->text, "active_mtu", &value))
		return (unsigned)value;
	if (!port->netdev || port->netdev->mtu_bytes <= ROCE_OVERHEAD + 256)
		return 0;
	*where = port->netdev->mtu->path;
	while (mtu > port->netdev->mtu_bytes - ROCE_OVERHEAD)
		mtu /= 2;
	return mtu;
}

static void mtu(struct exam *exam, const struct subject *subject)
{
	const struct port *port = subject->port;
	const char *where, *name = netdev_name(port);
	unsigned bytes = active_mtu(exam, port, &where);
	struct finding *finding;

	if (!bytes) {
		unseen_why(exam, subject, where,
			   "neither the device nor its interface tells the MTU");
		return;
	}
	if (bytes >= 4096)
		return;
	finding = found(exam, subject, where, "packets of %u bytes (interface %s: %u)", bytes, name,
			port->netdev ? port->netdev->mtu_bytes : 0);
	if (name[0])
		finding->fix = say(
			exam, "ip link set %s mtu 9000 (4200 suffices), on every host and switch",
			name);
}

static void mtu_equal(struct exam *exam, const struct subject *subject)
{
	const struct port *first = NULL;

	for (size_t i = 0; i < exam->model->device_count; i++) {
		const struct device *device = &exam->model->devices[i];

		for (size_t j = 0; j < device->port_count; j++) {
			const struct port *port = &device->ports[j];

			if (port->link_layer != LINK_ETHERNET || !port->netdev ||
			    !port->netdev->mtu_bytes || !nccl_takes_port(&exam->nccl, port))
				continue;
			if (first && first->netdev->mtu_bytes != port->netdev->mtu_bytes) {
				found(exam, subject, port->netdev->mtu->path,
				      "%s has %u, %s has %u", first->netdev->name,
				      first->netdev->mtu_bytes, port->netdev->name,
				      port->netdev->mtu_bytes);
				return;
			}
			if (!first)
				first = port;
		}
	}
}

static void infiniband_mtu(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact = reader_read(exam->model->reader, "/.godwit/verbs/port/%s/%u",
					      subject->device->name, subject->port->number);
	uint64_t bytes;

	if (!seen(exam, subject, fact, true))
		return;
	if (parse_value_number(fact->text, "active_mtu", &bytes) && bytes < 4096)
		found(exam, subject, fact->path, "%llu bytes", (unsigned long long)bytes);
}

static const struct check checks[] = {
	{
		.id = "port-state",
		.severity = SEVERITY_ERROR,
		.impact = 96,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA,
		.title = "the port is not active",
		.healthy = "4: ACTIVE, 5: LinkUp",
		.why = "NCCL skips the port without a warning: the job runs with fewer rails, or over sockets.",
		.fix = "check cable and switch port (mlxlink -d DEVICE), on InfiniBand the subnet manager; or leave it out: NCCL_IB_HCA=^DEVICE",
		.explain =
			"state is the logical state: 1 DOWN, 2 INIT (InfiniBand: no subnet manager yet), 3 ARMED, 4 ACTIVE. phys_state is the link: 2 Polling means that no partner answers, 3 Disabled that somebody switched it off, 5 LinkUp. A RoCE port is down while its interface is.",
		.run = port_state,
	},
	{
		.id = "port-rate",
		.severity = SEVERITY_WARNING,
		.impact = 90,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ACTIVE | GATE_HARDWARE,
		.title = "the port runs slower than its siblings",
		.healthy = "the rate of the fastest NIC of its kind",
		.why = "Collectives run at the pace of the slowest rail: one NIC at half rate halves the job.",
		.fix = "reseat or replace the cable; check autonegotiation and FEC: mlxlink -d DEVICE -m, ethtool --show-fec INTERFACE",
		.explain =
			"rate is what the link negotiated. A damaged lane lets a 4X link come up as 1X or 2X; a wrong FEC or a foreign cable lets it fall back a generation.",
		.run = port_rate,
	},
	{
		.id = "link-layer-mix",
		.severity = SEVERITY_WARNING,
		.impact = 60,
		.gates = GATE_RDMA,
		.title = "NCCL takes InfiniBand and Ethernet ports together",
		.healthy = "one kind",
		.why = "Rings over both kinds run at the slower one's pace, and fused NICs of two kinds are refused. Often one of them is the storage or management NIC.",
		.fix = "NCCL_IB_HCA=DEVICE,... with the ports of the training fabric only",
		.explain = "Without NCCL_IB_HCA NCCL takes every active port.",
		.run = link_layer_mix,
	},
	{
		.id = "subnet-manager",
		.severity = SEVERITY_ERROR,
		.impact = 95,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_INFINIBAND,
		.title = "no subnet manager",
		.healthy = "sm_lid not 0",
		.why = "Without one no InfiniBand port becomes active and no path is known.",
		.fix = "start opensm on one host or the switch's own manager; sminfo shows who it is",
		.explain =
			"The subnet manager gives each port its LID and its state. sm_lid is the LID of the one that this port knows.",
		.run = subnet_manager,
	},
	{
		.id = "mtu",
		.severity = SEVERITY_WARNING,
		.impact = 55,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_ROCE | GATE_ACTIVE,
		.title = "RoCE packets are small",
		.healthy = "4096, with an interface MTU of 4200 or more",
		.why = "An interface MTU of 1500 makes RoCE packets of 1024 bytes: four times the packets, headers and per-packet work.",
		.fix = "ip link set INTERFACE mtu 9000, on every host and switch",
		.explain =
			"The RoCE MTU is the largest of 256, 512, 1024, 2048, 4096 that fits the interface's MTU with its headers: 1500 gives 1024, 2200 gives 2048, 4200 gives 4096. Both ends use the smaller one; a switch that drops large packets looks like loss.",
		.run = mtu,
	},
	{
		.id = "mtu-equal",
		.severity = SEVERITY_WARNING,
		.impact = 58,
		.gates = GATE_RDMA,
		.title = "interfaces of the training fabric have different MTUs",
		.healthy = "the same on all",
		.why = "Between unequal ends connections use the smaller packets, or stall where a switch drops the larger ones.",
		.fix = "ip link set INTERFACE mtu N for each, persistently (netplan, NetworkManager)",
		.explain =
			"Compares the interfaces of all ports that NCCL takes. Between hosts: compare two captures.",
		.run = mtu_equal,
	},
	{
		.id = "infiniband-mtu",
		.severity = SEVERITY_INFO,
		.impact = 25,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_INFINIBAND | GATE_ACTIVE,
		.title = "InfiniBand packets are small",
		.healthy = "4096",
		.why = "Twice the packets for the same data.",
		.fix = "set the MTU of the partition to 4096 in the subnet manager (partitions.conf: mtu=5)",
		.explain =
			"The subnet manager chooses the MTU of a partition; OpenSM's default is 2048.",
		.run = infiniband_mtu,
	},
};

const struct check_group checks_ports = CHECK_GROUP(checks);
