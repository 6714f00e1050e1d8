# SPDX-License-Identifier: BSD-3-Clause
"""How good a network `godwit lab` is: bench/run's lab.

What it forwards, what it adds to a round trip, how exact a round trip and a loss are, whether a seed repeats itself, and
whether anything stays behind when a part of it is killed. The peers of bench/peers are what runs inside.
"""
import json
import math
import os
import signal
import subprocess
import sys
import time

from veth.wire import pair, spread

RTT_MS = 25
BLAST_PACKETS = 200000
SMALL_PAYLOAD = 64
LOSSES = (1e-3, 1e-2)
Z_99 = 2.576  # the normal quantile that leaves a half per cent at either end


class Lab:
    def __init__(self, options):
        self.godwit = options.godwit or os.path.join(options.build, "godwit")
        self.peers = os.path.join(options.build, "bench")

    def run(self, settings, peer, *arguments):
        """What the peer printed, and the lab's own report."""
        program = os.path.join(self.peers, peer)
        script = '[ $RANK = 1 ] && exec "$0" --serve; exec "$0" $GODWIT_HOST_1 "$@"'
        done = subprocess.run([self.godwit, "lab", "--json", *settings, "--", "sh", "-c", script, program,
                               *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            sys.exit(f"run: lab: {peer} ended with {done.returncode}\n{done.stderr[-2000:]}")
        printed = [line[4:] for line in done.stderr.splitlines() if line.startswith("[0] {")]
        return json.loads(printed[-1]), json.loads(done.stdout)


def down_link(report):
    """Towards the receiver."""
    return next(link for link in report["links"] if link["host"] == 1 and link["direction"] == "down")


def lateness(report):
    return {"p99_us": report["late"]["p99_us"], "was_late": report["was_late"],
            "overrun": sum(link["dropped"]["overrun"] for link in report["links"])}


def forwarding(lab, options):
    result = {}
    for name, settings, peer, arguments in (
            ("TCP, MTU 1500", ["--mtu", "1500"], "tcp_stream", ["--congestion", "cubic"]),
            ("TCP, MTU 9000", ["--mtu", "9000"], "tcp_stream", ["--congestion", "cubic"]),
            (f"UDP, {SMALL_PAYLOAD + 36} bytes each", [], "udp_blast", ["--payload", SMALL_PAYLOAD, "--segments", 1])):
        samples = []
        for _ in range(options.rounds):
            one, report = lab.run(settings, peer, "--seconds", options.seconds, *arguments)
            samples.append({"gbps": one["bytes"] * 8e-9 / one["seconds"],
                            "packets_a_second": down_link(report)["forwarded"] / one["seconds"], **lateness(report)})
        result[name] = {"gbps": spread([each["gbps"] for each in samples]),
                        "packets_a_second": spread([each["packets_a_second"] for each in samples]), "samples": samples}
    return result


def median_us(one):
    return one["half_round_trip_us"]["p50"]


def added_latency(lab, options):
    """Interleaved: one in the lab without delay, one over a veth."""
    pairs = []
    for _ in range(options.rounds):
        inside, _ = lab.run([], "udp_pingpong", "--poll", "--count", 5000)
        command = [*pair(options), "--test", "lat", "--messages", "5000", "udp-pingpong"]
        outside = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        pairs.append((median_us(inside), median_us(outside)))
    return {"lab_us": spread([a for a, _ in pairs]), "veth_us": spread([b for _, b in pairs]),
            "added_us": spread([a - b for a, b in pairs])}


def round_trip(lab, options):
    errors = []
    for _ in range(options.rounds):
        one, _ = lab.run(["--rtt", f"{RTT_MS}ms"], "udp_pingpong", "--sleep", "--count", 60)
        errors.append(2 * median_us(one) - RTT_MS * 1000)
    return {"asked_ms": RTT_MS, "error_us": spread(errors)}


def losses(lab, options):
    """Of every share: how many were lost, whether chance allows it, and whether the seed repeats it."""
    result = []
    for share in LOSSES:
        for seed in (1, 2):
            runs = [lab.run(["--loss", str(share), "--seed", str(seed)], "udp_blast", "--packets", BLAST_PACKETS,
                            "--payload", SMALL_PAYLOAD, "--segments", 16) for _ in range(2)]
            one, report = runs[0]
            reach = Z_99 * math.sqrt(share * (1 - share) / BLAST_PACKETS)
            lost = one["packets_lost"] / BLAST_PACKETS
            result.append({
                "asked": share, "seed": seed, "packets": BLAST_PACKETS, "lost": lost,
                "interval_99": [share - reach, share + reach], "within": abs(lost - share) <= reach,
                "lost_twice": [each["packets_lost"] for each, _ in runs],
                "dropped_twice": [down_link(each)["dropped"]["loss"] for _, each in runs],
                **lateness(report)})
    return result


def census():
    """Processes, network namespaces and interfaces of this machine, as far as they can be seen."""
    processes, networks = set(), set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            networks.add(os.readlink(f"/proc/{pid}/ns/net"))
            processes.add(int(pid))
        except OSError:
            pass
    with open("/proc/net/dev", encoding="ascii") as file:
        return processes, networks, len(file.readlines()) - 2


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def family_of(pid):
    return [pid] + [each for child in children_of(pid) for each in family_of(child)]


def wait_for(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def remains(lab):
    """Kills one part at a time with SIGKILL and looks for what the lab had made."""
    result = {}
    for part in ("starter", "switch", "a host's command"):
        before = census()
        starter = subprocess.Popen([lab.godwit, "lab", "--kill-on-failure", "--", "sleep", "120"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: len(family_of(starter.pid)) >= 4)
        family = family_of(starter.pid)
        made = {os.readlink(f"/proc/{pid}/ns/net") for pid in family} - before[1]
        os.kill(family[{"starter": 0, "switch": 1, "a host's command": -1}[part]], signal.SIGKILL)
        starter.wait(20)
        wait_for(lambda: not set(family) & census()[0])
        after = census()
        result[part] = {"processes_made": len(family), "namespaces_made": len(made),
                        "processes_left": len(set(family) & after[0]), "namespaces_left": len(made & after[1]),
                        "interfaces_more": after[2] - before[2]}
    return result


def run_lab(options):
    lab = Lab(options)
    return {"environment": "lab", "kernel": os.uname().release, "processors": os.cpu_count(), "rounds": options.rounds,
            "seconds": options.seconds, "forwarding": forwarding(lab, options), "latency": added_latency(lab, options),
            "round_trip": round_trip(lab, options), "losses": losses(lab, options), "remains": remains(lab)}
