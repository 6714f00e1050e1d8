#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Processes that launchers start find each other: mpirun for real, torchrun for real where it is and else by its environment,
srun by its environment. A rank that dies is named by all."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from harness import GODWIT, check, finish, free_port, skip

MEET = os.environ.get("MEET") or os.path.join(os.path.dirname(GODWIT), "tests/unit/collective/meet")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "OMPI_", "PMI", "SLURM_", "GODWIT_RANK", "GODWIT_ROOT",
             "GODWIT_SIZE", "GODWIT_PORT")


def clean(**more):
    """The environment without any launcher's part in it, and with these variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    environment.update({name: str(value) for name, value in more.items()})
    return environment


def start(environment, *arguments):
    return subprocess.Popen([MEET, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ends(processes, seconds=60):
    """(status, output) of each."""
    found = []
    for process in processes:
        try:
            output = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0] + "\n(still running)"
        found.append((process.returncode, output.strip()))
    return found


def all_met(results, size, launcher, what):
    for rank, (status, output) in enumerate(results):
        line = rf"rank {rank} of {size}, local -?\d+, by {launcher}, at \S+, heard of {size - 1}"
        check(status == 0 and re.fullmatch(line, output), f"{what}, rank {rank}: {status}: {output}")


def by_environment():
    port = free_port()
    torch = [clean(RANK=r, WORLD_SIZE=4, LOCAL_RANK=r, MASTER_ADDR="localhost", MASTER_PORT=port,
                   TORCHELASTIC_USE_AGENT_STORE="True") for r in range(4)]
    all_met(ends([start(e) for e in torch]), 4, "torchrun", "torchrun's environment")
    slurm = [clean(SLURM_PROCID=r, SLURM_NTASKS=5, SLURM_STEP_NUM_TASKS=5, SLURM_LOCALID=r, SLURM_JOB_ID=os.getpid(),
                   SLURM_STEP_ID=3, SLURM_STEP_NODELIST="localhost,node[07-09]") for r in range(5)]
    all_met(ends([start(e) for e in slurm]), 5, "Slurm", "srun's environment")
    single = ends([start(clean(RANK=0, WORLD_SIZE=1))])[0]
    check(single[0] == 0 and "rank 0 of 1" in single[1], f"one rank: {single}")
    nothing = ends([start(clean())])[0]
    check(nothing == (1, "no launcher: start with torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR"),
          f"no launcher: {nothing}")
    both = [clean(RANK=r, WORLD_SIZE=3, MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port()) for r in (0, 2)]
    both[1]["MASTER_PORT"] = both[0]["MASTER_PORT"]
    for status, output in ends([start(e, "--meet", "1") for e in both]):
        check((status, output) == (1, "rank 1 of 3 did not come within 1 s"), f"a rank is missing: {status}: {output}")


def mpirun(size, *arguments, environment=None, options=()):
    """Lines that the ranks of a job printed, and mpirun's status."""
    environment = clean(OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, **(environment or {}))
    run = subprocess.run(["mpirun", "--oversubscribe", *options, "-n", str(size), MEET, *arguments], env=environment,
                         capture_output=True, text=True, timeout=100, check=False)
    return run.returncode, run.stdout.splitlines(), run.stderr


def by_mpirun():
    if not shutil.which("mpirun"):
        print("no mpirun here")
        return
    for what, environment, options in (
            ("PMIx", {}, ()),
            ("MASTER_ADDR", {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()},
             ("-x", "MASTER_ADDR", "-x", "MASTER_PORT")),
            # An allocation of Slurm around it: the innermost launcher counts.
            ("salloc", {"SLURM_PROCID": 0, "SLURM_NTASKS": 9, "SLURM_STEP_ID": 0, "SLURM_NODELIST": "nowhere"},
             ("--mca", "plm", "^slurm", "--mca", "ras", "^slurm", "--mca", "ess", "^slurm"))):
        status, lines, errors = mpirun(4, environment=environment, options=options)
        check(status == 0, f"mpirun with {what}: {status}: {errors}")
        for rank in range(4):
            line = rf"rank {rank} of 4, local {rank}, by Open MPI, at \S+, heard of 3"
            check(any(re.fullmatch(line, l) for l in lines), f"mpirun with {what}: no rank {rank}: {lines} {errors}")
    # A child that calls exit() has not the library's thread, and must not wait for it.
    status, lines, errors = mpirun(2, "--fork")
    check(status == 0, f"children of ranks: {status}: {lines} {errors}")
    # Without the library it says what to do. The loader looks here first, and finds no library there.
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "libpmix.so.2"), "w", encoding="ascii"):
            pass
        status, lines, _ = mpirun(2, options=("-x", f"LD_LIBRARY_PATH={directory}"), environment={})
        check(status != 0 and any("libpmix.so.2, which tells where rank 0 is, was not found: start with "
                                  "`mpirun -x MASTER_ADDR=HOST`" in line for line in lines), f"no PMIx: {status} {lines}")


def by_torchrun():
    torchrun = shutil.which("torchrun")
    command = [torchrun] if torchrun else [sys.executable, "-m", "torch.distributed.run"]
    if not torchrun and subprocess.run([sys.executable, "-c", "import torch.distributed.run"], capture_output=True,
                                       check=False).returncode:
        print("no torchrun here: its environment was set by hand")
        return
    # Without --tee, Debian's version 1.13 fails under Python 3.11.
    run = subprocess.run([*command, "--nproc_per_node", "3", "--master_port", str(free_port()), "--redirects", "1", "--tee",
                          "1", "--no_python", MEET], env=clean(), capture_output=True, text=True, timeout=200, check=False)
    lines = run.stdout.splitlines()
    check(run.returncode == 0, f"torchrun: {run.returncode}: {run.stderr}")
    for rank in range(3):
        check(any(f"rank {rank} of 3, local {rank}, by torchrun" in l for l in lines), f"torchrun: no rank {rank}: {lines}")


def a_rank_dies():
    """Every other rank names it."""
    for victim in (2, 0):
        port = free_port()
        processes = [start(clean(RANK=r, WORLD_SIZE=4, MASTER_ADDR="127.0.0.1", MASTER_PORT=port), "--stay", "--die",
                           str(victim)) for r in range(4)]
        for rank, (status, output) in enumerate(ends(processes)):
            if rank == victim:
                check(status == -signal.SIGKILL, f"rank {victim} lives: {status}: {output}")
                continue
            wanted = f"lost {victim}: rank {victim} (process {processes[victim].pid} on 127.0.0.1) ended without a goodbye"
            check(status == 1 and wanted in output.splitlines(), f"rank {rank} on the death of {victim}: {status}: {output}")


by_environment()
by_mpirun()
by_torchrun()
a_rank_dies()
finish()
