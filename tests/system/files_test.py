#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random files over bad paths arrive unchanged. GODWIT_FILES says how many (100)."""
import os
import random
import threading

from harness import (Directory, check, finish, same, seed_from_environment, transfer, write_random)

WORKERS = 2
MIB = 1 << 20


def draw_size(rng):
    kind = rng.random()
    if kind < 0.05:
        return 0
    if kind < 0.10:
        return 1
    if kind < 0.20:
        return rng.choice([4095, 4096, 4097, MIB - 1, MIB, MIB + 1, 2 * MIB])
    if kind < 0.24:
        return rng.randrange(19 * MIB, 21 * MIB)
    if kind < 0.60:
        return rng.randrange(64 * 1024)
    return rng.randrange(4 * MIB)


def draw_faults(rng):
    """Half of the files meet a good path or a slightly bad one, the rest up to 20 % loss."""
    drop = rng.choice([0, 0.001, 0.01, 0.05]) if rng.random() < 0.5 else rng.uniform(0, 0.2)
    return ["--drop", f"{drop:.4f}", "--dup", f"{rng.uniform(0, 0.05):.4f}", "--reorder", f"{rng.uniform(0, 0.1):.4f}",
            "--seed", rng.randrange(1 << 32)]


class Case:
    def __init__(self, number, rng):
        self.number = number
        self.size = draw_size(rng)
        self.host = rng.choice(["127.0.0.1", "::1"])
        self.recv_options = ["--json", *draw_faults(rng)]
        self.send_options = ["--json", *draw_faults(rng)]
        if rng.random() < 0.3:
            self.send_options += ["--block", rng.choice(["4K", "64K", "100000", "256K", "4M"])]
        self.scheme = rng.choice(["sr", "sr", "ec", "auto"])
        self.lanes = rng.choice([1, 1, 2, 8])
        self.send_options += ["--scheme", self.scheme, "--lanes", self.lanes]
        self.data_seed = rng.randrange(1 << 32)

    def run(self, directory):
        source = os.path.join(directory, f"source-{self.number}")
        target = os.path.join(directory, f"target-{self.number}")
        write_random(source, self.size, random.Random(self.data_seed))
        sender, receiver = transfer(source, target, self.host, self.recv_options, self.send_options, timeout=60)
        label = f"file {self.number} of {self.size} bytes"
        check(sender.status == 0, f"{label}: {sender}")
        check(receiver.status == 0, f"{label}: {receiver}")
        check(same(source, target), f"{label}: differs ({sender}) ({receiver})")
        if sender.json() and receiver.json():
            check(sender.json().get("crc32") == receiver.json().get("crc32"), f"{label}: checksums differ")
            for end in (sender, receiver):
                told = end.json().get("scheme"), end.json().get("lanes")
                check(told == (self.scheme, self.lanes), f"{label}: {told} at one end, {self.scheme}, {self.lanes} asked for")
        for path in (source, target):
            if os.path.exists(path):
                os.unlink(path)


def main():
    rng = seed_from_environment()
    count = int(os.environ.get("GODWIT_FILES") or 100)
    cases = [Case(i, rng) for i in range(count)]
    total = sum(case.size for case in cases)
    lock = threading.Lock()
    with Directory() as directory:
        def work():
            while True:
                with lock:
                    if not cases:
                        return
                    case = cases.pop()
                case.run(directory)

        workers = [threading.Thread(target=work) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        check(not os.listdir(directory), f"left behind: {os.listdir(directory)}")
    print(f"{count} files, {total / MIB:.1f} MiB")
    finish()


main()
