/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launcher.h: rank, number of ranks, and where rank 0 is, from the environment that a launcher sets.
 *
 * The innermost launcher counts, so the first of these that is there:
 *
 *	torchrun	RANK, WORLD_SIZE, LOCAL_RANK; also by hand	torchrun may run under mpirun or srun, not they under it
 *	Open MPI	OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK	mpirun may run in an allocation of Slurm
 *	MPICH		PMI_RANK, PMI_SIZE, MPI_LOCALRANKID		likewise; also Intel MPI
 *	Slurm		SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, where SLURM_STEP_ID shows that srun started this
 *
 * Rank 0's host is the first of these that is there: MASTER_ADDR; under Open MPI what rank 0 says of itself through PMIx; under
 * Slurm the first host of SLURM_STEP_NODELIST.
 *
 * Its port: MASTER_PORT + 1 (MASTER_PORT - 1 for 65535), because MASTER_PORT itself is that of torch.distributed's store, which
 * torchrun or rank 0 holds; without MASTER_PORT, 29501 (torchrun), or one from 20480 to 28671 that follows from the job's number.
 *
 * GODWIT_RANK, GODWIT_SIZE, GODWIT_LOCAL_RANK, GODWIT_ROOT and GODWIT_PORT replace what was found, each by itself.
 */
#ifndef COLLECTIVE_LAUNCHER_H
#define COLLECTIVE_LAUNCHER_H

#include <stdint.h>

/* Bytes of a sentence about a failure, with its final zero. */
#define LAUNCHER_WHY 400
/* Bytes of a host's name or address. */
#define LAUNCHER_HOST 256
/* Local rank, where the launcher does not tell it. */
#define LAUNCHER_NO_RANK UINT32_MAX

struct launcher {
	/* "torchrun", "Open MPI", "MPICH", "Slurm" or "GODWIT_RANK" */
	const char *name;
	uint32_t rank;
	uint32_t size;
	/* rank among those on this host, or LAUNCHER_NO_RANK */
	uint32_t local_rank;
	/* host of rank 0; "" if there is only one rank, or at rank 0 where only others need it */
	char root[LAUNCHER_HOST];
	uint16_t port;
};

/*
 * Reads the environment. Blocks, for `wait_ns` at most, where rank 0 has to say where it is (Open MPI without MASTER_ADDR).
 * On failure, `why` has the reason in a sentence: the variable, its value, what to do.
 * -EINVAL      no launcher, or a variable that is missing or makes no sense
 * -ETIMEDOUT   rank 0 did not say where it is
 */
int launcher_read(uint64_t wait_ns, char why[LAUNCHER_WHY], struct launcher *out);

#endif
