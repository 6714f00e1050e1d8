# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/bounded.md, from docs/results/bounded-collective.json."""
from figures.performance import table

METHODS = ["ring", "server", "transpose", "transpose-zero", "transpose-count", "hadamard", "hadamard-stride"]
SAID = ["ring", "parameter server", "transpose", "transpose, zeros, exact results", "the same, counted", "Hadamard", "Hadamard, strided"]


def rows_of(kept, field, style):
    rows = [["loss", *SAID]]
    for one in kept["result"]["error"]["rows"]:
        bursts = "" if one["burst"] == 1 else ", in bursts"
        rows.append([f"{100 * one['loss']:g} %{bursts}", *(style % one[name][field] for name in METHODS)])
    return table(rows)


def error(kept):
    return rows_of(kept, "mse", "%.2g")


def largest(kept):
    return rows_of(kept, "largest", "%.2g")


def unbiased(kept):
    rows = [["recovery", "operations", "arrived", "mean error, in standard errors, worst of 16"]]
    for one in kept["result"]["unbiased"]:
        rows.append([one["recovery"], f"{one['operations']:,}", f"{100 * one['arrived']:.2f} %", f"{one['bias_in_errors']:.1f}"])
    return table(rows)


def tail(kept):
    rows = [["ranks, size", "straggler", "", "mean, ms", "median, ms", "99th percentile, ms", "exact / it", "arrived", "mean-squared error",
             "operations without the straggler"]]
    exact = {}
    for one in kept["result"]["tail"]:
        key, times = (one["ranks"], one["late"]), one["times_ms"]
        if one["recovery"] == "exact":
            exact[key] = times["p99"]
        bounded = one["recovery"] != "exact"
        rows.append([f"{one['ranks']}, {one['bytes'] >> 20} MiB", "yes" if one["late"] else "no", one["recovery"], f"{times['mean']:.1f}",
                     f"{times['p50']:.1f}", f"{times['p99']:.1f}", f"{exact[key] / times['p99']:.2f}" if bounded else "-",
                     f"{100 * one['arrived']:.2f} %" if bounded else "", f"{one['mse']:.2g}" if bounded else "",
                     f"{100 * one['late_operations'] / one['operations']:.0f} %" if bounded else ""])
    return table(rows)


def lab(kept):
    result = kept["result"]
    network = result["network"]
    there = {one["contender"]: one for one in result["points"]}
    rows = [["", "mean, ms", "median, ms", "99th percentile, ms", "it / `count`", "arrived", "mean-squared error", "operations without the straggler"]]
    for name, known in result["contenders"].items():
        one = there.get(name)
        if not one:
            rows.append([known["what"], known["missing"] or "failed", *["-"] * 6])
            continue
        ratio = f"{one['p99_ms'] / there['count']['p99_ms']:.2f}" if "count" in there else "-"
        bounded = "mse" in one
        rows.append([known["what"] + (" (void: the lab was late)" if one["was_late"] else ""), f"{one['mean_ms']:.1f}", f"{one['p50_ms']:.1f}",
                     f"{one['p99_ms']:.1f}", ratio, f"{100 * one['arrived']:.2f} %" if bounded else "", f"{one['mse']:.2g}" if bounded else "",
                     f"{100 * one['late']:.0f} %" if bounded else ""])
    said = (f"{network['hosts']} hosts, {network['rtt_ms']:g} ms, {network['mbps']} Mbit/s, {100 * network['loss']:g} % of the packets lost in bursts "
            f"({network['burst']}), {result['bytes'] >> 10} KiB, {result['compute_ms']:g} ms of computing; the last rank computes longer in "
            f"{100 * result['chance']:g} % of the iterations, by {result['late_ms']:g} ms on the mean, exponentially distributed. "
            f"{result['points'][0]['operations'] if result['points'] else 0} times of each.")
    origin = (f"*Lab*: {kept['processor']}, {result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}. `{kept['command']}`")
    return "\n\n".join([said, table(rows), origin])


def show(result):
    kept = {"result": result}
    return "\n\n".join(made(kept) for name, made in TABLES.items() if name.startswith("bounded-collective."))


TABLES = {"bounded-collective.error": error, "bounded-collective.largest": largest, "bounded-collective.unbiased": unbiased,
          "bounded-collective.tail": tail, "bounded-lab": lab}
