# SPDX-License-Identifier: BSD-3-Clause
"""Turns the kept result of bench/run progress into the tables of docs/collectives.md."""
from .performance import table


def threads(kept):
    rows = [["threads at each end", "by", "million packets a second", "Gbit/s", "against one thread", "million packets a second and core of the receiver"]]
    for way, each in kept["result"]["ways"].items():
        for one in each:
            mark = " (`cpu_bound`)" if one["cpu_bound"] else ""
            rows.append([str(one["threads"]), way + mark, f"{one['packets_a_second']['median'] / 1e6:.2f}",
                         f"{one['goodput_gbps']['median']:.1f} ({one['goodput_gbps']['least']:.1f} to {one['goodput_gbps']['most']:.1f})",
                         f"{one['against_one']['median']:.2f}", f"{one['packets_a_core_second']['median'] / 1e6:.2f}"])
    return table(rows)


def links(kept):
    rows = [["link, Gbit/s", "million packets of 4 KiB a second", "cores, *computed*"]]
    for one in kept["result"]["computed"]["links"]:
        rows.append([str(one["link_gbps"]), f"{one['packets_a_second'] / 1e6:.1f}", f"{one['cores']:.0f}"])
    return table(rows)


def both(kept):
    return f"{threads(kept)}\n\n{links(kept)}"


TABLES = {"progress": both, "progress.threads": threads, "progress.links": links}
