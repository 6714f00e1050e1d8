#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark written to SDR's interface, on loopback: sizes, windows, queue pairs, and packets lost on purpose."""
import json
import os
import subprocess

from harness import check, finish, free_port

PROGRAM = os.environ["SDR_WRITE_BW"]


def play(*options, host="127.0.0.1", fabric="roce:127.0.0.1@0", environment=None):
    """One run of both ends: (their statuses, the objects that each printed, what went to stderr)."""
    port = str(free_port())
    env = {**os.environ, "SDR_FABRIC": fabric, **(environment or {})}
    command = [PROGRAM, "--json", "-p", port]
    ends = [subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for arguments in (command, [*command, *options, host])]
    results = []
    for end in ends:
        try:
            results.append(end.communicate(timeout=40))
        except subprocess.TimeoutExpired:
            end.kill()
            results.append(end.communicate())
    said = [[json.loads(line) for line in out.splitlines() if line.startswith("{")] for out, _ in results]
    return [end.returncode for end in ends], said, "".join(err for _, err in results)


def expect(label, sizes, messages, *options, missing=False, **where):
    statuses, said, errors = play("-s", ",".join(map(str, sizes)), *options, **where)
    check(statuses == [0, 0], f"{label}: statuses {statuses}: {errors}")
    check(said[0] == said[1], f"{label}: the ends differ: {said}")
    check([line["bytes"] for line in said[0]] == sizes, f"{label}: sizes: {said[0]}")
    for line in said[0]:
        check(line["messages"] == messages and line["wrong_chunks"] == 0, f"{label}: {line}")
        check(line["checked"] and line["seconds"] > 0, f"{label}: {line}")
    lost = sum(line["missing_chunks"] for line in said[0])
    check((lost > 0) == missing, f"{label}: {lost} chunks missing")


def main():
    # Loopback overruns nothing here: the receiver's window holds the sender.
    expect("one", [1, 4097, 1 << 20], 50, "-n", "50")
    expect("many", [100, 70001], 4 * 60, "-n", "60", "-q", "4", "-w", "8", "-c", "4", "-k", "12", "-m", "10")
    # As the published benchmark has it, with fewer messages: far more in flight than the receiver can buffer, nothing lost.
    expect("published", [1 << 20], 200, "-n", "200", "-w", "96", "--poll", "call")
    expect("large", [8 << 20], 24, "-n", "24", "-w", "16", "--poll", "spin")
    # Three messages in flight, and a chunk larger or smaller than the 64 packets and the one that were the limits.
    expect("odd", [320 << 10], 20, "-n", "20", "-w", "3", "-k", "19")
    expect("small chunks", [100000], 20, "-n", "20", "-w", "3", "-k", "10")
    expect("many in flight", [1000], 3000, "-n", "3000", "-w", "1500")
    expect("ipv6", [65536], 20, "-n", "20", host="::1", fabric="roce:::1@0")
    # Each lost packet costs its chunk and nothing else; a receive that stands still is completed with holes.
    expect("lossy", [1 << 16], 20, "-n", "20", "-k", "14", "-t", "100", missing=True,
           environment={"SDR_DROP": "0.03", "SDR_SEED": "1"})
    # Of the first receive, too, no chunk may arrive whole.
    expect("nothing whole", [1 << 16], 3, "-n", "3", "-t", "100", missing=True,
           environment={"SDR_DROP": "0.6", "SDR_SEED": "1"})
    # A receiver that gives its last receives up before the sender has heard of them stays until the sender knows.
    expect("impatient", [1 << 16], 30, "-n", "30", "-w", "4", "-t", "1", missing=True,
           environment={"SDR_DROP": "0.5", "SDR_SEED": "2"})
    statuses, said, errors = play("-n", "1", fabric="roce:nowhere")
    check(statuses == [1, 1] and said == [[], []] and "SDR_FABRIC" in errors, f"bad fabric: {statuses} {errors}")
    finish()


main()
