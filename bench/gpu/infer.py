#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Inference in a lab like a rack: a transformer split over two ranks, whose activations are summed through 0.2 ms with bursty loss.

Usage: infer.py [--out DIRECTORY] [--budget SECONDS] [--build DIRECTORY] [--contenders NAME,...] [--rtt MS] [--rate GBPS] [--loss P]
                [--mtu N] [--seconds S] [--tokens N] [--steps N] [--device cuda|cpu] [--size NAME]

One rank trains the transformer of train.py for --steps steps; then each contender answers requests of 8 sequences for --seconds: the
time to the first token is a pass over the prompt, every other token a pass over one byte of each sequence, and each pass sums
activations twice a layer. Seven of eight requests end with their first token, since percentiles need many. The result, DIRECTORY/inference.json, has the median and the 99th percentile of the time to the first
token, tokens a second, and the perplexity on held-out text through the same network: exact contenders have the same.
`--device cpu --size tiny` tries this without a GPU.
"""
import argparse
import math
import os
import signal
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from gpu import contenders as field, keep  # noqa: E402
from gpu.train import WAYS, Way  # noqa: E402
from gpu.world import Failure, Mps, Together, Tuning, World  # noqa: E402

RANKS = 2
SEQUENCES = 8
# The method of a process group of godwit.torch that averages a tensor in place, within a bounded time. The ranks' activations are parts of
# one sum: that of a rank which is late by a few hundred microseconds must not be left out, so that the deadline is not the adaptive one.
BOUNDED = Way("bounded", "Godwit's bounded allreduce, a deadline of 50 ms", "godwit", reduce="bounded_allreduce", exact=False, deadline=0.05)
CONTENDERS = [each for each in WAYS if each.exact and not each.fsdp] + [BOUNDED]
DEFAULT = ["socket-cubic", "socket-bbr", "gloo", "plugin", "exact", "bounded"]


def figures(ranks):
    """A token is there when the slower rank has it."""
    firsts = sorted(max(each) for each in zip(*(rank["first_s"] for rank in ranks)))
    nexts = [max(each) for each in zip(*(rank["next_s"] for rank in ranks))]
    if not firsts:
        raise Failure("no request was answered in time")
    return {"requests": len(firsts), "first_p50_ms": 1e3 * statistics.median(firsts), "first_p99_ms": 1e3 * firsts[int(0.99 * len(firsts))],
            "tokens_a_second": SEQUENCES / statistics.fmean(nexts), "perplexity": math.exp(ranks[0]["loss"])}


def main():
    parser = argparse.ArgumentParser(description="Inference with a transformer split over two ranks, through a lossy lab on one GPU.")
    keep.add_options(parser)
    parser.add_argument("--contenders", type=keep.names, default=DEFAULT, help=f"with commas between ({','.join(DEFAULT)})")
    parser.add_argument("--rtt", type=float, default=0.2, metavar="MS", help="round trip (0.2)")
    parser.add_argument("--rate", type=float, default=4, metavar="GBPS", help="of each host's link (4)")
    parser.add_argument("--loss", type=float, default=1e-2, help=f"of packets, in bursts of {field.BURST} (1e-2)")
    parser.add_argument("--mtu", type=int, default=1500, help="(1500)")
    parser.add_argument("--seconds", type=float, default=10, help="of each contender (10)")
    parser.add_argument("--tokens", type=int, default=32, help="in an answer (32)")
    parser.add_argument("--steps", type=int, default=500, help="of training beforehand (500)")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: no GPU, to try this (cuda)")
    parser.add_argument("--size", default="small", choices=("small", "tiny"), help="of the model (small)")
    options = parser.parse_args()
    for name in options.contenders:
        if name not in {each.name for each in CONTENDERS}:
            parser.error(f"unknown contender {name}")
    os.makedirs(options.out, exist_ok=True)
    keep.ready(options, ("godwit", field.GODWIT, "src/libgodwit.so"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    from gpu import split  # imports torch, which takes seconds
    started = time.monotonic()
    scenario = field.Scenario("inference", RANKS, options.rtt, options.rate, options.loss, True, options.mtu)
    mps, tuning, told, about, whole = Mps(), Tuning("cubic", "bbr"), {}, {}, {}
    try:
        mps.restart()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weights")
            whole, = World(options.build, 1).run(split.teacher(options.size, options.device, options.steps, path), {}, 300)
            print(f"trained: {whole}", flush=True)
            for way in [each for each in CONTENDERS if each.name in options.contenders]:
                if options.budget is not None and time.monotonic() - started > options.budget - options.seconds - 10:
                    print("the budget is used up", flush=True)
                    break
                mps.restart()
                together = Together(RANKS)
                world = World(options.build, RANKS, scenario.settings(1), way.congestion)
                try:
                    with world:
                        job = split.server(way.described(options.device), options.size, path, options.tokens, options.seconds, together)
                        found = world.run(job, way.environment(options.build, scenario), options.seconds + 60, together)
                    told[way.name] = {**figures(found), "lab": world.report, "void": world.report["void"]}
                    about = found[0]["about"]
                except Failure as error:
                    told[way.name] = {"failed": str(error)[-300:]}
                print(f"{way.name}: {told[way.name]}", flush=True)
    finally:
        mps.close()
        tuning.close()
        result = {"environment": "one GPU, lab", "device": options.device, **about, "kernel": os.uname().release, "processors": os.cpu_count(),
                  "ranks": RANKS, "sequences": SEQUENCES, "path": scenario.described(), "size": options.size, "tokens": options.tokens,
                  "whole_perplexity": math.exp(whole["held_out"]) if whole else None,
                  "what": {each.name: each.what for each in CONTENDERS}, "contenders": told}
        keep.write(options, "bench/gpu/infer.py", "inference.json", result)


if __name__ == "__main__":
    main()
