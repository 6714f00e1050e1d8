#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed over godwit: every operation, and DDP through a network that loses packets, beside Gloo."""
import json
import os
import re
import time

from harness import Command, Directory, check, finish, skip
from labs import probe
from pythons import Ranks, environment, interpreter_with

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = os.path.join(HERE, "torch_ranks.py")
RULES = os.path.join(HERE, "torch_rules_ranks.py")
LOSSY = ("--rtt", "5ms", "--rate", "1G", "--loss", "1e-2")


def in_lab(python, hosts, *arguments, network=LOSSY, script=RANKS):
    """What each host printed last, as JSON; None if it failed."""
    command = Command("lab", "--hosts", hosts, *network, "--no-summary", "--kill-on-failure", "--", python, script, *arguments,
                      env=environment()).wait(120)
    told = {int(rank): json.loads(text) for rank, text in re.findall(r"^\[(\d+)\] ([\[{].*)$", command.stdout, re.M)}
    good = command.status == 0 and sorted(told) == list(range(hosts))
    return [told[rank] for rank in range(hosts)] if check(good, f"{command}") else None


def test_operations(python):
    with Directory() as directory:
        for count, arguments in ((1, ()), (2, (os.path.join(directory, "store"),)), (3, ())):
            ranks = Ranks(count, python, RANKS, "operations", *arguments).wait()
            check(ranks.good() and all(text.startswith("operations") for text in ranks.stdout), f"{count} ranks: {ranks}")


def test_roles(python):
    for count, roles in ((3, ("in_group", "kinds", "modes", "callbacks")), (2, ("timeouts",))):
        ranks = Ranks(count, python, RULES, *roles).wait()
        check(ranks.good() and all(text.split()[-1] == roles[-1] for text in ranks.stdout), f"{roles}: {ranks}")


def test_groups(python):
    ranks = Ranks(2, python, RULES, "groups").wait()
    began = [float(text.split()[1]) for text in ranks.stdout if text.startswith("groups")]
    # A close that waits in vain takes 10 s.
    check(ranks.good() and len(began) == 2 and time.time() - began[0] < 8, f"{ranks}")


def test_end(python):
    for _ in range(3):
        ranks = Ranks(2, python, RULES, "unfinished").wait()
        check(ranks.good() and ranks.stdout == ["callback\n" * 4] * 2, f"{ranks}")


def test_others(python):
    ranks = Ranks(2, python, RANKS, "others").wait()
    check(ranks.good() and ranks.stdout == ["others\n"] * 2, f"{ranks}")


def test_death(python):
    for how in ("ddp", "plain"):
        ranks = Ranks(3, python, RANKS, "death", how).wait()
        check(ranks.statuses == [0, -9, 0] and all(ranks.stdout[rank].startswith("told:") for rank in (0, 2)), f"{how}: {ranks}")


def test_loopback(python):
    check(in_lab(python, 2, "loopback", script=RULES) == [[2.0], [2.0]], "two hosts, of which one has a name for its loopback")


def test_losses(python):
    """Two contributions have one sum, so the losses of two ranks are Gloo's, bit by bit. On four ranks Gloo adds in an order
    of its own, which differs from place to place; there the fixed order gives the same bits in every run."""
    gloo, ours = in_lab(python, 2, "losses", "gloo", 15), in_lab(python, 2, "losses", "godwit", 15)
    check(gloo and gloo == ours, f"losses of two ranks:\n{gloo}\n{ours}")
    gloo, ours = in_lab(python, 4, "losses", "gloo", 15), in_lab(python, 4, "losses", "godwit", 15, "fixed")
    again = in_lab(python, 4, "losses", "godwit", 15, "fixed")
    check(ours and ours == again, f"losses in fixed order of two runs:\n{ours}\n{again}")
    for theirs, mine in zip(gloo or [], ours or []):
        pairs = [(float.fromhex(a), float.fromhex(b)) for a, b in zip(theirs[0], mine[0])]
        check(all(abs(a - b) <= 1e-4 * abs(a) for a, b in pairs), f"losses of four ranks: {pairs}")
    sums = in_lab(python, 4, "orders", "godwit", 100003, "fixed")
    check(sums and all(in_order for in_order, _ in sums), f"sums in fixed order: {sums}")


def test_sharded(python):
    """The calls of sharded training, several in flight, through a network that loses packets: the losses of replicas, bit by bit."""
    for hosts in (2, 4):
        check(in_lab(python, hosts, "sharded", 12) is not None, f"sharded training on {hosts} hosts")


def test_hooks(python):
    """Training with what arrives through a network that loses packets in bursts reaches the loss of training with everything, and
    the replicas stay equal to the bit."""
    network = ("--rtt", "2ms", "--rate", "1G", "--loss", "2e-2", "--burst", "4:20ms")
    exact = in_lab(python, 4, "hooks", "exact", 60, network=network)
    for recovery in ("hadamard", "hadamard-device", "count", "coded"):
        ours = in_lab(python, 4, "hooks", recovery, 60, network=network)
        if not exact or not ours:
            continue
        check(len({one["digest"] for one in ours}) == 1, f"{recovery}: replicas differ: {ours}")
        check(all(one["steps"] == 60 for one in ours), f"{recovery}: {ours}")
        if recovery != "coded":
            check(all(0.001 < one["missing"] < 0.2 for one in ours), f"{recovery}: what is missing: {ours}")
        mean, wanted = (sum(one["loss"] for one in ranks) / 4 for ranks in (ours, exact))
        check(abs(mean / wanted - 1) < 0.05, f"{recovery}: a loss of {mean}, exact {wanted}")
        print(f"{recovery}: {100 * ours[0]['missing']:.1f} % of the bytes missing, a loss of {mean:.4f}, exact {wanted:.4f}")


def test_transform(python):
    ranks = Ranks(3, python, RANKS, "transform").wait()
    check(ranks.good() and ranks.stdout == ["transform\n"] * 3, f"{ranks}")


def main():
    python = interpreter_with("torch.distributed")
    if not python:
        skip("torch", "no Python here can import torch (Debian: python3-torch)")
    test_operations(python)
    test_roles(python)
    test_groups(python)
    test_end(python)
    test_others(python)
    test_transform(python)
    test_death(python)
    probe()
    test_loopback(python)
    test_losses(python)
    test_sharded(python)
    test_hooks(python)
    finish()


main()
