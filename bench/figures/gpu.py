# SPDX-License-Identifier: BSD-3-Clause
"""Tables of docs/nccl.md from what bench/gpu/run and bench/gpu/train.py kept: NCCL on one GPU, over loopback and through labs."""
from figures.performance import number, table

KIB, MIB = 1 << 10, 1 << 20
OURS, PEERS = ("godwit", "godwit-4", "godwit-auto"), ("socket-cubic", "socket-bbr")
# Goals: times of the floor by loss; and times of the default Socket and of the best one over loopback.
OVER_FLOOR = ((0.0, 1.15), (1e-3, 1.3), (1e-2, 1.5))
LOOPBACK_GOAL_BYTES = 64 * MIB


def size_of(count):
    return f"{count // MIB} MiB" if count >= MIB else f"{count // KIB} KiB"


def origin(kept, what):
    result = kept["result"]
    return (f"*One GPU, lab*: {result.get('gpu', 'no GPU')}, NCCL {result.get('nccl', '-')}, PyTorch {result.get('torch', '-')}, {kept['processor']}, "
            f"{result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}. {what} `{kept['command']}`")


def cell(scenario, name, operation, count):
    found = [one for one in scenario["contenders"].get(name, {}).get("cells", []) if (one["operation"], one["bytes"]) == (operation, count)]
    return found[0] if found else None


def measured(scenario):
    return [name for name, one in scenario["contenders"].items() if "cells" in one]


def ordered(result, scenarios):
    """Contenders that were measured, in the order of bench/gpu/contenders.py."""
    there = {name for scenario in scenarios for name in measured(scenario)}
    return [name for name in result["what"] if name in there]


def cells_of(scenario):
    seen = []
    for one in scenario["contenders"].values():
        for each in one.get("cells", []):
            if (each["operation"], each["bytes"]) not in seen:
                seen.append((each["operation"], each["bytes"]))
    return sorted(seen, key=lambda pair: (("all_reduce", "all_gather", "reduce_scatter").index(pair[0]), pair[1]))


def contenders_list(result, names):
    return "\n".join(f"- `{name}`: {result['what'][name]}" for name in names)


def missing(scenarios):
    return "\n".join(f"Not measured: `{name}` on {scenario['name']}, {'void: ' if one.get('void') else ''}{one['failed'][-120:].strip()}."
                     for scenario in scenarios for name, one in scenario["contenders"].items() if "cells" not in one)


def settings(result):
    short = result["least_limits"]
    return (f"Everybody: ring, {result['protocol']}, {result['channels']} channels, the same buffers; a cell is {short[0]} operations or {short[1]:.1f} s "
            "at the least.")


def contenders_table(kept, in_lab, title, head, row, value, goals):
    """A row for each scenario, operation and size, which begins with row(), and a column for each contender with value() of its cell."""
    result = kept["result"]
    # Without a figure of ours there is nothing to compare.
    scenarios = [one for one in result["scenarios"] if ("rtt_ms" in one["path"]) == in_lab and set(OURS) & set(measured(one))]
    if not scenarios:
        return "Not measured."
    names = ordered(result, scenarios)
    rows = [[*head, *(f"`{name}`" for name in names)]]
    for scenario in scenarios:
        for operation, count in cells_of(scenario):
            found = [cell(scenario, name, operation, count) for name in names]
            rows.append([*row(scenario["path"], operation, count, found), *(value(one) if one else "-" for one in found)])
    return "\n\n".join(part for part in (
        title, table(rows), goals(scenarios), contenders_list(result, names), missing(scenarios), origin(kept, settings(result))) if part)


def loopback(kept):
    return contenders_table(
        kept, False, "Bus bandwidth in GB/s, from the median time of an operation over loopback:", ["ranks", "operation", "size"],
        lambda path, operation, count, found: [str(path["ranks"]), operation, size_of(count)],
        lambda one: number(one["bus_gbps"]),
        lambda scenarios: "\n".join(goal for goal in map(loopback_goal, scenarios) if goal))


def loopback_goal(scenario):
    """The comparison that the goal is about."""
    best = {name: cell(scenario, name, "all_reduce", LOOPBACK_GOAL_BYTES) for name in measured(scenario)}
    best = {name: one["bus_gbps"] for name, one in best.items() if one}
    ours = max((value for name, value in best.items() if name in OURS), default=None)
    default = best.get("socket-cubic")
    tuned = max((value for name, value in best.items() if name.startswith("socket")), default=None)
    if not (ours and default and tuned):
        return ""
    ranks = scenario["path"]["ranks"]
    goal = "the goals are 1.5 and 1.1" if ranks == 2 else "the goal is 1.1 of the default"
    return f"- {ranks} ranks, all_reduce of 64 MiB: the plugin has {ours / default:.2f} of the default Socket and {ours / tuned:.2f} of the best one; {goal}."


def path_of(path):
    loss = "no loss" if not path["loss"] else f"{path['loss']:g} {'in bursts' if path['burst'] else 'independent'}"
    ranks = f"{path['ranks']} ranks, " if path["ranks"] != 2 else ""
    return f"{ranks}{path['rtt_ms']:g} ms, {path['rate_gbps']:g} Gbit/s, {loss}"


def lab(kept):
    return contenders_table(
        kept, True,
        "all_reduce, milliseconds: median / 99th percentile. The floor is the bytes at the link's rate and a one-way delay for each step of the ring.",
        ["path", "size", "floor, ms"],
        lambda path, operation, count, found: [path_of(path), size_of(count), number(next(one["floor_ms"] for one in found if one))],
        lambda one: f"{number(one['p50_ms'])} / {number(one['p99_ms'])}",
        lab_goal)


def lab_goal(scenarios):
    """How many cells meet the goals, by the plugin's best setting, and the worst of them."""
    within, ahead, tails, worst, total, compared = 0, 0, 0, None, 0, 0
    for scenario in scenarios:
        most = next((bound for loss, bound in OVER_FLOOR if loss == scenario["path"]["loss"]), None)
        for operation, count in cells_of(scenario):
            ours = [one for name in OURS if (one := cell(scenario, name, operation, count))]
            peers = [one for name in PEERS if (one := cell(scenario, name, operation, count))]
            if not ours or most is None:
                continue
            best = min(ours, key=lambda one: one["p50_ms"])
            over = best["p50_ms"] / best["floor_ms"]
            total += 1
            within += over <= most
            worst = max(worst or (0, ""), (over / most, f"{path_of(scenario['path'])}, {size_of(count)}: {over:.2f} of the floor"))
            if peers:
                compared += 1
                ahead += best["p50_ms"] <= min(one["p50_ms"] for one in peers)
                tails += best["p99_ms"] < min(one["p99_ms"] for one in peers)
    if not total:
        return ""
    return (f"The plugin's best setting is within the goal (1.15, 1.3 and 1.5 of the floor at 0, 1e-3 and 1e-2) in {within} of {total} cells; its "
            f"median is not behind the better of cubic and bbr in {ahead} of {compared}, its 99th percentile is ahead of both in {tails}. Farthest from its "
            f"goal: {worst[1]}.")


def training(kept):
    result = kept["result"]
    rows = [["seed", "contender", "steps", "step, ms", "p99, ms", "time to target, s", "best peer's / its", "loss / exact", "missing", "replicas"]]
    for seed in result["seeds"]:
        for name, one in seed["contenders"].items():
            if "failed" in one:
                rows.append([str(seed["seed"]), f"`{name}`", "failed", *["-"] * 7])
                continue
            rows.append([str(seed["seed"]), f"`{name}`" + (f" ({one['void']})" if one.get("void") else ""), str(one["steps"]),
                         number(one["step_p50_ms"]) if one["step_p50_ms"] else "-", number(one["step_p99_ms"]) if one["step_p99_ms"] else "-",
                         number(one["target_s"]) if one.get("target_s") else f"({number(one['projected_s'])})" if one.get("projected_s") else "-",
                         f"{one['faster']:.2f}" if one.get("faster") else "-", loss_said(one),
                         f"{100 * one['missing']:.1f} %" if one.get("missing") is not None else "-",
                         "equal" if one["replicas_equal"] else "differ"])
    straggler = f" Rank, distribution and milliseconds of the straggler: `{result['straggler']}`." if result["straggler"] else " No straggler."
    targets = ", ".join(f"{seed['target']:.3f}" for seed in result["seeds"] if seed["target"] is not None)
    names = [name for name in result["what"] if any(name in seed["contenders"] for seed in result["seeds"])]
    return "\n\n".join([
        f"A transformer ({result['size']}), data-parallel on {result['ranks']} ranks, {path_of(result['path'])}.{straggler} The target ({targets}) is the lowest "
        "loss that the bounded one and the best peer reached; in parentheses: a contender that was stopped before it, and would have "
        "needed so long at its pace. Losses are compared after as many steps as both did.",
        table(rows), contenders_list(result, names), origin(kept, "")])


def loss_said(one):
    """How a contender's losses compare with exact ones: bit by bit, or as a ratio."""
    if one.get("loss_over_exact"):
        return f"{one['loss_over_exact']:.4f}"
    if not one.get("compared_steps"):
        return "-"
    if one["equal_steps"] == one["compared_steps"]:
        return f"equal bits, {one['compared_steps']} steps"
    return f"equal bits for {one['equal_steps']} of {one['compared_steps']} steps"


def inference(kept):
    result = kept["result"]
    rows = [["contender", "first token, ms", "p99, ms", "tokens a second", "perplexity", "change", "requests"]]
    for name, one in result["contenders"].items():
        if "failed" in one:
            rows.append([f"`{name}`", "failed", *["-"] * 5])
            continue
        rows.append([f"`{name}`" + (f" ({one['void']})" if one.get("void") else ""), number(one["first_p50_ms"]), number(one["first_p99_ms"]),
                     number(one["tokens_a_second"]), f"{one['perplexity']:.4f}",
                     f"{100 * (one['perplexity'] / result['whole_perplexity'] - 1):+.3f} %", str(one["requests"])])
    names = [name for name in result["what"] if name in result["contenders"]]
    return "\n\n".join([
        f"A transformer ({result['size']}) split over {result['ranks']} ranks, {path_of(result['path'])}; requests of {result['sequences']} sequences, "
        f"{result['tokens']} tokens each. On one rank, without a network, the perplexity is {result['whole_perplexity']:.4f}.", table(rows), contenders_list(result, names), origin(kept, "")])


TABLES = {"gpu.loopback": loopback, "gpu.lab": lab, "training": training, "inference": inference}
COMMANDS = {"inference": "bench/gpu/infer.py --out docs/results", "gpu": "bench/gpu/run --out docs/results", "training": "bench/gpu/train.py --out docs/results"}
