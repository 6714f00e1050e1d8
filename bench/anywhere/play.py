# SPDX-License-Identifier: BSD-3-Clause
"""Plays a point of paths.py in the lab and judges it.

A point must end, be exact, tell the truth, and be fast: from the tenth message on at least a third of rate x (1 - loss)
arrives. Time and share of the transfer are read from the lab's own record of what the link to the receiver carried, so that
neither the rendezvous nor what the programs say of themselves decides. What was delivered is what both ends agree on.

How fast it was is judged only if the machine let it be: if the lab was late, or others used the processors, a slow point says
nothing about Godwit. The rest is judged always.
"""
import csv
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile

from anywhere.paths import MESSAGES, WARM_UP
from links import haul

SHARE = 1 / 3
AFTER_BYTES = 16 << 10  # that control and TCP may send when all data has arrived
PORT = 18700
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
RMEM_MAX = 212992  # see limits.c
DEPTH = 16
LAST_WORDS_S = 12  # that a receiver has to end by itself when its sender has failed
TRACES = os.environ.get("GODWIT_ANYWHERE_TRACE")  # a directory that any user may write to; the traces of both ends go there


def limits_of(build):
    """The library that gives an ordinary user the usual limits, or None where the machine has them."""
    with open("/proc/sys/net/core/rmem_max", encoding="ascii") as file:
        if int(file.read()) <= RMEM_MAX:
            return None
    return os.path.join(build, "bench", "libanywhere-limits.so")


def run_as(root, raised, build):
    """What a command is preceded by."""
    if root and os.geteuid() == 0:
        return []
    library = None if raised else limits_of(build)
    return [*(NOBODY if os.geteuid() == 0 else []), *(["env", f"LD_PRELOAD={library}"] if library else [])]


class Carried:
    """Bytes that the link to host 1 has carried, over time."""

    def __init__(self, path):
        self.rows = []
        with open(path, encoding="ascii", newline="") as file:
            for row in csv.DictReader(file):
                if (row["host"], row["direction"]) == ("1", "down"):
                    self.rows.append((float(row["seconds"]), int(row["bytes"])))

    def end(self):
        """When the last data had passed."""
        return self.reaches(self.rows[-1][1] - AFTER_BYTES) if self.rows else 0.0

    def reaches(self, count):
        return next((at for at, carried in self.rows if carried >= count), self.rows[-1][0] if self.rows else 0.0)

    def until(self, time):
        return max((carried for at, carried in self.rows if at <= time), default=0)

    def from_tenth(self, seconds, share):
        """(begin, end) of what counts of the last `seconds`, all if None: from where `share` of the bytes had passed."""
        end = self.end()
        before = self.until(end - seconds) if seconds else 0
        return self.reaches(before + share * (self.until(end) - before)), end


class Processors:
    """Who used the processors from the start to stop(): the commands that were waited for meanwhile, or others."""
    OTHERS_MOST = 0.25  # of all processors
    IDLE_LEAST = 0.05

    def __init__(self):
        self.ticks, self.ours = self._ticks(), self._ours()
        self.others = self.idle = 0.0

    @staticmethod
    def _ticks():
        """(all, idle) of all processors, in seconds."""
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in file.readline().split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]

    @staticmethod
    def _ours():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def stop(self):
        total, idle = (after - before for after, before in zip(self._ticks(), self.ticks))
        if total > 0:
            self.idle = idle / total
            self.others = max(0.0, total - idle - (self._ours() - self.ours)) / total

    def why_not(self):
        """Why a speed that was measured meanwhile says nothing, or None."""
        if self.others > self.OTHERS_MOST:
            return f"others used {100 * self.others:.0f} % of the processors"
        if self.idle < self.IDLE_LEAST:
            return "all processors were busy all the time"
        return None


class Outcome(dict):
    """How a point ended: `verdict` is ok, never, failed, wrong, untrue, slow or unjudged, and `why` a sentence."""

    def judge(self, verdict, why):
        self.setdefault("verdict", verdict)
        self.setdefault("why", why)
        return self


def objects(text):
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return found


class Play:
    """One run of one use in a lab; a directory holds its files."""

    def __init__(self, build, settings, receiver, sender, before=(), deadline=60, wait=0, port=None):
        self.directory = tempfile.mkdtemp(prefix="godwit-anywhere-")
        os.chmod(self.directory, 0o777)
        self.build, self.deadline = build, deadline
        self.settings = settings
        self.samples = os.path.join(self.directory, "samples.csv")
        fail = f" || {{ s=$?; sleep {wait}; exit $s; }}" if wait else ""
        traces = [f"export GODWIT_TRACE='{os.path.abspath(TRACES)}'/rank$RANK"] if TRACES else []
        counted = "s=$?; grep ^Udp: /proc/net/snmp >&2; exit $s"
        # A connection that is refused and tried again takes another of several paths, perhaps the one that will die.
        if port:
            listens = f"(until grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done; : >listens) &"
            receiver, sender = f"{listens} {receiver}", f"until [ -e listens ]; do sleep 0.02; done; {sender}"
        self.script = "\n".join(["cd \"$1\"", *traces, *before,
                                 f"if [ $RANK = 1 ]; then {receiver}; {counted}; else {sender}{fail}; fi"])
        self.ended, self.statuses, self.texts, self.report = False, [], {}, {}
        self.processors = Processors()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self):
        command = [os.path.join(self.build, "godwit"), "lab", "--json", "--kill-on-failure", *self.settings,
                   "--samples", f"5ms:{self.samples}", "--", "sh", "-c", self.script, "sh", self.directory]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace")
        try:
            out, err = process.communicate(timeout=self.deadline)
            self.ended = True
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate()
        self.processors.stop()
        self.texts = haul.texts_by_rank(err)
        self.report = (objects(out) or [{}])[0]
        self.statuses = self.report.get("statuses") or [None, None]
        return self

    def carried(self):
        return Carried(self.samples)

    def why_not(self):
        """Why the speed of this run says nothing, or None."""
        return "the lab was late" if self.report.get("was_late") else self.processors.why_not()

    def overruns(self):
        """Datagrams that found a socket of the receiver full, by its kernel's count."""
        found = re.findall(r"^Udp: [\d ]+$", self.texts.get(1, ""), re.M)
        return int(found[-1].split()[5]) if found else 0

    def dropped(self):
        """What the lab dropped on the way to the receiver, by cause."""
        links = self.report.get("links") or []
        total = {}
        for link in links:
            if (link["host"], link["direction"]) in ((0, "up"), (1, "down")):
                for cause, count in link["dropped"].items():
                    total[cause] = total.get(cause, 0) + count
        return {cause: count for cause, count in total.items() if count}

    def errors(self):
        return "; ".join(line for rank in sorted(self.texts) for line in self.texts[rank].splitlines()
                         if not line.startswith("{") and not line.startswith("Udp: "))[-400:]


def shell(prefix, command, *tail):
    return " ".join([*(f"'{word}'" for word in [*prefix, *command]), *tail])


def perf_options(point):
    scheme = {"sr": "sr", "ec": "ec", "auto": "auto", "bounded": "bounded"}.get(point.use)
    options = ["--size", str(point.message()), "--depth", str(DEPTH),
               "--duration", f"{point.path.seconds + (point.path.outage[1] if point.path.outage else 0):.2f}"]
    if point.use == "bounded":
        options += ["--congestion", "default"]
    else:
        options += ["--channel", "--verify"]
    if scheme:
        options += ["--scheme", scheme]
    if point.use == "lanes":
        options += ["--lanes", str(point.lanes)]
    return options


def play_perf(build, point):
    prefix = run_as(point.root, point.raised, build)
    godwit = os.path.join(build, "godwit")
    receiver = shell(prefix, [godwit, "perf", "--port", str(PORT), "--json"])
    sender = shell(prefix, [godwit, "perf", haul.address(1), "--port", str(PORT), "--json", *perf_options(point)])
    with Play(build, point.settings(), receiver, sender, deadline=point.deadline(), wait=LAST_WORDS_S, port=PORT) as play:
        return judge_perf(point, play.run())


def failure_of(play, outcome):
    """Judges a run whose ends did not both succeed; None where they did."""
    outcome["dropped"] = play.dropped()
    outcome["seconds"] = play.report.get("seconds")
    outcome["not_judged"] = play.why_not()
    if not play.ended:
        return outcome.judge("never", f"did not end in {play.deadline:.0f} s: {play.errors()}")
    if play.statuses != [0, 0]:
        return outcome.judge("failed", f"ended with {play.statuses}: {play.errors()}")
    return None


def judge_perf(point, play):
    outcome = Outcome()
    told = [(objects(play.texts.get(rank, "")) or [{}])[-1] for rank in (0, 1)]
    if failure_of(play, outcome):
        return outcome
    if not told[0].get("ok") or not told[1].get("ok") or told[0].get("results") != told[1].get("results"):
        return outcome.judge("untrue", f"the ends disagree: {told}")
    row = told[0]["results"][0]
    way = row["directions"][0]
    outcome["rtt_us"], outcome["packets"] = row["client"]["rtt_us"], row["client"]["packets_sent"]
    outcome["again"], outcome["messages"] = row["client"]["packets_retransmitted"], way["messages"]
    outcome["overruns"] = row["server"]["counters"].get("overruns", 0)
    if way["bytes"] + way["missing_bytes"] != way["messages"] * point.message():
        return outcome.judge("untrue", f"bytes do not add up: {way}")
    if point.use != "bounded" and way["missing_bytes"]:
        return outcome.judge("wrong", f"an exact scheme left holes: {way}")
    carried = play.carried()
    if carried.rows and way["bytes"] > carried.rows[-1][1]:
        return outcome.judge("untrue", f"{way['bytes']} bytes told, the link carried {carried.rows[-1][1]}")
    return judge_speed(point, outcome, carried, way["bytes"], way["seconds"], max(1, way["messages"]))


def judge_speed(point, outcome, carried, delivered, seconds, messages):
    """From the tenth of `messages` on, which took `seconds` to the last byte."""
    share = min(1.0, WARM_UP / messages)
    begin, end = carried.from_tenth(seconds, share)
    capacity = point.path.capacity_mbit(begin, end)
    spared = 1.0
    if point.use == "lanes" and point.bad_path_is != "well":
        spared = 1 - 1 / min(point.lanes, 4)
    got = delivered * 8e-6 * (1 - share)
    outcome["mbps"] = got / (end - begin) if end > begin else 0.0
    outcome["floor_mbps"] = SHARE * capacity * spared / (end - begin) if end > begin else 0.0
    outcome["share"] = got / capacity if capacity else 0.0
    # Nothing is held against a machine that had no time.
    slow = "unjudged" if outcome.get("not_judged") else "slow"
    if share >= 0.8:
        return outcome.judge(slow, f"only {messages} messages of {point.message()} bytes arrived in {seconds or end:.1f} s")
    if got < SHARE * capacity * spared:
        return outcome.judge(slow, f"{outcome['mbps']:.3g} Mbit/s where {outcome['floor_mbps']:.3g} are a third of what the "
                             "path can carry")
    return outcome.judge("ok", "")


def play_send(build, point):
    prefix = run_as(point.root, point.raised, build)
    godwit = os.path.join(build, "godwit")
    receiver = shell(prefix, [godwit, "recv", "copy", "--port", str(PORT), "--json"])
    sender = shell(prefix, [godwit, "send", "file", haul.address(1), "--port", str(PORT), "--json",
                            "--block", str(point.message())])
    with Play(build, point.settings(), receiver, sender, deadline=point.deadline(), wait=LAST_WORDS_S, port=PORT) as play:
        source = os.path.join(play.directory, "file")
        with open(source, "wb") as file:
            file.write(os.urandom(point.message()) * MESSAGES)
        os.chmod(source, 0o644)
        return judge_send(point, play.run(), source, os.path.join(play.directory, "copy"))


def judge_send(point, play, source, copy):
    outcome = Outcome()
    told = [(objects(play.texts.get(rank, "")) or [{}])[-1] for rank in (0, 1)]
    size = os.path.getsize(source)
    there = os.path.exists(copy)
    if told[0].get("ok") and not there:
        return outcome.judge("untrue", "the sender says that all is well, and there is no file")
    claimed, got = told[0].get("bytes", 0), told[1].get("bytes")
    if got is not None and not there and claimed > got or "everything was delivered" in told[0].get("error", "") and got != size:
        return outcome.judge("untrue", f"the sender says {claimed} of {size} bytes, the receiver has {got}: {play.errors()}")
    for name in ("rtt_us", "loss", "packets"):
        outcome[name] = told[0].get(name)
    outcome["again"] = told[0].get("retransmitted")
    if failure_of(play, outcome):
        return outcome
    with open(source, "rb") as one, open(copy, "rb") as other:
        if one.read() != other.read():
            return outcome.judge("wrong", "the copy differs")
    if claimed != size or got != size:
        return outcome.judge("untrue", f"the ends say {claimed} and {got} of {size} bytes")
    return judge_speed(point, outcome, play.carried(), size, None, MESSAGES)


def sdr_patience_ms(path):
    return int(200 + 3 * path.rtt_ms + 2 * (path.jitter_ms + path.reorder_ms * bool(path.reorder)))


def play_sdr(build, point):
    prefix = run_as(point.root, point.raised, build)
    program = os.path.join(build, "examples", "sdr_write_bw")
    window = 16
    receiver = "SDR_FABRIC=roce:$GODWIT_HOST_1 " + shell(prefix, [program, "--json", "-p", str(PORT)])
    sender = "SDR_FABRIC=roce:$GODWIT_HOST_0 " + shell(prefix, [
        program, "--json", "-p", str(PORT), "-s", str(point.message()), "-n", str(MESSAGES), "-w", str(window),
        "-t", str(sdr_patience_ms(point.path)), haul.address(1)])
    # Each receive that has holes is waited for, one after the other.
    deadline = point.deadline() + MESSAGES * sdr_patience_ms(point.path) / 1e3
    with Play(build, point.settings(), receiver, sender, deadline=deadline, wait=LAST_WORDS_S, port=PORT) as play:
        return judge_sdr(point, play.run())


def judge_sdr(point, play):
    """One-shot messages, of which nothing is repaired: what arrived is right, and what is missing was lost somewhere. How fast
    counts only where nothing is lost: a receive with holes is waited for by the program's own clock."""
    outcome = Outcome()
    told = [(objects(play.texts.get(rank, "")) or [{}])[-1] for rank in (0, 1)]
    if failure_of(play, outcome):
        return outcome
    if told[0] != told[1] or not told[0]:
        return outcome.judge("untrue", f"the ends disagree: {told}")
    row = told[0]
    outcome["missing_chunks"] = row["missing_chunks"]
    if row["wrong_chunks"] or row["messages"] != MESSAGES:
        return outcome.judge("wrong", f"{row}")
    # A packet that came late is lost too, and so is one that found the receiver's socket full.
    outcome["overruns"] = play.overruns()
    lost = outcome["dropped"] or outcome["overruns"] or point.path.reorder or point.path.jitter_ms
    if row["missing_chunks"] and not lost:
        return outcome.judge("untrue", f"{row['missing_chunks']} chunks are missing, and the path dropped nothing")
    if row["missing_chunks"]:
        return outcome.judge("ok", "")
    return judge_speed(point, outcome, play.carried(), MESSAGES * point.message(), row["seconds"], MESSAGES)


PLAYS = {"send": play_send, "sdr": play_sdr}


def play(build, point):
    """One try."""
    try:
        return PLAYS.get(point.use, play_perf)(build, point)
    except (KeyError, IndexError, ValueError, OSError) as error:
        return Outcome().judge("failed", f"its output lacks something: {error!r}")


def play_twice(build, point):
    """The machine is shared: a point that is slow is tried once more. One that hangs or fails is not: that is no matter of load."""
    outcome = play(build, point)
    if outcome["verdict"] not in ("slow", "unjudged"):
        return outcome
    again = play(build, point)
    again["first"] = {key: outcome[key] for key in ("verdict", "why")}
    return again


def command_of(point):
    """Repeats one point."""
    return f"tests/system/anywhere_test.py {point.seed}"


def lab_is_missing(build):
    """Why there can be no lab here, or None."""
    done = subprocess.run([os.path.join(build, "godwit"), "lab", "--hosts", "1", "--", "true"], capture_output=True, text=True,
                          check=False)
    return done.stderr.strip() or f"ended with {done.returncode}" if done.returncode else None
