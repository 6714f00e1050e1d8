# SPDX-License-Identifier: BSD-3-Clause
"""Points measured side by side and kept one by one, so that neither a limit of time nor a failure loses what was measured.

The file has a JSON object a line: {"machine": ..., "point": ...} for each point. A point is measured
again, up to TRIES times, while the lab was late: others used the processors meanwhile. Of several tries the last one counts,
unless the lab kept time in an earlier one.
"""
import concurrent.futures
import json
import os
import threading
import time

TRIES = 3
RMEM_MAX = 212992


def was_late(point):
    return bool(point["godwit"].get("was_late") or point["bbr"].get("was_late"))


def machine():
    with open("/proc/sys/net/core/rmem_max", encoding="ascii") as file:
        rmem_max = int(file.read())
    return {"processor": processor(), "processors": os.cpu_count(), "kernel": os.uname().release,
            "rmem_max": min(rmem_max, RMEM_MAX)}


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), os.uname().machine)


def lines(path):
    """The objects of a file; a line that was cut off is left out."""
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                pass


def read(path):
    """(the machine of the latest run, seed -> point)"""
    where, points = {}, {}
    for one in lines(path):
        where = one.get("machine", where)
        if "point" in one:
            point = one["point"]
            before = points.get(point["seed"])
            if not before or was_late(before) or not was_late(point):
                points[point["seed"]] = point
    return where, points


def wanted(path, costs):
    """Seeds that are to be measured, those never measured first, the longest first of these, so that none is left to the end."""
    tries = {}
    for one in lines(path):
        if "point" in one:
            tries[one["point"]["seed"]] = tries.get(one["point"]["seed"], 0) + 1
    points = read(path)[1]
    again = [seed for seed in costs if seed in points and was_late(points[seed]) and tries[seed] < TRIES]
    fresh = [seed for seed in costs if seed not in points]
    return sorted(fresh, key=lambda seed: -costs[seed]) + again


class Writer:
    """Appends whole lines, from any thread."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()

    def write(self, **one):
        with self.lock, open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")


def measure(path, costs, play, jobs, budget, show, compiler):
    """Plays what is wanted, `jobs` at a time; no point is begun that would probably end after `budget` seconds (None: no limit).
    A file to which nothing is added keeps the machine and the compiler of its points."""
    if not wanted(path, costs):
        return
    end = time.monotonic() + budget if budget else float("inf")
    writer = Writer(path)

    def one(seed):
        if time.monotonic() + costs[seed] > end:
            return False
        point = play(seed)
        writer.write(machine=where, point=point)
        show(point)
        return True

    where = {**machine(), "compiler": compiler}
    while True:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            if not any([done.result() for done in [pool.submit(one, seed) for seed in wanted(path, costs)]]):
                return
