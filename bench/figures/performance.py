# SPDX-License-Identifier: BSD-3-Clause
"""Turns kept results into the tables of docs/performance.md; bench/run prints the same ones."""
import statistics


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "| " + " | ".join("-" * max(3, width) for width in widths) + " |")
    return "\n".join(lines)


def number(value):
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(one):
    return f"{number(one['median'])} ({number(one['least'])} to {number(one['most'])})" if one else "-"


def marks(one):
    """How many samples the reader should know something about."""
    said = [f"{one[key]} {key}" for key in ("disturbed", "failed") if one.get(key)]
    if one.get("cpu_bound"):
        said.insert(0, "cpu_bound")
    return ", ".join(said) or ""


def missing(result):
    lines = [f"Not measured: `{name}`, {one['missing']}." for name, one in result["contenders"].items() if one["missing"]]
    return "\n".join(lines)


def origin(result, kept):
    lines = [f"{kept['processor']}, {result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}; "
             f"{result['rounds']} interleaved rounds of {number(result['seconds'])} s, *lab* (veth). "
             f"`{kept['command']}`"]
    lines += [f"- `{name}`: {one['what']} ({one['version']}; {one['tuning']})"
              for name, one in result["contenders"].items() if not one["missing"]]
    return "\n".join(lines)


def scale(kept):
    result = kept["result"]
    rate = {key: value / 1e6 for key, value in result["events_a_second"].items() if key != "runs"}
    rows = [["", ""],
            ["packet events a second on one core, millions", f"{spread(rate)}, median of {result['events_a_second']['runs']} runs; the "
             "goal is 3"],
            ["packet events in a run", f"{result['events']:,}, for {result['data_packets']:,} data packets and "
             f"{result['control']:,} control datagrams"],
            [f"peak memory, {result['hosts']} contexts included", f"{result['peak_bytes'] / 2**20:.0f} MiB"]]
    return table(rows)


def qps(kept):
    rows = [["fabric", "resident memory added, MiB", "of which from malloc, MiB"]]
    for name, one in kept["result"].items():
        rows.append([f"{name} (*{one['environment']}*)", f"{one['resident_bytes'] / 2**20:.1f}", f"{one['malloc_bytes'] / 2**20:.1f}"])
    return table(rows)


def instructions(kept):
    """By source file, with what is below two per cent of the whole put together."""
    result, files = kept["result"], {}
    ways = {"batches": "in batches", "single": "one by one", "ping": "a ping"}
    for way in ways:
        for name, cost in result[way]["functions"].items():
            file, _, function = name.partition(":")
            files.setdefault(file, {each: [] for each in ways})[way].append((cost, function))
    sums = {file: {way: sum(cost for cost, _ in one[way]) for way in ways} for file, one in files.items()}
    large = [file for file in sums if any(sums[file][way] >= 0.02 * result[way]["total"] for way in ways)]
    rows = [[*ways.values(), "in", "most of them in"]]
    for file in sorted(large, key=lambda file: [-sums[file][way] for way in ways]):
        most = sorted(next(files[file][way] for way in ways if files[file][way]))[:-4:-1]
        rows.append([*(f"{sums[file][way]:.0f}" for way in ways), f"`src/{file}`", ", ".join(f"`{name}`" for _, name in most)])
    rest = [result[way]["total"] - sum(sums[file][way] for file in large) for way in ways]
    rows += [[*(f"{each:.0f}" for each in rest), f"{len(files) - len(large)} other files", ""],
             [*(f"{result[way]['total']:.0f}" for way in ways), "in all", ""]]
    return table(rows)


def calls(kept):
    rows = [["", "sender: sends", "datagrams", "control", "reads", "sleeps", "receiver: sends", "datagrams", "control", "reads", "sleeps"]]
    for case in kept["result"]["cases"]:
        mtu, kind, *more = case["case"].split("-")
        what = ("a ping and its answer" if "pings" in more else "64 KiB on one of 1000" if "many" in more else
                "a MiB, coded" if "coded" in more else "a MiB")
        rows.append([f"{what}, {kind}, MTU {mtu}",
                     *(f"{case[end][count] / case['messages']:.1f}" for end in ("sender", "receiver")
                       for count in ("sends", "batches", "control", "reads", "sleeps"))])
    return table(rows)


def place(kept):
    rows = [["bytes in a packet", "working set, MiB", "staging and a copy, CPU s/GB", "in place, CPU s/GB", "ratio"]]
    for case in kept["result"]["cases"]:
        rows.append([str(case["payload"]), str(case["working_set_mib"]), spread(case["staged_s_per_gb"]), spread(case["in_place_s_per_gb"]),
                     spread(case["ratio"])])
    return table(rows)


def walk(kept):
    """The hops of a packet, each with the functions on the stack, outermost first."""
    result = kept["result"]
    rows = [["", "what happens", "through"]]
    for end in ("down", "up"):
        for hop in result[end]["hops"]:
            rows.append([end, hop["what"], ", ".join(f"`{each.partition(':')[2]}`" for each in hop["functions"])])
    return table(rows)


def veth(kept):
    result, parts = kept["result"], []
    ours = [name for name in ("godwit", "godwit-no-icrc") if not result["contenders"][name]["missing"]]
    for case in result["cases"]:
        rows = [["", "goodput, Gbit/s", "CPU, s/GB", *(f"{our} / it" for our in ours), "marks"]]
        for name, one in case["summary"].items():
            rows.append([name, spread(one["goodput_gbps"]), spread(one["cpu_s_per_gb"]),
                         *(spread(case["ratios"].get(our, {}).get(name)) for our in ours), marks(one)])
        parts.append(f"{case['name']}:\n\n{table(rows)}")
    return "\n\n".join(part for part in (*parts, missing(result), origin(result, kept)) if part)


def latency(kept):
    result, parts = kept["result"], []
    for case in result["cases"]:
        rows = [["", "half round trip, us", "99th percentile, us", "godwit / it", "marks"]]
        for name, one in case["summary"].items():
            rows.append([name, spread(one["half_round_trip_us"]), spread(one.get("half_round_trip_p99_us")),
                         spread(case["ratios"].get("godwit", {}).get(name)), marks(one)])
        parts.append(f"{case['name'].capitalize()}:\n\n{table(rows)}")
    return "\n\n".join(part for part in (*parts, missing(result), origin(result, kept)) if part)


def many(kept):
    result = kept["result"]
    case, count = result["cases"][0], result["queue_pairs"]
    rows = [["queue pairs", "goodput, Gbit/s", "CPU, s/GB", "against one", "Jain's fairness", "marks"]]
    for name, one in case["summary"].items():
        several = name.endswith(f"/{count}")
        rows.append([name.partition("/")[2], spread(one["goodput_gbps"]), spread(one["cpu_s_per_gb"]),
                     spread(case["ratios"].get(name, {}).get("godwit/1")) if several else "-",
                     spread(result["fairness"]) if several else "-", marks(one)])
    parts = [table(rows) if len(rows) > 1 else "", missing(result), origin(result, kept)]
    return "\n\n".join(part for part in parts if part)


def threads(kept):
    result = kept["result"]
    rows = [["", "threads", "goodput, Gbit/s", "CPU, s/GB", "against one", "against TCP", "marks"]]
    for name, counts in result["contenders"].items():
        for one in counts:
            rows.append([name, str(one["threads"]), spread(one["goodput_gbps"]), spread(one["cpu_s_per_gb"]),
                         spread(one["against_one"]) if one["threads"] > 1 else "-",
                         spread(one["against_tcp"]) if name != "TCP" else "-", "cpu_bound" if one["cpu_bound"] else ""])
    return (f"{table(rows)}\n\n{kept['processor']}, {result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}; "
            f"{result['rounds']} interleaved rounds of {result['seconds']:.2f} s, *loopback*. `{kept['command']}`")


def late(samples):
    worst = max(each["overrun"] for each in samples)
    said = [f"late in {sum(each['was_late'] for each in samples)} of {len(samples)}"] if any(
        each["was_late"] for each in samples) else []
    return ", ".join(said + ([f"up to {worst} overrun"] if worst else []))


def lab(kept):
    result = kept["result"]
    rows = [["forwarded between two hosts", "Gbit/s of payload", "thousand packets/s", "marks"]]
    for name, one in result["forwarding"].items():
        thousands = {key: value / 1000 for key, value in one["packets_a_second"].items()}
        rows.append([name, spread(one["gbps"]), spread(thousands), late(one["samples"])])
    times = result["latency"]
    error = result["round_trip"]
    rows_time = [["time", "us"],
                 ["half a round trip without delay", spread(times["lab_us"])],
                 ["the same over a veth", spread(times["veth_us"])],
                 ["what the lab adds", spread(times["added_us"])],
                 [f"a round trip of {error['asked_ms']} ms: off by", spread(error["error_us"])]]
    rows_loss = [["loss asked for", "seed", "lost", "of", "99 % interval", "lost in two runs"]]
    for one in result["losses"]:
        low, high = one["interval_99"]
        rows_loss.append([f"{one['asked']:g}", str(one["seed"]), f"{one['lost']:.6f}", str(one["packets"]),
                          f"{low:.6f} to {high:.6f}{'' if one['within'] else ': outside'}",
                          " and ".join(map(str, one["lost_twice"]))])
    rows_left = [["killed with SIGKILL", "processes, namespaces made", "processes, namespaces, interfaces left"]]
    for part, one in result["remains"].items():
        rows_left.append([part, f"{one['processes_made']}, {one['namespaces_made']}",
                          f"{one['processes_left']}, {one['namespaces_left']}, {one['interfaces_more']}"])
    source = (f"{kept['processor']}, {result['processors']} processors, Linux {result['kernel']}, {kept['compiler']}; median "
              f"of {result['rounds']} (least to most), *lab*. `{kept['command']}`")
    return "\n\n".join([*map(table, (rows, rows_time, rows_loss, rows_left)), source])


def hostile(kept, name="hostile"):
    result = kept["result"]
    rate = {when: {key: value / 1e9 if key != "runs" else value for key, value in one.items()}
            for when, one in result["goodput_bps"].items()}
    rows = [("", "median (least to most)"),
            ("forged packets a second, thousands", spread({k: v / 1e3 for k, v in result["packets_a_second"].items()})),
            *[(f"goodput {said}, Gbit/s", spread(rate[when])) for when, said in
              (("before", "in the second before"), ("during", "meanwhile"), ("after", "in the second after"))],
            ("goodput after, over before", spread(result["recovered"])),
            *[(f"memory added at the {end} after the first fifth, KiB", spread({k: v / 1024 for k, v in one.items()}))
              for end, one in result["resident_bytes_added"].items()]]
    return f"{table(rows)}\n\n*Loopback*, {result['packets']:,} packets in {result['recovered']['runs']} runs, " \
           f"{result['messages_verified']:,} messages of 1 MiB verified (`docs/results/{name}.json`)."


def hostile_sealed(kept):
    alone = kept["result"]["replayed_alone"]
    return hostile(kept, "hostile-sealed") + f" At the end of the runs {alone['sent']:,} overheard packets were sent alone, and {alone['refused_or_lost']:,} " \
                           f"counted as refused."


def seal(kept):
    result = kept["result"]
    names = {"clear": "Godwit, clear", "sealed": "Godwit, sealed", "tls": "TLS 1.3 over TCP", "ktls": "the same in the kernel (kTLS)"}
    rows = [["", *[f"{what}, MTU {mtu}" for mtu in result["mtu"] for what in ("goodput, Gbit/s", "CPU, s/GB")]]]
    for name, said in names.items():
        if all(name in one for one in result["mtu"].values()):
            rows.append([said, *[spread({"median": statistics.median(runs), "least": runs[0], "most": runs[-1]})
                                 for one in result["mtu"].values() for runs in one[name].values()]])
    ktls = "" if result["kernel_has_ktls"] else " This kernel has no kTLS."
    return f"{table(rows)}\n\n*veth*, {kept['processor']}, {kept['compiler']}; {result['rounds']} interleaved rounds of " \
           f"{result['seconds']:g} s. CPU is that of both ends.{ktls} `{kept['command']}`"


def rxe(kept):
    result = kept["result"]
    rows = [["", "goodput, Gbit/s", "CPU, s/GB", "godwit / it", "marks"]]
    for name, one in result["summary"].items():
        rows.append([name, spread(one["goodput_gbps"]), spread(one["cpu_s_per_gb"]), spread(result["ratios"].get(name)),
                     marks(one)])
    call = result["call_ns"]
    source = [f"{kept['processor']}, {kept['compiler']}; {result['rounds']} interleaved rounds, *soft-RoCE* in a user-mode "
              f"Linux guest, link MTU {result['link_mtu']}. A system call takes {call['guest'] / 1000:.1f} us in the guest and "
              f"{call['host'] / 1000:.2f} us outside. `{kept['command']}`"]
    source += [f"- `{name}`: {what}" for name, what in result["contenders"].items()]
    return table(rows) + "\n\n" + "\n".join(source)


TABLES = {"scale": scale, "qps": qps, "instructions": instructions, "calls": calls, "place": place, "walk": walk, "hostile": hostile, "hostile-sealed": hostile_sealed, "seal": seal, "veth": veth, "latency": latency, "many": many, "threads": threads, "lab": lab, "rxe": rxe}
