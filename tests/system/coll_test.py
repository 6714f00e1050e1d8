#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit coll` as people use it: operations by any spelling, sizes from nothing on, results that are checked, a rank that does not
come and one that is killed."""
import json
import os
import re
import signal
import subprocess
import time

from harness import GODWIT, check, finish, free_port

RANKS = 3
LAUNCHERS = ("RANK", "WORLD_SIZE", "OMPI_", "PMI", "SLURM_", "GODWIT_RANK")
# as nccl-tests, MPI and PyTorch spell them
OPERATIONS = ("barrier", "broadcast", "all_gather", "reduce-scatter", "allreduce", "All_Reduce", "all-to-all")


def start(port, rank, *arguments):
    command = [GODWIT, "coll", *arguments, "--rank", str(rank), "--ranks", str(RANKS), "--root-host", "127.0.0.1", "--port", str(port)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ends(processes, seconds=60):
    """(status, stdout, stderr) of each."""
    found = []
    for process in processes:
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
            errors += "(still running)"
        found.append((process.returncode, out, errors))
    return found


def job(*arguments, ranks=range(RANKS)):
    port = free_port()
    return ends([start(port, rank, *arguments) for rank in ranks])


def rows(*arguments):
    """What rank 0 tells of each size, after all ranks have ended well."""
    found = job(*arguments, "--iterations", "3", "--json")
    if not check(all(status == 0 for status, _, _ in found), f"{arguments}: {found}"):
        return []
    told = json.loads(found[0][1])["sizes"]
    check(all(row["wrong"] == 0 for row in told), f"{arguments}: {told}")
    return told


def sizes():
    """Each number of elements once, whatever the range begins with."""
    found = [row["bytes"] for row in rows("broadcast", "--size", "0..300")]
    check(found == [0, 4, 16, 64, 256], f"0..300: {found}")
    found = [(row["bytes"], row["count"]) for row in rows("allgather", "--size", "1..100")]
    check(found == [(0, 0), (12, 1), (48, 4)], f"1..100: {found}")
    found = [row["bytes"] for row in rows("allreduce", "--size", "3")]
    check(found == [0], f"less than an element: {found}")


def letters():
    """Options of nccl-tests that mean something here do what they do there; others are told from those."""
    found = rows("all_reduce", "-b", "64", "-e", "1K", "-f", "2", "-w", "1", "-c", "1", "-o", "avg", "-d", "half", "-g", "1", "-t", "1")
    check([row["bytes"] for row in found] == [64, 128, 256, 512, 1024] and found[0]["count"] == 32, f"letters: {found}")
    status, out, errors = alone("coll", "broadcast", "-b8", "-e", "8", "-n", "4", "-c", "0", "-d", "double", "-r", "0", "--json", RANK="0", WORLD_SIZE="1")
    told = json.loads(out)
    row = told["sizes"][0] if status == 0 else {}
    check(told["type"] == "float64" and row["iterations"] == 4 and "wrong" not in row, f"letters: {out} {errors}")
    for arguments, words in ((("-b", "64M"), "cannot begin at 67108864 bytes"), (("-c", "2"), '-c "2" is not'), (("-g", "2"), "one rank"),
                             (("-i", "1M"), "-i of nccl-tests is not taken: each size is -f"), (("-G", "1"), "no counterpart"),
                             (("-o", "prod"), "--reduction \"prod\" is not"), (("-qv", "1"), "-q is no option"), (("-b",), "-b needs a value"),
                             (("--size",), "--size needs a value")):
        status, out, errors = alone("coll", "allreduce", *arguments, RANK="0", WORLD_SIZE="1")
        check(status == 2 and not out and words in errors and len(errors.splitlines()) == 1, f"{arguments}: {status} {out} {errors}")


def unchecked():
    """Nothing is wrong where nobody looked, and nothing is right."""
    bounded = ("allreduce", "--bounded", "hadamard", "--size", "4K", "--iterations", "3")
    for status, out, errors in job(*bounded, "--json")[:1]:
        told = json.loads(out)["sizes"] if status == 0 else []
        check(len(told) == 1 and "bounded" in told[0] and "wrong" not in told[0], f"hadamard: {status} {out} {errors}")
    for arguments, column in ((bounded, "-"), (("allreduce", "--size", "4K", "--no-check"), "-"), (("allreduce", "--size", "4K"), "0")):
        status, out, errors = job(*arguments)[0]
        check(status == 0 and out.splitlines()[-1].split()[6] == column, f"{arguments}: {status} {out} {errors}")


def alone(*arguments, **environment):
    """(status, stdout, stderr) of one process with these variables of a launcher, and no others."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    run = subprocess.run([GODWIT, *arguments], env={**others, **environment}, capture_output=True, text=True, timeout=60, check=False)
    return run.returncode, run.stdout, run.stderr


def places():
    """A rank that is given is taken, or refused."""
    launched = {"RANK": "0", "WORLD_SIZE": "1"}
    here = ("--root-host", "127.0.0.1")
    for arguments in (("--rank", "5"), ("--rank", "0", "--ranks", "1"), ("--ranks", "1", *here), here, ("--rank", "0", *here)):
        status, out, errors = alone("coll", "barrier", *arguments, **launched)
        check(status == 2 and not out and "--rank, --ranks and --root-host belong together" in errors, f"{arguments}: {status} {errors}")
    status, _, errors = alone("coll", "barrier", "--rank", "3", "--ranks", "3", *here)
    check(status == 2 and "--rank 3: there are ranks 0 to 2" in errors, f"a fourth rank of three: {status} {errors}")
    status, out, errors = alone("coll", "barrier", "--iterations", "3", **launched)
    check(status == 0 and not errors, f"a launcher's rank: {status} {out} {errors}")


def one_object():
    """What fails at every rank is printed as JSON by rank 0, or by a process that does not know its rank."""
    for environment, arguments, speaks in (
            ({"RANK": "0", "WORLD_SIZE": "2"}, (), True), ({"RANK": "1", "WORLD_SIZE": "2"}, (), False),
            ({"OMPI_COMM_WORLD_RANK": "1"}, (), False), ({"SLURM_PROCID": "1", "SLURM_STEP_ID": "0"}, (), False),
            ({"SLURM_PROCID": "1"}, (), True), ({}, (), True), ({}, ("--rank", "1"), False), ({}, ("--rank=1",), False),
            ({"RANK": "1", "WORLD_SIZE": "2"}, ("--rank", "0"), True)):
        for command in (("coll", "barrier"), ("mesh",)):
            status, out, errors = alone(*command, "--typo", "--json", *arguments, **environment)
            told = [json.loads(line) for line in out.splitlines()]
            check(len(told) == speaks and all("--typo" in each["error"] for each in told) and "--typo" in errors and status == 2
                  and not any("bytes" in each for each in told),
                  f"{command} {arguments} {environment}: {status} {out} {errors}")


def not_bounded():
    """What cannot be bounded is told before the ranks meet, and why."""
    for arguments, words in ((("count", "-d", "int32"), "floating-point types, and not for int32"),
                             (("hadamard", "-d", "half"), "float32 and bfloat16"), (("hadamard", "-o", "max"), "sums and means")):
        status, out, errors = alone("coll", "allreduce", "--bounded", *arguments, RANK="0", WORLD_SIZE="1")
        check(status == 2 and not out and words in errors, f"{arguments}: {status} {out} {errors}")


def losses_of_all():
    """A reduce_scatter is bounded at each rank by itself: what is told is of all of them."""
    found = job("reduce_scatter", "--bounded", "count", "--deadline", "10s", "--size", "12K", "--iterations", "3", "--json")
    told = json.loads(found[0][1])["sizes"] if found[0][0] == 0 else [{}]
    # Each rank expects a block of 1024 floats from each of two others.
    check(told[0].get("bounded", {}).get("expected_bytes") == 3 * RANKS * 2 * 4096, f"bounded reduce_scatter: {found}")


def lost_ranks():
    for status, _, errors in job("allreduce", "--meet", "1s", ranks=(0, 2)):
        check(status == 1 and errors == "godwit coll: rank 1 of 3 did not come within 1 s\n", f"a rank is missing: {status} {errors}")
    port = free_port()
    processes = [start(port, rank, "allreduce", "--size", "4M", "--iterations", "1000000") for rank in range(RANKS)]
    time.sleep(2)
    processes[1].send_signal(signal.SIGKILL)
    for rank, (status, _, errors) in enumerate(ends(processes, 30)):
        if rank != 1:
            check(status == 1 and "rank 1 " in errors and len(errors.splitlines()) == 1, f"rank {rank} after a kill: {status} {errors}")


def interrupted():
    """A rank that is stopped says what it waited for, and ends by that signal; also before the ranks have met."""
    port = free_port()
    processes = [start(port, rank, "barrier", "--iterations", "1000000") for rank in range(RANKS)]
    time.sleep(1)
    processes[2].send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    processes[1].send_signal(signal.SIGTERM)
    status, _, errors = ends(processes[1:2], 30)[0]
    check(status == 143 and re.match("godwit coll: interrupted by SIGTERM: [a-z]+ number [0-9]+ ", errors), f"a signal: {status} {errors}")
    processes[2].send_signal(signal.SIGCONT)
    for status, _, errors in ends([processes[0], processes[2]], 30):
        check(status == 1 and "rank 1 aborted: it was interrupted" in errors, f"the others: {status} {errors}")
    process = start(free_port(), 0, "barrier")
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    status, _, errors = ends([process])[0]
    check(status == 143 and errors == "godwit coll: interrupted by SIGTERM\n", f"a signal at the meeting: {status} {errors}")


for name in OPERATIONS:
    rows(name, "--size", "64..20K", "--type", "int32")
    rows(name, "--size", "0..20K", "--in-place")
sizes()
letters()
unchecked()
not_bounded()
losses_of_all()
places()
one_object()
lost_ranks()
interrupted()
status, out, errors = ends([start(free_port(), 0, "allreduse")])[0]
check(status == 2 and not out and "operation \"allreduse\" is not barrier" in errors and len(errors.splitlines()) == 1, f"a typo: {status} {errors}")
finish()
