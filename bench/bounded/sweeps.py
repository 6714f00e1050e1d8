# SPDX-License-Identifier: BSD-3-Clause
"""Bounded collectives: errors under loss by arithmetic, means that are unbiased, and tails with a straggler, in virtual time.

Figures do not depend on the machine, and come out the same again."""
import concurrent.futures
import json
import os
import subprocess

NAME = "bounded-collective"
PATH = ["--loss", "0.01", "--burst", "8"]
LATE = ["--late", "0.1:40ms", "--compute", "20ms"]
# ranks, size, operations (eight of which are not counted), recoveries, with or without a straggler; 128 ranks form a grid
BOTH = ([], LATE)
TAILS = [
    (8, "1M", 508, ("exact", "count", "hadamard", "coded"), BOTH),
    (32, "4M", 68, ("exact", "count"), BOTH),
    (128, "256K", 108, ("exact", "count"), (LATE,)),
]
# Steps of training: 12 MiB in two buckets, each on a track of its own, with a rank that stalls for a second in one step of ten and without
STALL = ["--buckets", "2", "--tracks", "2", "--compute", "30ms", "--rtt", "5ms", "--rate", "2Gbit", *PATH]
# Operations of four ranks without loss: round-trip times, rates, sizes
PLAIN = [(rtt, rate, size) for rtt in ("0.2ms", "10ms") for rate in ("1Gbit", "4Gbit") for size in ("1M", "16M")]
UNBIASED = 10008


def tell(*command):
    return json.loads(subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout)


def run(directory):
    simulate = os.path.join(directory, "boundedsim")
    unbiased = [[simulate, "4", "64K", str(UNBIASED), recovery, "--loss", "0.05", "--compute", "10us"] for recovery in ("count", "hadamard")]
    tails = [[simulate, str(ranks), size, str(operations), recovery, *PATH, *(late or ["--compute", "20ms"])]
             for ranks, size, operations, recoveries, lates in TAILS for recovery in recoveries for late in lates]
    plain = [[simulate, "4", size, "108" if size == "1M" else "28", recovery, "--compute", "5ms", "--rtt", rtt, "--rate", rate]
             for rtt, rate, size in PLAIN for recovery in ("exact", "count")]
    stalls = [[simulate, "4", "12M", "108", recovery, "--late", late, *STALL] for late in ("0:1s", "0.1:1s:fixed") for recovery in ("exact", "count")]
    # Virtual time: a run does not mind another beside it. The largest first.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        told = {tuple(command): pool.submit(tell, *command) for command in reversed(unbiased + plain + stalls + tails)}
        result = {"error": tell(os.path.join(directory, "bench", "error"), "8", "4")}
        for name, commands in (("tail", tails), ("unbiased", unbiased), ("plain", plain), ("stall", stalls)):
            result[name] = [told[tuple(command)].result() for command in commands]
    return result
