/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC's place on PCIe. Idle GPUs lower their links' speed on purpose, so that only NICs are judged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exam.h"
#include "parse.h"

#define STALL_PERCENT	  1u
#define CORRECTABLE_USUAL 1000u
#define PCI_EXTENDED	  0x100u
#define CAPABILITY_ACS	  0x0du
/* Source validation, and redirection of requests and completions: what sends peer traffic through the root. */
#define ACS_REDIRECTS 0x1du

struct pcie_link {
	/* 0.1 GT/s each lane; 0: unknown */
	unsigned speed;
	unsigned width;
	unsigned max_speed;
	unsigned max_width;
};

static unsigned read_width(const struct fact *fact)
{
	uint64_t width;

	return fact->state == FACT_KNOWN && parse_number(fact->text, &width) && width <= 32
		       ? (unsigned)width
		       : 0;
}

static void read_link(struct exam *exam, const char *path, struct pcie_link *out)
{
	struct reader *reader = exam->model->reader;

	*out = (struct pcie_link){ 0 };
	parse_link_speed(reader_read(reader, "%s/current_link_speed", path)->text, &out->speed);
	parse_link_speed(reader_read(reader, "%s/max_link_speed", path)->text, &out->max_speed);
	out->width = read_width(reader_read(reader, "%s/current_link_width", path));
	out->max_width = read_width(reader_read(reader, "%s/max_link_width", path));
}

/* The bridge above a function; null at the top. */
static const char *bridge_above(struct exam *exam, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *parent;

	if (!slash)
		return NULL;
	parent = scratch_copy(&exam->diagnosis->scratch, path, (size_t)(slash - path));
	slash = strrchr(parent, '/');
	return slash && strlen(slash + 1) == 12 && slash[5] == ':' ? parent : NULL;
}

static unsigned least(unsigned a, unsigned b)
{
	return b && b < a ? b : a;
}

static void pcie_link(struct exam *exam, const struct subject *subject)
{
	const char *path = subject->device->pci_path, *above;
	struct pcie_link link, slot = { 0 };
	unsigned speed, width;

	if (!path)
		return;
	read_link(exam, path, &link);
	if (!link.speed || !link.width) {
		unseen(exam, subject,
		       reader_read(exam->model->reader, "%s/current_link_speed", path));
		return;
	}
	above = bridge_above(exam, path);
	if (above)
		read_link(exam, above, &slot);
	speed = least(link.max_speed, slot.max_speed);
	width = least(link.max_width, slot.max_width);
	if (link.speed < speed || link.width < width)
		found(exam, subject, say(exam, "%s/current_link_speed", path),
		      "%u.%u GT/s x%u, but card and slot can do %u.%u GT/s x%u", link.speed / 10,
		      link.speed % 10, link.width, speed / 10, speed % 10, width);
}

static void pcie_bandwidth(struct exam *exam, const struct subject *subject)
{
	const struct device *device = subject->device;
	uint64_t port_bps = 0, bus_bps;
	struct pcie_link link;

	if (!device->pci_path)
		return;
	read_link(exam, device->pci_path, &link);
	for (size_t i = 0; i < device->port_count; i++)
		port_bps += device->ports[i].active ? device->ports[i].rate_bps : 0;
	/* From 8 GT/s on 128 of 130 bits are data. */
	bus_bps = (uint64_t)link.speed * link.width * 100000000u / 130 * 128;
	if (link.speed && link.width && port_bps > bus_bps)
		found(exam, subject, say(exam, "%s/current_link_width", device->pci_path),
		      "%.0f Gbit/s of PCIe for ports of %.0f Gbit/s", (double)bus_bps / 1e9,
		      (double)port_bps / 1e9);
}

static void pcie_stall(struct exam *exam, const struct subject *subject)
{
	static const char *const names[] = { "outbound_pci_stalled_wr", "outbound_pci_stalled_rd" };
	const struct netdev *netdev = subject->port->netdev;

	for (size_t i = 0; netdev && i < 2; i++) {
		const struct counter *counter = counters_find(&netdev->counters, names[i]);
		uint64_t percent;

		if (counter_value(counter, &percent) && percent >= STALL_PERCENT && percent <= 100)
			found(exam, subject, counter->path, "%s: %llu %% of the last second",
			      names[i], (unsigned long long)percent);
	}
}

static void pcie_errors(struct exam *exam, const struct subject *subject)
{
	static const struct {
		const char *file;
		const char *total;
		uint64_t usual;
	} kinds[] = {
		{ "aer_dev_fatal", "TOTAL_ERR_FATAL", 0 },
		{ "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", 0 },
		{ "aer_dev_correctable", "TOTAL_ERR_COR", CORRECTABLE_USUAL },
	};

	for (size_t i = 0; subject->device->pci_path && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct fact *fact = reader_read(exam->model->reader, "%s/%s",
						      subject->device->pci_path, kinds[i].file);
		uint64_t count;

		if (!seen(exam, subject, fact, false) ||
		    !parse_value_number(fact->text, kinds[i].total, &count))
			continue;
		if (count > kinds[i].usual)
			found(exam, subject, fact->path, "%s %llu", kinds[i].total,
			      (unsigned long long)count);
	}
}

static unsigned word_at(const struct fact *config, unsigned at)
{
	const unsigned char *bytes = (const unsigned char *)config->text;

	return at + 1 < config->length ? bytes[at] | (unsigned)bytes[at + 1] << 8 : 0;
}

/* Returns the control word of the ACS capability in a function's configuration space, or 0. */
static unsigned acs_control(const struct fact *config)
{
	unsigned at = PCI_EXTENDED;

	for (unsigned hops = 0; hops < 64 && at >= PCI_EXTENDED && at + 8 <= config->length;
	     hops++) {
		if (word_at(config, at) == CAPABILITY_ACS)
			return word_at(config, at + 6);
		at = word_at(config, at + 2) >> 4;
	}
	return 0;
}

static void acs(struct exam *exam, const struct subject *subject)
{
	const char *path = subject->device->pci_path;

	/* A guest sees no bridges of the host; there ATS and the hypervisor decide. */
	while (!exam->model->guest && path && (path = bridge_above(exam, path))) {
		const struct fact *config = reader_read(exam->model->reader, "%s/config", path);
		struct finding *finding;

		if (!seen(exam, subject, config, true))
			return;
		if (config->length <= PCI_EXTENDED) {
			unseen_why(exam, subject, config->path, "it needs root");
			return;
		}
		if (!(acs_control(config) & ACS_REDIRECTS))
			continue;
		finding = found(exam, subject, config->path,
				"bridge %s redirects (ACS control 0x%04x)", strrchr(path, '/') + 1,
				acs_control(config));
		finding->fix = say(
			exam,
			"setpci -s %s ECAP_ACS+6.w=0 (after every boot; or switch ACS off in the firmware)",
			strrchr(path, '/') + 1);
		return;
	}
}

static void iommu(struct exam *exam, const struct subject *subject)
{
	const struct fact *type;

	if (!subject->device->pci_path)
		return;
	type = reader_read(exam->model->reader, "%s/iommu_group/type", subject->device->pci_path);
	if (seen(exam, subject, type, false) && strncmp(type->text, "DMA", 3) == 0)
		found(exam, subject, type->path, "%s", type->text);
}

/* Returns how many components two PCI paths share from the top. */
static unsigned shared_depth(const char *a, const char *b)
{
	unsigned depth = 0;

	for (; *a && *a == *b; a++, b++)
		depth += *a == '/';
	return depth;
}

/* A function's NUMA node, as text; "-1" and unknown ones are no node. */
static bool same_node(struct exam *exam, const char *a, const char *b)
{
	const struct fact *one = reader_read(exam->model->reader, "%s/numa_node", a);
	const struct fact *two = reader_read(exam->model->reader, "%s/numa_node", b);

	return one->text[0] && one->text[0] != '-' && strcmp(one->text, two->text) == 0;
}

/* Every GPU should have a NIC below the same host bridge, or at least at the same processor; below one host bridge two
 * paths share "/sys/devices/pci0000:00/", which is 4 components. */
static void gpu_distance(struct exam *exam, const struct subject *subject)
{
	const struct model *model = exam->model;

	for (size_t i = 0; i < model->gpu_count; i++) {
		unsigned best = 0;
		bool any = false;

		for (size_t j = 0; j < model->device_count; j++) {
			unsigned depth;

			if (!model->devices[j].pci_path)
				continue;
			any = true;
			depth = shared_depth(model->gpus[i], model->devices[j].pci_path);
			if (same_node(exam, model->gpus[i], model->devices[j].pci_path))
				depth = 4;
			best = depth > best ? depth : best;
		}
		if (any && best < 4)
			found(exam, subject, model->gpus[i],
			      "GPU %s shares neither PCIe root nor NUMA node with an RDMA NIC",
			      strrchr(model->gpus[i], '/') + 1);
	}
}

static const struct check checks[] = {
	{
		.id = "pcie-link",
		.severity = SEVERITY_WARNING,
		.impact = 77,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "the NIC's PCIe link came up slow or narrow",
		.healthy = "the speed and width of card and slot",
		.why = "The NIC cannot move what its port can: that rail is the slowest, and all wait for it.",
		.fix = "reseat the card; check the riser and the firmware's bifurcation: lspci -vv -s PCI_ADDRESS | grep Lnk",
		.explain = "Compares current_link_speed and _width with what card and slot can do.",
		.run = pcie_link,
	},
	{
		.id = "pcie-bandwidth",
		.severity = SEVERITY_WARNING,
		.impact = 64,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "PCIe is slower than the NIC's ports",
		.healthy = "PCIe at least as fast as all active ports",
		.why = "The ports can bring more than the bus carries: pauses or drops under load.",
		.fix = "move the NIC to a wider or newer slot; 400 Gbit/s need 32 GT/s x16",
		.explain = "16 GT/s x16 carry 252 Gbit/s, 32 GT/s x16 504 Gbit/s.",
		.run = pcie_bandwidth,
	},
	{
		.id = "pcie-stall",
		.severity = SEVERITY_WARNING,
		.impact = 63,
		.scope = SCOPE_PORT,
		.gates = GATE_RDMA | GATE_MLX5 | GATE_PHYSICAL,
		.title = "the NIC waits for PCIe",
		.healthy = "0 %",
		.why = "The host takes data slower than the link brings it.",
		.fix = "setpci -s PCI_ADDRESS CAP_EXP+8.w=5000:7000 (reads of 4096 bytes); relaxed ordering on; check iommu and NUMA placement",
		.explain =
			"outbound_pci_stalled_wr and _rd of ethtool -S are percentages of the last second.",
		.run = pcie_stall,
	},
	{
		.id = "pcie-errors",
		.severity = SEVERITY_WARNING,
		.impact = 66,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA | GATE_HARDWARE,
		.title = "the NIC's PCIe link has errors",
		.healthy = "0 (correctable: below 1000)",
		.why = "Replays cost bandwidth, and fatal errors reset the NIC.",
		.fix = "reseat the card or replace the riser; dmesg | grep AER shows when",
		.explain = "The kernel's AER statistics of the function.",
		.run = pcie_errors,
	},
	{
		.id = "acs",
		.severity = SEVERITY_WARNING,
		.impact = 74,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA | GATE_GPU | GATE_HARDWARE | GATE_PHYSICAL,
		.title = "ACS sends GPU traffic through the CPU",
		.healthy = "no redirection on bridges between NIC and GPU",
		.why = "GPUDirect between NIC and GPU below one switch goes up to the root and back: a fraction of the bandwidth, or a hang.",
		.fix = "setpci -s BRIDGE ECAP_ACS+6.w=0",
		.explain =
			"Access control services isolate functions for virtual machines. On bare metal they only redirect peer-to-peer traffic. Reading them needs root, for they lie beyond the first 256 bytes of the configuration space.",
		.run = acs,
	},
	{
		.id = "iommu",
		.severity = SEVERITY_WARNING,
		.impact = 61,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA | GATE_GPU | GATE_HARDWARE,
		.title = "the IOMMU translates the NIC's addresses",
		.healthy = "identity, or no IOMMU",
		.why = "Every access is translated: less bandwidth, and peer-to-peer goes through the root.",
		.fix = "kernel command line: iommu=pt (then reboot)",
		.explain =
			"The type of the function's IOMMU group: DMA and DMA-FQ translate, identity passes through.",
		.run = iommu,
	},
	{
		.id = "gpu-distance",
		.severity = SEVERITY_WARNING,
		.impact = 57,
		.gates = GATE_RDMA | GATE_GPU,
		.title = "a GPU is far from every NIC",
		.healthy = "a NIC at the same PCIe root or NUMA node as each GPU",
		.why = "Its traffic crosses the sockets' interconnect, and NCCL disables GPUDirect at that distance.",
		.fix = "nvidia-smi topo -m shows the distances; choose ranks and NCCL_IB_HCA by it, or move the card",
		.explain =
			"Compares the PCI paths of GPUs and RDMA devices in /sys/devices, and their numa_node.",
		.run = gpu_distance,
	},
};

const struct check_group checks_pcie = CHECK_GROUP(checks);
