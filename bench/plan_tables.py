# SPDX-License-Identifier: BSD-3-Clause
"""Turns docs/results/plan.json into the tables of docs/plan.md."""
from figures import table


def paper(kept):
    names = ["sr-rto", "sr-nack", "mds(32,8)", "xor(32,8)"]
    rows = [["p", *names]]
    for loss, row in kept["result"]["slowdowns"]["paper"].items():
        rows.append([loss, *(f"{row[name]['mean']:.2f} / {row[name]['p99.9']:.2f}" for name in names)])
    return table(rows)


def packets(kept):
    one, sixteen = (kept["result"]["slowdowns"][cores] for cores in ("one_core", "sixteen_cores"))
    rows = [["p", "sr-nack", "mds(32,8), 1 core", "16 cores", "xor(32,8)", "choice, 1 core", "16 cores"]]
    for loss, row in one.items():
        cells = (row["sr-nack"], row["mds(32,8)"], sixteen[loss]["mds(32,8)"], row["xor(32,8)"])
        rows.append([loss, *(f"{cell['mean']:.2f} / {cell['p99.9']:.2f}" for cell in cells), row["choice"]["name"],
                     sixteen[loss]["choice"]["name"]])
    worst = 100 * kept["result"]["worst_difference_of_means"]
    return f"{table(rows)}\n\nOver all of this file the means of closed forms and samples differ by {worst:.1f} % at most."


TABLES = {"plan.paper": paper, "plan.packets": packets}
