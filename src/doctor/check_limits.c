/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of the process that will run, or runs, the job. */
#include <string.h>

#include "exam.h"
#include "parse.h"

#define MEMLOCK_LEAST (UINT64_C(1) << 30)
#define SHM_LEAST     (UINT64_C(1) << 30)
#define SHM_TINY      (UINT64_C(128) << 20)
#define NOFILE_LEAST  4096u
#define BYTES_PER_MIB (1u << 20)

/* The limits of the job if one was named, of this process otherwise. */
static const struct fact *limits_of(const struct exam *exam)
{
	const struct fact *job = reader_read(exam->model->reader, "/.godwit/job/limits");

	return job->state == FACT_KNOWN ? job : reader_read(exam->model->reader, "/.godwit/limits");
}

static void memlock(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact = limits_of(exam);
	uint64_t bytes, may_lock = 0;
	char text[32];

	if (!seen(exam, subject, fact, true))
		return;
	if (!parse_value(fact->text, "memlock", text, sizeof(text))) {
		unseen_why(exam, subject, fact->path, "it has no line memlock");
		return;
	}
	parse_value_number(fact->text, "ipc_lock", &may_lock);
	if (strcmp(text, "unlimited") == 0 || may_lock || !parse_number(text, &bytes) ||
	    bytes >= MEMLOCK_LEAST)
		return;
	found(exam, subject, fact->path, "%llu KiB", (unsigned long long)bytes / 1024);
}

static void shm_size(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact = reader_read(exam->model->reader, "/.godwit/space/dev/shm");
	struct finding *finding;
	uint64_t total, left;

	if (!seen(exam, subject, fact, true) || !parse_value_number(fact->text, "total", &total))
		return;
	if (total < SHM_LEAST) {
		finding = found(exam, subject, "/dev/shm", "%llu MiB",
				(unsigned long long)total / BYTES_PER_MIB);
		if (total < SHM_TINY)
			finding->severity = SEVERITY_ERROR;
	} else if (parse_value_number(fact->text, "free", &left) && left < SHM_TINY) {
		finding = found(exam, subject, "/dev/shm", "%llu MiB free of %llu",
				(unsigned long long)left / BYTES_PER_MIB,
				(unsigned long long)total / BYTES_PER_MIB);
		finding->fix = "ls -lt /dev/shm: remove what dead jobs left (nccl-*, torch_*)";
	}
}

static void descriptors(struct exam *exam, const struct subject *subject)
{
	const struct fact *fact = limits_of(exam);
	uint64_t files;

	if (!seen(exam, subject, fact, true) || !parse_value_number(fact->text, "nofile", &files))
		return;
	if (files < NOFILE_LEAST)
		found(exam, subject, fact->path, "%llu", (unsigned long long)files);
}

static const struct check checks[] = {
	{
		.id = "memlock",
		.severity = SEVERITY_ERROR,
		.impact = 95,
		.gates = GATE_RDMA,
		.title = "too little memory may be locked",
		.healthy = "unlimited, or CAP_IPC_LOCK",
		.why = "Memory for RDMA is locked: ibv_create_cq() or ibv_reg_mr() fails with \"Cannot allocate memory\".",
		.fix = "docker run --ulimit memlock=-1; systemd: LimitMEMLOCK=infinity; a shell: ulimit -l unlimited (limits.conf: * - memlock unlimited)",
		.explain =
			"The limit is the process's own: that of this shell may differ from that of a job started by a daemon (Slurm: PropagateResourceLimitsExcept=MEMLOCK). --pid examines a running job.",
		.run = memlock,
	},
	{
		.id = "shm-size",
		.severity = SEVERITY_WARNING,
		.impact = 80,
		.gates = GATE_GPU,
		.title = "/dev/shm is small",
		.healthy = "1 GiB or more",
		.why = "NCCL's shared memory between local ranks and PyTorch's data loaders live there: a job ends with \"No space left on device\" or a bus error.",
		.fix = "docker run --shm-size=16g (or --ipc=host); Kubernetes: an emptyDir of medium Memory at /dev/shm",
		.explain = "Docker's default is 64 MiB.",
		.run = shm_size,
	},
	{
		.id = "descriptors",
		.severity = SEVERITY_WARNING,
		.impact = 45,
		.gates = GATE_RDMA,
		.title = "few files may be open at once",
		.healthy = "65536",
		.why = "A rank opens sockets and device files for every peer: a large job ends with \"Too many open files\".",
		.fix = "ulimit -n 65536 (limits.conf: * - nofile 65536; systemd: LimitNOFILE=65536)",
		.explain = "The soft limit counts; many systems start with 1024.",
		.run = descriptors,
	},
};

const struct check_group checks_limits = CHECK_GROUP(checks);
