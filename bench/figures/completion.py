# SPDX-License-Identifier: BSD-3-Clause
"""Turns docs/results/completion.json into the tables of docs/completion.md."""
from completion.sweeps import GOAL, SCHEMES, TEXTS, off, shown
from figures.performance import table


def of(points, **wanted):
    return [one for one in points if all(one[key] == value for key, value in wanted.items())]


def values(points, field):
    return list(dict.fromkeys(one[field] for one in points))


def times(value):
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def average(one):
    value, low, high = one["simulated"]["mean"]
    return f"{times(value)} ± {(high - low) / 2:.2f}"


def tail(one, name):
    value, low, high = one["simulated"][name]
    return times(value) if times(low) == times(high) else f"{times(value)} ({times(low)} to {times(high)})"


def source(kept, text):
    return f"*Simulated*: {text} (`docs/results/completion.json`, `{kept['command']}`)."


def by_loss(kept, name, cell):
    result = kept["result"]
    points, schemes = result["loss"], values(result["loss"], "scheme")
    head = ["loss"]
    for scheme in schemes:
        head += [shown(scheme), *(["SDR-RDMA's model"] if scheme in SCHEMES else [])]
    rows = [head]
    for loss in values(points, "loss"):
        row = [loss]
        for scheme in schemes:
            row.append(cell(of(points, loss=loss, scheme=scheme)[0]))
            if scheme in SCHEMES:
                row.append(times(result["paper"][loss][scheme][name]))
        rows.append(row)
    return f"{table(rows)}\n\n" + source(kept, f"{points[0]['messages']:,} messages a figure, 95 % confidence")


def loss_mean(kept):
    return by_loss(kept, "mean", average)


def loss_tail(kept):
    return by_loss(kept, "p99.9", lambda one: tail(one, "p99.9"))


def two(one, name):
    return f"{times(one['simulated']['mean'][0])} / {times(one['simulated'][name][0])}"


def swept(kept, sweep, field, label, name="p99"):
    points = kept["result"][sweep]
    schemes = values(points, "scheme")
    rows = [[label, *map(shown, schemes)]]
    for value in values(points, field):
        rows.append([TEXTS[field](value), *(two(of(points, scheme=scheme, **{field: value})[0], name) for scheme in schemes)])
    counts = sorted({one["messages"] for one in points})
    said = f"{counts[0]:,} messages a figure" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} messages a figure"
    return f"{table(rows)}\n\n" + source(kept, f"mean / {name}, {said}")


def differences(one):
    return " / ".join(f"{100 * off(one, name)[0]:+.1f}{' **' if off(one, name)[1] else ''}" for name in ("mean", "p99"))


def grid(kept):
    points = kept["result"]["grid"]
    schemes = values(points, "scheme")
    rows = [["round trip", "size", "loss", *(f"{shown(scheme)}, %" for scheme in schemes)]]
    for rtt in values(points, "rtt-ns"):
        for size in values(points, "size"):
            for loss in values(points, "loss"):
                here = of(points, **{"rtt-ns": rtt, "size": size, "loss": loss})
                rows.append([TEXTS["rtt-ns"](rtt), TEXTS["size"](size), loss,
                             *(differences(of(here, scheme=scheme)[0]) for scheme in schemes)])
    return f"{table(rows)}\n\n{summary(points)} " + source(kept, f"{points[0]['messages']:,} messages a point")


def summary(points):
    said = []
    for name, text in (("mean", "means"), ("p99", "99th percentiles")):
        near = sum(abs(off(one, name)[0]) <= GOAL for one in points)
        beyond = sum(off(one, name)[1] for one in points)
        said.append(f"of {len(points)} {text} {near} are within {100 * GOAL:.0f} %, {len(points) - near - beyond} more within the "
                    f"simulation's 95 % confidence interval, {beyond} are not")
    return f"How far the model is from the simulation, mean / p99: {'; '.join(said)} (`**`)."


def outliers(kept):
    points = kept["result"]["grid"] + kept["result"]["loss"]
    rows = [["scheme", "round trip", "size", "loss", "figure", "simulated", "predicted", "off, %"]]
    for one in points:
        for name in ("mean", "p99"):
            if one["scheme"] in SCHEMES and off(one, name)[1]:
                value, low, high = one["simulated"][name]
                rows.append([shown(one["scheme"]), TEXTS["rtt-ns"](one["rtt-ns"]), TEXTS["size"](one["size"]), one["loss"], name,
                             f"{times(value)} ({times(low)} to {times(high)})", times(one["predicted"][name]),
                             f"{100 * off(one, name)[0]:+.1f}"])
    if len(rows) == 1:
        return "There are none."
    return table(rows)


def auto(kept):
    """Where the choice is furthest from the best of the other schemes, in the mean."""
    rows = [["sweep of", "worst at", "auto", "best of the others", "", "auto over that"]]
    for sweep, field, label in (("loss", "loss", "loss"), ("size", "size", "size"), ("rtt", "rtt-ns", "round trip"),
                                ("rate", "rate-bps", "rate")):
        worst = None
        for value in values(kept["result"][sweep], field):
            here = of(kept["result"][sweep], **{field: value})
            chosen = of(here, scheme="auto")
            best = min((one for one in here if one["scheme"] != "auto"), key=lambda one: one["simulated"]["mean"][0])
            if not chosen:
                return "This build has no automatic choice."
            ratio = chosen[0]["simulated"]["mean"][0] / best["simulated"]["mean"][0]
            if worst is None or ratio > worst[0]:
                worst = (ratio, [label, TEXTS[field](value), average(chosen[0]), average(best), shown(best["scheme"]), f"{ratio:.3f}"])
        rows.append(worst[1])
    return f"{table(rows)}\n\n" + source(kept, "means")


TABLES = {
    "completion.loss-mean": loss_mean, "completion.loss-tail": loss_tail,
    "completion.data-loss": lambda kept: swept(kept, "data_loss", "loss", "loss", "p99.9"),
    "completion.size": lambda kept: swept(kept, "size", "size", "size"),
    "completion.rtt": lambda kept: swept(kept, "rtt", "rtt-ns", "round trip"),
    "completion.rate": lambda kept: swept(kept, "rate", "rate-bps", "rate"),
    "completion.auto": auto, "completion.grid": grid, "completion.outliers": outliers,
}
