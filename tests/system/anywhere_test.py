#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Paths and uses that nobody chose: a seed draws both (bench/anywhere/paths.py), and each must end, be exact, tell the truth,
and reach a third of rate x (1 - loss) from its tenth message on (bench/anywhere/play.py).

Usage: anywhere_test.py [SEED...]

Without a seed they come from the commit's hash: new ones for each commit, the same when a commit's test is repeated, and as
many as fit in GODWIT_ANYWHERE_SECONDS (30). A point that is slow is tried once more; if the machine had no time for it, it is
said, and not held against it. GODWIT_ANYWHERE_TRACE=DIRECTORY keeps what GODWIT_TRACE shows of both ends.
"""
import hashlib
import os
import subprocess
import sys
import time

from harness import GODWIT, check, finish, skip

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, "bench"))
from anywhere.paths import Point
from anywhere.play import command_of, lab_is_missing, play_twice

SECONDS = float(os.environ.get("GODWIT_ANYWHERE_SECONDS") or 30)
LONGEST_SHARE = 0.4  # of the time that one point may take


def commit():
    """The commit's hash; without one the version, so that a run can be repeated all the same."""
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout.strip()
    return subprocess.run([GODWIT, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def seeds_of(text, seconds=SECONDS):
    """As many as fit into the time, each drawn from the text; one that would take most of it gives way to others."""
    chosen, left = [], seconds
    for number in range(200):
        seed = int.from_bytes(hashlib.sha256(f"{text} {number}".encode()).digest()[:4], "big")
        cost = Point(seed).cost()
        if cost <= min(left, LONGEST_SHARE * seconds):
            chosen.append(seed)
            left -= cost
    return chosen


def show(point, outcome):
    said = [f"{key} {outcome[key]:.4g}" if isinstance(outcome[key], float) else f"{key} {outcome[key]}"
            for key in ("mbps", "share", "floor_mbps", "rtt_us", "loss", "packets", "again", "messages", "overruns", "dropped",
                        "missing_chunks", "seconds") if outcome.get(key) is not None]
    print(f"{point.seed}: {outcome['verdict']}: {point}; {', '.join(said)}", flush=True)


def main():
    reason = lab_is_missing(os.path.dirname(GODWIT))
    if reason:
        skip("lab", reason)
    seeds = [int(text) for text in sys.argv[1:]]
    if not seeds:
        seeds = seeds_of(commit())
        print(f"{len(seeds)} points of {commit()}", flush=True)
    for seed in seeds:
        point, started = Point(seed), time.monotonic()
        outcome = play_twice(os.path.dirname(os.path.abspath(GODWIT)), point)
        if "first" in outcome:
            print(f"{seed}: the first try: {outcome['first']['verdict']}: {outcome['first']['why']}", flush=True)
        show(point, outcome)
        if outcome["verdict"] == "unjudged":
            print(f"{seed}: its speed is not judged: {outcome['not_judged']}", flush=True)
        check(outcome["verdict"] in ("ok", "unjudged"),
              f"{outcome['verdict']}: {outcome['why']}\n  {point}\n  repeat it with: {command_of(point)}")
        print(f"{seed}: {time.monotonic() - started:.1f} s", flush=True)
    finish()


if __name__ == "__main__":
    main()
