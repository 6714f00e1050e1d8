# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of Godwit, Open MPI and Gloo on the same links of the lab: bench/run's collectives.

A point is a contender on a network: hosts around a switch, a round trip, a rate and a loss. It runs all operations and sizes in
turn, and keeps the mean time of each. Every contender times alike (ranks.h): operations one after another, and the mean of the slowest rank.
Points are kept one by one in a file of JSON lines, so that a run goes on where an earlier one was stopped (--points, --budget), and on a
machine with many processors several are measured at a time (--jobs of four hosts, half as many of eight). Those that were tried least come first,
and of these the ones that tell most: short round trips, many hosts, and Open MPI before Gloo.

A point is void, after TRIES, where the lab was late, or where the processors were busy for more than BUSY_MOST of the time (not counted
for Open MPI, whose ranks poll). Void points are kept and marked: no ratio is taken of them. Links have rates that leave the processors
idle, and the switch may be late by a hundredth of the round trip (or 20 us), which lets it handle several packets at a time.

Open MPI is started in the hosts by agent.py, with the environment of mpirun; one that bench/gpu/carry brought along is in the build
directory. Its TCP transport has buffers as large as the kernel lets them grow, one connection
between two ranks without loss and four with it, and its ranks yield the processor when idle; Gloo has the same buffers. Both run over
cubic and over bbr.
"""
import concurrent.futures
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from anywhere import measure
from anywhere.compare import compiler
from links import haul

HERE = os.path.dirname(os.path.abspath(__file__))
KIB, MIB = 1 << 10, 1 << 20
OPERATIONS = ("allreduce", "allgather", "broadcast")
MANY = os.cpu_count() >= 12
# (hosts, round trip in ms) -> Mbit/s that leave the processors idle for much of the time
# (with 8 hosts the switch is late at 1 Gbit/s, and at 0.2 ms from 300 Mbit/s on)
RATES = {(8, 0.2): 200, (4, 0.2): 1000, (8, 10): 300, (4, 10): 1000} if MANY else {(8, 0.2): 50, (4, 0.2): 100, (8, 10): 100, (4, 10): 200}
# hosts -> bytes -> (operations before, operations that are timed); the largest ones follow others that have warmed the connections
SMALL = {4 * KIB: (4, 20), 64 * KIB: (4, 10), MIB: (4, 6)}
SIZES = {4: {**SMALL, 16 * MIB: (1, 2), 64 * MIB: (0, 1)}, 8: {**SMALL, 16 * MIB: (0, 2)}}
TRIES = 2
LIMIT_S = 200
BUSY_MOST = 0.8
SLACK_US_MIN = 20
# Of the time that the bytes take: links let a burst pass, and ranks begin and end one after another
BYTES_LEAST = 0.9
BUFFERS = ("echo 4096 1000000 33554432 > /proc/sys/net/ipv4/tcp_rmem; echo 4096 1000000 33554432 > /proc/sys/net/ipv4/tcp_wmem; ")
NETWORKS = [{"hosts": hosts, "rtt_ms": rtt, "mbps": rate, "loss": loss} for (hosts, rtt), rate in RATES.items() for loss in (0, 1e-3)]


def sizes(network):
    return SIZES[network["hosts"]]


def cells(network):
    """What ranks.h takes."""
    return " ".join(f"{name}:{size}:{before}:{timed}" for name in OPERATIONS for size, (before, timed) in sizes(network).items())


def bytes_us(network, operation, size):
    """Bytes that a host has to send or receive at least, over the rate."""
    ranks = network["hosts"]
    share = {"allreduce": 2 * (ranks - 1) / ranks, "allgather": (ranks - 1) / ranks, "broadcast": 1}[operation]
    return size * share * 8 / network["mbps"]


def floor_us(network, operation, size):
    """That, and half a round trip."""
    return bytes_us(network, operation, size) + network["rtt_ms"] * 500


def with_congestion(control):
    return f"{BUFFERS}echo {control} > /proc/sys/net/ipv4/tcp_congestion_control || exit 1; "


class Godwit:
    name, what = "godwit", "Godwit, defaults"
    words = ""

    def missing(self, build):
        return None if os.access(self.program(build), os.X_OK) else "godwit_ranks is not built"

    def program(self, build):
        return os.path.join(build, "bench", "godwit_ranks")

    def command(self, build, network, directory):
        return f'exec "{self.program(build)}" {self.words}{cells(network)}'


class GodwitMulticast(Godwit):
    name, what = "godwit-multicast", "Godwit, broadcasts by IP multicast"
    words = "multicast "


class Gloo:
    def __init__(self, control):
        self.control = control
        self.name, self.what = f"gloo-{control}", f"Gloo of PyTorch's torch.distributed, TCP {control}"
        self.python = None

    def missing(self, build):
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import torch.distributed"], capture_output=True, check=False).returncode == 0:
                self.python = python
                return None
        return "no Python here can import torch"

    def command(self, build, network, directory):
        return f'{with_congestion(self.control)}exec "{self.python}" "{HERE}/gloo_ranks.py" {cells(network)}'


class OpenMpi:
    source = os.path.join(HERE, "mpi_ranks.c")
    polls = True

    def __init__(self, control):
        self.control = control
        self.name, self.what = f"openmpi-{control}", f"Open MPI, its TCP transport, {control}"

    def missing(self, build):
        if not os.path.isdir(self.carried(build)) and not shutil.which("mpirun"):
            return "mpirun is not installed"
        if shutil.which("mpicc"):
            subprocess.run(["mpicc", "-O2", "-o", self.program(build), self.source], check=False)
        return None if os.access(self.program(build), os.X_OK) else f"{self.program(build)} is not built: it wants mpicc and libopenmpi-dev"

    def program(self, build):
        return os.path.join(build, "bench", os.path.basename(self.source)[:-2])

    def carried(self, build):
        return os.path.join(build, "openmpi")

    def environment(self, build):
        """Shell commands; empty where Open MPI is installed."""
        at = self.carried(build)
        if not os.path.isdir(at):
            return ""
        return f'export OPAL_PREFIX="{at}" PATH="{at}/bin:$PATH" LD_LIBRARY_PATH="{build}/lib:$LD_LIBRARY_PATH"; '

    def arguments(self, network):
        return cells(network)

    def command(self, build, network, directory):
        agent = os.path.join(HERE, "agent.py")
        hosts = ",".join(f"10.200.0.{i + 1}:1" for i in range(network["hosts"]))
        links = 4 if network["loss"] else 1
        # Without "plm" it would start all ranks here if it did not like the agent.
        settings = {"plm": "rsh", "plm_rsh_agent": agent, "plm_rsh_no_tree_spawn": 1, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "10.200.0.0/24",
                    "oob_tcp_if_include": "10.200.0.0/24", "btl_tcp_links": links, "btl_tcp_sndbuf": 0, "btl_tcp_rcvbuf": 0,
                    "mpi_yield_when_idle": 1}
        mca = " ".join(f"--mca {name} {value}" for name, value in settings.items())
        run = (f"mpirun --allow-run-as-root --oversubscribe --bind-to none -np {network['hosts']} --host {hosts} {mca} "
               f"\"{self.program(build)}\" {self.arguments(network)}")
        meet = f'while [ $(ls "{directory}" | wc -l) -lt {network["hosts"] - 1} ]; do sleep 0.1; done'
        return (f"{with_congestion(self.control)}{self.environment(build)}export LAB_AGENT={directory}; "
                f"if [ $RANK = 0 ]; then {meet}; {run}; status=$?; rm -r {directory}; exit $status; "
                f"else exec {sys.executable} {agent} serve {directory} 10.200.0.$((RANK + 1)); fi")


CONTENDERS = [Godwit(), GodwitMulticast(), OpenMpi("bbr"), OpenMpi("cubic"), Gloo("bbr"), Gloo("cubic")]


def described(network):
    return f"{network['hosts']} hosts, {network['rtt_ms']:g} ms, {network['mbps']} Mbit/s, loss {network['loss']:g}"


def processor_time():
    """(idle, all) time of all processors, in ticks."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def result(text):
    """(operation, bytes) -> (us, whether the result was right), from lines of JSON objects."""
    told = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {(one["operation"], one["bytes"]): (one["mean_us"], one["right"]) for one in told}


def point(build, network, contender, number):
    """Times of one contender on one network."""
    slack_us = max(SLACK_US_MIN, network["rtt_ms"] * 10)
    with tempfile.TemporaryDirectory() as above:
        directory = os.path.join(above, "hosts")
        os.mkdir(directory)
        settings = ["--hosts", str(network["hosts"]), "--rtt", f"{network['rtt_ms']}ms", "--rate", f"{network['mbps']}M", "--loss",
                    str(network["loss"]), "--slack", f"{slack_us:g}us", "--seed", str(number)]
        begin, before = time.monotonic(), processor_time()
        texts, report = haul.run_lab(build, settings, ["sh", "-c", contender.command(build, network, directory)], LIMIT_S)
        seconds, after = time.monotonic() - begin, processor_time()
    found = result(texts.get(0, ""))
    lacking = [f"{name} {size}" for name in OPERATIONS for size in sizes(network) if (name, size) not in found]
    wrong = [f"{name} {size}" for (name, size), (_, right) in found.items() if not right]
    # Ranks that a launcher put on one host do not need the network.
    too_fast = [f"{name} {size}" for (name, size), (us, _) in found.items() if us < BYTES_LEAST * bytes_us(network, name, size)]
    if lacking or wrong or too_fast:
        raise haul.Failure(f"lacks {lacking}, wrong are {wrong}, faster than the links are {too_fast}")
    times = {name: {str(size): round(found[name, size][0], 1) for size in sizes(network)} for name in OPERATIONS}
    busy = 1 - (after[0] - before[0]) / max(1, after[1] - before[1])
    late = haul.lateness(report)
    return {"network": network, "contender": contender.name, "us": times, "seconds": round(seconds, 1), "slack_us": slack_us,
            "busy": round(busy, 3), **late, "void": late["was_late"] or (busy > BUSY_MOST and not getattr(contender, "polls", False))}


def sentence(one):
    parts = [f"{name} " + " ".join(f"{us / floor_us(one['network'], name, int(size)):.2f}" for size, us in times.items())
             for name, times in one["us"].items()]
    state = f"{'void: ' if one['void'] else ''}{one['busy']:.0%} busy, late by {one['late_p99_us']:.0f} us, {one['seconds']:.0f} s"
    return f"{described(one['network'])}: {one['contender']} ({state}): times over the floor: {'; '.join(parts)}"


def quickly():
    """Two networks and two sizes, to see whether everything works."""
    for each in SIZES.values():
        each.clear()
        each.update({4 * KIB: (2, 10), MIB: (1, 2)})
    del NETWORKS[2:]


def key_of(network, contender):
    return json.dumps(network), contender.name


def kept_in(path):
    """What a file has of each point: the best one, and how often it was tried."""
    kept, tries = {}, {}
    for one in (line["point"] for line in measure.lines(path) if "point" in line):
        key = json.dumps(one["network"]), one["contender"]
        kept[key] = better(one, kept.get(key))
        tries[key] = tries.get(key, 0) + 1
    return kept, tries


def better(one, other):
    """The point that counts of two, of which either may be None: one that is not void before one that is, or that failed."""
    def rank(each):
        return 0 if each is None else 1 if "failed" in each else 2 if each["void"] else 3
    return one if rank(one) > rank(other) else other


def present(build):
    """name -> why a contender is missing, or None; and those that can be measured."""
    missing = {each.name: each.missing(build) for each in CONTENDERS}
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
        controls = file.read().split()
    with open("/proc/sys/net/ipv4/tcp_allowed_congestion_control", encoding="ascii") as file:
        allowed = file.read().split()
    for each in CONTENDERS:
        control = getattr(each, "control", controls[0])
        if control not in controls:
            missing[each.name] = f"this kernel has no {control}"
        elif control not in allowed:
            # A host of the lab may set only these, and would go on with what the machine has.
            missing[each.name] = f"a host may not choose {control} here: sysctl net.ipv4.tcp_congestion_control={control} once allows it"
    return missing, [each for each in CONTENDERS if not missing[each.name]]


def in_order(there, tries=None):
    """(network, contender) of all points: those tried least first, all of Open MPI before any of Gloo."""
    points = [(network, each) for gloo in (False, True) for network in NETWORKS for each in there if isinstance(each, Gloo) == gloo]
    return sorted(points, key=lambda one: (tries or {}).get(key_of(*one), 0))


def run_collectives(options):
    """Measures the points that the file lacks, or has as void, and returns all; what is lacking is named."""
    if options.quick:
        quickly()
    path = options.points or os.path.join(options.build, "collectives.points")
    missing, there = present(options.build)
    kept, tries = kept_in(path)
    writer, lock, begin = measure.Writer(path), threading.Lock(), time.monotonic()

    def lacks(network, each):
        one = kept.get(key_of(network, each))
        return one is None or "failed" in one or one["void"]

    def take(network, each):
        if not lacks(network, each) or (options.budget and time.monotonic() - begin > options.budget):
            return
        key = key_of(network, each)
        one = haul.attempt(f"{described(network)}: {each.name}", point, options.build, network, each, tries.get(key, 0))
        if "failed" in one:
            one = {"network": network, "contender": each.name, "failed": one["failed"]}
        with lock:
            writer.write(point=one)
            kept[key] = better(one, kept.get(key))
            tries[key] = tries.get(key, 0) + 1
            if "failed" not in one:
                print("  " + sentence(one), flush=True)

    # All once before any is repeated, so that a budget is spent on what is lacking.
    for _ in range(TRIES):
        for hosts, points in itertools.groupby(in_order(there, tries), lambda one: one[0]["hosts"]):
            with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs * min(SIZES) // hosts)) as pool:
                for done in [pool.submit(take, *one) for one in points]:
                    done.result()
    left = [f"{described(network)}: {each.name}" for network, each in in_order(there) if lacks(network, each)]
    for one in left:
        print(f"  not measured, or void: {one}")
    known = {each.name: {"what": each.what, "missing": missing[each.name]} for each in CONTENDERS}
    points = [kept[key_of(*one)] for one in in_order(there) if key_of(*one) in kept]
    return haul.base(options, 1, contenders=known, points=points, lacking=left, compiler=compiler(options.build), **measure.machine())


RUNS = {"collectives": run_collectives}
