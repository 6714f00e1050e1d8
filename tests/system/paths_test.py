#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Files and measurements in the lab: paths that fail, an outage, heavy loss. What arrives is exact; what does not, both
ends tell the truth about."""
import json
import os
import random
import sys

from harness import GODWIT, Command, Directory, check, finish, same, write_random
from labs import probe

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lab_ranks.py")
MIB = 1 << 20


def lab(options, role, *arguments, timeout=100):
    """One lab of two hosts. Returns (command, the JSON object that each host printed, or None)."""
    command = Command("lab", *options, "--", sys.executable, RANKS, role, *arguments).wait(timeout)
    told = [None, None]
    for line in command.stdout.splitlines():
        if line.startswith(("[0] {", "[1] {")):
            told[int(line[1])] = json.loads(line[4:])
    return command, told


def send(options, size, *send_options):
    """A file from host 0 to host 1. Returns (whether it arrived, command, the sender's JSON, the receiver's)."""
    with Directory() as directory:
        source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
        write_random(source, size, random.Random(1))
        command, (sender, receiver) = lab(options, "send", directory, os.path.abspath(GODWIT), *send_options)
        arrived = same(source, target)
        check(arrived or not os.path.exists(target), f"{options}: a file that differs: {command}")
    check(sender and receiver, f"{options}: JSON of both ends: {command}")
    return arrived, command, sender or {}, receiver or {}


def dead_paths():
    """Lanes are agreed: the receiver has as many as the sender, and what it reports finds a path that lives. Over path 0 the
    rendezvous would go: it is tried again from other ports until the way there and the way back live."""
    for path in range(4):
        arrived, command, sender, receiver = send(["--rtt", "10ms", "--rate", "100M", "--paths", 4, "--at", f"0s:path{path}:down"],
                                                  6 * MIB, "--lanes", 4)
        check(arrived and sender.get("ok") and receiver.get("ok"), f"path {path} dead from the start: {command}")
        check(sender.get("lanes") == receiver.get("lanes") == 4, f"lanes: {sender.get('lanes')}, {receiver.get('lanes')}")
    for path in range(4):
        # So late that both ends have met on a busy machine, too, and so much that data is still under way.
        arrived, command, sender, receiver = send(["--rtt", "10ms", "--rate", "30M", "--paths", 4, "--at", f"2s:path{path}:down"],
                                                  10 * MIB, "--lanes", 4)
        check(arrived and sender.get("ok") and receiver.get("ok"), f"path {path} dies: {command}")


def outage():
    """The link is down for longer than both ends wait: each says how much is there, and neither says more than is true."""
    size = 10 * MIB
    arrived, command, sender, receiver = send(["--rtt", "10ms", "--rate", "20M", "--at", "2s:1:down", "--at", "9s:1:up"], size,
                                              "--timeout", 4, "--block", "16M")
    check(not arrived and sender.get("ok") is False and receiver.get("ok") is False, f"4 s of patience, 7 s without: {command}")
    confirmed, there = sender.get("bytes", -1), receiver.get("bytes", -1)
    check(0 <= confirmed <= there < size, f"{confirmed} bytes confirmed, {there} received: {command}")
    # 20 Mbit/s for more than a second; single packets of a message that is not whole count, too.
    check(there >= MIB, f"only {there} bytes are said to have arrived: {command}")
    check(there % 65536, f"{there} bytes: whole parts only, though packets of another have landed: {command}")
    check("silent for 4 s; it had confirmed" in sender.get("error", ""), f"{sender.get('error')}")
    check("had arrived" in receiver.get("error", "") and "was not written" in receiver["error"], f"{receiver.get('error')}")
    # A shorter one is waited out.
    arrived, command, sender, receiver = send(["--rtt", "10ms", "--rate", "20M", "--at", "1500ms:1:down", "--at", "3s:1:up"], 4 * MIB)
    check(arrived and sender.get("ok") and receiver.get("ok"), f"1.5 s without: {command}")


def heavy_loss():
    """At 30 % the ends meet, and a measurement runs to its end. So does a small file."""
    for seed in (1, 2):
        command, (client, server) = lab(["--rtt", "10ms", "--rate", "300M", "--loss", "30%", "--seed", seed], "perf",
                                        os.path.abspath(GODWIT), "--size", "64K", "--count", 10, "--depth", 4, "--verify")
        check(client and client.get("ok") and server and server.get("ok"), f"perf at 30 %: {command}")
        arrived, command, *_ = send(["--rtt", "10ms", "--rate", "300M", "--loss", "30%", "--seed", seed], 300000)
        check(arrived, f"a file at 30 %: {command}")


def main():
    probe()
    dead_paths()
    outage()
    heavy_loss()
    finish()


main()
