# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/congestion.md, from what build/ccsim printed (docs/results/congestion.txt)."""
from figures.performance import table

COLUMNS = ("used", "jain", "queue", "p95", "most", "loss", "no_room", "own", "others")

# What a row of the page says, and the cases that it is made of.
ALONE = [
    ("one flow, no loss", ["alone"]),
    ("loss 1e-4, 1e-3, 1e-2, 5e-2, independent", ["alone-loss-1e-4", "alone-loss-1e-3", "alone-loss-1e-2", "alone-loss-5e-2"]),
    ("loss 1e-4, 1e-3, 1e-2 in bursts of 8", ["alone-bursts-1e-4", "alone-bursts-1e-3", "alone-bursts-1e-2"]),
    ("100 Mbit/s; 10 Gbit/s", ["alone-100M", "alone-10G"]),
    ("5 ms; 100 ms; 500 ms and 100 Mbit/s", ["alone-5ms", "alone-100ms", "alone-500ms"]),
    ("buffer of 0.2; of 0.02 bandwidth-delay products", ["alone-shallow-0.2", "alone-shallow-0.02"]),
    ("two flows, two seconds apart", ["own-2"]),
    ("eight flows, half a second apart", ["own-8"]),
    ("eight flows, marking from 0.1 of the buffer", ["own-8-marks"]),
    ("two flows at 10 Gbit/s", ["own-2-10G"]),
    ("swift, 0.2 ms: 1 Gbit/s; 10 Gbit/s; 10 Gbit/s, loss 1e-3", ["swift", "swift-10G", "swift-10G-loss-1e-3"]),
    ("swift, 0.2 ms, eight flows", ["swift-8"]),
]
BESIDE = [
    ("one CUBIC", "cubic"), ("one CUBIC, there before us", "cubic-first"), ("four CUBIC", "cubic-4"),
    ("one CUBIC, eight of ours", "cubic-8-of-ours"), ("one CUBIC, buffer of four bandwidth-delay products", "cubic-deep"),
    ("one BBR (first version)", "bbr"), ("four BBR", "bbr-4"), ("one BBR, eight of ours", "bbr-8-of-ours"),
]


def cases(text):
    """case -> column -> number"""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 1 + len(COLUMNS) and words[1][0].isdigit():
            found[words[0]] = dict(zip(COLUMNS, map(float, words[1:])))
    return found


def trace(text):
    """(seconds, queue in ms, Mbit/s) of every line of --trace."""
    return [(float(words[0]), float(words[3]), float(words[5])) for words in map(str.split, text.splitlines())
            if len(words) > 6 and words[1:3] == ["s", "queue"]]


def alone(text):
    known = cases(text)
    rows = [["", "used, %", "queue, median ms", "lost for want of room, %", "Jain's index"]]
    for said, names in ALONE:
        each = [known[name] for name in names]
        rows.append([said, "; ".join(f"{one['used']:.1f}" for one in each), "; ".join(f"{one['queue']:.2f}" for one in each),
                     "; ".join(f"{one['no_room']:.1f}" for one in each),
                     f"{each[0]['jain']:.3f}" if "flows" in said else ""])
    return table(rows)


def beside(text):
    known = cases(text)
    return table([["beside us", "ours", "theirs"], *([said, f"{known[name]['own']:.2f}", f"{known[name]['others']:.2f}"]
                                                     for said, name in BESIDE)])


TABLES = {"congestion.alone": alone, "congestion.beside": beside}
