#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on two hosts, one of which vanishes from the network: all ranks name it in time, whether letters are under way or not. A
rank that is only stopped is not named."""
import os
import shutil
import signal
import subprocess
import time

import namespace
from harness import GODWIT, check, finish, free_port, skip

MEET = os.environ.get("MEET") or os.path.join(os.path.dirname(GODWIT), "tests/unit/collective/meet")
TIMEOUT = 3
# The kernel asks once a second, and the machine may be busy.
GRACE = 4


def start(rank, size, port, root, mode, prefix=()):
    environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR=root, MASTER_PORT=str(port))
    return subprocess.Popen([*prefix, MEET, mode, "--timeout", str(TIMEOUT)], env=environment, stdout=subprocess.PIPE, text=True)


def vanish(mode):
    host = namespace.Host(["near"])
    port = free_port()
    ranks = [start(0, 4, port, "127.0.0.1", mode), start(1, 4, port, "127.0.0.1", mode),
             start(2, 4, port, "10.78.0.1", mode, host.enter), start(3, 4, port, "10.78.0.1", mode, host.enter)]
    for rank, process in enumerate(ranks):
        # Ranks that came over the loopback interface have the address that other hosts know.
        line = process.stdout.readline().strip()
        check(f" at {'10.78.0.1' if rank < 2 else '10.78.0.2'}, heard of " in line, f"{mode}, rank {rank}: {line}")
    # Longer than the timeout, and then the ranks are still all there.
    ranks[2].send_signal(signal.SIGSTOP)
    time.sleep(TIMEOUT + 2)
    ranks[2].send_signal(signal.SIGCONT)
    time.sleep(1)
    check(all(process.poll() is None for process in ranks), f"{mode}: a stopped rank was taken for dead")
    namespace.ip("link set near down")
    cut = time.monotonic()
    for rank, process in enumerate(ranks):
        try:
            output = process.communicate(timeout=30)[0].strip()
        except subprocess.TimeoutExpired:
            process.kill()
            output = process.communicate()[0] + "(still running)"
        took = time.monotonic() - cut
        # Rank 0 may lose the two in any order, and ends with the first.
        lost = (2, 3) if rank < 2 else (0,)
        lines = output.splitlines()
        check(lines and any(line.startswith(f"lost {r}: the host of rank {r} (process {ranks[r].pid} on 10.78.0.") and
                            line.endswith(f") was silent for {TIMEOUT} s") for r in lost for line in lines),
              f"{mode}, rank {rank}: {output}")
        check(TIMEOUT - 1 < took < TIMEOUT + GRACE, f"{mode}, rank {rank}: {took:.1f} s after the cable was cut")
    namespace.ip("link del near")
    host.close()


for tool in ("ip", "nsenter", "unshare"):
    if not shutil.which(tool):
        skip("namespaces", f"no {tool}")
namespace.enter(lambda reason: skip("namespaces", reason))
vanish("--stay")
vanish("--chat")
finish()
