# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/bounded.md, from docs/results/bounded-collective.json."""
import os
import subprocess

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


def size_of(count):
    return f"{count >> 20} MiB" if count >> 20 else f"{count >> 10} KiB"


def tail(kept):
    rows = [["ranks, size", "straggler", "", "mean, ms", "median, ms", "99th percentile, ms", "exact / it", "arrived", "mean-squared error",
             "operations without the straggler"]]
    exact = {}
    for one in kept["result"]["tail"]:
        key, times = (one["ranks"], one["late"]), one["times_ms"]
        if one["recovery"] == "exact":
            exact[key] = times["p99"]
        bounded = one["recovery"] != "exact"
        rows.append([f"{one['ranks']}, {size_of(one['bytes'])}", "yes" if one["late"] else "no", one["recovery"], f"{times['mean']:.1f}",
                     f"{times['p50']:.1f}", f"{times['p99']:.1f}", f"{exact[key] / times['p99']:.2f}" if bounded else "-",
                     f"{100 * one['arrived']:.2f} %" if bounded else "", f"{one['mse']:.2g}" if bounded else "",
                     f"{100 * one['late_operations'] / one['operations']:.0f} %" if bounded else ""])
    return table(rows)


def plain(kept):
    """Bounded beside exact ones, without loss and without a straggler."""
    rows = [["round-trip time, ms", "Mbit/s", "MiB", "exact, mean, ms", "bounded, mean, ms", "bounded / exact", "until the plan, ms", "stage 1, ms"]]
    found = kept["result"].get("plain", [])
    for exact, bounded in zip(found[::2], found[1::2]):
        times = exact["times_ms"]["mean"], bounded["times_ms"]["mean"]
        rows.append([f"{exact['rtt_ms']:g}", f"{exact['rate_mbps']:g}", f"{exact['bytes'] >> 20}", f"{times[0]:.1f}", f"{times[1]:.1f}",
                     f"{times[1] / times[0]:.2f}", f"{bounded['waited_ms']:.1f}", f"{bounded['gathered_ms']:.1f}"])
    return table(rows) if found else "No results are kept yet: `bench/run --keep bounded-collective` writes them."


def stall(kept):
    rows = [["a second in one step of ten", "", "a step of rank 0, ms", "exact / it", "operations, median, ms", "99th percentile, ms", "arrived",
             "operations without the straggler"]]
    exact = {one["late"]: one["step_ms"] for one in kept["result"]["stall"] if one["recovery"] == "exact"}
    for one in kept["result"]["stall"]:
        bounded = one["recovery"] != "exact"
        rows.append(["yes" if one["late"] else "no", one["recovery"], f"{one['step_ms']:.1f}",
                     f"{exact[one['late']] / one['step_ms']:.2f}" if bounded else "-", f"{one['times_ms']['p50']:.1f}", f"{one['times_ms']['p99']:.1f}",
                     f"{100 * one['arrived']:.2f} %" if bounded else "",
                     f"{100 * one['late_operations'] / one['operations'] / one['buckets']:.0f} %" if bounded else ""])
    return table(rows)


# method, colour, text
ERROR_LINES = [("ring", "#cc6677", "ring"), ("transpose", "#4477aa", "transpose"), ("transpose-zero", "#66ccee", "the same, exact results"),
               ("transpose-count", "#228833", "counted"), ("hadamard-stride", "#aa3377", "Hadamard, strided")]


def error_drawing(result):
    """Mean-squared error over loss, in bursts: for bench/draw."""
    rows = [one for one in result["error"]["rows"] if one["burst"] != 1]
    found = [one[name]["mse"] for one in rows for name, _, _ in ERROR_LINES]
    lines = ["title Mean-squared error of a mean", "subtitle 8 ranks, packets lost in bursts; in variances of what a rank gives",
             f"x {rows[0]['loss']} {rows[-1]['loss']} loss", f"y {min(found) / 1.5} {max(found) * 1.5} error"]
    lines += [f"xtick {one['loss']:g} {100 * one['loss']:g}%" for one in rows]
    lines += [f"ytick {tick:g} {tick:g}" for tick in (1e-4, 1e-3, 1e-2, 1e-1) if min(found) / 1.5 <= tick <= max(found) * 1.5]
    for name, colour, text in ERROR_LINES:
        lines += [f"line {colour} none {text}", *(f"at {one['loss']} {one[name]['mse']}" for one in rows)]
    return "\n".join(lines) + "\n"


def tail_drawing(result):
    """Share of the operations that take longer than a time, with a straggler: for bench/draw."""
    ranks = result["tail"][0]["ranks"]
    runs = [one for one in result["tail"] if one["ranks"] == ranks and one["late"] and one["recovery"] in ("exact", "count")]
    times = [ms for one in runs for _, ms in one["times_ms"]["longer"]]
    least, most = min(times) / 1.2, max(times) * 1.2
    lines = ["title Operations that take longer than a time", f"subtitle {ranks} ranks, {runs[0]['bytes'] >> 20} MiB, a straggler, 1 % lost in bursts; simulated",
             f"x {least} {most} ms", "y 0.005 1 share"]
    lines += [f"xtick {tick} {tick}" for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if least <= tick <= most]
    lines += [f"ytick {tick} {100 * tick:g}%" for tick in (0.005, 0.01, 0.1, 1)]
    for one in runs:
        colour, text = ("#cc6677", "exact") if one["recovery"] == "exact" else ("#228833", "bounded")
        lines += [f"line {colour} none {text}", *(f"at {ms} {share}" for share, ms in one["times_ms"]["longer"])]
    return "\n".join(lines) + "\n"


def draw(build, result, folder):
    for name, drawing in (("bounded-error.svg", error_drawing), ("bounded-tail.svg", tail_drawing)):
        done = subprocess.run([os.path.join(build, "bench", "draw")], input=drawing(result), capture_output=True, text=True, check=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(done.stdout)


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


WORKS = {"hadamard_encode_float32": "Hadamard, float32", "hadamard_decode_float32": "its inverse, float32",
         "hadamard_encode_bfloat16": "Hadamard, bfloat16", "hadamard_decode_bfloat16": "its inverse, bfloat16",
         "stride_spread": "striding", "stride_gather": "its inverse", "sum_float32": "sum of two, float32"}


def tensor(kept):
    result = kept["result"]
    rows = [["work", "GB/s, read and written", "of memcpy()"]]
    for one in result["works"]:
        if one["work"] in WORKS:
            rows.append([WORKS[one["work"]], f"{one['bytes_a_second'] / 1e9:.1f}", f"{one['memcpy_ratio']:.2f}"])
    return (f"{table(rows)}\n\n{kept['processor']}, {result['instructions']}, {kept['compiler']}; tensors of "
            f"{result['tensor_bytes'] >> 20} MiB, one thread, median of {result['pairs']} interleaved pairs. `{kept['command']}`")


TABLES = {"tensor": tensor, "bounded-collective.error": error, "bounded-collective.largest": largest, "bounded-collective.unbiased": unbiased,
          "bounded-collective.tail": tail, "bounded-collective.plain": plain, "bounded-collective.stall": stall, "bounded-lab": lab}
