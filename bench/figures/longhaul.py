# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/longhaul.md, from what bench/run kept of the lab's links and of the channel's cost."""
from figures.performance import missing, number, spread, table


def middle_of(rounds):
    """What a figure is, over so many rounds."""
    if rounds == 1:
        return "one round"
    return f"{'mean' if rounds == 2 else 'median'} of {rounds} interleaved rounds (least to most)"


def origin(result, kept):
    lines = [f"{kept['processor']}, {result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}; {middle_of(result['rounds'])}, "
             f"*lab*. `{kept['command']}`"]
    lines += [f"- `{name}`: {one['what']} ({one['version']}; {one['tuning']})"
              for name, one in result.get("contenders", {}).items() if not one["missing"]]
    return "\n".join(lines)


def joined(*parts):
    return "\n\n".join(part for part in parts if part)


def marks(one):
    said = [f"{one[key]} {key}" for key in ("late", "failed") if one.get(key)]
    return ", ".join(said)


def tail(one):
    """A 99th percentile, or the worst where there were too few messages for one."""
    if one.get("p99_ms"):
        return number(one["p99_ms"]["median"])
    return f"worst {number(one['worst_ms']['most'])}" if one.get("worst_ms") else "-"


def middle(one):
    return number(one["median"]) if one else "-"


def longhaul(kept):
    result, parts = kept["result"], []
    for point in result["points"]:
        rows = [["", "goodput, Gbit/s", "godwit / it", "1 MiB, mean ms", "99th percentile, ms", "marks"]]
        for name, one in point["summary"].items():
            rows.append([name, spread(one["gbps"]), spread(point["ratios"].get(name)), spread(one["mean_ms"]), tail(one),
                         marks(one)])
        parts.append(f"{point['name']}, MTU {point['link']['mtu']}:\n\n{table(rows)}")
    return joined(goals(result), *parts, missing(result), origin(result, kept))


def goals(result):
    """The best of the others at every point, and our own lossless time."""
    rows = [["link", "godwit, Gbit/s", "the best other", "godwit / it", "goal", "1 MiB over our own without loss"]]
    lossless = {}
    for point in result["points"]:
        link, ours = point["link"], point["summary"].get("godwit", {})
        others = {name: one["gbps"]["median"] for name, one in point["summary"].items() if name != "godwit" and one["gbps"]}
        if not ours.get("gbps") or not others:
            continue
        best = max(others, key=others.get)
        same = (link["rtt_ms"], link["rate_gbps"])
        mean = ours["mean_ms"]["median"] if ours.get("mean_ms") else None
        if not link["loss"]:
            lossless[same] = mean
        slower = f"{mean / lossless[same]:.2f}" if link["loss"] and mean and lossless.get(same) else "-"
        ratio = ours["gbps"]["median"] / others[best]
        rows.append([point["name"], number(ours["gbps"]["median"]), f"{best}, {number(others[best])}", f"{ratio:.2f}",
                     "1.00 or more" if link["loss"] else "0.95 or more", slower])
    return table(rows) if len(rows) > 1 else ""


def schemes(kept):
    result, parts = kept["result"], []
    names = [name for name, one in result["contenders"].items() if not one["missing"]]
    for link in dict.fromkeys(point["name"] for point in result["points"]):
        rows = [["size", *(f"{name}, mean / tail, ms" for name in names)]]
        for point in result["points"]:
            if point["name"] == link:
                rows.append([point["size"], *(f"{middle(point['summary'][name]['mean_ms'])} / {tail(point['summary'][name])}"
                                              for name in names)])
        parts.append(f"{link}:\n\n{table(rows)}")
    coding = result["coding"]
    rows = [["", "goodput without loss, Gbit/s"], *([name, spread(one)] for name, one in coding["summary"].items())]
    parts.append(f"Coding on and off, {coding['link']['rtt_ms']:g} ms, {coding['link']['rate_gbps']:g} Gbit/s, nothing lost:\n\n"
                 f"{table(rows)}")
    return joined(*parts, "A tail is the 99th percentile of a round, or the worst of all where a round has fewer than 100 "
                  "messages.", missing(result), origin(result, kept))


def bounded(kept):
    result = kept["result"]
    rows = [["", "mean, ms", "99th percentile, ms", "delivered", "messages", "marks"]]
    for name, one in result["summary"].items():
        delivered = f"{100 * one['delivered']['median']:.3f} %" if one["delivered"] else "-"
        rows.append([name, spread(one["mean_ms"]), spread(one["p99_ms"]), delivered, str(one["messages"]), marks(one)])
    return joined(f"{result['name']}, messages of 1 MiB:\n\n{table(rows)}", missing(result), origin(result, kept))


def share(one):
    return f"{100 * one['median']:.3f} %" if one else "-"


def bounded_rxe(kept):
    """What the guests themselves cost stands beside what loss costs."""
    result = kept["result"]
    link, small = result["link"], result["small"]
    rows = [["", "mean, ms", "median, ms", "99th percentile, ms", "it / godwit-bounded", "without loss: mean / 99th percentile",
             "delivered", "met loss of", "messages", "marks"]]
    for name, one in result["summary"].items():
        clean = result["lossless"][name]
        noted = [f"{one['failed_messages']} messages failed"] if one["failed_messages"] else []
        noted += [f"{one[key]} {key}" for key in ("late", "disturbed", "failed") if one[key]]
        rows.append([name, spread(one["mean_ms"]), middle(one["median_ms"]), spread(one["p99_ms"]),
                     spread(result["ratios"].get(name)), f"{middle(clean['mean_ms'])} / {middle(clean['p99_ms'])}",
                     share(one["delivered"]), share(one["lost"]), str(one["messages"]), ", ".join(noted)])
    title = (f"{link['rtt_ms']:g} ms, {link['rate_mbps']:g} Mbit/s, {link['loss']:g} in bursts of {link['burst']}, MTU "
             f"{link['mtu']}, messages of 1 MiB:")
    time = small.get("message_time")
    said = (f"A write of {small['bytes']} bytes takes {number(time['median_us'])} us there and back without loss (median, "
            f"`{small['contender']}`), of which the link is {1000 * link['rtt_ms']:g}." if time else "")
    lines = [f"{kept['processor']}, {result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}; guests with Linux "
             f"{result['guest_kernel']}; {middle_of(result['rounds'])}, *soft-RoCE*. "
             f"`{kept['command']}`"]
    lines += [f"- `{name}`: {one['what']} ({one['tuning']})" for name, one in result["contenders"].items() if not one["missing"]]
    return joined(f"{title}\n\n{table(rows)}", said, missing(result), "\n".join(lines))


def shared(kept):
    result = kept["result"]
    rows = [["together", "bottleneck, Gbit/s", "share of the first", "Jain's index", "waited, median ms", "99th percentile, ms",
             "dropped by the queue", "marks"]]
    for case in result["cases"]:
        one = case["summary"]
        rows.append([case["name"], *(spread(one[key]) for key in ("sum_gbps", "first_share", "jain", "waited_p50_ms",
                                                                  "waited_p99_ms", "queue_drops")), marks(one)]
                    if one else [case["name"], *["-"] * 6, "failed"])
    step = result["step"]
    rows_step = [["one flow", "followed down, round trips", "longest queue meanwhile, ms", "followed up, round trips"]]
    for name, one in step["summary"].items():
        rows_step.append([name, *(followed(one, key) for key in ("down_rtts", "highest_waiting_ms", "up_rtts"))])
    return joined(f"{result['name']}:\n\n{table(rows)}",
                  f"1 Gbit/s, {step['low_gbps'] * 1000:g} Mbit/s from {step['at_s'][0]:g} to {step['at_s'][1]:g} s:\n\n"
                  f"{table(rows_step)}", missing(result), origin(result, kept))


def followed(one, key):
    never = one[f"{key}_never"]
    return spread(one[key]) + (f", not in {never}" if never else "")


def spray(kept):
    result = kept["result"]
    rows = [["", "fault", "goodput, Gbit/s", "of healthy", "ended with an error"]]
    for case in result["cases"]:
        rows.append([case["lanes"], case["fault"], spread(case["gbps"]), spread(case["of_healthy"]),
                     str(case["ended"]) if case["ended"] else ""])
    return joined(f"{result['name']}, {result['paths']} paths, {result['seconds']:g} s, a path dies after "
                  f"{result['dead_at_s']:g} s; the goal is {result['goal']} of healthy:\n\n{table(rows)}", origin(result, kept))


def overhead(kept):
    result = kept["result"]
    case = result["cases"][0]
    rows = [["", "goodput, Gbit/s", "over bare messages", "CPU, s/GB", "over bare messages", "marks"]]
    for name, one in case["summary"].items():
        over = result["over_bare"].get(name, {})
        said = [f"{one[key]} {key}" for key in ("disturbed", "failed") if one.get(key)]
        rows.append([name, spread(one["goodput_gbps"]), spread(over.get("goodput")), spread(one["cpu_s_per_gb"]),
                     spread(over.get("cpu_s_per_gb")), ", ".join(said)])
    return joined(f"{case['name']}; the goals are 0.97 of the goodput and 1.10 of the processor time:\n\n{table(rows)}",
                  missing(result), origin(result, kept))


TABLES = {"longhaul": longhaul, "schemes": schemes, "bounded": bounded, "bounded-rxe": bounded_rxe,
          "shared": shared, "spray": spray, "overhead": overhead}
