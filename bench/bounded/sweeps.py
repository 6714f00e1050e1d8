# SPDX-License-Identifier: BSD-3-Clause
"""Bounded collectives: errors under loss by arithmetic, means that are unbiased, and tails with a straggler, in virtual time.

Figures do not depend on the machine, and come out the same again."""
import json
import os
import subprocess

NAME = "bounded-collective"
PATH = ["--loss", "0.01", "--burst", "8"]
LATE = ["--late", "0.1:40ms", "--compute", "20ms"]
# ranks, size, operations (eight of which are not counted), tracks, recoveries
TAILS = [
    (8, "1M", 508, 4, ("exact", "count", "hadamard", "coded")),
    (32, "4M", 68, 2, ("exact", "count")),
]
UNBIASED = 10008


def tell(*command):
    return json.loads(subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout)


def run(directory):
    simulate = os.path.join(directory, "boundedsim")
    result = {"error": tell(os.path.join(directory, "bench", "error"), "8", "4"), "tail": [], "unbiased": []}
    for recovery in ("count", "hadamard"):
        result["unbiased"].append(tell(simulate, "4", "64K", str(UNBIASED), recovery, "--loss", "0.05", "--compute", "10us"))
    for ranks, size, operations, tracks, recoveries in TAILS:
        for recovery in recoveries:
            for late in ([], LATE):
                result["tail"].append(tell(simulate, str(ranks), size, str(operations), recovery, *PATH, "--tracks", str(tracks),
                                           *(late or ["--compute", "20ms"])))
    return result
