# SPDX-License-Identifier: BSD-3-Clause
"""Godwit's user-space RoCE against what people have, over a veth: bench/run's veth, latency and many.

Every sample is one call of bench/veth/pair. A round has one sample of every contender, one right after the other, and each
round begins with another, so that what the machine does meanwhile meets all alike. Ratios are formed within a round;
their median stands with the least and the most. All samples are kept.
"""
import json
import os
import platform
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAIR = os.path.join(ROOT, "bench", "veth", "pair")
ENVIRONMENT = "lab: two network namespaces of one host on a veth pair"
OURS = ("godwit", "godwit-no-icrc")
MIB = 1 << 20
HOT, COLD = MIB, 256 * MIB
LATENCY_MESSAGES = 20000
MANY_QUEUE_PAIRS = 1000


def pair(options):
    return [PAIR, "--build", options.build, *(["--godwit", options.godwit] if options.godwit else [])]


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "runs": len(values)}


class Case:
    def __init__(self, name, test, value, contenders, arguments):
        self.name, self.test, self.contenders, self.arguments = name, test, contenders, arguments
        self.value = value  # of a sample: what ratios are formed of
        self.samples = {each: [] for each in contenders}
        self.repeated = 0  # rounds thrown away because somebody was disturbed

    def sample(self, contender, options):
        command = [*pair(options), "--test", self.test, "--seconds", str(options.seconds),
                   *self.arguments.get(contender, self.arguments.get(None, [])), contender.partition("/")[0]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 77:
            sys.exit(done.stdout.strip())
        if done.returncode:
            print(f"  {self.name}: {done.stderr.strip()}", flush=True)
            return {"failed": done.stderr.strip()}
        return json.loads(done.stdout)

    def good(self, contender):
        return [each for each in self.samples[contender] if "failed" not in each]

    def ratios(self, above, below):
        pairs = zip(self.samples[above], self.samples[below])
        return [self.value(a) / self.value(b) for a, b in pairs if "failed" not in a and "failed" not in b]


def median_us(sample):
    return sample["half_round_trip_us"]["p50"]


def goodput(sample):
    return sample["goodput_gbps"]


def who_is_there(options):
    listed = subprocess.run([*pair(options), "--list"], capture_output=True, text=True, check=True)
    return {each.pop("name"): each for each in map(json.loads, listed.stdout.splitlines())}


def run_cases(cases, there, options):
    """A round in which somebody was disturbed is taken again, all of it, as often as the options allow."""
    for case in cases:
        case.contenders = [name for name in case.contenders if not there[name.partition("/")[0]]["missing"]]
        for number in range(options.rounds):
            turn = number % max(1, len(case.contenders))
            for chance in range(options.again, -1, -1):
                taken = {name: case.sample(name, options) for name in case.contenders[turn:] + case.contenders[:turn]}
                if not chance or not any(each.get("disturbed") for each in taken.values()):
                    break
                case.repeated += 1
            for name, each in taken.items():
                case.samples[name].append(each)


def summary_of(case):
    summary = {}
    for name in case.contenders:
        good = case.good(name)
        if not good:
            continue
        one = summary[name] = {}
        if "goodput_gbps" in good[0]:
            one["goodput_gbps"] = spread([goodput(each) for each in good])
            one["cpu_s_per_gb"] = spread([each["cpu_s_per_gb"] for each in good])
            one["cpu_bound"] = sum(each["cpu_bound"] for each in good)
        else:
            one["half_round_trip_us"] = spread([median_us(each) for each in good])
            tails = [each["half_round_trip_us"].get("p99") for each in good]
            # A 99th percentile of fewer than a thousand messages is one message's luck.
            if None not in tails and all(each["messages"] >= 1000 for each in good):
                one["half_round_trip_p99_us"] = spread(tails)
        one["disturbed"] = sum(each["disturbed"] for each in good)
        one["failed"] = len(case.samples[name]) - len(good)
    return summary


def ratios_of(case, ours):
    return {our: {other: spread(values) for other in case.contenders if other != our
                  for values in [case.ratios(our, other)] if values}
            for our in ours if our in case.contenders}


def result_of(cases, there, options, ours, **more):
    named = {name.partition("/")[0] for case in cases for name in case.samples}
    return {
        "environment": ENVIRONMENT, "kernel": platform.release(), "processors": os.cpu_count(), "rounds": options.rounds,
        "seconds": options.seconds, **more,
        "contenders": {name: each for name, each in there.items() if name in named},
        "cases": [{"name": case.name, "arguments": {str(key): value for key, value in case.arguments.items()},
                   "rounds_repeated": case.repeated, "summary": summary_of(case), "ratios": ratios_of(case, ours),
                   "samples": {name: samples for name, samples in case.samples.items() if samples}}
                  for case in cases],
    }


def run_veth(options):
    there = who_is_there(options)
    contenders = [*OURS, "tcp-cubic", "tcp-bbr", "ucx", "libfabric", "udp-blast", "udp-eager"]
    cases = [Case(f"MTU {mtu}, {name}", "bw", goodput, contenders,
                  {None: ["--mtu", str(mtu), "--working-set", str(working_set)]})
             for mtu in (1500, 9000) for name, working_set in (("hot", HOT), ("cold", COLD))]
    run_cases(cases, there, options)
    return result_of(cases, there, options, OURS, hot_bytes=HOT, cold_bytes=COLD)


def run_latency(options):
    there = who_is_there(options)
    cases = [Case({"poll": "polling", "sleep": "sleeping"}[wait], "lat", median_us, ["godwit", "udp-pingpong", "udp-as-godwit", "ucx-perftest"],
                  {None: ["--wait", wait, "--messages", str(LATENCY_MESSAGES)]})
             for wait in ("poll", "sleep")]
    run_cases(cases, there, options)
    return result_of(cases, there, options, OURS[:1], message_bytes=64)


def run_many(options):
    """Both move through the same memory, so that a thousand are not slower merely for being cold."""
    there = who_is_there(options)
    one, many = "godwit/1", f"godwit/{MANY_QUEUE_PAIRS}"
    common = ["--mtu", "9000", "--working-set", str(COLD), "--queue-pairs"]
    case = Case("MTU 9000", "many", goodput, [one, many], {one: [*common, "1"], many: [*common, str(MANY_QUEUE_PAIRS)]})
    run_cases([case], there, options)
    result = result_of([case], there, options, [many], queue_pairs=MANY_QUEUE_PAIRS)
    shares = [each["fairness"]["jain_index"] for each in case.good(many)]
    result["fairness"] = spread(shares) if shares else None
    return result


def run_overhead(options):
    """What a channel costs over bare messages where nothing is lost and the processor is the limit."""
    there = who_is_there(options)
    case = Case("MTU 9000, cold", "bw", goodput, ["godwit", "godwit-unpaced", "godwit-channel"],
                {None: ["--mtu", "9000", "--working-set", str(COLD)]})
    run_cases([case], there, options)
    result = result_of([case], there, options, [])
    result["over_bare"] = {name: {
        "goodput": spread(case.ratios(name, "godwit")),
        "cpu_s_per_gb": spread([a["cpu_s_per_gb"] / b["cpu_s_per_gb"]
                                for a, b in zip(case.samples[name], case.samples["godwit"])
                                if "failed" not in a and "failed" not in b])}
        for name in case.contenders if name != "godwit" and case.ratios(name, "godwit")}
    return result


RUNS = {"veth": run_veth, "latency": run_latency, "many": run_many, "overhead": run_overhead}
