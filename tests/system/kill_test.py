#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One end is killed at a random moment: the other ends soon, says whom it lost, and leaves nothing half-written."""
import os
import signal
import threading
import time

from harness import (Directory, check, finish, free_port, listening, same, seed_from_environment, start_recv,
                     start_send, wait_until, write_sparse)

ROUNDS = int(os.environ.get("GODWIT_KILLS") or 12)
WORKERS = 4
TIMEOUT = 2
GRACE = 4  # less than the default timeout of 10 s, which would be wrong
SIZE = 256 << 20  # more than arrives before the blow
MIDDLE = [0]
LOCK = threading.Lock()


def kill_one(directory, number, source, victim_end, early, delay, host):
    """Kills an end some time after both were started, or after they met."""
    target = os.path.join(directory, f"target-{number}")
    port = free_port()
    receiver = start_recv(target, port, "--timeout", TIMEOUT, "--drop", "20%")
    sender = start_send(source, host, port, "--timeout", TIMEOUT, "--drop", "20%")
    victim, left = (sender, receiver) if victim_end == "sender" else (receiver, sender)
    if not early:
        wait_until(lambda: not listening(port), 30)
    time.sleep(delay)
    was_alive = victim.alive() and left.alive()
    victim.signal(signal.SIGKILL)
    killed = time.monotonic()
    victim.wait(10)
    # A receiver that nobody has called yet waits for ever, as it should.
    never_met = victim_end == "sender" and not left.stderr and waits_for_call(left, port)
    if never_met:
        left.signal(signal.SIGTERM)
    left.wait(TIMEOUT + GRACE + 5)
    took = time.monotonic() - killed
    label = f"round {number}: {victim_end} killed after {delay:.3f} s"
    if never_met:
        # Perhaps the call came, and was cut short, just before the signal.
        check(left.status in (1, 143), f"{label}: {left}")
    elif left.status == 0:
        # Everything had arrived before the blow.
        check(same(source, target), f"{label}: ended well, but the file differs: {left}")
    else:
        check(left.status == 1, f"{label}: {left}")
        check(took <= TIMEOUT + GRACE, f"{label}: took {took:.2f} s: {left}")
        check(len(left.stderr.splitlines()) == 1 and host in left.stderr, f"{label}: no line naming {host}: {left}")
        # A killed receiver may have written everything and not said so.
        check(not os.path.exists(target) or (victim_end == "receiver" and same(source, target)),
              f"{label}: {target} exists: {left}")
        with LOCK:
            MIDDLE[0] += was_alive and "silent" in left.stderr
    if os.path.exists(target):
        os.unlink(target)


def waits_for_call(receiver, port):
    time.sleep(0.05)
    return receiver.alive() and listening(port)


def main():
    rng = seed_from_environment()
    with Directory() as directory:
        source = os.path.join(directory, "source")
        write_sparse(source, SIZE)
        rounds = []
        for i in range(ROUNDS):
            # Early moments, when the ends have just met, deserve more than their share of the time.
            early = i % 4 == 0
            delay = rng.uniform(0, 0.05) if early else rng.uniform(0.02, 0.5)
            rounds.append((i, source, ("sender", "receiver")[i % 2], early, delay, rng.choice(["127.0.0.1", "::1"])))

        def work():
            while True:
                with LOCK:
                    if not rounds:
                        return
                    arguments = rounds.pop()
                kill_one(directory, *arguments)

        workers = [threading.Thread(target=work) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        check(os.listdir(directory) == ["source"], f"left behind: {os.listdir(directory)}")
    check(MIDDLE[0] >= ROUNDS // 4, f"only {MIDDLE[0]} of {ROUNDS} were hit in the middle")
    print(f"{ROUNDS} kills, {MIDDLE[0]} in the middle of a transfer")
    finish()


main()
