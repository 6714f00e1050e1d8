/* SPDX-License-Identifier: BSD-3-Clause */
#include "collective/launcher.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <godwit/collective.h>

#include "collective/launcher_address.h"
#include "collective/nodelist.h"
#include "collective/pmix.h"

enum {
	/* port of torch.distributed's store where nothing else is said */
	STORE_PORT = 29500,
	/* ports for jobs that have a number and no port: below those that Linux gives to connections */
	JOB_PORT_FIRST = 20480,
	JOB_PORTS = 8192,
};

/* A launcher, and the variables by which it is known; null: it has none. */
struct kind {
	const char *name;
	const char *rank;
	const char *size;
	const char *local_rank;
	/* number of the job, the same at all ranks */
	const char *job;
};

static const struct kind torchrun = { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", NULL };
static const struct kind open_mpi = { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
				      "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE" };
static const struct kind mpich = { "MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL };
static const struct kind slurm = { "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
				   "SLURM_JOB_ID" };
/* Where nothing but these is set. */
static const struct kind by_hand = { "GODWIT_RANK", "GODWIT_RANK", "GODWIT_SIZE",
				     "GODWIT_LOCAL_RANK", NULL };

static int fail(char *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int fail(char *why, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, LAUNCHER_WHY, format, arguments);
	va_end(arguments);
	return error;
}

/* A variable; null if it is not set or empty. */
static const char *value_of(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && value[0] ? value : NULL;
}

/* Reads a number of decimal digits. -EINVAL with a sentence unless it is from `least` to `most`. */
static int read_number(const char *name, uint32_t least, uint32_t most, char *why, uint32_t *out)
{
	const char *value = value_of(name);
	unsigned long long number;
	char *end = NULL;

	errno = 0;
	number = value && isdigit((unsigned char)value[0]) ? strtoull(value, &end, 10) : 0;
	if (!end || *end || errno || number < least || number > most)
		return fail(why, -EINVAL, "%s is \"%.40s\": it has to be a number from %u to %u",
			    name, value ? value : "", least, most);
	*out = (uint32_t)number;
	return 0;
}

/* ---- rank and size ---------------------------------------------------------------------------------------------- */

/* srun sets this for each step; the script of sbatch has a rank, 0, and no step. */
static bool in_slurm_step(void)
{
	return value_of("SLURM_STEP_ID") || value_of("SLURM_STEPID");
}

static const struct kind *find_kind(void)
{
	/* One of the two is enough to be told that the other is missing. */
	if (value_of(torchrun.rank) || value_of(torchrun.size))
		return &torchrun;
	if (value_of(open_mpi.rank))
		return &open_mpi;
	if (value_of(mpich.rank))
		return &mpich;
	if (value_of(slurm.rank) && in_slurm_step())
		return &slurm;
	if (value_of(by_hand.rank) || value_of(by_hand.size))
		return &by_hand;
	return NULL;
}

/* Older versions of Slurm have only the names of the job. */
static const char *size_name(const struct kind *kind)
{
	if (kind != &slurm || value_of(slurm.size))
		return kind->size;
	return value_of("SLURM_NTASKS") ? "SLURM_NTASKS" : "SLURM_NPROCS";
}

static int read_ranks(const struct kind *kind, char *why, struct launcher *out)
{
	const char *rank = value_of(by_hand.rank) ? by_hand.rank : kind->rank;
	const char *size = value_of(by_hand.size) ? by_hand.size : size_name(kind);
	const char *local = value_of(by_hand.local_rank) ? by_hand.local_rank : kind->local_rank;
	int rc;

	if (!value_of(rank) || !value_of(size))
		return fail(why, -EINVAL, "%s is set and %s is not: set both",
			    value_of(rank) ? rank : size, value_of(rank) ? size : rank);
	rc = read_number(size, 1, GW_COMM_RANKS_MAX, why, &out->size);
	if (rc == 0)
		rc = read_number(rank, 0, UINT32_MAX - 1, why, &out->rank);
	if (rc)
		return rc;
	if (out->rank >= out->size)
		return fail(why, -EINVAL, "%s is %u and %s is %u: ranks are 0 to %u", rank,
			    out->rank, size, out->size, out->size - 1);
	out->local_rank = LAUNCHER_NO_RANK;
	return value_of(local) ? read_number(local, 0, out->size - 1, why, &out->local_rank) : 0;
}

/*
 * RANK and WORLD_SIZE that a shell exported before mpirun or srun are the same in all processes. If both say that there are as many
 * ranks, they have to agree about which one this is; not below torchrun, which may itself have been started by the other.
 */
static int check_agreement(const struct kind *kind, const struct launcher *found, char *why)
{
	static const struct kind *const others[] = { &open_mpi, &mpich, &slurm };
	uint32_t rank = 0, size = 0;
	char ignored[LAUNCHER_WHY];

	if (kind != &torchrun || value_of("TORCHELASTIC_RUN_ID") || value_of(by_hand.rank))
		return 0;
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if ((others[i] == &slurm && !in_slurm_step()) || !value_of(others[i]->rank) ||
		    read_number(others[i]->rank, 0, UINT32_MAX, ignored, &rank) ||
		    read_number(size_name(others[i]), 0, UINT32_MAX, ignored, &size))
			continue;
		if (size == found->size && rank != found->rank)
			return fail(
				why, -EINVAL,
				"RANK is %u and %s is %u, of %u ranks each: unset RANK and WORLD_SIZE",
				found->rank, others[i]->rank, rank, size);
	}
	return 0;
}

/* ---- where rank 0 is -------------------------------------------------------------------------------------------- */

static int root_from_slurm(char *why, struct launcher *out)
{
	static const char *const names[] = { "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
					     "SLURM_NODELIST" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *list = value_of(names[i]);

		if (!list)
			continue;
		if (nodelist_first(list, out->root, sizeof(out->root)))
			return fail(
				why, -EINVAL,
				"%s is \"%.60s\", which is no list of hosts: set MASTER_ADDR to the host of rank 0",
				names[i], list);
		return 0;
	}
	return fail(why, -EINVAL,
		    "SLURM_STEP_NODELIST is not set: set MASTER_ADDR to the host of rank 0");
}

static int root_from_pmix(uint64_t wait_ns, char *why, struct launcher *out)
{
	char text[LAUNCHER_ADDRESSES] = "";
	int rc = out->rank == 0 ? launcher_addresses(text) : 0;

	if (rc)
		return fail(why, rc, "cannot tell the addresses of this host: %s: set MASTER_ADDR",
			    strerror(-rc));
	rc = pmix_share(out->rank, text, sizeof(text), wait_ns);
	if (rc == -ETIMEDOUT)
		return fail(why, rc, "rank 0 did not say through PMIx where it is, within %g s",
			    (double)wait_ns / 1e9);
	if (rc)
		return fail(why, -EINVAL,
			    "%s: start with `mpirun -x MASTER_ADDR=HOST`, the host of rank 0",
			    rc == -ENOENT
				    ? "libpmix.so.2, which tells where rank 0 is, was not found"
				    : "PMIx does not tell where rank 0 is");
	if (out->rank && launcher_choose(text, out->root, sizeof(out->root)))
		return fail(
			why, -EINVAL,
			"no address of rank 0 (%.200s) can be used: start with `mpirun -x MASTER_ADDR=HOST`",
			text);
	return 0;
}

/* srun --mpi=pmi2 sets the names of MPICH, too. */
static bool slurm_agrees(const struct launcher *found)
{
	char ignored[LAUNCHER_WHY];
	uint32_t rank = 0, size = 0;

	return in_slurm_step() && read_number(slurm.rank, 0, UINT32_MAX, ignored, &rank) == 0 &&
	       read_number(size_name(&slurm), 0, UINT32_MAX, ignored, &size) == 0 &&
	       rank == found->rank && size == found->size;
}

static int find_root(const struct kind *kind, uint64_t wait_ns, char *why, struct launcher *out)
{
	const char *name = value_of("GODWIT_ROOT") ? "GODWIT_ROOT" : "MASTER_ADDR";
	const char *host = value_of(name);

	if (host && strlen(host) >= sizeof(out->root))
		return fail(why, -EINVAL, "%s is longer than %zu characters", name,
			    sizeof(out->root) - 1);
	if (host) {
		snprintf(out->root, sizeof(out->root), "%s", host);
		return 0;
	}
	if (kind == &open_mpi)
		return root_from_pmix(wait_ns, why, out);
	if (kind == &slurm || (kind == &mpich && slurm_agrees(out)))
		return root_from_slurm(why, out);
	if (kind == &mpich)
		return fail(
			why, -EINVAL,
			"PMI_RANK is set and MASTER_ADDR is not: set it to the host of rank 0 (mpiexec -genv MASTER_ADDR HOST)");
	return fail(why, -EINVAL, "%s is set and MASTER_ADDR is not: set it to the host of rank 0",
		    kind->rank);
}

/* ---- port ------------------------------------------------------------------------------------------------------- */

/* FNV-1a: jobs that follow each other get different ports. */
static uint32_t mix(uint32_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash;
}

static int find_port(const struct kind *kind, char *why, struct launcher *out)
{
	const char *name = value_of("GODWIT_PORT") ? "GODWIT_PORT" : "MASTER_PORT";
	uint32_t port = STORE_PORT, hash = 2166136261u;
	int rc;

	if (value_of(name)) {
		rc = read_number(name, 1, UINT16_MAX, why, &port);
		if (rc)
			return rc;
		if (strcmp(name, "GODWIT_PORT") == 0) {
			out->port = (uint16_t)port;
			return 0;
		}
	} else if (value_of(kind->job)) {
		hash = mix(hash, value_of(kind->job));
		if (kind == &slurm)
			hash = mix(mix(hash, "."), value_of("SLURM_STEP_ID"));
		out->port = (uint16_t)(JOB_PORT_FIRST + hash % JOB_PORTS);
		return 0;
	}
	out->port = (uint16_t)(port == UINT16_MAX ? port - 1 : port + 1);
	return 0;
}

int launcher_read(uint64_t wait_ns, char why[LAUNCHER_WHY], struct launcher *out)
{
	const struct kind *kind = find_kind();
	struct launcher found = { 0 };
	int rc;

	if (!kind && value_of(slurm.rank))
		return fail(why, -EINVAL,
			    "this is a script of sbatch, and no task of srun: start with srun");
	if (!kind)
		return fail(
			why, -EINVAL,
			"no launcher: start with torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR");
	found.name = kind->name;
	rc = read_ranks(kind, why, &found);
	if (rc == 0)
		rc = check_agreement(kind, &found, why);
	if (rc == 0)
		rc = find_port(kind, why, &found);
	if (rc == 0 && found.size > 1)
		rc = find_root(kind, wait_ns, why, &found);
	if (rc)
		return rc;
	why[0] = '\0';
	*out = found;
	return 0;
}
