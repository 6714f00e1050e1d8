#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Training through a lossy, bursty network: a small transformer, data-parallel on 4 ranks that share one GPU.

Usage: train.py [--out DIRECTORY] [--budget SECONDS] [--build DIRECTORY] [--contenders NAME,...] [--seeds N] [--steps N]
                [--merge FILE] [--rtt MS] [--rate GBPS] [--loss P] [--mtu N] [--straggler RANK:DISTRIBUTION:MS] [--device cuda|cpu] [--size NAME]

Every contender trains the same model on the same batches, as many steps as --steps says or as its share of the budget allows.
Contenders that are exact and reduce in the same order have the same losses, bit by bit: the result says how many steps of each have
the losses of the plugin, on all ranks. The target is the lowest loss (mean over ranks and 10 steps) that both the bounded one and the
best of the peers (NCCL's Socket, Gloo) reached; a contender's time to target is its time to that loss. Of an exact one that was
stopped before it, the result has a projection: the steps that other exact ones took, at its own pace.

`--merge docs/results/training.json` measures nothing and puts the seeds that DIRECTORY has into that file; the others stay, and all are
replaced if the path, the model or the straggler is another. Of a seed that was measured again, contenders that were not keep their
steps; what depends on the target, which may be another now, follows from their curves.

DIRECTORY/training.points has a line for each run, and a later call goes on there. DIRECTORY/training.json is the result, and
training.svg and, with matplotlib, training.png show loss over time. The text is what the machine has: licences and Python's sources.

--straggler makes one rank late with its gradients by a time drawn for each step: fixed, exponential, lognormal, pareto or tenth.
`--device cpu --size tiny` tries all this without a GPU: contenders of NCCL then run over Gloo.
"""
import argparse
import os
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from gpu import contenders as field, keep  # noqa: E402
from gpu.straggler import Straggler  # noqa: E402
from gpu.world import Failure, Mps, Together, Tuning, World  # noqa: E402

ROOT = keep.ROOT
RANKS = 4
SMOOTH = 10  # steps over which a loss is the mean
START_S = 12.0  # of a run, until it is known better
ATTEMPTS = 2
COLOURS = ("#4477aa", "#cc6677", "#228833", "#aa3377", "#ccbb44", "#66ccee", "#333333", "#999999")


class Way:
    """How gradients travel: a backend of torch.distributed, under it a contender of contenders.py or nobody, and perhaps a hook."""

    def __init__(self, name, what, backend, transport=None, congestion="cubic", hook=None, reduce=None, fsdp=False, exact=True,
                 loss=None, communicator=None, **hook_settings):
        # loss: of packets, instead of what --loss says; communicator: attributes of it
        self.loss, self.communicator = loss, communicator or {}
        self.name, self.what, self.backend, self.transport, self.congestion = name, what, backend, transport, congestion
        self.hook, self.reduce, self.fsdp, self.exact, self.hook_settings = hook, reduce, fsdp, exact, hook_settings

    def environment(self, build, scenario):
        library = {"GODWIT_LIBRARY": os.path.join(build, "src", "libgodwit.so")}
        if not self.transport:
            return {**field.shared_environment(scenario), **library}
        transport = next(each for each in field.CONTENDERS if each.name == self.transport)
        return {**field.shared_environment(scenario), **library, **transport.environment(build)}

    def described(self, device):
        backend = "gloo" if device == "cpu" and self.backend == "nccl" else self.backend
        return {"backend": backend, "device": device, "hook": self.hook, "reduce": self.reduce, "fsdp": self.fsdp,
                "hook_settings": self.hook_settings, "communicator": self.communicator, "package": os.path.join(ROOT, "bindings", "python")}


# As many tracks as a step has buckets: channels that are used in each step know their rate.
IN_STEP = {"tracks": 2}
WAYS = [
    Way("socket-cubic", "NCCL, its Socket transport, cubic", "nccl", "socket-cubic"),
    Way("socket-bbr", "NCCL, its Socket transport, bbr", "nccl", "socket-bbr", "bbr"),
    Way("gloo", "Gloo, bbr", "gloo", congestion="bbr"),
    Way("plugin", "NCCL, libnccl-net-godwit.so", "nccl", "godwit"),
    Way("exact", "Godwit's collectives, backend of torch.distributed", "godwit"),
    Way("bounded", "Godwit's bounded allreduce, DDP hook", "godwit", hook="bounded_hook", exact=False, communicator=IN_STEP),
    Way("bounded-5", "the same, with a loss of 5 % in bursts", "godwit", hook="bounded_hook", exact=False, loss=0.05,
        communicator=IN_STEP),
    Way("fsdp", "FSDP on NCCL, libnccl-net-godwit.so", "nccl", "godwit", fsdp=True),
]
DEFAULT = ["socket-cubic", "socket-bbr", "gloo", "plugin", "bounded", "bounded-5"]
NCCL_RINGS = ("plugin", "socket-bbr", "socket-cubic")
BOUNDED, PEERS, EXACT = "bounded", ("socket-cubic", "socket-bbr", "gloo"), [way.name for way in WAYS if way.exact and not way.fsdp]


def floats(run):
    """Losses of each rank."""
    return [[float.fromhex(loss) for loss in rank["losses"]] for rank in run["ranks"]]


def smooth(losses):
    return [statistics.fmean(losses[at - SMOOTH:at]) for at in range(SMOOTH, len(losses) + 1)]


def smoothed(run):
    return smooth([statistics.fmean(losses) for losses in zip(*floats(run))])


def steps_of(run):
    return len(run["ranks"][0]["losses"])


def steps_until(run, target):
    """Steps until the smoothed loss was at the target; None if it never was."""
    return next((at + SMOOTH for at, loss in enumerate(smoothed(run)) if loss <= target), None)


def reached(run, target):
    """Seconds until the smoothed loss was at the target; None if it never was."""
    steps = steps_until(run, target)
    return None if steps is None else run["ranks"][0]["ends_s"][steps - 1]


def equal_steps(run, reference):
    """Steps from the first on in which all ranks had the same losses as in another run, bit by bit; and steps of both."""
    count = min(steps_of(run), steps_of(reference))
    same = zip(*(rank["losses"][:count] for run in (run, reference) for rank in run["ranks"]))
    ranks = len(run["ranks"])
    return next((at for at, losses in enumerate(same) if losses[:ranks] != losses[ranks:]), count), count


def over_exact(run, exact):
    """Smoothed loss after as many steps as both runs did, over that of exact training, which no network changes."""
    count = min(steps_of(run), steps_of(exact))
    return smoothed(run)[count - SMOOTH] / smoothed(exact)[count - SMOOTH]


def target_of(judged):
    """The lowest loss that both the bounded one and the best exact peer reached; of other contenders, that all reached."""
    least = {name: min(smoothed(run)) for name, run in judged.items()}
    peers = [least[name] for name in PEERS if name in least]
    if BOUNDED in least and peers:
        return max(least[BOUNDED], min(peers))
    return max(least.values(), default=None)


def summary(runs):
    """name -> figures, of the runs of one seed."""
    good = {name: run for name, run in runs.items() if "ranks" in run}
    judged = {name: run for name, run in good.items() if name != "fsdp" and steps_of(run) > SMOOTH}
    target = target_of(judged)
    exact = max((run for name, run in judged.items() if name in EXACT), key=steps_of, default=None)
    # Ring, one order of additions: NCCL's contenders have the same losses whatever carries them.
    reference = next((judged[name] for name in NCCL_RINGS if name in judged), exact)
    needed = [steps for steps in (steps_until(run, target) for name, run in judged.items() if name in EXACT) if steps is not None]
    said = {}
    for name, run in runs.items():
        if name not in good:
            said[name] = {"failed": run["failed"][-300:]}
            continue
        ends = run["ranks"][0]["ends_s"]
        steps_s = sorted(after - before for before, after in zip(ends[1:], ends[2:]))
        digests = {rank.get("digest") for rank in run["ranks"]}
        said[name] = {"steps": len(ends), "seconds": ends[-1], "step_p50_ms": 1e3 * statistics.median(steps_s) if steps_s else None,
                      "step_p99_ms": 1e3 * steps_s[int(0.99 * len(steps_s))] if steps_s else None,
                      "step_mean_ms": 1e3 * ends[-1] / len(ends), "last_loss": floats(run)[0][-1],
                      "held_out": run["ranks"][0].get("held_out"), "replicas_equal": len(digests) == 1,
                      "missing": run["ranks"][0].get("missing"),
                      "parts_ms": run["ranks"][0].get("parts_ms"), "lab": run.get("lab"), "void": run.get("void")}
        if name not in judged:
            continue
        said[name]["target_s"] = reached(run, target)
        if said[name]["target_s"] is None and name in EXACT and needed:
            said[name]["projected_s"] = min(needed) * ends[-1] / len(ends)
        if name in EXACT and reference:
            said[name]["equal_steps"], said[name]["compared_steps"] = equal_steps(run, reference)
        if name not in EXACT and exact:
            said[name]["loss_over_exact"] = over_exact(run, exact)
    compare_with_best(said)
    return {"target": target, "contenders": said}


def compare_with_best(said):
    """Says how much faster each contender of a seed was at the target than the best peer."""
    times = [one.get("target_s") or one.get("projected_s") for name, one in said.items() if name in PEERS]
    best = min((each for each in times if each), default=None)
    for one in said.values():
        if best and one.get("target_s"):
            one["faster"] = best / one["target_s"]


class Trainer:
    def __init__(self, options):
        self.options, self.started = options, time.monotonic()
        self.points = os.path.join(options.out, "training.points")
        self.done = keep.read_points(self.points)
        self.start_s = START_S
        self.mps, self.tuning = Mps(), Tuning("cubic", "bbr")

    def close(self):
        self.mps.close()
        self.tuning.close()

    def left(self):
        return float("inf") if self.options.budget is None else self.options.budget - (time.monotonic() - self.started)

    def scenario(self, way=None):
        options = self.options
        loss = way.loss if way and way.loss is not None else options.loss
        return field.Scenario("training", RANKS, options.rtt, options.rate, loss, True, options.mtu, 32 * field.MIB)

    def key(self, way, seed):
        """What makes two runs the same."""
        options = self.options
        return [way.name, seed, options.size, options.steps, options.straggler.said if options.straggler else None, options.device,
                self.scenario(way).settings(1 + seed)]

    def before(self, way, seed):
        return [one for one in self.done if one["key"] == self.key(way, seed)]

    def wanted(self, way, seed):
        runs = self.before(way, seed)
        return len(runs) < ATTEMPTS and not any("ranks" in one and not one.get("void") for one in runs)

    def one(self, way, seed, seconds):
        from gpu import model  # imports torch, which takes seconds
        steps = min(self.options.steps, 20) if way.fsdp else self.options.steps
        together = Together(RANKS)
        point = {"key": self.key(way, seed), "contender": way.name, "seed": seed, "command": keep.command("bench/gpu/train.py")}
        world = World(self.options.build, RANKS, self.scenario(way).settings(1 + seed), way.congestion)
        begun = time.monotonic()
        try:
            with world:
                job = model.trainer(way.described(self.options.device), self.options.size, steps, seed, seconds, together,
                                    self.options.straggler)
                point["ranks"] = world.run(job, way.environment(self.options.build, self.scenario(way)), seconds + 60, together)
        except Failure as error:
            point["failed"] = str(error)
            self.mps.restart()
        point["took_s"] = time.monotonic() - begun
        if world.report:
            point["lab"] = world.report
            if world.report["void"]:
                point["void"] = world.report["void"]
        if "ranks" in point:
            self.start_s = max(3.0, point["took_s"] - point["ranks"][0]["ends_s"][-1])
            point["about"] = point["ranks"][0].pop("about")
        self.done.append(point)
        keep.add_point(self.points, point)
        said = point.get("failed", "")[-400:] or f"{len(point['ranks'][0]['losses'])} steps, {point.get('void') or 'not void'}"
        print(f"seed {seed}, {way.name}: {point['took_s']:.1f} s, {said}", flush=True)

    def run(self):
        ways = [each for each in WAYS if each.name in self.options.contenders]
        # Each seed begins with another contender.
        runs = [(way, seed) for seed in range(self.options.seeds) for way in ways[seed % len(ways):] + ways[:seed % len(ways)]]
        # FSDP only shows that it runs: a few steps, once.
        runs = [(way, seed) for way, seed in runs if self.wanted(way, seed) and not (way.fsdp and seed)]
        for at, (way, seed) in enumerate(runs):
            if not at or seed != runs[at - 1][1]:
                self.mps.restart()
            seconds = min(self.options.most, self.left() / (len(runs) - at) - self.start_s)
            if seconds < 2:
                print("the budget is used up: call again to go on", flush=True)
                return
            self.one(way, seed, seconds)

    def result(self):
        seeds = []
        for seed in range(self.options.seeds):
            runs = {}
            for way in WAYS:
                mine = self.before(way, seed)
                if mine:
                    runs[way.name] = next((one for one in mine if "ranks" in one and not one.get("void")), mine[-1])
            if runs:
                seeds.append({"seed": seed, **summary(runs),
                              "curves": {name: curve(run) for name, run in runs.items() if "ranks" in run}})
        options, about = self.options, next((one["about"] for one in self.done if one.get("about")), {})
        return {"environment": "one GPU, lab", "device": options.device, **about, "kernel": os.uname().release,
                "processors": os.cpu_count(), "ranks": RANKS, "path": self.scenario().described(), "size": options.size,
                "straggler": options.straggler.said if options.straggler else None, "smoothed_over": SMOOTH,
                "what": {way.name: way.what for way in WAYS}, "seeds": seeds}


def curve(run):
    """Seconds and mean loss of at most 200 steps."""
    means = [statistics.fmean(losses) for losses in zip(*floats(run))]
    ends = run["ranks"][0]["ends_s"]
    stride = max(1, len(means) // 200)
    return [[round(ends[at], 4), round(means[at], 5)] for at in range(0, len(means), stride)]


SETTINGS = ("device", "ranks", "path", "size", "straggler")
OF_TARGET = ("target_s", "projected_s", "faster")


def curve_reached(points, target):
    """Seconds until the smoothed loss of a curve was at the target; None if it never was."""
    means = smooth([loss for _, loss in points])
    return next((points[at + SMOOTH - 1][0] for at, loss in enumerate(means) if loss <= target), None)


def join(kept, fresh):
    """docs/results/training.json with the seeds that were measured since."""
    if any(kept[name] != fresh[name] for name in SETTINGS):
        return fresh
    seeds = {one["seed"]: one for one in kept["seeds"]}
    for one in fresh["seeds"]:
        old = seeds.get(one["seed"], {"contenders": {}, "curves": {}})
        stay = {name: {key: value for key, value in each.items() if key not in OF_TARGET}
                for name, each in old["contenders"].items() if name not in one["contenders"]}
        for name, each in stay.items():
            if name != "fsdp" and name in old["curves"]:
                each["target_s"] = curve_reached(old["curves"][name], one["target"])
        seeds[one["seed"]] = {**one, "contenders": {**one["contenders"], **stay}, "curves": {**old["curves"], **one["curves"]}}
        compare_with_best(seeds[one["seed"]]["contenders"])
    return {**kept, **fresh, "what": {**kept["what"], **fresh["what"]}, "seeds": [seeds[seed] for seed in sorted(seeds)]}


def draw(options, result):
    """Loss over time of the first seed, logarithmic: an SVG by bench/draw, a PNG if matplotlib is here."""
    if not result["seeds"]:
        return
    curves = {name: [(x, y) for x, y in points if x > 0] for name, points in result["seeds"][0]["curves"].items()}
    every = [point for points in curves.values() for point in points]
    if not every:
        return
    low, high = min(x for x, _ in every), max(x for x, _ in every)
    least, most = min(y for _, y in every) * 0.95, max(y for _, y in every) * 1.05
    path = result["path"]
    title = f"{RANKS} ranks, one GPU, lab: {path['rtt_ms']:g} ms, {path['rate_gbps']:g} Gbit/s, loss {path['loss']:g} in bursts"
    lines = ["title Loss of a small transformer over time", f"subtitle {title}", f"x {low} {high} seconds", f"y {least} {most} loss"]
    lines += [f"xtick {tick:g} {tick:g}" for tick in (0.1, 0.3, 1, 3, 10, 30, 100, 300) if low <= tick <= high]
    lines += [f"ytick {tick:g} {tick:g}" for tick in (0.5, 1, 1.5, 2, 3, 4, 5, 6) if least <= tick <= most]
    for at, (name, points) in enumerate(curves.items()):
        lines += [f"line {COLOURS[at % len(COLOURS)]} none {name}", *(f"at {x} {y}" for x, y in points)]
    program = os.path.join(options.build, "bench", "draw")
    if os.path.exists(program):
        done = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        if done.returncode == 0:
            with open(os.path.join(options.out, "training.svg"), "w", encoding="utf-8") as file:
                file.write(done.stdout)
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for at, (name, points) in enumerate(curves.items()):
        axes.plot([x for x, _ in points], [y for _, y in points], label=name, color=COLOURS[at % len(COLOURS)])
    axes.set(xscale="log", xlabel="seconds", ylabel="loss", title=title)
    axes.legend()
    figure.savefig(os.path.join(options.out, "training.png"), dpi=120)


def show(result):
    for seed in result["seeds"]:
        print(f"seed {seed['seed']}: target {seed['target']}")
        for name, one in seed["contenders"].items():
            print(f"  {name}: " + ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
                                            for key, value in one.items() if key != "lab"), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Training through a lossy, bursty lab on one GPU.")
    keep.add_options(parser)
    parser.add_argument("--contenders", type=keep.names, default=DEFAULT, help=f"with commas between ({','.join(DEFAULT)})")
    parser.add_argument("--seeds", type=int, default=1, help="of the model and the batches (1)")
    parser.add_argument("--steps", type=int, default=300, help="most steps of a run (300)")
    parser.add_argument("--most", type=float, default=120, metavar="S", help="most seconds of a run (120)")
    parser.add_argument("--rtt", type=float, default=5, metavar="MS", help="round trip (5)")
    parser.add_argument("--rate", type=float, default=2, metavar="GBPS", help="of each host's link (2)")
    parser.add_argument("--loss", type=float, default=1e-2, help=f"of packets, in bursts of {field.BURST} (1e-2)")
    parser.add_argument("--mtu", type=int, default=9000, help="(9000)")
    parser.add_argument("--straggler", metavar="RANK:DISTRIBUTION:MS", help="a rank that is late, as in 3:exponential:50")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: no GPU, to try this (cuda)")
    parser.add_argument("--size", default="small", choices=("small", "tiny"), help="of the model (small)")
    parser.add_argument("--merge", metavar="FILE", help="measure nothing, put what was measured into FILE (docs/results/training.json)")
    options = parser.parse_args()
    if options.merge:
        keep.merge(options, "training.json", join)
        return
    for name in options.contenders:
        if name not in {each.name for each in WAYS}:
            parser.error(f"unknown contender {name}")
    if options.straggler:
        try:
            options.straggler = Straggler(options.straggler)
        except ValueError as error:
            parser.error(str(error))
    os.makedirs(options.out, exist_ok=True)
    keep.ready(options, ("godwit", field.GODWIT, "src/libgodwit.so", "bench/draw"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    trainer = Trainer(options)
    try:
        trainer.run()
    finally:
        trainer.close()
        result = trainer.result()
        keep.write(options, "bench/gpu/train.py", "training.json", result, trainer.done)
        draw(options, result)
        show(result)


if __name__ == "__main__":
    main()
