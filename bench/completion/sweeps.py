# SPDX-License-Identifier: BSD-3-Clause
"""How long messages take in simulation, with the production code: many runs of bench/completion, put together.

The path is SDR-RDMA's unless a sweep says otherwise: 400 Gbit/s, a round trip of 25 ms, messages of 128 MiB in chunks of
64 KiB, each lost with the same chance in either direction. A figure is a multiple of the lossless time, with a 95 %
confidence interval: of a mean by its deviation, of a quantile by the binomial distribution of its rank.
"""
import concurrent.futures
import json
import math
import os
import subprocess
import sys

SCHEMES = {"sr-rto": "sr-rto", "sr": "sr-nack", "mds:32:8": "mds(32,8)", "xor:32:8": "xor(32,8)"}
PATH = {"rtt-ns": 25_000_000, "rate-bps": 400_000_000_000, "loss": "1e-3", "size": 128 << 20}
LOSSES = ["1e-6", "1e-5", "1e-4", "1e-3", "1e-2", "3.6e-2", "1e-1"]
LOSS_MESSAGES = 4000
LOSSES_OF_DATA = ["1e-3", "1e-2", "1e-1"]
# size -> messages
SIZES = {128 << 10: 1000, 1 << 20: 1000, 8 << 20: 1000, 32 << 20: 1000, 128 << 20: 1000, 512 << 20: 300, 2 << 30: 100,
         4 << 30: 50}
RTTS = [100_000, 500_000, 2_000_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000, 100_000_000]
RATES = [25, 50, 100, 200, 400, 800, 1600]
SWEEP_MESSAGES = 1000
GRID = {"loss": ["1e-4", "1e-3", "1e-2"], "size": [1 << 20, 16 << 20, 128 << 20], "rtt-ns": [1_000_000, 25_000_000,
                                                                                          100_000_000]}
GRID_MESSAGES = 1000
# Of the model: as a share of the simulated figure.
GOAL = 0.1
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
DEVIATIONS = 1.96
COLOURS = {"sr-rto": "#d62728", "sr": "#1f77b4", "mds:32:8": "#2ca02c", "xor:32:8": "#ff7f0e", "auto": "#000000"}


def quantile(times, share):
    rank, off = share * len(times), DEVIATIONS * math.sqrt(len(times) * share * (1 - share))
    ranks = (math.ceil(rank) - 1, math.floor(rank - off), math.ceil(rank + off))
    return [times[max(0, min(len(times) - 1, each))] for each in ranks]


def mean(times):
    middle = sum(times) / len(times)
    squares = sum((each - middle) ** 2 for each in times)
    off = DEVIATIONS * math.sqrt(squares / max(1, len(times) - 1) / len(times))
    return [middle, middle - off, middle + off]


def point(directory, scheme, messages, path=None, control_arrives=False):
    """What one run came to: figures as [value, low, high] over the lossless time, and the prediction likewise."""
    where = {**PATH, **(path or {})}
    command = [os.path.join(directory, "bench", "completion"), "--scheme", scheme, "--messages", str(messages)]
    for name, value in where.items():
        command += [f"--{name}", str(value)]
    if control_arrives:
        command.append("--control-arrives")
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"run: {' '.join(command)} ended with {done.returncode}")
    said = json.loads(done.stdout)
    ideal, times = said["ideal_ns"], sorted(said["times_ns"])
    figures = {"mean": mean(times), **{name: quantile(times, share) for name, share in QUANTILES.items()}}
    return {
        "scheme": scheme, **where, "messages": messages, "ideal_ns": ideal,
        "simulated": {name: [round(each / ideal, 4) for each in three] for name, three in figures.items()},
        "predicted": {name: round(said["predicted_ns"][name] / ideal, 4) for name in figures},
        "packets_a_message": round(said["sent_packets"] / messages, 1),
        "control_a_message": round(said["control_packets"] / messages, 1), "hash": said["hash"],
    }


def paper(directory):
    """The same path by SDR-RDMA's own model."""
    table = {}
    for loss in LOSSES:
        command = [os.path.join(directory, "godwit"), "plan", "--paper", "--rtt", "25ms", "--rate", "400G", "--size", "128MiB",
                   "--loss", loss, "--json"]
        for scheme in SCHEMES.values():
            command += ["--scheme", scheme.replace("(", ":").replace(",", ":").replace(")", "")]
        said = json.loads(subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout)
        names = {name: scheme for scheme, name in SCHEMES.items()}
        table[loss] = {names[one["name"]]: {name: round(one[name]["s"] / said["ideal_s"], 4) for name in ("mean", "p99.9")}
                       for one in said["schemes"]}
    return table


def off(one, name):
    """How far the prediction is from the simulation, as a share of it; and whether that is too far, which it is not within
    the confidence interval."""
    value, low, high = one["simulated"][name]
    predicted = one["predicted"][name]
    return predicted / value - 1, abs(predicted / value - 1) > GOAL and not low <= predicted <= high


def schemes_of(directory):
    """With `auto` where this build has it."""
    probe = subprocess.run([os.path.join(directory, "bench", "completion"), "--scheme", "auto", "--messages", "1"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return [*SCHEMES, *(["auto"] if probe.returncode == 0 else [])]


def points(directory, schemes, places, control_arrives=False):
    """A point for each place, which is a number of messages and what differs from the usual path, and each scheme."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(point, directory, scheme, messages, path, control_arrives) for messages, path in places
                for scheme in schemes]
        return [run.result() for run in runs]


def run_completion(directory):
    schemes = schemes_of(directory)

    def progress(what):
        print(f"completion (simulated): {what}", file=sys.stderr, flush=True)

    result = {"environment": "simulated", "paper": paper(directory)}
    progress("loss")
    result["loss"] = points(directory, schemes, [(LOSS_MESSAGES, {"loss": loss}) for loss in LOSSES])
    progress("loss of data alone")
    result["data_loss"] = points(directory, schemes, [(SWEEP_MESSAGES, {"loss": loss}) for loss in LOSSES_OF_DATA], True)
    progress("size")
    result["size"] = points(directory, schemes, [(messages, {"size": size}) for size, messages in SIZES.items()])
    progress("round trip")
    result["rtt"] = points(directory, schemes, [(SWEEP_MESSAGES, {"rtt-ns": rtt}) for rtt in RTTS])
    progress("rate")
    result["rate"] = points(directory, schemes, [(SWEEP_MESSAGES, {"rate-bps": rate * 1_000_000_000}) for rate in RATES])
    progress("grid")
    result["grid"] = points(directory, SCHEMES, [(GRID_MESSAGES, {"loss": loss, "size": size, "rtt-ns": rtt})
                                                 for rtt in GRID["rtt-ns"] for size in GRID["size"] for loss in GRID["loss"]])
    return result


# ---- drawings -------------------------------------------------------------------------------------------------------

AXES = {
    "loss": ("loss", "share of chunks lost", [(float(f"1e-{n}"), f"1e-{n}") for n in range(6, 0, -1)]),
    "size": ("size", "size of the message", [(1 << 17, "128 KiB"), (1 << 20, "1 MiB"), (8 << 20, "8 MiB"), (64 << 20, "64 MiB"),
                                             (512 << 20, "512 MiB"), (4 << 30, "4 GiB")]),
    "rtt": ("rtt-ns", "round trip", [(1e5, "0.1 ms"), (1e6, "1 ms"), (1e7, "10 ms"), (1e8, "100 ms")]),
    "rate": ("rate-bps", "rate of the wire", [(rate * 1e9, f"{rate} Gbit/s") for rate in RATES]),
}
TITLES = {"loss": "400 Gbit/s, round trip 25 ms, 128 MiB", "size": "400 Gbit/s, round trip 25 ms, loss 1e-3",
          "rtt": "400 Gbit/s, 128 MiB, loss 1e-3", "rate": "round trip 25 ms, 128 MiB, loss 1e-3"}
YTICKS = [1, 1.2, 1.5, 2, 3, 5, 7, 10, 15, 20]


def drawing(result, sweep, tail):
    """A figure of one sweep: means whole, a tail dashed."""
    field, label, ticks = AXES[sweep]
    points = result[sweep]
    xs = sorted({float(one[field]) for one in points})
    most = max(one["simulated"][tail][0] for one in points)
    lines = [f"title Completion time over lossless, against {'loss' if sweep == 'loss' else label}",
             f"subtitle {TITLES[sweep]}, chunks of 64 KiB; simulated. Whole: mean, dashed: {tail}",
             f"x {xs[0]} {xs[-1]} {label}", f"y 0.97 {most * 1.1} completion time over lossless"]
    lines += [f"xtick {value} {text}" for value, text in ticks if xs[0] <= value <= xs[-1]]
    lines += [f"ytick {value} {value}" for value in YTICKS if value < most * 1.1]
    for scheme in dict.fromkeys(one["scheme"] for one in points):
        for name, dash in (("mean", "none"), (tail, "5,4")):
            lines.append(f"line {COLOURS[scheme]} {dash} {shown(scheme)}, {name}")
            lines += [f"at {one[field]} {one['simulated'][name][0]}" for one in points if one["scheme"] == scheme]
    return "\n".join(lines) + "\n"


def draw(directory, result, folder):
    for sweep in AXES:
        done = subprocess.run([os.path.join(directory, "bench", "draw")], input=drawing(result, sweep, "p99.9" if sweep == "loss" else
                                                                                    "p99"),
                              text=True, stdout=subprocess.PIPE, check=True)
        with open(os.path.join(folder, f"completion-{sweep}.svg"), "w", encoding="utf-8") as file:
            file.write(done.stdout)


# ---- tables ---------------------------------------------------------------------------------------------------------

def shown(scheme):
    return {**SCHEMES, "sr": "our SR"}.get(scheme, scheme)


def size_text(size):
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(ns):
    return f"{ns / 1e6:g} ms"


TEXTS = {"loss": str, "size": size_text, "rtt-ns": time_text, "rate-bps": lambda bps: f"{bps / 1e9:g} Gbit/s"}
