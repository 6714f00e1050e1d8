/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA devices: are they there, may this user open them, does user space know how to drive them. */
#include <string.h>

#include "exam.h"
#include "parse.h"

#define VENDOR_MELLANOX "0x15b3"

/* Returns the first NIC on the PCI bus that has RDMA for sure; null: none. */
static const char *nic_without_driver(const struct model *model)
{
	const struct names *names = reader_list(model->reader, "/sys/bus/pci/devices");

	for (size_t i = 0; i < names->count; i++) {
		const struct fact *vendor = reader_read(
			model->reader, "/sys/bus/pci/devices/%s/vendor", names->name[i]);
		const struct fact *class =
			reader_read(model->reader, "/sys/bus/pci/devices/%s/class", names->name[i]);

		if (strcmp(vendor->text, VENDOR_MELLANOX) == 0 &&
		    strncmp(class->text, "0x02", 4) == 0)
			return names->name[i];
	}
	return NULL;
}

static void rdma_device(struct exam *exam, const struct subject *subject)
{
	static const char where[] = "/sys/class/infiniband";
	const char *nic, *net = nccl_text(&exam->nccl, "NCCL_NET");
	struct finding *finding;

	if (exam->model->device_count)
		return;
	nic = nic_without_driver(exam->model);
	if (nic) {
		finding = found(exam, subject, where,
				"no device, although PCI function %s is a NIC with RDMA", nic);
		finding->severity = SEVERITY_ERROR;
	} else if (nccl_text(&exam->nccl, "NCCL_IB_HCA") || (net && strcmp(net, "IB") == 0)) {
		found(exam, subject, where, "no device, although NCCL's variables ask for one");
	} else {
		finding = found(exam, subject, where, "no device");
		finding->severity = SEVERITY_INFO;
		finding->title = "no RDMA device";
	}
}

static void uverbs_access(struct exam *exam, const struct subject *subject)
{
	const struct device *device = subject->device;
	const struct fact *fact;
	struct finding *finding;

	if (!device->uverbs) {
		finding = found(exam, subject, "/sys/class/infiniband_verbs", "no uverbs device");
		finding->fix = "modprobe ib_uverbs";
		return;
	}
	fact = reader_read(exam->model->reader, "/.godwit/access/dev/infiniband/%s",
			   device->uverbs);
	if (fact->state == FACT_ABSENT && reader_live(exam->model->reader))
		found(exam, subject, say(exam, "/dev/infiniband/%s", device->uverbs),
		      "no such file");
	else if (seen(exam, subject, fact, true) && strcmp(fact->text, "rw") != 0)
		found(exam, subject, say(exam, "/dev/infiniband/%s", device->uverbs), "access: %s",
		      fact->text);
}

static bool has_line(const char *text, const char *wanted)
{
	const char *line;
	size_t length;

	while (parse_line(&text, &line, &length)) {
		if (strlen(wanted) == length && memcmp(line, wanted, length) == 0)
			return true;
	}
	return false;
}

static void provider(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact = reader_read(exam->model->reader, "/.godwit/verbs/devices");

	/* Without a device file there is nothing to list; that is another check's. */
	if (!subject->device->uverbs || !seen(exam, subject, fact, true))
		return;
	if (!has_line(fact->text, subject->device->name))
		found(exam, subject, "ibv_get_device_list()", "%s (driver %s) is not in the list",
		      subject->device->name, subject->device->driver_name);
}

static void soft_rdma(struct exam *exam, const struct subject *subject)
{
	if (subject->device->soft)
		found(exam, subject, subject->device->path, "driver %s",
		      subject->device->driver_name);
}

static void firmware_skew(struct exam *exam, const struct subject *subject)
{
	struct reader *reader = exam->model->reader;
	const struct fact *board = reader_read(reader, "%s/board_id", subject->device->path);
	const struct fact *version = reader_read(reader, "%s/fw_ver", subject->device->path);

	if (!seen(exam, subject, version, false) || board->state != FACT_KNOWN)
		return;
	for (size_t i = 0; i < exam->model->device_count; i++) {
		const struct device *other = &exam->model->devices[i];
		const struct fact *same = reader_read(reader, "%s/board_id", other->path);
		const struct fact *theirs = reader_read(reader, "%s/fw_ver", other->path);

		if (other == subject->device)
			return;
		if (strcmp(same->text, board->text) == 0 && theirs->state == FACT_KNOWN &&
		    strcmp(theirs->text, version->text) != 0) {
			found(exam, subject, version->path, "%s, but %s has %s (board %s)",
			      version->text, other->name, theirs->text, board->text);
			return;
		}
	}
}

static void virtual_function(struct exam *exam, const struct subject *subject)
{
	if (subject->device->vf)
		unseen_why(
			exam, subject, subject->device->path,
			"the host of the physical function decides PFC, trust, pauses and the PCIe link");
}

static void unreliable_connected(struct exam *exam, const struct subject *subject)
{
	switch (subject->device->driver) {
	case DRIVER_MLX5:
	case DRIVER_MLX4:
	case DRIVER_RXE:
	case DRIVER_OTHER:
		return;
	default:
		found(exam, subject, subject->device->path, "driver %s has no UC queue pairs",
		      subject->device->driver_name);
	}
}

static void old_libraries(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact =
		reader_read(exam->model->reader, "/.godwit/library/libibverbs.so.1");

	if (!seen(exam, subject, fact, false))
		return;
	if (strncmp(fact->text, "loaded", 6) == 0 && !strstr(fact->text, "ibv_reg_dmabuf_mr"))
		found(exam, subject, "libibverbs.so.1", "no ibv_reg_dmabuf_mr");
}

static const struct check checks[] = {
	{
		.id = "rdma-device",
		.severity = SEVERITY_WARNING,
		.impact = 100,
		.title = "no RDMA device although one is expected",
		.healthy = "one for each NIC",
		.why = "NCCL finds no network but sockets and uses them without an error.",
		.fix = "modprobe mlx5_ib (or bnxt_re, irdma); in a container: --device=/dev/infiniband, or the RDMA device plugin",
		.explain =
			"The kernel lists RDMA devices in /sys/class/infiniband. A NIC is missing there if the driver's RDMA half is not loaded (mlx5_ib, bnxt_re, irdma), if the device was moved to another network namespace (rdma system shows the mode), or if a container was not given it. `rdma link` and `lspci -d 15b3:` show both sides.",
		.run = rdma_device,
	},
	{
		.id = "uverbs-access",
		.severity = SEVERITY_ERROR,
		.impact = 98,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA,
		.title = "the device file cannot be opened",
		.healthy = "readable and writable by this user",
		.why = "ibv_open_device() fails, NCCL drops the NIC without a warning and falls back to sockets.",
		.fix = "docker run --device=/dev/infiniband ... (Kubernetes: an RDMA device plugin); on a host: chmod 0666 /dev/infiniband/uverbs* or a udev rule",
		.explain =
			"User space drives a NIC through /dev/infiniband/uverbsN. Containers get it only if asked; some distributions give it to a group only.",
		.run = uverbs_access,
	},
	{
		.id = "provider",
		.severity = SEVERITY_ERROR,
		.impact = 97,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA,
		.title = "user space has no driver for the device",
		.healthy = "libibverbs lists every device of /sys/class/infiniband",
		.why = "The kernel has the NIC, but libibverbs has no provider for it: NCCL does not see it.",
		.fix = "apt install ibverbs-providers (dnf install libibverbs), in the container's image too",
		.explain =
			"libibverbs loads a provider for each kind of NIC: libmlx5, libbnxt_re, libirdma, libefa, librxe. A slim container image has libibverbs1 and no providers. `ibv_devices` shows what is found.",
		.run = provider,
	},
	{
		.id = "soft-rdma",
		.severity = SEVERITY_WARNING,
		.impact = 40,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA,
		.title = "a software RDMA device",
		.healthy = "NICs only",
		.why = "rxe and siw are for tests: they run on the CPU, slower than NCCL's sockets or Godwit over UDP, and NCCL prefers them.",
		.fix = "rdma link delete DEVICE, or NCCL_IB_HCA=^rxe,siw",
		.explain =
			"Soft-RoCE (rdma_rxe) and soft-iWARP (siw) emulate RDMA over an ordinary interface. NCCL cannot tell them from NICs and takes them first.",
		.run = soft_rdma,
	},
	{
		.id = "firmware-skew",
		.severity = SEVERITY_WARNING,
		.impact = 30,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA,
		.title = "NICs of one kind have different firmware",
		.healthy = "one version",
		.why = "Congestion control and counters change between releases: one rail behaves unlike the others.",
		.fix = "mlxfwmanager -u -d PCI_ADDRESS (then mlxfwreset -d PCI_ADDRESS reset)",
		.explain = "Compares fw_ver of all devices with the same board_id.",
		.run = firmware_skew,
	},
	{
		.id = "virtual-function",
		.severity = SEVERITY_INFO,
		.impact = 12,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA,
		.title = "the device is a virtual function",
		.healthy = "as it may be",
		.why = "What its physical function is set to holds for it, too, and cannot be seen here.",
		.fix = "run the doctor on the host, too",
		.explain =
			"PFC, trust, DCQCN, global pause, the port's own counters and the PCIe link belong to the physical function. A guest or a container with a virtual function sees none of them.",
		.run = virtual_function,
	},
	{
		.id = "uc-support",
		.severity = SEVERITY_INFO,
		.impact = 20,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA,
		.title = "the NIC has no unreliable connections",
		.healthy = "UC (mlx5, mlx4, rxe)",
		.why = "Godwit's writes use UC queue pairs; on this NIC it uses datagrams (UD) or UDP sockets.",
		.fix = "nothing to do: godwit qualify shows which one works here",
		.explain = "bnxt_re and irdma offer RC and UD, EFA offers SRD and UD, siw RC only.",
		.run = unreliable_connected,
	},
	{
		.id = "old-libraries",
		.severity = SEVERITY_INFO,
		.impact = 15,
		.gates = GATE_RDMA | GATE_GPU,
		.title = "libibverbs is too old for dma-buf",
		.healthy = "rdma-core 34 or newer",
		.why = "Without ibv_reg_dmabuf_mr() GPUDirect depends on the nvidia-peermem module.",
		.fix = "apt install libibverbs1 (34 or newer) ibverbs-providers",
		.explain =
			"NCCL asks libibverbs.so.1 for ibv_reg_dmabuf_mr() and libmlx5.so.1 for newer calls by their symbol versions; an image with an old rdma-core has neither.",
		.run = old_libraries,
	},
};

const struct check_group checks_devices = CHECK_GROUP(checks);
