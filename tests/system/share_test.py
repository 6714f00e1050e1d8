#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Several transfers at once share UDP port 4791 of one host; the death of one leaves the others alone."""
import os
import signal
import time

from harness import (Directory, check, finish, free_port, kill, listening, same, seed_from_environment, start_recv,
                     start_send, wait_until, write_random, write_sparse)

PAIRS = 4
MIB = 1 << 20
VICTIM_SIZE = 256 * MIB
VICTIM_RATE = ("--rate", "50M")  # 43 s: long enough to be caught in the middle


class Pair:
    def __init__(self, directory, number, size, rng, *options, send_options=()):
        self.source = os.path.join(directory, f"source-{number}")
        self.target = os.path.join(directory, f"target-{number}")
        if size is None:
            write_sparse(self.source, VICTIM_SIZE)
        else:
            write_random(self.source, size, rng)
        self.port = free_port()
        host = rng.choice(["127.0.0.1", "::1"])
        self.receiver = start_recv(self.target, self.port, "--timeout", 5, *options)
        self.sender = start_send(self.source, host, self.port, "--timeout", 5, *options, *send_options)

    def check_equal(self, what):
        self.sender.wait(60)
        self.receiver.wait(30)
        check(self.sender.status == 0, f"{what}: {self.sender}")
        check(self.receiver.status == 0, f"{what}: {self.receiver}")
        check(same(self.source, self.target), f"{what}: {self.target} differs")


def all_at_once(directory, rng):
    pairs = [Pair(directory, i, rng.randrange(4 * MIB, 12 * MIB), rng, "--drop", "1%") for i in range(PAIRS)]
    for pair in pairs:
        pair.check_equal("together")


def one_dies(directory, rng, victim_end):
    victim = Pair(directory, f"victim-{victim_end}", None, rng, "--drop", "20%", send_options=VICTIM_RATE)
    others = [Pair(directory, f"{victim_end}-{i}", rng.randrange(4 * MIB, 16 * MIB), rng) for i in range(PAIRS - 1)]
    # A receiver that nobody has called yet would wait for ever.
    wait_until(lambda: not listening(victim.port), 30)
    time.sleep(0.1)
    doomed, left = ((victim.sender, victim.receiver) if victim_end == "sender" else (victim.receiver, victim.sender))
    caught = doomed.alive()
    if caught:
        doomed.signal(signal.SIGKILL)
    for pair in others:
        pair.check_equal(f"beside a killed {victim_end}")
    doomed.wait(10)
    left.wait(15)
    check(caught, f"the {victim_end} ended before it could be killed: {doomed}")
    check(left.status == 1, f"the other end of a killed {victim_end}: {left}")
    check(not os.path.exists(victim.target), f"{victim.target} was written")
    kill(victim.sender)
    kill(victim.receiver)


def main():
    rng = seed_from_environment()
    with Directory() as directory:
        all_at_once(directory, rng)
        one_dies(directory, rng, "sender")
        one_dies(directory, rng, "receiver")
    finish()


main()
