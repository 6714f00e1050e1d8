# SPDX-License-Identifier: BSD-3-Clause
"""The table and the drawing of docs/anywhere.md, from what bench/run kept of paths drawn at random."""
import os
import subprocess

from figures.performance import number, table

BEHIND = 0.9  # of bbr: a path below it is named
GOAL = 0.9  # share of lossy paths that are to be ahead of bbr
LOWEST_MBPS = 0.05  # what is slower is drawn here
HIGHEST_MBPS = 400
TICKS = (0.1, 1, 10, 100)
PICTURE = "anywhere.svg"


def ahead(points):
    """Nobody is ahead where neither carried anything."""
    return [one for one in points if one["godwit"]["mbps"] and (one["ratio"] is None or one["ratio"] >= 1)]


def behind(points):
    return sorted((one for one in points if one["ratio"] is not None and one["ratio"] < BEHIND), key=lambda one: one["ratio"])


def lossy(points):
    return [one for one in points if one["path"]["loss"] > 0]


def share(part, whole):
    return f"{len(part)} of {len(whole)} ({100 * len(part) / len(whole):.0f} %)" if whole else "none of none"


def anywhere(kept):
    result = kept["result"]
    points, lost = result["points"], lossy(result["points"])
    clean = [one for one in points if one not in lost]
    failed = [one for one in points if "failed" in one["godwit"]]
    late = [one for one in points if one["godwit"]["was_late"] or one["bbr"]["was_late"]]
    lines = [f"![Godwit against TCP bbr, one dot a path](results/{PICTURE})",
             f"Godwit is ahead of bbr on {share(ahead(points), points)} of all paths: on {share(ahead(lost), lost)} of those that "
             f"lose packets (the goal is {100 * GOAL:.0f} %), and on {share(ahead(clean), clean)} of the others. On {share(behind(points), points)} of all "
             f"it has less than {BEHIND:g} of what bbr has (the goal is none); {len(failed)} did not end well and count as 0. In "
             f"{len(late)} the lab was late.",
             slow_table(behind(points)),
             f"{kept['processor']}, {result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}; one run a "
             f"path, {result.get('jobs', 1)} at a time, *lab*. Godwit: `perf --channel` with defaults, as an ordinary user, `net.core.rmem_max` "
             f"{result['rmem_max']}. TCP: one flow, bbr, {result['tcp']}. `{kept['command']}`"]
    return "\n\n".join(line for line in lines if line)


def slow_table(points):
    if not points:
        return ""
    rows = [["seed", "path", "Godwit, Mbit/s", "bbr, Mbit/s", "ratio"]]
    rows += [[str(one["seed"]), one["name"], number(one["godwit"]["mbps"]), number(one["bbr"]["mbps"]), f"{one['ratio']:.2f}"]
             for one in points]
    return f"Below {BEHIND:g} of bbr:\n\n{table(rows)}"


def drawing(result):
    """For bench/draw."""
    points = result["points"]
    groups = (("#4477aa", "no loss", lambda loss: loss == 0), ("#228833", "loss up to 1 %", lambda loss: 0 < loss <= 0.01),
              ("#cc6677", "loss above 1 %", lambda loss: loss > 0.01))
    lines = [f"title {len(points)} paths drawn at random",
             "subtitle Mbit/s that arrive; above the line Godwit is ahead of TCP bbr",
             f"x {LOWEST_MBPS} {HIGHEST_MBPS} TCP bbr, Mbit/s", f"y {LOWEST_MBPS} {HIGHEST_MBPS} Godwit, Mbit/s"]
    lines += [f"{axis}tick {tick:g} {tick:g}" for axis in "xy" for tick in TICKS]
    for colour, dash, name, factor in (("#333333", "none", "equal", 1), ("#999999", "4,4", f"{BEHIND:g} of bbr", BEHIND)):
        lines += [f"line {colour} {dash} {name}", f"at {LOWEST_MBPS / factor} {LOWEST_MBPS}",
                  f"at {HIGHEST_MBPS} {HIGHEST_MBPS * factor}"]
    for colour, name, belongs in groups:
        lines.append(f"line {colour} dots {name}")
        lines += [f"at {clamp(one['bbr']['mbps'])} {clamp(one['godwit']['mbps'])}" for one in points
                  if belongs(one["path"]["loss"])]
    return "\n".join(lines) + "\n"


def clamp(mbps):
    return min(HIGHEST_MBPS, max(LOWEST_MBPS, mbps))


def draw(build, result, folder):
    done = subprocess.run([os.path.join(build, "bench", "draw")], input=drawing(result), capture_output=True, text=True,
                          check=True)
    with open(os.path.join(folder, PICTURE), "w", encoding="utf-8") as file:
        file.write(done.stdout)


def rows(kept):
    result = kept["result"]
    missed = [one for one in result["rows"] if not one["good"]]
    lines = [["use", "once", "goal", "today"]]
    lines += [[one["row"], one["before"], one["goal"], ("" if one["good"] else "**missed:** ") + one["found"]] for one in result["rows"]]
    commands = [["use", "command"]] + [[one["row"], f"`{one['command']}`"] for one in result["rows"]]
    met = len(result["rows"]) - len(missed)
    return "\n\n".join([f"{met} of {len(result['rows'])} meet their goal.", table(lines),
                        "What runs on host 0 of the lab, `godwit perf` or `recv` waiting on host 1, or on this host:", table(commands),
                        f"{kept['processor']}, {result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}; one "
                        f"run a row, a second one of those that missed, *lab* and *loopback*, as an ordinary user with "
                        f"`net.core.rmem_max` {result['rmem_max']}. `{kept['command']}`"])


TABLES = {"anywhere": anywhere, "rows": rows}
