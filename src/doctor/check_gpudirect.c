/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUDirect RDMA: the NIC reads and writes GPU memory itself. */
#include <stdio.h>
#include <string.h>

#include "exam.h"

/* The places where NCCL looks for the module, in its order. */
static const char *const peermem[] = { "/sys/kernel/mm/memory_peers/nv_mem/version",
				       "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
				       "/sys/module/nvidia_peermem/version" };

static const struct fact *find_peermem(const struct exam *exam)
{
	for (size_t i = 0; i < sizeof(peermem) / sizeof(peermem[0]); i++) {
		const struct fact *fact = reader_read(exam->model->reader, "%s", peermem[i]);

		/* NCCL only asks whether the file exists. */
		if (fact->state != FACT_ABSENT)
			return fact;
	}
	return NULL;
}

static void gpudirect(struct exam *exam, const struct subject *subject)
{
	const struct fact *driver = reader_read(exam->model->reader, "/sys/module/nvidia/version");
	const struct fact *dmabuf =
		reader_read(exam->model->reader, "/.godwit/verbs/dmabuf/%s", subject->device->name);

	if (driver->state == FACT_ABSENT) {
		unseen_why(exam, subject, driver->path, "NVIDIA's driver is not loaded");
		return;
	}
	if (find_peermem(exam))
		return;
	if (dmabuf->state != FACT_KNOWN)
		unseen(exam, subject, dmabuf);
	else if (strcmp(dmabuf->text, "dmabuf yes") != 0)
		found(exam, subject, "/sys/module/nvidia_peermem",
		      "not loaded, and the NIC's driver has no dma-buf");
	else if (!strstr(reader_read(exam->model->reader, "/proc/driver/nvidia/version")->text,
			 "Open Kernel Module"))
		found(exam, subject, "/proc/driver/nvidia/version",
		      "nvidia_peermem is not loaded, and dma-buf needs NVIDIA's open kernel driver");
}

/* The version in the name of the library that the job has mapped: libnccl.so.2.22.3. */
static bool job_nccl(const struct exam *exam, unsigned *major, unsigned *minor)
{
	const struct fact *fact = reader_read(exam->model->reader, "/.godwit/job/libraries");
	const char *name = strstr(fact->text, "libnccl.so.");

	return name && sscanf(name, "libnccl.so.%u.%u", major, minor) == 2;
}

static void peermem_name(struct exam *exam, const struct subject *subject)
{
	const struct fact *module = find_peermem(exam);
	unsigned major, minor;

	if (!module || strcmp(module->path, peermem[2]) != 0)
		return;
	if (!job_nccl(exam, &major, &minor)) {
		unseen_why(exam, subject, "/.godwit/job/libraries",
			   "the version of the job's NCCL is unknown");
		return;
	}
	if (major == 2 && minor < 23)
		found(exam, subject, "/proc/PID/maps",
		      "NCCL %u.%u, and only nvidia_peermem is loaded", major, minor);
}

static void gdr_level(struct exam *exam, const struct subject *subject)
{
	const struct variable *level = nccl_variable(&exam->nccl, "NCCL_NET_GDR_LEVEL");
	const struct variable *dmabuf = nccl_variable(&exam->nccl, "NCCL_DMABUF_ENABLE");

	if (level && (strcmp(level->value, "LOC") == 0 || strcmp(level->value, "0") == 0))
		found(exam, subject, level->where, "NCCL_NET_GDR_LEVEL=%s", level->value);
	if (dmabuf && strcmp(dmabuf->value, "0") == 0 && !find_peermem(exam))
		found(exam, subject, dmabuf->where, "NCCL_DMABUF_ENABLE=0 without nvidia_peermem");
}

static const struct check checks[] = {
	{
		.id = "gpudirect",
		.severity = SEVERITY_ERROR,
		.impact = 85,
		.scope = SCOPE_DEVICE,
		.gates = GATE_RDMA | GATE_GPU | GATE_HARDWARE,
		.title = "GPUDirect RDMA is not available",
		.healthy = "nvidia_peermem loaded, or dma-buf with the open driver",
		.why = "Data is copied through host memory: up to ten times slower, without a warning.",
		.fix = "modprobe nvidia_peermem (or NVIDIA's open kernel driver, kernel 5.12 or newer with CONFIG_PCI_P2PDMA)",
		.explain =
			"NCCL uses GPUDirect if it finds the peer memory module in sysfs, or if the NIC's driver refuses a dma-buf registration of a bad descriptor with EBADF instead of EOPNOTSUPP: the same question is asked here.",
		.run = gpudirect,
	},
	{
		.id = "peermem-name",
		.severity = SEVERITY_WARNING,
		.impact = 56,
		.gates = GATE_RDMA | GATE_GPU | GATE_JOB,
		.title = "the job's NCCL does not know the peer memory module's name",
		.healthy = "NCCL 2.23 or newer",
		.why = "NCCL looks for the old names only, finds none, and copies through host memory.",
		.fix = "use NCCL 2.23 or newer",
		.explain =
			"nv_peer_mem became nvidia_peermem with the 470 drivers, and later kernels lost the directory in which NCCL looked.",
		.run = peermem_name,
	},
	{
		.id = "gdr-level",
		.severity = SEVERITY_WARNING,
		.impact = 59,
		.gates = GATE_RDMA | GATE_GPU,
		.title = "a variable switches GPUDirect off",
		.healthy = "unset",
		.why = "Data is copied through host memory.",
		.fix = "unset NCCL_NET_GDR_LEVEL NCCL_DMABUF_ENABLE",
		.explain =
			"NCCL_NET_GDR_LEVEL is the largest distance at which GPUDirect is used: LOC means never.",
		.run = gdr_level,
	},
};

const struct check_group checks_gpudirect = CHECK_GROUP(checks);
