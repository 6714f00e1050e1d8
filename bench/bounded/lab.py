# SPDX-License-Identifier: BSD-3-Clause
"""Tails of an allreduce with a straggler, on hosts of the lab that lose packets in bursts: bounded ones, Godwit's exact ones, Gloo and
Open MPI. bench/run's bounded-lab.

Ranks compute, reduce, and compute again. The last rank is the straggler: in every tenth iteration, drawn by chance, it computes longer, by
an exponentially distributed time. All contenders meet the same delays, and time an operation from a rank's call to its end there.
The first operations are not counted, since deadlines adapt. A run is void where the lab was late."""
import json
import os
import random
import tempfile

from anywhere import measure
from anywhere.compare import compiler
from collectives import compare as collectives
from links import haul

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "bindings", "python")
NAME = "bounded-lab"
NETWORK = {"hosts": 4, "rtt_ms": 2, "mbps": 200, "loss": 1e-2, "burst": "8:1ms"}
BYTES, OPERATIONS, WARMUP = 256 << 10, 310, 10
COMPUTE_MS, CHANCE, LATE_MS = 40, 0.1, 80
TRIES, LIMIT_S = 2, 80


class Ranks:
    """late_ranks.py: Gloo, or Godwit."""

    def __init__(self, name, what, how, control="cubic"):
        self.name, self.what, self.how, self.control = name, what, how, control
        self.python = None

    def missing(self, build):
        gloo = collectives.Gloo(self.control)
        lacks = gloo.missing(build)
        self.python = gloo.python
        return lacks

    def command(self, build, network, directory):
        library = os.path.join(build, "src", "libgodwit.so")
        return (f'{collectives.with_congestion(self.control)}export GODWIT_LIBRARY="{library}" PYTHONPATH="{PACKAGE}" PYTHONDONTWRITEBYTECODE=1; '
                f'exec "{self.python}" "{HERE}/late_ranks.py" {self.how} {BYTES} {COMPUTE_MS} "{delays_of(directory)}"')


class OpenMpi(collectives.OpenMpi):
    source = os.path.join(HERE, "mpi_late.c")

    def __init__(self, control):
        super().__init__(control)
        self.delays = None

    def arguments(self, network):
        return f'{BYTES} {COMPUTE_MS} "{self.delays}"'

    def command(self, build, network, directory):
        self.delays = delays_of(directory)
        return super().command(build, network, directory)


CONTENDERS = [
    Ranks("count", "bounded, `count`", "count"),
    Ranks("hadamard", "bounded, `hadamard`", "hadamard"),
    Ranks("exact", "exact", "exact"),
    Ranks("gloo-bbr", "Gloo of PyTorch's torch.distributed, TCP bbr", "gloo", "bbr"),
    OpenMpi("bbr"),
    OpenMpi("cubic"),
]


def delays_of(directory):
    return os.path.join(os.path.dirname(directory), "delays")


def percentile(times, part):
    return sorted(times)[int(part * len(times))]


def counted(told):
    """Times without those of the first operations; the times of a rank come one after the other."""
    ranks = NETWORK["hosts"]
    each = len(told["times_ms"]) // ranks
    return [ms for rank in range(ranks) for ms in told["times_ms"][rank * each + WARMUP:(rank + 1) * each]]


def point(build, contender, number):
    dice = random.Random(1)
    with tempfile.TemporaryDirectory() as above:
        directory = os.path.join(above, "hosts")
        os.mkdir(directory)
        with open(delays_of(directory), "w", encoding="ascii") as file:
            for _ in range(OPERATIONS):
                late, time = dice.random() < CHANCE, dice.expovariate(1 / LATE_MS)
                file.write(f"{time if late else 0:.3f}\n")
        settings = ["--hosts", str(NETWORK["hosts"]), "--rtt", f"{NETWORK['rtt_ms']}ms", "--rate", f"{NETWORK['mbps']}M", "--loss",
                    str(NETWORK["loss"]), "--burst", NETWORK["burst"], "--seed", str(1 + number)]
        texts, report = haul.run_lab(build, settings, ["sh", "-c", contender.command(build, NETWORK, directory)], LIMIT_S)
    lines = [line for line in texts.get(0, "").splitlines() if line.startswith("{")]
    if not lines:
        raise haul.Failure("rank 0 said nothing")
    told = json.loads(lines[-1])
    if not told["right"]:
        raise haul.Failure("a result was wrong")
    times = counted(told)
    return {"contender": contender.name, "operations": len(times), "mean_ms": sum(times) / len(times), "p50_ms": percentile(times, 0.5),
            "p99_ms": percentile(times, 0.99), "most_ms": max(times), **{name: told[name] for name in ("mse", "arrived", "late") if name in told},
            **haul.lateness(report)}


def measured(build, contender):
    """A list of one point, or of none. One with a late lab only if there is no better one."""
    found = []
    for number in range(TRIES):
        one = haul.attempt(contender.name, point, build, contender, number)
        if "failed" in one:
            continue
        print(f"  {contender.name}: mean {one['mean_ms']:.1f}, median {one['p50_ms']:.1f}, p99 {one['p99_ms']:.1f} ms"
              f"{', the lab was late' if one['was_late'] else ''}", flush=True)
        found = [one]
        if not one["was_late"]:
            break
    return found


def run_bounded_lab(options):
    points, missing = [], {each.name: each.missing(options.build) for each in CONTENDERS}
    for each in CONTENDERS:
        if not missing[each.name]:
            points += measured(options.build, each)
    known = {each.name: {"what": each.what, "missing": missing[each.name]} for each in CONTENDERS}
    return haul.base(options, 1, network=NETWORK, bytes=BYTES, compute_ms=COMPUTE_MS, chance=CHANCE, late_ms=LATE_MS, contenders=known,
                     points=points, compiler=compiler(options.build), **measure.machine())


RUNS = {NAME: run_bounded_lab}
