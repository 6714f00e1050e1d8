# SPDX-License-Identifier: BSD-3-Clause
"""Messages that may end incomplete beside the kernel's soft-RoCE, in two user-mode Linux guests: bench/run's bounded-rxe.

Messages of 1 MiB go one at a time from guest a to guest b, each from the moment it is posted until its sender knows what
became of it. The guests are those of tests/interop and bench/rxe/bounded-job runs in them; between them is bench/relay, a link
of the lab's own model. Each sample has guests that were just booted and a relay with the round's seed, so that the fate of
the k-th frame is the same for everyone. What a message takes without loss, and a write of 64 bytes, say what the guests
themselves cost: figures compare within these guests and with nothing else.

All tuning is in this file. Reliable connections have the device's path MTU and as many retries as there can be, and come
with two timeouts. TCP is tuned by bench/rxe/bounded-job.
"""
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time

from rxe import rxe
from veth.contenders import Failure, last_json
from veth.wire import spread

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVER = "10.9.0.2"
MIB = 1 << 20
LINK = {"rtt_ms": 0.2, "rate_mbps": 500, "mtu": rxe.LINK_MTU, "loss": 0.01, "burst": 16, "burst_most_ms": 5}
ROUNDS, MESSAGES = 3, 400
LOSSLESS_MESSAGES = 100  # the fewest of which a 99th percentile is told
SMALL, SMALL_MESSAGES = 64, 200
SAMPLE_S = 20  # after which no further message begins
GUEST_S = 60  # and after which a sample that has not ended never will
LATE_US = 1000 * LINK["rtt_ms"]  # a relay that is later than this, at the 99th percentile, was not the link it should be
OURS = "godwit-bounded"


class Contender:
    def __init__(self, name, what, tuning, program, server, client):
        self.name, self.what, self.tuning, self.program, self.server, self.client = name, what, tuning, program, server, client

    def path(self, build):
        return os.path.join(build, "bench", self.program)

    def missing(self, build):
        return None if os.access(self.path(build), os.X_OK) else f"bench/{self.program} is not built"

    def commands(self, build, size, count):
        return [self.path(build), "--serve", *self.server, "--", self.path(build), SERVER, "--messages", str(count),
                "--seconds", str(SAMPLE_S), "--message", str(size), *self.client]


def godwit(scheme, what, tuning, *options):
    fabric = ["--fabric", "verbs:rxe0"]
    return Contender(f"godwit-{scheme}", what, tuning, "godwit_stream", fabric, [*fabric, "--scheme", scheme, *options])


def reliable(timeout, tuning):
    device = ["--device", "rxe0"]
    return Contender(f"rxe-rc-{timeout}", "soft-RoCE's reliable connection, RDMA writes", tuning, "rc_stream", device,
                     [*device, "--timeout", str(timeout)])


CONTENDERS = [
    godwit("bounded", "bare messages on UC queue pairs of soft-RoCE, completion bounded in time",
           "no controller; a grace of 1 ms, for this link keeps packets in order; the deadline is a quarter above what messages took",
           "--grace", "0.001"),
    godwit("sr", "the same, Selective Repeat", "no controller"),
    reliable(8, "path MTU 4096, local ACK timeout 8: the kernel's shortest timer, a tick of 10 ms; 7 retries"),
    reliable(14, "path MTU 4096, local ACK timeout 14, as perftest has it: 67 ms; 7 retries"),
    Contender("tcp-cubic", "TCP, one flow, cubic",
              "buffers up to 64 MiB, initial windows of 64, no slow start after idling", "tcp_stream", [],
              ["--working-set", str(16 * MIB), "--congestion", "cubic"]),
]


def relay_command(build, lossy, seed):
    loss = ["--loss", str(LINK["loss"]), "--burst", f"{LINK['burst']}:{LINK['burst_most_ms']}ms"] if lossy else []
    return shlex.join([os.path.join(build, "bench", "relay"), "--rtt", f"{LINK['rtt_ms']}ms", "--rate",
                       f"{LINK['rate_mbps']}M", "--seed", str(seed), *loss])


def read(share, name):
    try:
        with open(os.path.join(share, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def sample_of(status, client, server, relay, foreign_share):
    """From what the programs printed; a Failure where there are no figures."""
    if status:
        said = [line for line in f"{client}\n{server}".splitlines() if line and not line.startswith("{")]
        raise Failure(f"ended with {status}: {' | '.join(said)[-200:]}")
    one, link = last_json(client, "the client"), last_json(relay, "the relay")
    there = link["there"]
    return {"message_time": one["message_time"], "delivered": one.get("delivered", 1.0), "failed_messages": one.get("failed", 0),
            "why": one.get("why", ""), "holed_messages": one.get("holed", 0), "frames": there["frames"],
            "lost": there["lost"] / max(1, there["frames"]), "late_p99_us": there["late_p99_us"],
            "late": there["late_p99_us"] > LATE_US or there["overrun"] + link["back"]["overrun"] > 0,
            "foreign_share": foreign_share, "disturbed": foreign_share > rxe.DISTURBED}


def own_seconds():
    times = os.times()
    return times.children_user + times.children_system


def sample(contender, build, size, count, lossy, seed):
    with tempfile.TemporaryDirectory() as share:
        command = [os.path.join(rxe.INTEROP, "two-guests"), "-t", str(GUEST_S), "-r", relay_command(build, lossy, seed), share,
                   os.path.join(ROOT, "bench", "rxe", "bounded-job"), str(GUEST_S - 10), *contender.commands(build, size, count)]
        begin, own, busy = time.monotonic(), own_seconds(), rxe.busy_ticks()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        took, own, busy = time.monotonic() - begin, own_seconds() - own, (rxe.busy_ticks() - busy) / rxe.TICKS
        taken = sample_of(done.returncode, read(share, "client"), read(share, "server"), read(share, "relay"),
                          max(0, busy - own) / took / os.cpu_count())
        return {**taken, "guest_kernel": read(share, "kernel").strip()}


def attempt(contender, *arguments):
    """A sample, or why there is none: one contender that fails does not end the others."""
    try:
        taken = sample(contender, *arguments)
        shown = {key.replace("_us", "_ms"): round(value / 1e3, 2) for key, value in taken["message_time"].items()
                 if key.endswith("_us")}
    except (Failure, KeyError, ValueError) as error:
        taken = shown = {"failed": str(error) if isinstance(error, Failure) else f"its output lacks {error}"}
    print(f"  {contender.name}: {shown}", file=sys.stderr, flush=True)
    return taken


def good(samples):
    return [each for each in samples if "failed" not in each]


def times_of(samples, key):
    """Milliseconds; None where not every sample has it."""
    values = [each["message_time"].get(key) for each in good(samples)]
    return spread([value / 1e3 for value in values]) if values and None not in values else None


def summary_of(samples):
    taken = good(samples)
    return {"mean_ms": times_of(samples, "mean_us"), "median_ms": times_of(samples, "median_us"),
            "p99_ms": times_of(samples, "p99_us"), "worst_ms": times_of(samples, "max_us"),
            "delivered": spread([each["delivered"] for each in taken]) if taken else None,
            "lost": spread([each["lost"] for each in taken]) if taken else None,
            "messages": sum(each["message_time"]["samples"] for each in taken),
            "failed_messages": sum(each["failed_messages"] for each in taken),
            "late": sum(each["late"] for each in taken), "disturbed": sum(each["disturbed"] for each in taken),
            "failed": len(samples) - len(taken)}


def ratios_of(samples):
    """Of 99th percentiles, over our own within a round."""
    result = {}
    for name, others in samples.items():
        pairs = [(theirs["message_time"]["p99_us"], ours["message_time"]["p99_us"])
                 for ours, theirs in zip(samples.get(OURS, []), others)
                 if "failed" not in ours and "failed" not in theirs
                 and "p99_us" in ours["message_time"] and "p99_us" in theirs["message_time"]]
        if name != OURS and pairs:
            result[name] = spread([theirs / ours for theirs, ours in pairs])
    return result


def run_bounded_rxe(options):
    known = {each.name: {"what": each.what, "tuning": each.tuning, "missing": each.missing(options.build)} for each in CONTENDERS}
    present = [each for each in CONTENDERS if not known[each.name]["missing"]]
    binary = None if rxe.missing() else rxe.kernel()
    if not binary or OURS not in [each.name for each in present]:
        print(f"SKIP: bounded-rxe: {rxe.missing() or 'no guest kernel, or nothing built for it'}")
        return None
    rounds, count = (1, LOSSLESS_MESSAGES) if options.quick else (ROUNDS, MESSAGES)
    small = next((each for each in present if each.program == "rc_stream"), present[0])
    least = attempt(small, options.build, SMALL, SMALL_MESSAGES, False, 0)
    lossless = {each.name: [attempt(each, options.build, MIB, LOSSLESS_MESSAGES, False, 0)] for each in present}
    taken = {each.name: [] for each in present}
    for number in range(rounds):
        turn = number % len(present)
        for each in present[turn:] + present[:turn]:
            taken[each.name].append(attempt(each, options.build, MIB, count, True, number + 1))
    return {"environment": "soft-RoCE: two user-mode Linux guests and a relay", "rounds": rounds, "quick": options.quick,
            "kernel": platform.release(), "processors": os.cpu_count(), "guest_binary": os.path.basename(binary),
            "guest_kernel": next((each["guest_kernel"] for each in good([least, *sum(taken.values(), [])])), "unknown"),
            "link": LINK, "size_bytes": MIB, "small": {"bytes": SMALL, "contender": small.name, **least},
            "contenders": known, "summary": {name: summary_of(samples) for name, samples in taken.items()},
            "lossless": {name: summary_of(samples) for name, samples in lossless.items()}, "ratios": ratios_of(taken),
            "samples": taken, "lossless_samples": lossless}


RUNS = {"bounded-rxe": run_bounded_rxe}
