# SPDX-License-Identifier: BSD-3-Clause
"""What several threads carry over loopback, against one thread and against TCP with as many flows: bench/run threads.

`godwit perf --threads N` has N contexts and N channels, with a thread each at either end. The peer, bench/peers/tcp_stream, has N
flows, likewise with a thread each at either end. Rounds are interleaved: in each, everything is measured once, and a ratio is that
of two measurements of the same round.
"""
import json
import os
import socket
import statistics
import subprocess
import sys
import time

COUNTS = (1, 2, 4, 8)
MESSAGE = 1 << 20
DEPTH = 16
# Share of all processors from which on a measurement says more about them than about the program.
BUSY = 0.8
HOST = "127.0.0.1"


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "runs": len(values)}


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def both(server, client, seconds):
    """Starts the end that waits, then the other; what that prints, as JSON."""
    with subprocess.Popen(server, stdout=subprocess.DEVNULL) as waiting:
        try:
            time.sleep(0.3)
            done = subprocess.run(client, text=True, stdout=subprocess.PIPE, timeout=seconds + 60, check=False)
            waiting.wait(30)
        finally:
            waiting.kill()
    if done.returncode:
        sys.exit(f"run: {' '.join(client)} ended with {done.returncode}")
    return json.loads(done.stdout)


def godwit(options, count, icrc):
    program, port = options.godwit or os.path.join(options.build, "godwit"), str(free_port())
    told = both([program, "perf", "--port", port, "--json"],
                [program, "perf", HOST, "--port", port, "--threads", str(count), "--size", str(MESSAGE), "--depth", str(DEPTH),
                 "--duration", f"{options.seconds}s", "--icrc", icrc, "--json"], options.seconds)
    row = told["results"][0]
    way, ends = row["directions"][0], (row["client"], row["server"])
    cpu = sum(end["cpu_user_seconds"] + end["cpu_system_seconds"] for end in ends)
    return {"goodput_gbps": way["goodput_gbps"], "cpu_s": cpu, "seconds": row["client"]["seconds"], "bytes": way["bytes"],
            "repeated": row["client"]["packets_retransmitted"]}


def tcp(options, count):
    program, port = os.path.join(options.build, "bench", "tcp_stream"), str(free_port())
    told = both([program, "--serve", "--port", port],
                [program, HOST, "--port", port, "--seconds", str(options.seconds), "--flows", str(count), "--congestion", "cubic",
                 "--message", str(MESSAGE), "--working-set", str(MESSAGE * DEPTH * count)], options.seconds)
    return {"goodput_gbps": told["bytes"] * 8e-9 / told["seconds"], "cpu_s": told["sender_cpu_s"] + told["receiver_cpu_s"],
            "seconds": told["seconds"], "bytes": told["bytes"], "repeated": told["retransmits"]}


CONTENDERS = {
    "godwit": lambda options, count: godwit(options, count, "on"),
    "godwit, no ICRC": lambda options, count: godwit(options, count, "off"),
    "TCP": tcp,
}


def summary(samples, processors, name, count):
    mine, one, peer = samples[name, count], samples[name, 1], samples["TCP", count]
    result = {
        "threads": count,
        "goodput_gbps": spread([each["goodput_gbps"] for each in mine]),
        "cpu_s_per_gb": spread([each["cpu_s"] / (each["bytes"] / 1e9) for each in mine]),
        "against_one": spread([a["goodput_gbps"] / b["goodput_gbps"] for a, b in zip(mine, one)]),
        "against_tcp": spread([a["goodput_gbps"] / b["goodput_gbps"] for a, b in zip(mine, peer)]),
        "repeated": sum(each["repeated"] for each in mine),
    }
    busy = statistics.median(each["cpu_s"] / each["seconds"] for each in mine)
    result["cpu_bound"] = 2 * count > processors or busy > BUSY * processors
    return result


def run_threads(options):
    processors = len(os.sched_getaffinity(0))
    samples = {}
    for number in range(options.rounds):
        order = [(name, count) for count in COUNTS for name in CONTENDERS]
        for name, count in order if number % 2 == 0 else reversed(order):
            samples.setdefault((name, count), []).append(CONTENDERS[name](options, count))
    version = subprocess.run([options.godwit or os.path.join(options.build, "godwit"), "--version"], text=True,
                             stdout=subprocess.PIPE, check=True).stdout.split()[-1]
    return {
        "environment": "loopback", "processors": processors, "kernel": os.uname().release, "rounds": options.rounds,
        "seconds": options.seconds, "message_bytes": MESSAGE, "depth": DEPTH, "godwit": version,
        "contenders": {name: [summary(samples, processors, name, count) for count in COUNTS] for name in CONTENDERS},
    }


RUNS = {"threads": run_threads}
