# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of Godwit, Open MPI and Gloo on the same links of the lab: bench/run's collectives.

A point is a contender on a network: hosts around a switch, a round trip, a rate and a loss. It runs all operations and sizes in
turn, and keeps the mean time of each. Every contender times alike: operations one after another, and the mean of the slowest rank.
Points are kept one by one in a file of JSON lines, so that a run goes on where an earlier one was stopped (--points, --budget), and on a
machine with many processors several are measured at a time (--jobs). A point is void where the lab was late.

Open MPI is started in the hosts by agent.py. Its TCP transport has buffers as large as the kernel lets them grow, one connection
between two ranks without loss and four with it, and its ranks yield the processor when idle; Gloo has the same buffers. Both run over
cubic and over bbr. On a machine with few processors there are fewer hosts on slower links, since a rank that waits for a processor
measures nothing else.
"""
import concurrent.futures
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
# Hosts, and the rate of their links, that leave the processors idle for most of the time.
HOSTS, MBPS = ((4, 8), 1000) if os.cpu_count() >= 12 else ((4,), 60)
# bytes -> operations that are timed, after WARMUP others
SIZES = {4 * KIB: 40, 64 * KIB: 20, MIB: 8, 4 * MIB: 4, **({16 * MIB: 3, 64 * MIB: 2} if MBPS >= 1000 else {})}
WARMUP = 2
TRIES = 2
LIMIT_S = 240
BUFFERS = ("echo 4096 1000000 33554432 > /proc/sys/net/ipv4/tcp_rmem; echo 4096 1000000 33554432 > /proc/sys/net/ipv4/tcp_wmem; ")
NETWORKS = [{"hosts": hosts, "rtt_ms": rtt, "mbps": MBPS, "loss": loss} for hosts in HOSTS for rtt in (0.2, 10) for loss in (0, 1e-3)]


def cells():
    return [f"{name}:{size}:{count}" for name in OPERATIONS for size, count in SIZES.items()]


def floor_us(network, operation, size):
    """Bytes that a host has to send or receive at least, over the rate, and half a round trip."""
    ranks = network["hosts"]
    share = {"allreduce": 2 * (ranks - 1) / ranks, "allgather": (ranks - 1) / ranks, "broadcast": 1}[operation]
    return size * share * 8 / network["mbps"] + network["rtt_ms"] * 500


def with_congestion(control):
    return f"{BUFFERS}echo {control} > /proc/sys/net/ipv4/tcp_congestion_control; "


class Godwit:
    name, what = "godwit", "`godwit coll`, defaults"

    def missing(self, build):
        return None

    def command(self, build, network, directory):
        runs = [f'MASTER_PORT=$((MASTER_PORT + {i})) "{build}/godwit" coll {name} --size 4K..{max(SIZES) // MIB}M --factor 4 --warmup {WARMUP} --json'
                for i, name in enumerate(OPERATIONS)]
        return " && ".join(runs)

    def result(self, text):
        found = {}
        for line in text.splitlines():
            if line.startswith("{"):
                told = json.loads(line)
                for one in told["sizes"]:
                    found[told["operation"], one["bytes"]] = (one["time_us"], one["wrong"] == 0)
        return found


def objects(text):
    """(operation, bytes) -> (us, whether the result was right), from lines of JSON objects."""
    told = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {(one["operation"], one["bytes"]): (one["mean_us"], one["right"]) for one in told}


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
        return f'{with_congestion(self.control)}exec "{self.python}" "{HERE}/gloo_ranks.py" {WARMUP} {" ".join(cells())}'

    def result(self, text):
        return objects(text)


class OpenMpi:
    source = os.path.join(HERE, "mpi_ranks.c")

    def __init__(self, control):
        self.control = control
        self.name, self.what = f"openmpi-{control}", f"Open MPI, its TCP transport, {control}"

    def missing(self, build):
        for tool in ("mpirun", "mpicc"):
            if not shutil.which(tool) and not (tool == "mpicc" and os.path.exists(self.program(build))):
                return f"{tool} is not installed"
        return None

    def program(self, build):
        return os.path.join(build, "bench", os.path.basename(self.source)[:-2])

    def arguments(self):
        return f"{WARMUP} {' '.join(cells())}"

    def prepare(self, build):
        if shutil.which("mpicc"):
            subprocess.run(["mpicc", "-O2", "-o", self.program(build), self.source], check=True)

    def command(self, build, network, directory):
        agent = os.path.join(HERE, "agent.py")
        hosts = ",".join(f"10.200.0.{i + 1}:1" for i in range(network["hosts"]))
        links = 4 if network["loss"] else 1
        settings = {"plm_rsh_agent": agent, "plm_rsh_no_tree_spawn": 1, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "10.200.0.0/24",
                    "oob_tcp_if_include": "10.200.0.0/24", "btl_tcp_links": links, "btl_tcp_sndbuf": 0, "btl_tcp_rcvbuf": 0,
                    "mpi_yield_when_idle": 1}
        mca = " ".join(f"--mca {name} {value}" for name, value in settings.items())
        run = (f"mpirun --allow-run-as-root --bind-to none -np {network['hosts']} --host {hosts} {mca} "
               f"\"{self.program(build)}\" {self.arguments()}")
        meet = f'while [ $(ls "{directory}" | wc -l) -lt {network["hosts"] - 1} ]; do sleep 0.1; done'
        return (f"{with_congestion(self.control)}export LAB_AGENT={directory}; "
                f"if [ $RANK = 0 ]; then {meet}; {run}; status=$?; rm -r {directory}; exit $status; "
                f"else exec {sys.executable} {agent} serve {directory} 10.200.0.$((RANK + 1)); fi")

    def result(self, text):
        return objects(text)


CONTENDERS = [Godwit(), OpenMpi("cubic"), OpenMpi("bbr"), Gloo("cubic"), Gloo("bbr")]


def described(network):
    return f"{network['hosts']} hosts, {network['rtt_ms']:g} ms, {network['mbps']} Mbit/s, loss {network['loss']:g}"


def point(build, network, contender, number):
    """Times of one contender on one network."""
    with tempfile.TemporaryDirectory() as above:
        directory = os.path.join(above, "hosts")
        os.mkdir(directory)
        settings = ["--hosts", str(network["hosts"]), "--rtt", f"{network['rtt_ms']}ms", "--rate", f"{network['mbps']}M", "--loss",
                    str(network["loss"]), "--seed", str(number)]
        begin = time.monotonic()
        texts, report = haul.run_lab(build, settings, ["sh", "-c", contender.command(build, network, directory)], LIMIT_S)
    found = contender.result(texts.get(0, ""))
    lacking = [f"{name} {size}" for name in OPERATIONS for size in SIZES if (name, size) not in found]
    wrong = [f"{name} {size}" for (name, size), (_, right) in found.items() if not right]
    if lacking or wrong:
        raise haul.Failure(f"lacks {lacking}, wrong are {wrong}")
    times = {name: {str(size): round(found[name, size][0], 1) for size in SIZES} for name in OPERATIONS}
    return {"network": network, "contender": contender.name, "us": times, "seconds": round(time.monotonic() - begin, 1),
            **haul.lateness(report)}


def sentence(one):
    parts = [f"{name} " + " ".join(f"{one['us'][name][str(size)] / floor_us(one['network'], name, size):.2f}" for size in SIZES)
             for name in OPERATIONS]
    return f"{described(one['network'])}: {one['contender']}{' (late)' if one['was_late'] else ''}: times over the floor: {'; '.join(parts)}"


def quickly():
    """Two networks and two sizes, to see whether everything works."""
    SIZES.clear()
    SIZES.update({4 * KIB: 10, MIB: 4})
    del NETWORKS[2:]


def run_collectives(options):
    """Measures the points that the file lacks; None while it still lacks some."""
    if options.quick:
        quickly()
    path = options.points or os.path.join(options.build, "collectives.points")
    kept = {}
    for one in measure.lines(path):
        if "point" in one and not one["point"]["was_late"]:
            kept[json.dumps(one["point"]["network"]), one["point"]["contender"]] = one["point"]
    missing = {each.name: each.missing(options.build) for each in CONTENDERS}
    there = [each for each in CONTENDERS if not missing[each.name]]
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
        controls = file.read().split()
    there = [each for each in there if getattr(each, "control", controls[0]) in controls]
    for each in there:
        if hasattr(each, "prepare"):
            each.prepare(options.build)
    wanted = [(network, each) for network in NETWORKS for each in there if (json.dumps(network), each.name) not in kept]
    writer, lock, begin = measure.Writer(path), threading.Lock(), time.monotonic()

    def take(network, each):
        for number in range(TRIES):
            if options.budget and time.monotonic() - begin > options.budget:
                return
            one = haul.attempt(f"{described(network)}: {each.name}", point, options.build, network, each, number)
            if "failed" in one:
                continue
            with lock:
                writer.write(point=one)
                print("  " + sentence(one), flush=True)
            if not one["was_late"]:
                kept[json.dumps(network), each.name] = one
                return

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(take, network, each) for network, each in wanted]:
            done.result()
    left = [1 for network in NETWORKS for each in there if (json.dumps(network), each.name) not in kept]
    if left:
        print(f"{len(left)} points are to be measured yet: {path} has the others")
        return None
    known = {each.name: {"what": each.what, "missing": missing[each.name]} for each in CONTENDERS}
    wanted = [json.dumps(network) for network in NETWORKS]
    return haul.base(options, 1, contenders=known, points=[one for one in kept.values() if json.dumps(one["network"]) in wanted], compiler=compiler(options.build), **measure.machine())


RUNS = {"collectives": run_collectives}
