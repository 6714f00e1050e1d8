# SPDX-License-Identifier: BSD-3-Clause
"""Figures in the prose of README.md and docs/*.md: each is tied to a file in docs/results.

A page writes

    it carries <!-- fig scale.rate -->3.07<!-- /fig --> million events a second

and FIGURES below says what `scale.rate` is: bench/tables writes it there, bench/tables --check compares. A sentence that
compares ("ahead of all others") is followed by <!-- holds NAME -->, and CLAIMS says what has to be true of the results.
Both kinds of mark are invisible in a rendered page.

A number with a unit that has no mark is an error, unless given.py has it: settings of a test, goals, constants of the code,
and what others have published, none of which a new measurement changes. In code, in commands and in generated tables
numbers are not looked at.
"""
import json
import os
import re
import statistics

from figures import collectives, congestion, longhaul
from figures.completion import of, times
from figures.given import GIVEN
from figures.performance import number

RESULTS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "results")
# Pages without measurements, whose numbers are the protocol's and the code's own.
NO_FIGURES = {"docs/architecture.md", "docs/wire.md"}

MARK = re.compile(r"(<!-- fig (\S+) -->)(.*?)(<!-- /fig -->)", re.S)
HOLDS = re.compile(r"<!-- holds (\S+) -->")
TABLE = re.compile(r"<!-- table: \S+ -->.*?<!-- end of table -->", re.S)
FENCED = re.compile(r"^```.*?^```", re.S | re.M)
INDENTED = re.compile(r"^(?: {4}|\t).*$", re.M)
CODE = re.compile(r"`[^`]*`")
AMOUNT = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
# "3 to 7 %", "81 and 198 ms": what stands before the unit, as far as it belongs to it.
WITH_UNIT = re.compile(
    rf"(?<![\w.,/^-])(?:{AMOUNT}(?:,|\s+to|\s+and|\s+or)\s+)*{AMOUNT}\s+"
    r"(?:(?:thousand|million) (?:\w+ )?)?(?:[GMk]bit/s|[GM]B/s|(?:ms|us|ns|s)\b|%|per cent|(?:micro|milli)?seconds\b|instructions\b|"
    r"times\b|(?:a|per) second\b|(?:million|thousand)\b|round trips\b)")

# Only what cannot well mean anything else: "behind" is also a place, and a goal may be "the best".
COMPARES = re.compile(r"\b(?:ahead of|behind|(?:faster|slower|more|less|shorter|longer) than)\s+(?:all|any|every|the best|both|TCP|soft-RoCE)\b")
SENTENCE = re.compile(r"(?<=[.;])\s+|\n\n|\n\s*- ")

kept_files = {}


def kept(name):
    """The result of docs/results/NAME.json, or the text of NAME.txt."""
    if name not in kept_files:
        path = os.path.join(RESULTS, name)
        with open(path, encoding="utf-8") as file:
            kept_files[name] = json.load(file)["result"] if name.endswith(".json") else file.read()
    return kept_files[name]


def per_cent(share):
    return f"{share:.0f}"


# ---- docs/performance.md ------------------------------------------------------------------------------------------


def room(name):
    return per_cent(kept("profile.json")["rooms"][name])


def function(name):
    return per_cent(sum(share for each, share in kept("profile.json")["functions"].items() if each.split(".")[0] == name))


def seeds_a_second():
    return f"{float(re.search(r'([0-9.]+) seeds a second', kept('simtest.txt')).group(1)):.0f}"


def latency(case, other):
    found = next(each for each in kept("latency.json")["cases"] if each["name"] == case)
    return found["ratios"]["godwit"][other]["median"]


def veth_goodput(case, name):
    return case["summary"][name]["goodput_gbps"]["median"]


def threaded(contender, threads, field):
    return next(one for one in kept("threads.json")["contenders"][contender] if one["threads"] == threads)[field]["median"]


def over_udp(name, field="goodput_gbps"):
    return from_to([case["summary"][name][field]["median"] / case["summary"]["udp-blast"][field]["median"] for case in kept("veth.json")["cases"]])


# ---- docs/longhaul.md ---------------------------------------------------------------------------------------------


def points(rtt_ms, rate_gbps, loss=None, bursts=None):
    """Links of longhaul.json; `loss` and `bursts` choose where they are given."""
    for point in kept("longhaul.json")["points"]:
        link = point["link"]
        if (link["rtt_ms"], link["rate_gbps"]) == (rtt_ms, rate_gbps) and (loss is None or loss(link["loss"])) and (
                bursts is None or bursts == (link.get("burst", 1) > 1)):
            yield point


def lossy(loss):
    return loss > 0


def best_other(point, field):
    """The best median of the others: the most goodput, or the least time."""
    values = [one[field]["median"] for name, one in point["summary"].items() if name != "godwit" and one[field]]
    return max(values) if field == "gbps" else min(values)


def ours(point, field):
    return point["summary"]["godwit"][field]["median"]


def one_in_a_hundred():
    return next(points(25, 1, lambda loss: loss == 1e-2, bursts=False))


def over_best(field, *where, **which):
    """godwit over the best other, at each of these links."""
    return [ours(point, field) / best_other(point, field) for point in points(*where, **which)]


def over(name, field, *where, **which):
    return [ours(point, field) / point["summary"][name][field]["median"] for point in points(*where, **which)]


def over_lossless(rate_gbps, loss):
    clean = ours(next(points(25, rate_gbps, lambda each: each == 0)), "mean_ms")
    return [ours(point, "mean_ms") / clean for point in points(25, rate_gbps, lambda each: each == loss)]


def from_to(values, form=number):
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def scheme_point(link, size):
    return next(point for point in kept("schemes.json")["points"] if (point["name"], point["size"]) == (link, size))


def scheme_ms(name, link, size, field="mean_ms"):
    return scheme_point(link, size)["summary"][name][field]["median"]


def auto_over_better():
    return [one["godwit"]["mean_ms"]["median"] / min(one[name]["mean_ms"]["median"] for name in ("godwit-sr", "godwit-ec"))
            for one in (point["summary"] for point in kept("schemes.json")["points"])]


def coding_gbps(name):
    return kept("schemes.json")["coding"]["summary"][name]["median"]


def bounded(name, field="p99_ms"):
    return kept("bounded.json")["summary"][name][field]["median"]


def bounded_rxe(name):
    return kept("bounded-rxe.json")["ratios"][name]


def share_beside(case):
    return next(each for each in kept("shared.json")["cases"] if each["name"] == case)["summary"]["first_share"]["median"]


def shared_step(key):
    return kept("shared.json")["step"]["summary"]["godwit"][key]["median"]


INDEPENDENT = "25 ms, 1 Gbit/s, 0.01 independent"

# ---- docs/completion.md and docs/plan.md ---------------------------------------------------------------------------


def simulated(scheme, loss, figure="mean"):
    return of(kept("completion.json")["loss"], scheme=scheme, loss=loss)[0]["simulated"][figure][0]


def sweep_mean(sweep, scheme, field, value):
    return of(kept("completion.json")[sweep], scheme=scheme, **{field: value})[0]["simulated"]["mean"][0]


def paper(scheme, loss, figure="mean"):
    return kept("completion.json")["paper"][loss][scheme][figure]


def planned(scheme, loss, figure="mean"):
    return kept("plan.json")["slowdowns"]["paper"][loss][scheme][figure]


def costs(field, *losses):
    return [one[field] for one in kept("plan.json")["costs"] if not losses or one["loss"] in losses]


def coding_speed():
    return max(one["encode_rows_bytes_a_second"] for one in kept("coding.json")["payloads"]) / 1e9


# ---- docs/congestion.md --------------------------------------------------------------------------------------------


def controlled(case, column):
    return congestion.cases(kept("congestion.txt"))[case][column]


def steps():
    """When the rate of the link changed, by what was carried: [(seconds, Mbit/s), ...]"""
    return congestion.trace(kept("congestion-step.txt"))


def step_down_s():
    """From the first full queue at the low rate until it is short."""
    rows = steps()
    full = max(range(len(rows)), key=lambda at: rows[at][1])
    start = next(at for at in range(full, 0, -1) if rows[at - 1][1] < 10)
    return next(rows[at][0] for at in range(full, len(rows)) if rows[at][1] < 10) - rows[start - 1][0]


# ---- docs/testing.md -----------------------------------------------------------------------------------------------


def covered(which):
    return re.findall(r"^TOTAL +\d+ +\d+ +(\d+)%", kept("coverage.txt"), re.M)[which]


def lossy_mean(method, loss=0.01):
    """Mean-squared error of a method of docs/bounded.md, without bursts."""
    return next(one[method]["mse"] for one in kept("bounded-collective.json")["error"]["rows"] if one["loss"] == loss and one["burst"] == 1)


def ring_over_transpose():
    return [one["ring"]["mse"] / one["transpose"]["mse"] for one in kept("bounded-collective.json")["error"]["rows"]]


def bounded_tail(recovery, ranks):
    """99th percentile of exact operations over that of bounded ones, with the straggler."""
    exact, bounded = (next(one["times_ms"]["p99"] for one in kept("bounded-collective.json")["tail"]
                           if one["late"] and one["recovery"] == name and one["ranks"] == ranks) for name in ("exact", recovery))
    return exact / bounded


def bounded_stall():
    """Time of a step of exact training over that of bounded training, with a rank that stalls."""
    exact, bounded = (next(one["step_ms"] for one in kept("bounded-collective.json")["stall"] if one["late"] and one["recovery"] == name)
                      for name in ("exact", "count"))
    return exact / bounded


def tensor_ratio(part):
    """Least speed of the transform or of striding, in memcpy()s."""
    return min(one["memcpy_ratio"] for one in kept("tensor.json")["works"] if part in one["work"] and not one["work"].startswith(("sum", "max", "divide")))


def lab_p99(name):
    return next(one["p99_ms"] for one in kept("bounded-lab.json")["points"] if one["contender"] == name)


FIGURES = {
    "bounded.ring-least": lambda: number(min(ring_over_transpose())),
    "bounded.ring-most": lambda: number(max(ring_over_transpose())),
    "bounded.transpose-over-count": lambda: number(lossy_mean("transpose") / lossy_mean("transpose-count")),
    "bounded.tail": lambda: number(bounded_tail("count", 8)),
    "bounded.tail-32": lambda: number(bounded_tail("count", 32)),
    "bounded.tail-128": lambda: number(bounded_tail("count", 128)),
    "bounded.stall": lambda: number(bounded_stall()),
    "walk.down-functions": lambda: str(kept("walk.json")["down"]["functions"]),
    "walk.down-files": lambda: str(kept("walk.json")["down"]["files"]),
    "walk.up-functions": lambda: str(kept("walk.json")["up"]["functions"]),
    "walk.up-files": lambda: str(kept("walk.json")["up"]["files"]),
    "profile.fabric": lambda: room("src/fabric/sim"),
    "profile.message": lambda: room("src/message"),
    "profile.base": lambda: room("src/base"),
    "profile.link": lambda: room("src/link"),
    "profile.sim_run_until": lambda: function("sim_run_until"),
    "profile.endpoint_arrive": lambda: function("endpoint_arrive"),
    "profile.recv_land": lambda: function("recv_land"),
    "profile.sink": lambda: function("sink"),
    "simtest.rate": seeds_a_second,
    "latency.polling": lambda: number(latency("polling", "udp-pingpong")),
    "latency.sleeping": lambda: number(latency("sleeping", "udp-pingpong")),
    "veth.over-cubic": lambda: from_to([veth_goodput(case, "godwit") / veth_goodput(case, "tcp-cubic")
                                        for case in kept("veth.json")["cases"]]),
    "threads.one-over-tcp": lambda: number(threaded("godwit", 1, "against_tcp")),
    "threads.one-no-icrc-over-tcp": lambda: number(threaded("godwit, no ICRC", 1, "against_tcp")),
    "threads.four": lambda: number(threaded("godwit", 4, "against_one")),
    "threads.eight": lambda: number(threaded("godwit", 8, "against_one")),
    "veth.over-udp": lambda: over_udp("godwit"),
    "veth.cpu-over-udp": lambda: over_udp("godwit", "cpu_s_per_gb"),
    "veth.no-icrc-cpu-over-udp": lambda: over_udp("godwit-no-icrc", "cpu_s_per_gb"),
    "veth.no-icrc-over-udp": lambda: over_udp("godwit-no-icrc"),
    "overhead.goodput": lambda: number(kept("overhead.json")["over_bare"]["godwit-channel"]["goodput"]["median"]),
    "overhead.cpu": lambda: number(kept("overhead.json")["over_bare"]["godwit-channel"]["cpu_s_per_gb"]["median"]),
    "rxe.of-soft-roce": lambda: from_to([one["median"] for one in kept("rxe.json")["ratios"].values()]),

    "longhaul.rounds": lambda: longhaul.middle_of(kept("longhaul.json")["rounds"]),
    "longhaul.4g-of-best": lambda: from_to(over_best("gbps", 25, 4)),
    "longhaul.1g-of-best": lambda: from_to(over_best("gbps", 25, 1)),
    "longhaul.1g-of-cubic-16": lambda: from_to(over("tcp-cubic-16", "gbps", 25, 1, loss=lambda loss: loss >= 1e-3)),
    "longhaul.short-of-best": lambda: from_to(over_best("gbps", 0.2, 1) + over_best("gbps", 0.2, 4)),
    "longhaul.1g-messages-of-best": lambda: from_to(over_best("mean_ms", 25, 1, loss=lambda loss: loss >= 1e-3, bursts=False)),
    "longhaul.1g-bursts-messages-of-best": lambda: from_to(over_best("mean_ms", 25, 1, loss=lossy, bursts=True)),
    "longhaul.4g-messages-of-best": lambda: from_to(over_best("mean_ms", 25, 4)),
    "longhaul.short-messages-of-bbr": lambda: from_to(over("tcp-bbr", "mean_ms", 0.2, 1) + over("tcp-bbr", "mean_ms", 0.2, 4)),
    "longhaul.message": lambda: number(ours(one_in_a_hundred(), "mean_ms")),
    "longhaul.message-p99": lambda: number(ours(one_in_a_hundred(), "p99_ms")),
    "longhaul.message-bbr": lambda: number(one_in_a_hundred()["summary"]["tcp-bbr"]["mean_ms"]["median"]),
    "longhaul.message-bbr-p99": lambda: number(one_in_a_hundred()["summary"]["tcp-bbr"]["p99_ms"]["median"]),
    "longhaul.1g-over-lossless": lambda: from_to(over_lossless(1, 0.01)),
    "longhaul.4g-over-lossless": lambda: from_to(over_lossless(4, 0.01)),

    "schemes.ec-of-bbr": lambda: number(scheme_ms("godwit-ec", INDEPENDENT, "1 MiB") / scheme_ms("tcp-bbr", INDEPENDENT, "1 MiB")),
    "schemes.ec-of-bbr-p99": lambda: number(scheme_ms("godwit-ec", INDEPENDENT, "1 MiB", "p99_ms") /
                                            scheme_ms("tcp-bbr", INDEPENDENT, "1 MiB", "p99_ms")),
    "schemes.auto-over-better": lambda: from_to(auto_over_better()),
    "schemes.ec-gbps": lambda: number(coding_gbps("godwit-ec")),
    "schemes.sr-gbps": lambda: number(coding_gbps("godwit-sr")),

    "bounded.cubic-over": lambda: number(bounded("tcp-cubic") / bounded("godwit-bounded")),
    "bounded.bbr-over": lambda: number(bounded("tcp-bbr") / bounded("godwit-bounded")),
    "bounded.cubic-over-sr": lambda: number(bounded("tcp-cubic") / bounded("godwit-sr")),
    "bounded.bbr-over-sr": lambda: number(bounded("tcp-bbr") / bounded("godwit-sr")),
    "bounded-rxe.rc-14": lambda: number(bounded_rxe("rxe-rc-14")["median"]),
    "bounded-rxe.rc-8": lambda: number(bounded_rxe("rxe-rc-8")["median"]),
    "bounded-rxe.tcp": lambda: number(bounded_rxe("tcp-cubic")["median"]),
    "bounded-rxe.tcp-least": lambda: number(bounded_rxe("tcp-cubic")["least"]),
    "bounded-rxe.sr": lambda: number(bounded_rxe("godwit-sr")["median"]),

    "shared.beside-cubic": lambda: number(share_beside("godwit + tcp-cubic")),
    "shared.beside-bbr": lambda: number(share_beside("godwit + tcp-bbr")),
    "shared.cubic-beside-bbr": lambda: number(1 - share_beside("tcp-bbr + tcp-cubic")),
    "shared.step-queue": lambda: number(shared_step("highest_waiting_ms")),
    "shared.step-down": lambda: f"{shared_step('down_rtts'):.0f}",

    "congestion.alone-queue": lambda: f"{controlled('alone', 'queue'):.1f}",
    "congestion.eight-queue": lambda: f"{controlled('own-8', 'queue'):.1f}",
    "congestion.shallow-lost": lambda: per_cent(controlled("alone-shallow-0.02", "no_room")),
    "congestion.two-10g-jain": lambda: f"{controlled('own-2-10G', 'jain'):.3f}",
    "congestion.cubic-bbr-jain": lambda: f"{controlled('tcp-cubic-bbr', 'jain'):.3f}",
    "congestion.cubic-beside-eight": lambda: f"{controlled('cubic-8-of-ours', 'others'):.1f}",
    "congestion.step-queue": lambda: f"{max(queue for _, queue, _ in steps()):.0f}",
    "congestion.step-down": lambda: f"{step_down_s():.1f}",
    "congestion.step-down-rtts": lambda: f"{step_down_s() / 0.025:.0f}",

    "completion.rto": lambda: times(simulated("sr-rto", "3.6e-2")),
    "completion.rto-tail": lambda: times(simulated("sr-rto", "3.6e-2", "p99.9")),
    "completion.paper-mds": lambda: times(paper("mds:32:8", "1e-4")),
    "completion.mds": lambda: times(simulated("mds:32:8", "1e-4")),
    "completion.mds-3.6e-2": lambda: times(simulated("mds:32:8", "3.6e-2")),
    "completion.mds-1e-1": lambda: times(simulated("mds:32:8", "1e-1")),
    "completion.paper-mds-1e-1": lambda: times(paper("mds:32:8", "1e-1")),

    "plan.cost-small": lambda: from_to([cost for cost in costs("predict_us", 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)], lambda us: f"{us:.0f}"),
    "plan.cost-1e-1": lambda: f"{costs('predict_us', 0.1)[0]:.0f}",
    "plan.choice-cost": lambda: from_to([us / 1000 for us in costs("choose_us")], lambda ms: f"{ms:.2g}"),
    "plan.ideal": lambda: f"{1000 * kept('plan.json')['slowdowns']['paper']['1e-3']['ideal_s']:.1f}",
    "plan.rto": lambda: times(planned("sr-rto", "3.6e-2")),
    "plan.rto-tail": lambda: times(planned("sr-rto", "3.6e-2", "p99.9")),
    "plan.nack-gain": lambda: f"{planned('sr-rto', '3.6e-2', 'p99.9') / planned('sr-nack', '3.6e-2', 'p99.9'):.1f}",
    "plan.mds": lambda: times(planned("mds(32,8)", "1e-2")),
    "plan.mds-3.6e-2": lambda: times(planned("mds(32,8)", "3.6e-2")),
    "plan.xor-falls-1e-3": lambda: f"{100 * planned('xor(32,8)', '1e-3', 'repair_chance'):.1f}",
    "plan.xor-falls-1e-2": lambda: per_cent(100 * planned("xor(32,8)", "1e-2", "repair_chance")),
    "coding.rows": lambda: f"{coding_speed():.0f}",
    "coding.data": lambda: f"{coding_speed() / 8:.1f}",

    "coverage.lines": lambda: covered(0),
    "coverage.branches": lambda: covered(1),
}

CLAIMS = {
    "collectives.far-clean": lambda: min(collectives.beside_peers(kept("collectives.json"), ("allreduce", "allgather", "broadcast"), rtt_ms=10,
                                                                  hosts=4)) > 1 - 1 / 30,
    "collectives.far-clean-of-eight": lambda: sorted(collectives.beside_peers(
        kept("collectives.json"), ("allreduce", "allgather", "broadcast"), rtt_ms=10, hosts=8))[2] > 1,
    "collectives.near-gloo": lambda: statistics.median(collectives.beside_peers(kept("collectives.json"), ("allreduce", "allgather"),
                                                                                ("gloo-cubic", "gloo-bbr"), rtt_ms=0.2)) < 1.05,
    "collectives.far-cubic": lambda: sorted(collectives.beside_peers(kept("collectives.json"), ("allreduce", "allgather", "broadcast"),
                                                                     ("openmpi-cubic", "gloo-cubic"), rtt_ms=10, lossy=True))[1] >= 3,
    "collectives.broadcast-ahead": lambda: min(ratio for lossy in (False, True) for ratio in collectives.beside_peers(
        kept("collectives.json"), ("broadcast",), lossy=lossy, least_bytes=16 * collectives.MIB)) > 1,
    "tensor.half-of-memcpy": lambda: min(tensor_ratio(kind) for kind in ("bfloat16", "float32", "stride")) >= 0.5,
    "bounded-lab.goal-missed": lambda: lab_p99("exact") < 3 * lab_p99("count"),
    "veth.bare-udp-below-cubic": lambda: all(veth_goodput(case, "udp-blast") < veth_goodput(case, "tcp-cubic")
                                             for case in kept("veth.json")["cases"]),
    "veth.goals-missed": lambda: all(veth_goodput(case, "godwit") < 0.85 * veth_goodput(case, "udp-blast") for case in kept("veth.json")["cases"]),
    "overhead.cpu-within-goal": lambda: kept("overhead.json")["over_bare"]["godwit-channel"]["cpu_s_per_gb"]["median"] <= 1.10,
    "overhead.goodput-below-goal": lambda: kept("overhead.json")["over_bare"]["godwit-channel"]["goodput"]["median"] < 0.97,
    "rxe.soft-roce-ahead": lambda: all(one["median"] < 1 for one in kept("rxe.json")["ratios"].values()),
    "longhaul.4g-ahead-at-three-of-four": lambda: [ratio > 1 for ratio in over_best("gbps", 25, 4, loss=lossy)].count(True) == 3 and
                                                  len(over_best("gbps", 25, 4, loss=lossy)) == 4,
    "longhaul.1g-ahead-at-1e-2": lambda: all(ratio > 1 for ratio in over_best(
        "gbps", 25, 1, loss=lambda loss: loss == 1e-2, bursts=False)),
    "longhaul.messages-ahead-independent": lambda: all(ratio < 1 for ratio in over_best(
        "mean_ms", 25, 1, loss=lambda loss: loss >= 1e-3, bursts=False)),
    "longhaul.4g-messages-ahead": lambda: all(ratio < 1 for ratio in over_best("mean_ms", 25, 4)),
    "schemes.coding-not-faster-at-128-mib": lambda: all(
        point["summary"]["godwit-ec"]["mean_ms"]["median"] >= point["summary"]["godwit-sr"]["mean_ms"]["median"]
        for point in kept("schemes.json")["points"] if point["size"] == "128 MiB"),
    "schemes.coding-faster-up-to-16-mib-at-1e-2": lambda: all(
        point["summary"]["godwit-ec"]["mean_ms"]["median"] < point["summary"]["godwit-sr"]["mean_ms"]["median"]
        for point in kept("schemes.json")["points"] if point["size"] != "128 MiB" and point["link"]["loss"] == 0.01),
    "schemes.coding-costs-no-goodput": lambda: coding_gbps("godwit-ec") >= 0.98 * coding_gbps("godwit-sr"),
    "bounded-rxe.guests-set-the-tail": lambda: kept("bounded-rxe.json")["lossless"]["godwit-bounded"]["p99_ms"]["median"] >=
                                               kept("bounded-rxe.json")["summary"]["godwit-bounded"]["p99_ms"]["median"],
    "shared.less-than-cubic-beside-bbr": lambda: share_beside("godwit + tcp-bbr") < 1 - share_beside("tcp-bbr + tcp-cubic"),
    "completion.timer-as-modelled": lambda: all(abs(simulated("sr-rto", loss) / paper("sr-rto", loss) - 1) < 0.03
                                                for loss in kept("completion.json")["paper"]),
    "completion.sr-tail-below-model": lambda: all(simulated("sr", loss, "p99.9") < paper("sr", loss, "p99.9")
                                                  for loss in ("1e-2", "3.6e-2", "1e-1")),
    "completion.sr-mean-below-model-at-1e-1": lambda: simulated("sr", "1e-1") < paper("sr", "1e-1"),
    "completion.sr-near-model": lambda: all(abs(simulated("sr", loss) / paper("sr", loss) - 1) < 0.03
                                            for loss in ("1e-6", "1e-5", "1e-4", "1e-3", "1e-2")),
    "completion.mds-faster-than-model": lambda: all(simulated("mds:32:8", loss) < paper("mds:32:8", loss)
                                                    for loss in ("1e-6", "1e-5", "1e-4")),
    "completion.sr-faster-nearby": lambda: sweep_mean("rtt", "sr", "rtt-ns", 100_000) < sweep_mean("rtt", "mds:32:8", "rtt-ns", 100_000),
    "completion.auto-within-5": lambda: worst_auto() < 1.05,
}


def worst_auto():
    """auto's mean over the best of the others, at its worst over all sweeps."""
    worst = 0
    for sweep in ("loss", "size", "rtt", "rate"):
        found = {}
        for one in kept("completion.json")[sweep]:
            key = tuple(one[field] for field in ("loss", "size", "rtt-ns", "rate-bps"))
            found.setdefault(key, {})[one["scheme"]] = one["simulated"]["mean"][0]
        worst = max([worst, *(each["auto"] / min(mean for name, mean in each.items() if name != "auto")
                              for each in found.values() if "auto" in each)])
    return worst


def figure(name, page):
    if name not in FIGURES:
        raise KeyError(f"{page}: no figure is called {name}; bench/figures/prose.py has those that there are")
    return FIGURES[name]()


def written(text, page):
    """The page with each figure as it is kept."""
    return MARK.sub(lambda found: found.group(1) + figure(found.group(2), page) + found.group(4), text)


def blanked(found):
    return re.sub(r"[^\n]", " ", found.group(0))


def without_code(text):
    """The page without what is generated and without code, line for line."""
    for pattern in (TABLE, FENCED, INDENTED, CODE):
        text = pattern.sub(blanked, text)
    return text


def prose_of(text):
    """The same without figures that are marked, and without comments."""
    return re.sub(r"<!--.*?-->", blanked, MARK.sub(blanked, without_code(text)), flags=re.S)


def complaints(text, page):
    """What is wrong with a page, as sentences."""
    found = []
    for mark in MARK.finditer(text):
        should = figure(mark.group(2), page)
        if mark.group(3) != should:
            found.append(f"{page}: {mark.group(2)} is {should}, the page says {mark.group(3)}")
    for mark in HOLDS.finditer(text):
        if mark.group(1) not in CLAIMS:
            found.append(f"{page}: no claim is called {mark.group(1)}")
        elif not CLAIMS[mark.group(1)]():
            found.append(f"{page}: {mark.group(1)} does not hold in docs/results any more")
    if page in NO_FIGURES:
        return found
    for sentence in SENTENCE.split(without_code(text)):
        if COMPARES.search(re.sub(r"<!--.*?-->", " ", sentence)) and not HOLDS.search(sentence):
            found.append(f"{page}: a sentence compares and is tied to no result by <!-- holds NAME -->: {' '.join(sentence.split())[:120]}")
    given, met = set(GIVEN.get(page, ())), set()
    prose = prose_of(text)
    for amount in WITH_UNIT.finditer(prose):
        said = " ".join(amount.group(0).split())
        met.add(said)
        if said not in given:
            line = prose.count("\n", 0, amount.start()) + 1
            found.append(f"{page}:{line}: \"{said}\" is tied to no result: mark it with <!-- fig NAME -->, or, if it is no result, "
                         "put it into bench/figures/given.py")
    found += [f"{page}: \"{said}\" is in bench/figures/given.py and not on the page" for said in sorted(given - met)]
    return found


def unused(pages):
    """Figures and claims that no page has: one that nobody quotes is not kept."""
    whole = "\n".join(pages)
    return [f"bench/figures/prose.py has {name}, and no page quotes it"
            for names, pattern in ((FIGURES, MARK), (CLAIMS, HOLDS))
            for name in names if name not in {found.group(2 if pattern is MARK else 1) for found in pattern.finditer(whole)}]
