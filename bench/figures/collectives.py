# SPDX-License-Identifier: BSD-3-Clause
"""Turns the kept result of bench/run collectives into the tables of docs/collectives.md."""
from .performance import table

MIB = 1 << 20
PEERS = {"openmpi-cubic": "Open MPI, cubic", "openmpi-bbr": "Open MPI, bbr", "gloo-cubic": "Gloo, cubic", "gloo-bbr": "Gloo, bbr"}

# The contender whose broadcasts from 256 KiB on are multicast.
MULTICAST = "godwit-multicast"


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"


def network_text(network):
    return f"{network['hosts']} hosts, {network['rtt_ms']:g} ms, {network['mbps']} Mbit/s"


def state_of(point):
    """Why a point's times do not count, or None."""
    return "failed" if "failed" in point else "void" if point["void"] else None


def sizes_of(kept, network):
    """(operation, bytes) of a network, from any point that has them."""
    return [(operation, int(size)) for one in kept["result"]["points"] if one["network"] == network and "us" in one
            for operation, sizes in one["us"].items() for size in sizes]


def cells(kept, lossy):
    """(network, operation, size) -> contender -> us, or a word that says why there is none"""
    found = {}
    for one in kept["result"]["points"]:
        network = one["network"]
        if bool(network["loss"]) != lossy:
            continue
        for operation, size in sizes_of(kept, network):
            found.setdefault((network_text(network), operation, size), {})[one["contender"]] = (
                state_of(one) or one["us"][operation][str(size)])
    return {key: found[key] for key in sorted(found)}


def ratio(us, peer, own="godwit"):
    """A peer's time over that of Godwit, with defaults or with broadcasts by multicast, or None where either is lacking."""
    both = us.get(peer), us.get(own)
    return both[0] / both[1] if all(isinstance(each, float) for each in both) else None


def beside_peers(result, operations, peers=PEERS, rtt_ms=None, lossy=False, least_bytes=MIB, hosts=None):
    """The best peer's time over Godwit's, of each cell, on all round trips or on one, and of any number of hosts or of one."""
    found = []
    for (network, operation, size), us in cells({"result": result}, lossy).items():
        there = [ratio(us, peer) for peer in peers if ratio(us, peer)]
        if there and operation in operations and size >= least_bytes and (rtt_ms is None or f", {rtt_ms:g} ms," in network) and (
                hosts is None or network.startswith(f"{hosts} hosts,")):
            found.append(min(there))
    return found


def times(kept, lossy):
    rows = [["network", "operation", "size", "Godwit, ms", "by multicast, ms", *(f"{name}: times the former" for name in PEERS.values())]]
    for (network, operation, size), us in cells(kept, lossy).items():
        own, copied = (f"{time / 1000:.1f}" if isinstance(time, float) else time for time in (us.get("godwit", "-"), us.get(MULTICAST, "-")))
        others = [f"{ratio(us, peer):.2f}" if ratio(us, peer) else us[peer] if isinstance(us.get(peer), str) else "-" for peer in PEERS]
        rows.append([network, operation, size_text(size), own, copied if operation == "broadcast" else "-", *others])
    return table(rows)


def judged(kept, lossy, peers, least_bytes, goal, broadcasts="godwit"):
    """How many cells meet a goal, of how many, and the worst one: the best of some peers, over Godwit."""
    met, all_of_them, worst = 0, 0, None
    for (network, operation, size), us in cells(kept, lossy).items():
        own = broadcasts if operation == "broadcast" else "godwit"
        there = [ratio(us, peer, own) for peer in peers if ratio(us, peer, own)]
        if size < least_bytes or not there:
            continue
        least = min(there)
        met, all_of_them = met + (least >= goal), all_of_them + 1
        if worst is None or least < worst[0]:
            worst = least, f"{least:.2f}: {operation}, {size_text(size)}, {network}"
    return met, all_of_them, worst[1] if worst else "-"


def goals(kept):
    rows = [["goal", "met", "with broadcasts by multicast", "of", "worst: the better peer's time over Godwit's"]]
    for text, lossy, peers, goal in (("no loss, from 1 MiB on: not slower than either over cubic or bbr", False, list(PEERS), 1),
                                     ("loss 1e-3, from 1 MiB on: 3 times as fast as either over cubic", True, ["openmpi-cubic", "gloo-cubic"], 3),
                                     ("loss 1e-3, from 1 MiB on: 1.3 times as fast as either over bbr", True, ["openmpi-bbr", "gloo-bbr"], 1.3)):
        met, count, worst = judged(kept, lossy, peers, MIB, goal)
        copied = judged(kept, lossy, peers, MIB, goal, MULTICAST)[0]
        rows.append([text, str(met), str(copied), str(count), worst])
    return table(rows)


def all_of_it(kept):
    return f"{goals(kept)}\n\nNo loss:\n\n{times(kept, False)}\n\nLoss 1e-3:\n\n{times(kept, True)}"


TABLES = {"collectives": all_of_it, "collectives.goals": goals, "collectives.clean": lambda kept: times(kept, False),
          "collectives.lossy": lambda kept: times(kept, True)}
