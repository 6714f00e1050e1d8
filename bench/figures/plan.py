# SPDX-License-Identifier: BSD-3-Clause
"""Turns docs/results/plan.json and coding.json into the tables of docs/plan.md."""
from figures.performance import table


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


def coding(kept):
    result = kept["result"]
    shown = [1, 2, 4, 8]
    rows = [["packets of", "encode, of ISA-L bare", "folding in, of an encode", "xor, of ISA-L bare",
             *(f"decode {e}" for e in shown), "1, first row lost"]]
    for one in result["payloads"]:
        decodes = (f"{one['decode_ratio'][e - 1]:.2f} ({one['decode_rows_ratio'][e - 1]:.2f})" for e in shown)
        rows.append([f"{one['payload']} bytes", f"{one['encode_ratio']:.2f}", f"{one['fold_ratio']:.2f}", f"{one['xor_ratio']:.2f}",
                     *decodes, f"{one['decode_one_without_first_row_ratio']:.2f}"])
    rows.append(["e / m", "", "", "", *(f"{e / result['m']:.3g}" for e in shown), f"{1 / result['m']:.3g}"])
    return table(rows)


TABLES = {"plan.paper": paper, "plan.packets": packets, "coding": coding}
