# SPDX-License-Identifier: BSD-3-Clause
"""Paths and uses that once failed, each with the command that shows what it does today: bench/run's rows.

A row has a path of the lab and commands for its two hosts, or a command for this host alone, or a test. Its words say how the
use once failed, and what it should do; a function turns what the commands printed into a sentence and a verdict. Godwit runs as
an ordinary user with the usual limits of buffers, except where a row compares with root; TCP has bbr and is tuned as compare.py
says. A row that misses its goal is tried once more, since the machine is shared. What others' use of the processors may have
slowed is not kept.

Rows are kept one by one in a file of JSON lines, and a run goes on where an earlier one was stopped (--points, --budget).
"""
import os
import re
import subprocess
import tempfile
import time

from anywhere import measure
from anywhere.compare import TUNING, compiler, speed
from anywhere.play import PORT, Play, Processors, objects, run_as, shell
from links import haul

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20
FIRST_BYTES = 64 << 10  # that the link has carried when data flows: the ends have met
FAR_BYTES = 32 * MIB
SEEDS = 10000
SDR_PORT = 18515


class Row:
    """`before` is what was seen once, `goal` what should be. `take` returns (what came out, whether that meets the goal)."""

    def __init__(self, name, before, goal, command, take, seconds=10):
        self.name, self.before, self.goal, self.command, self.take, self.seconds = name, before, goal, command, take, seconds
        self.timed = not command.startswith(("meson test", "tests/"))


def mbps(bytes_, seconds):
    return bytes_ * 8e-6 / seconds if seconds else 0.0


def said(value):
    return f"{value:.0f} Mbit/s" if value >= 100 else f"{value:.3g} Mbit/s"


class Bench:
    """Runs commands of the build in labs."""

    def __init__(self, build):
        self.build, self.godwit = build, os.path.join(build, "godwit")

    def ends(self, settings, receiver, sender, deadline=60, files=None, **options):
        """Runs the two ends; `files` names files that are there, and their bytes."""
        with Play(self.build, settings, receiver, sender, deadline=deadline, port=PORT, **options) as play:
            for name, content in (files or {}).items():
                path = os.path.join(play.directory, name)
                with open(path, "wb") as file:
                    file.write(content)
                os.chmod(path, 0o644)
            play.run()
            play.copy = self.read(os.path.join(play.directory, "copy"))
            carried = play.carried()
            play.flowed = carried.end() - carried.reaches(FIRST_BYTES)
            play.record = carried
        play.told = [(objects(play.texts.get(rank, "")) or [{}])[-1] for rank in (0, 1)]
        return play

    @staticmethod
    def read(path):
        if not os.path.exists(path):
            return None
        with open(path, "rb") as file:
            return file.read()

    def perf(self, settings, *options, root=False, seconds=5, deadline=90):
        """Mbit/s of one run from the tenth message after its warm-up on, by the lab's record of when data flowed, and the play; 0 if
        it did not end well."""
        prefix = run_as(root, False, self.build)
        receiver = shell(prefix, [self.godwit, "perf", "--port", str(PORT), "--quiet"])
        sender = shell(prefix, [self.godwit, "perf", haul.address(1), "--port", str(PORT), "--json",
                                *(["--duration", f"{seconds}s"] if seconds else []), *options])
        play = self.ends(settings, receiver, sender, deadline)
        if not play.ended or not play.told[0].get("ok"):
            return 0.0, play
        way = play.told[0]["results"][0]["directions"][0]
        return speed(play.record, way["bytes"], way["seconds"], way["bytes"] // way["messages"]), play

    def bbr(self, settings, seconds=5, deadline=60):
        """Mbit/s from the tenth message on."""
        program = os.path.join(self.build, "bench", "tcp_stream")
        sender = [program, haul.address(1), "--port", str(PORT), "--seconds", str(seconds), "--message", str(MIB), "--working-set",
                  str(16 * MIB), "--congestion", "bbr"]
        play = self.ends(settings, shell([], [program, "--serve", "--port", str(PORT)]), shell([], sender), deadline, before=TUNING)
        told = play.told[0].get("bytes") if play.ended else None
        return speed(play.record, told or play.record.until(play.record.end()), None, MIB)

    def send(self, settings, size, *options, deadline=120, root=False):
        prefix = run_as(root, False, self.build)
        receiver = shell(prefix, [self.godwit, "recv", "copy", "--port", str(PORT), "--json"])
        sender = shell(prefix, [self.godwit, "send", "file", haul.address(1), "--port", str(PORT), "--json", *options])
        play = self.ends(settings, receiver, sender, deadline, files={"file": os.urandom(MIB) * (size // MIB)}, wait=12)
        play.size = size
        return play

    def pair(self, port, receiver, sender, deadline=90):
        """Two commands on this host, over loopback: (what each printed, statuses). The receiver listens at this TCP port."""
        first = subprocess.Popen(receiver, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while first.poll() is None and not listens(port):
            time.sleep(0.02)
        try:
            second = subprocess.run(sender, capture_output=True, text=True, timeout=deadline, check=False)
            texts, statuses = [second.stdout + second.stderr], [second.returncode]
        except subprocess.TimeoutExpired:
            texts, statuses = ["it did not end"], [None]
        try:
            texts.append(first.communicate(timeout=15)[0])
        except subprocess.TimeoutExpired:
            first.terminate()
            texts.append(first.communicate()[0])
        return texts, [*statuses, first.returncode]


def listens(port):
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name, encoding="ascii") as file:
            if re.search(f":{port:04X} \\S+ 0A ", file.read()):
                return True
    return False


def why(play):
    """What was wrong with a run that is 0, in few words."""
    return (play.told[0].get("error") or play.errors() or "it did not end")[:160]


# ---- paths ----------------------------------------------------------------------------------------------------------------


def far(rtt):
    return ["--rtt", rtt, "--rate", "50Mbit"]


def take_send_far(bench):
    found, good = [], True
    for rtt in ("200ms", "600ms"):
        play = bench.send(far(rtt), FAR_BYTES)
        channel = bench.perf(far(rtt), "--bytes", str(FAR_BYTES), seconds=None)[1]
        whole = play.copy is not None and len(play.copy) == play.size
        rates = [mbps(FAR_BYTES, one.flowed) if good else 0.0 for one, good in ((play, whole), (channel, channel.told[0].get("ok")))]
        found.append(f"{rtt[:-2]} ms: send {said(rates[0])}, channel {said(rates[1])}")
        good = good and rates[0] >= 0.9 * rates[1] > 0
    return "; ".join(found), good


def take_bare_far(bench):
    found, good = [], True
    for rtt in ("200ms", "600ms"):
        bare, play = bench.perf(far(rtt), "--bare", "--congestion", "default", seconds=8)
        found.append(f"{rtt[:-2]} ms: {said(bare) if bare else why(play)}")
        good = good and bare > 50 / 3
    return "; ".join(found), good


def take_user(bench):
    path = ["--rtt", "25ms", "--rate", "1G", "--loss", "1e-3"]
    user, root = bench.perf(path)[0], bench.perf(path, root=True)[0]
    return f"ordinary user {said(user)}, root {said(root)}", user >= 0.9 * root > 0


def take_auto_jitter(bench):
    path = ["--rtt", "40ms", "--jitter", "20ms", "--loss", "0.5%", "--rate", "300Mbit"]
    by = {scheme: bench.perf(path, "--scheme", scheme)[0] for scheme in ("auto", "sr", "ec")}
    return ", ".join(f"{scheme} {said(rate)}" for scheme, rate in by.items()), by["auto"] >= 0.8 * max(by["sr"], by["ec"]) > 0


def take_jumbo(bench):
    rate, play = bench.perf(["--rtt", "1ms", "--rate", "300Mbit", "--loss", "5%", "--mtu", "9000"], "--scheme", "auto")
    return said(rate) if rate else why(play), rate > 0


def take_loss(bench, loss, least):
    path = ["--rtt", "10ms", "--rate", "300Mbit", "--loss", f"{loss}"]
    ours, play = bench.perf(path)
    theirs = bench.bbr(path)
    return (f"{said(ours) if ours else why(play)}, {ours / (300 * (1 - loss)):.2f} of what is left of the link; bbr {said(theirs)}",
            least(ours, theirs))


def take_random(bench):
    found, good = [], True
    for path in (["--rtt", "57ms", "--rate", "199Mbit", "--loss", "3%"], ["--rtt", "191ms", "--rate", "176Mbit"],
                 ["--rtt", "398ms", "--rate", "208Mbit"]):
        ours, play = bench.perf(path, seconds=8)
        theirs = bench.bbr(path, seconds=8)
        found.append(f"{path[1][:-2]} ms: {said(ours) if ours else why(play)}, bbr {said(theirs)}")
        good = good and ours >= 0.9 * theirs
    return "; ".join(found), good


def take_dead_path(bench):
    path = ["--rtt", "10ms", "--rate", "100Mbit", "--paths", "4", "--path", "2:loss=1"]
    play = bench.send(path, 32 * MIB, "--lanes", "4")
    whole = play.copy is not None and len(play.copy) == play.size
    return (f"32 MiB in {play.told[0].get('seconds', 0):.1f} s" if whole else why(play)), whole


def take_outage(bench):
    """The ends give each other up after 10 s: what they say has to be what is there."""
    play = bench.send(["--rtt", "10ms", "--rate", "20Mbit", "--at", "1s:1:down", "--at", "14s:1:up"], 10 * MIB)
    claimed, got = play.told[0].get("bytes", 0), play.told[1].get("bytes", 0)
    error = play.told[0].get("error", "no error")
    lies = "everything was delivered" in error and got != play.size or play.told[0].get("ok") and play.copy is None
    return f"the sender says {claimed} of {play.size} bytes ({error[:120]}), the receiver has {got}", play.ended and not lies and claimed <= got


# ---- this host ------------------------------------------------------------------------------------------------------------


def sdr(bench, *options):
    program = os.path.join(bench.build, "examples", "sdr_write_bw")
    prefix = run_as(False, False, bench.build)
    base = [*prefix, program, "--json", "-p", str(SDR_PORT), "-d", "127.0.0.1"]
    texts, statuses = bench.pair(SDR_PORT, base, [*base, *options, "127.0.0.1"])
    rows = objects(texts[0])
    return (rows[-1] if rows else {}), statuses, texts


def take_sdr_window(bench):
    row, statuses, texts = sdr(bench)
    if statuses != [0, 0] or not row:
        return f"ended with {statuses}: {texts[0][-120:]}", False
    return (f"{row['messages']} messages of 8 MiB, 128 receives posted: {row['gbit_per_s']:.1f} Gbit/s, {row['wrong_chunks']} chunks wrong, "
            f"{row['missing_chunks']} missing"), not row["wrong_chunks"]


def take_sdr_spin(bench):
    by = {}
    for how in ("nap", "spin"):
        by[how] = sdr(bench, "--poll", how, "-n", "200", "--no-check")[0].get("gbit_per_s", 0.0)
    return f"spinning {by['spin']:.1f} Gbit/s, sleeping {by['nap']:.1f} Gbit/s", by["spin"] >= 0.8 * by["nap"] > 0


def loopback_perf(bench, *options):
    prefix = run_as(False, False, bench.build)
    texts, statuses = bench.pair(PORT, [*prefix, bench.godwit, "perf", "--port", str(PORT), "--udp-port", "0"],
                                 [*prefix, bench.godwit, "perf", "127.0.0.1", "--port", str(PORT), "--udp-port", "0", "--json",
                                  *options])
    return texts, statuses, (objects(texts[0]) or [{}])[-1]


def take_lanes(bench):
    texts, statuses, told = loopback_perf(bench, "--lanes", "8", "--duration", "5s")
    false = sum(text.count("nothing arrives on lane") for text in texts)
    return f"{false} warnings in 5 s", statuses == [0, 0] and bool(told.get("ok")) and not false


def take_many(bench):
    texts, statuses, told = loopback_perf(bench, "--qps", "700", "--size", "64K", "--depth", "2", "--count", "20")
    way = told["results"][0]["directions"][0] if told.get("ok") else {}
    return (f"{way['messages']} messages of 700 channels arrived" if way else f"ended with {statuses}: {texts[0][-120:]}",
            bool(way) and way["messages"] == 700 * 20)


# ---- tests ----------------------------------------------------------------------------------------------------------------


def tests(*names):
    def take(bench):
        done = subprocess.run(["meson", "test", "-C", bench.build, "--no-rebuild", *names], capture_output=True, text=True,
                              check=False)
        return ("passes" if len(names) == 1 else "pass") if not done.returncode else done.stdout[-160:], not done.returncode
    return take


def test_command(*names):
    return f"meson test -C build {' '.join(names)}"


def take_seeds(bench):
    with tempfile.TemporaryFile("w+") as log:
        done = subprocess.run([os.path.join(ROOT, "tests", "simulation", "fresh"), os.path.join(bench.build, "simtest"),
                               str(SEEDS)], stdout=log, stderr=subprocess.STDOUT, check=False)
        log.seek(0)
        line = re.findall(r"^simtest: (.*)$", log.read(), re.M)
    return (line[-1].split(";")[0] if line else f"ended with {done.returncode}"), not done.returncode


PERF = "godwit perf 10.200.0.2"
ROWS = [
    Row("`godwit send`, 200 to 600 ms, 50 Mbit/s, no loss", "1 MiB in 49 s", "0.9 of what a channel has",
        "godwit lab --rtt 600ms --rate 50Mbit: godwit send FILE 10.200.0.2", take_send_far, 50),
    Row("the same, bare queue pairs under the default controller", "stalls", "a third of the link",
        f"{PERF} --bare --congestion default", take_bare_far, 30),
    Row("ordinary user, `net.core.rmem_max` 212992, 25 ms, 1 Gbit/s, 0.1 % loss", "44 Mbit/s, root 633", "within 10 % of root",
        f"godwit lab --rtt 25ms --rate 1G --loss 1e-3: {PERF}", take_user, 20),
    Row("`--scheme auto`, 40 ms, jitter 20 ms, 0.5 % loss, 300 Mbit/s", "9 Mbit/s, sr 206", "within 20 % of the better",
        f"godwit lab --rtt 40ms --jitter 20ms --loss 0.5% --rate 300Mbit: {PERF} --scheme auto", take_auto_jitter, 30),
    Row("`auto` on a channel with jumbo frames", "ends with EMSGSIZE", "works",
        f"godwit lab --rtt 1ms --rate 300Mbit --loss 5% --mtu 9000: {PERF} --scheme auto", take_jumbo),
    Row("10 ms, 300 Mbit/s, 30 % loss", "5 Mbit/s", "half of what is left of the link",
        f"godwit lab --rtt 10ms --rate 300Mbit --loss 0.3: {PERF}",
        lambda bench: take_loss(bench, 0.3, lambda ours, _: ours > 0.5 * 0.7 * 300), 30),
    Row("10 ms, 300 Mbit/s, 10 % loss", "160 Mbit/s, bbr 192", "ahead of bbr",
        f"godwit lab --rtt 10ms --rate 300Mbit --loss 0.1: {PERF}",
        lambda bench: take_loss(bench, 0.1, lambda ours, theirs: ours >= theirs), 30),
    Row("SDR: a sender faster than its receiver, 8 MiB x 128 in flight", "hangs", "runs, validated",
        "sdr_write_bw -d 127.0.0.1 127.0.0.1", take_sdr_window, 50),
    Row("SDR: 3 x 320 KiB in flight, chunks of more than 64 packets or less than one, 1024 in flight and more", "refused",
        "as the published interface allows", test_command("sdr-limits"), tests("sdr-limits"), 20),
    Row("SDR: a program that spins on the bitmap", "7.8 instead of 17.8 Gbit/s", "no slower than one that sleeps",
        "sdr_write_bw --poll spin -d 127.0.0.1 127.0.0.1", take_sdr_spin, 30),
    Row("8 lanes, no loss", "5 to 22 false warnings of a dead lane", "none", "godwit perf 127.0.0.1 --lanes 8", take_lanes),
    Row("four paths, one dead, `send --lanes 4`", "may end with \"went silent\"", "arrives",
        "godwit lab --rtt 10ms --rate 100Mbit --paths 4 --path 2:loss=1: godwit send FILE 10.200.0.2 --lanes 4", take_dead_path, 20),
    Row("link down from 1 s to 14 s, 10 MiB", "\"everything was delivered\", 1 of 10 MiB was", "the truth",
        "godwit lab --rtt 10ms --rate 20Mbit --at 1s:1:down --at 14s:1:up: godwit send FILE 10.200.0.2", take_outage, 30),
    Row("57 ms, 199 Mbit/s, 3 % loss; 191 ms, 176 Mbit/s; 398 ms, 208 Mbit/s", "18, 0 and 0 Mbit/s", "0.9 of bbr or more",
        f"godwit lab --rtt 57ms --rate 199Mbit --loss 3%: {PERF}", take_random, 75),
    Row("`perf --qps 700`", "some wait for ever", "all arrive", "godwit perf 127.0.0.1 --qps 700 --size 64K --count 20", take_many, 30),
    Row("300 peers that each post 64 receives", "some grants are never taken in", "every peer gets its share",
        test_command("message-shares", "message-grants"), tests("message-shares", "message-grants"), 20),
    Row("EAGAIN on a control datagram; a send error", "spins; no segmentation offload for good", "sleeps; off where a device refuses it",
        test_command("fabric-roce-send"), tests("fabric-roce-send"), 20),
    Row("1 % loss, receives posted ahead", "the controller is told of 87 of 393 losses", "the truth within 10 %",
        test_command("message-gate", "message-estimate"), tests("message-gate", "message-estimate"), 30),
    Row("a first large send given up before its receive, then a window of sends given up", "EPROTO between honest ends", "goes on",
        test_command("channel-eager", "channel-ending"), tests("channel-eager", "channel-ending"), 30),
    Row("a lost NACK after stretches were joined", "a clock of 36 years", "impossible",
        test_command("reliability-loss-detection"), tests("reliability-loss-detection"), 10),
    Row("scenarios never run before", "18 of 150,000 fail", "none fails", f"tests/simulation/fresh build/simtest {SEEDS}", take_seeds,
        50),
]


def take(bench, row):
    processors = Processors()
    try:
        found, good = row.take(bench)
    except (KeyError, IndexError, ValueError, OSError) as error:
        found, good = f"its output lacks something: {error!r}", False
    processors.stop()
    return {"row": row.name, "before": row.before, "goal": row.goal, "command": row.command, "found": found, "good": good,
            "others": round(processors.others, 3)}


def run_rows(options):
    """Measures the rows that the file lacks; None while it still lacks some."""
    path = options.points or os.path.join(options.build, "rows.points")
    bench, begin = Bench(options.build), time.monotonic()
    kept = {one["point"]["row"]: one["point"] for one in measure.lines(path) if "point" in one}
    writer = measure.Writer(path)
    for row in ROWS:
        if kept.get(row.name, {}).get("command") == row.command:
            continue
        if options.budget and time.monotonic() - begin + row.seconds > options.budget:
            continue
        point = take(bench, row)
        if not point["good"]:
            point = {**take(bench, row), "first": point["found"]}
        judged = point["others"] <= Processors.OTHERS_MOST or point["good"] and not row.timed
        print(f"  {'ok' if point['good'] else 'MISSED' if judged else 'not judged'}: {row.name}: {point['found']} "
              f"(others used {100 * point['others']:.0f} % of the processors)", flush=True)
        if judged:
            writer.write(point=point)
            kept[row.name] = point
    left = [row.name for row in ROWS if row.name not in kept]
    if left:
        print(f"{len(left)} of {len(ROWS)} rows are to be measured yet: {path} has the others")
        return None
    return haul.base(options, 1, rows=[kept[row.name] for row in ROWS], compiler=compiler(options.build), **measure.machine())


RUNS = {"rows": run_rows}
