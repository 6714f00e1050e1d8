# SPDX-License-Identifier: BSD-3-Clause
"""One bottleneck, several flows: bench/run's shared (see haul.py for who and how).

Every flow has a host of its own, and all send to the last host, whose link down is the bottleneck. A share is what a host
sent, repeats included, of what all sent in the same seconds while every flow was under way; Jain's index is 1 when all are
equal. Sent bytes, and how long packets stood in the bottleneck's queue, are the lab's own figures. Beside Godwit's
channels, two TCP flows show what TCP does to TCP there.

The step has one flow, and a link that falls to a fifth of its rate and comes back. The lab's samples say when the flow had
followed: down, when the queue that it left is below half a round trip's worth again; up, when a round trip carries nine
tenths of the rate.
"""
import csv
import os
import tempfile

from links import haul
from links.haul import Link
from veth.wire import spread

LINK = Link(25, 1)
SECONDS = 6
SETTLED_S = 1.5  # by then every flow is under way; all go on for longer than the seconds
ROUNDS = 3
CASES = (("godwit", "godwit"), ("godwit",) * 8, ("godwit", "tcp-cubic"), ("godwit", "tcp-bbr"), ("tcp-bbr", "tcp-cubic"))
UP_RATE = "10G"  # of every sender: the bottleneck is elsewhere
UP_QUEUE = "64M"

STEP_LOW_GBPS = 0.2
STEP_AT_S = (2.5, 4.5)  # down, up again
STEP_SECONDS = 6
SAMPLE_S = 0.005
STEPPERS = ("godwit", "tcp-bbr", "tcp-cubic")


def jain(shares):
    return sum(shares) ** 2 / len(shares) / sum(each ** 2 for each in shares) if sum(shares) else 0


def rates_between(rows, begin_s, end_s):
    """Gbit/s of every link, from samples of what each had carried."""
    first, last = {}, {}
    for at, link, carried, _ in rows:
        if begin_s <= at <= end_s:
            first.setdefault(link, (at, carried))
            last[link] = (at, carried)
    return {link: (last[link][1] - carried) * 8e-9 / (last[link][0] - at)
            for link, (at, carried) in first.items() if last[link][0] > at}


def together(flows, build, seconds, seed):
    """All at once, to one receiver."""
    receiver = len(flows)
    ports = [haul.RECEIVER_PORT + number for number in range(receiver)]
    commands = {number: [each.stream(build, haul.address(receiver), LINK, seconds, port)]
                for number, (each, port) in enumerate(zip(flows, ports))}
    commands[receiver] = [each.server(build, port) for each, port in zip(flows, ports)]
    settings = ["--hosts", str(receiver + 1), *LINK.settings(), "--seed", str(seed),
                *(word for number in range(receiver) for word in ("--link", f"{number}:up:rate={UP_RATE},queue={UP_QUEUE}"))]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "samples.csv")
        settings += ["--samples", f"{SAMPLE_S * 1e3:g}ms:{path}"]
        texts, report = haul.run_lab(build, settings, haul.shell(commands, haul.TUNING))
        rates = rates_between(read_samples(path), SETTLED_S, seconds)
    shares = [rates[number, "up"] for number in range(receiver)]
    down = haul.down_link(report, receiver)
    return {"sent_gbps": shares, "goodput_gbps": [each.result(texts.get(number, ""))["gbps"]
                                                  for number, each in enumerate(flows)],
            "sum_gbps": rates[receiver, "down"], "first_share": shares[0] / sum(shares), "jain": jain(shares),
            "waited": down["waited"], "queue_drops": down["dropped"]["queue"], **haul.lateness(report)}


def case_name(names):
    return f"{names[0]} x {len(names)}" if len(set(names)) == 1 else " + ".join(names)


def good(samples):
    return [each for each in samples if "failed" not in each]


def summary_of(samples):
    if not samples:
        return None
    one = {key: spread([each[key] for each in samples]) for key in ("sum_gbps", "first_share", "jain")}
    for share in ("p50", "p99"):
        one[f"waited_{share}_ms"] = spread([each["waited"][f"{share}_us"] / 1e3 for each in samples])
    return {**one, "queue_drops": spread([each["queue_drops"] for each in samples]),
            "late": sum(each["was_late"] for each in samples)}


def read_samples(path):
    """Of every link at every time: seconds, (host, direction), bytes carried, bytes waiting."""
    with open(path, encoding="ascii") as file:
        return [(float(row["seconds"]), (int(row["host"]), row["direction"]), int(row["bytes"]), int(row["waiting_bytes"]))
                for row in csv.DictReader(file)]


def followed(rows, link=LINK, low=STEP_LOW_GBPS, steps=STEP_AT_S):
    """How many round trips after each step; None: not before the next."""
    rtt_s = link.rtt_ms / 1e3
    window = max(1, round(rtt_s / SAMPLE_S))
    calm = low * 1e9 / 8 * rtt_s / 2
    busy = 0.9 * link.rate_gbps * 1e9 / 8 * rtt_s
    down = up = highest = None
    for number, (at, carried, waiting) in enumerate(rows):
        if steps[0] <= at < steps[1]:
            highest = max(highest or 0, waiting)
            if waiting > calm:
                down = None
            elif down is None:
                down = (at - steps[0]) / rtt_s
        if at >= steps[1] + rtt_s and up is None and carried - rows[number - window][1] >= busy:
            up = (at - steps[1]) / rtt_s
    return {"down_rtts": down, "up_rtts": up, "highest_waiting_ms": (highest or 0) * 8e-6 / low}


def step(contender, build, seed):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "samples.csv")
        more = ["--samples", f"{SAMPLE_S * 1e3:g}ms:{path}"]
        for at, rate in zip(STEP_AT_S, (STEP_LOW_GBPS, LINK.rate_gbps)):
            more += ["--at", f"{at}s:1:rate={rate:g}G"]
        one = haul.stream(contender, build, LINK, STEP_SECONDS, seed, *more)
        rows = [(at, carried, waiting) for at, which, carried, waiting in read_samples(path) if which == (1, "down")]
    # A tenth of a second a point is enough to draw it.
    every = round(0.1 / SAMPLE_S)
    drawn = [(b[1] - a[1]) * 8e-9 / (b[0] - a[0]) for a, b in zip(rows[::every], rows[every::every])]
    return {**one, **followed(rows), "gbps_by_tenths": [round(each, 3) for each in drawn]}


def run_shared(options):
    names = sorted({name for case in CASES for name in case} | set(STEPPERS))
    known, present = haul.there(haul.contenders_of(*names), options.build)
    by_name = {each.name: each for each in present}
    rounds, seconds = (1, 3) if options.quick else (ROUNDS, SECONDS)
    cases = [case for case in CASES if set(case) <= set(by_name)]
    taken = {case_name(case): [] for case in cases}
    steps = {name: [] for name in STEPPERS if name in by_name}
    for number in range(rounds):
        for case in haul.turned(cases, number):
            taken[case_name(case)].append(haul.attempt(case_name(case), together, [by_name[name] for name in case],
                                                       options.build, seconds, number))
        for name in haul.turned(list(steps), number):
            steps[name].append(haul.attempt(f"{name}, step", step, by_name[name], options.build, number))
    return haul.base(options, rounds, seconds=seconds, contenders=known, link=LINK.described(), name=LINK.name(),
                     step={"low_gbps": STEP_LOW_GBPS, "at_s": STEP_AT_S,
                           "summary": {name: step_summary(good(samples)) for name, samples in steps.items()},
                           "samples": steps},
                     cases=[{"name": name, "summary": summary_of(good(samples)), "samples": samples}
                            for name, samples in taken.items()])


def step_summary(samples):
    """Those that never followed are counted, not averaged."""
    one = {}
    for key in ("down_rtts", "up_rtts", "highest_waiting_ms"):
        values = [each[key] for each in samples if each[key] is not None]
        one[key] = spread(values) if values else None
        one[f"{key}_never"] = len(samples) - len(values)
    return one


RUNS = {"shared": run_shared}
