# SPDX-License-Identifier: BSD-3-Clause
"""Turns the kept result of multicastsim into the tables of docs/collectives.md."""
from .performance import table


def broadcast(kept):
    rows = [["receivers", "multicast, us", "without, us", "bytes that the root sends, of the data", "without"]]
    for one in kept["result"]["broadcast_receivers"]:
        rows.append([str(one["receivers"]), f"{one['us']:.0f}", f"{one['us_without_multicast']:.0f}",
                     f"{one['root_bytes'] / one['bytes']:.2f}", f"{one['root_bytes_without'] / one['bytes']:.2f}"])
    return table(rows)


def traffic(kept):
    rows = [["ranks", "ring to multicast on all links", "2 - 2/n", "what a host sends, ring to multicast"]]
    for one in kept["result"]["allgather_traffic"]:
        rows.append([str(one["ranks"]), f"{one['ring_to_multicast_links']:.2f}", f"{one['ideal']:.2f}",
                     f"{one['ring_to_multicast_host']:.1f}"])
    return table(rows)


def fat_tree(kept):
    rows = [["ranks", "ring to multicast", "doubling to multicast"]]
    for one in kept["result"]["fat_tree_radix_32"]:
        rows.append([str(one["ranks"]), f"{one['ring_to_multicast']:.2f}", f"{one['doubling_to_multicast']:.2f}"])
    one = kept["result"]["fat_tree_simulated"]
    rows.append([f"{one['ranks']} at {one['leaves']} leaves, *simulated*", f"{one['ring_to_multicast']:.2f}",
                 f"{one['doubling_to_multicast']:.2f}"])
    return table(rows)


TABLES = {"multicast.broadcast": broadcast, "multicast.traffic": traffic, "multicast.fat_tree": fat_tree}
