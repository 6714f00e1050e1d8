# SPDX-License-Identifier: BSD-3-Clause
"""Contenders over an emulated link: how each is tuned and started in the lab, and what its output means.

A contender does two things. A stream sends messages of 1 MiB, enough of them under way to fill the link, for a time; what
arrived after a warm-up counts. Messages go one at a time, each from the moment it is posted until its sender knows that
all of it arrived. Both ends and the lab's switch share this machine's processors.

Everything about tuning is in this file. TCP has buffers of more than four bandwidth-delay products, a large initial
window, no slow start after idling, and no memory of earlier connections. bbr paces itself: the kernel does so without
the fq discipline since 4.13.
"""
import concurrent.futures
import json
import math
import os
import queue
import shlex
import shutil
import subprocess

from veth import contenders

MIB = 1 << 20
MESSAGE = MIB
BURST_MOST = "1ms"  # a burst is an event on the line, not a number of attempts: whoever waits this long is out of it
WARM_UP_S = 0.2  # what `godwit perf` does not count of two seconds and more
RECEIVER_PORT = 18600
SRT_MSS_MOST = 1500  # SRT refuses to connect with more, however much the link carries
SRT_LIVE_GBPS_MOST = 1  # told more than the hosts can take, its live mode repeats more and more, and may not end
# IPv4 and TCP without options, as a share of a packet: what 95 % of a link's rate is to be measured against.
TCP_BUFFER_MOST = 64 << 20

TUNING = f"""
for side in rmem wmem; do
    echo '4096 1048576 {TCP_BUFFER_MOST}' >/proc/sys/net/ipv4/tcp_$side
done
echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle
echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save
ip route change 10.200.0.0/24 dev lab0 initcwnd 64 initrwnd 64
"""
TCP_TUNING = f"buffers up to {TCP_BUFFER_MOST >> 20} MiB, initial windows of 64, no slow start after idling"


class Failure(Exception):
    pass


class Link:
    """What lies between two hosts."""

    def __init__(self, rtt_ms, rate_gbps, loss=0.0, burst=1, mtu=1500):
        self.rtt_ms, self.rate_gbps, self.loss, self.burst, self.mtu = rtt_ms, rate_gbps, loss, burst, mtu

    def settings(self):
        return ["--rtt", f"{self.rtt_ms:g}ms", "--rate", f"{self.rate_gbps:g}G", "--mtu", str(self.mtu),
                *(["--loss", f"{self.loss:g}", "--burst", f"{self.burst}:{BURST_MOST}"] if self.loss else [])]

    def flight(self):
        """Bytes of a bandwidth-delay product."""
        return int(self.rate_gbps * 1e9 / 8 * self.rtt_ms / 1e3)

    def described(self):
        said = {"rtt_ms": self.rtt_ms, "rate_gbps": self.rate_gbps, "mtu": self.mtu, "loss": self.loss}
        return {**said, "burst": self.burst} if self.loss else said

    def name(self):
        loss = "no loss" if not self.loss else f"{self.loss:g}" + (
            f" in bursts of {self.burst}" if self.burst > 1 else " independent")
        return f"{self.rtt_ms:g} ms, {self.rate_gbps:g} Gbit/s, {loss}"


def flights_of_messages(link):
    """Messages under way: three bandwidth-delay products, sixteen at least."""
    return min(512, max(16, math.ceil(3 * link.flight() / MESSAGE)))


class Contender:
    """A program of bench/peers: its client prints one line of JSON."""
    program = None
    sysfs = False  # whether it looks for the lab's interface in /sys

    def __init__(self, name, what, tuning, *options):
        self.name, self.what, self.tuning, self.options = name, what, tuning, list(options)

    def path(self, build):
        return os.path.join(build, "bench", self.program)

    def missing(self, build):
        return None if os.access(self.path(build), os.X_OK) else f"bench/{self.program} is not built"

    def version(self, build):
        return f"Linux {os.uname().release}"

    def prepare(self):
        """Shell commands for either host, before anything is started there."""
        return TUNING

    def server(self, build, port=RECEIVER_PORT):
        return [self.path(build), "--serve", "--port", str(port)]

    def stream(self, build, host, link, seconds, port=RECEIVER_PORT):
        return [self.path(build), host, "--port", str(port), "--seconds", str(seconds), "--warm-up", str(WARM_UP_S),
                "--message", str(MESSAGE), *self.stream_options(link), *self.options]

    def stream_options(self, link):
        return ["--working-set", str(16 * MIB)]

    def messages(self, build, host, link, size, count, seconds, port=RECEIVER_PORT):
        return [self.path(build), host, "--port", str(port), "--messages", str(count), "--seconds", str(seconds),
                "--message", str(size), "--working-set", str(max(size, 16 * MIB)), *self.message_options(link),
                *self.options]

    def message_options(self, link):
        return []

    def result(self, text):
        one = contenders.last_json(text, self.name)
        found = {"gbps": one["bytes"] * 8e-9 / one["seconds"], "retransmits": one.get("retransmits"), "delivered": 1.0}
        if "message_time" in one:
            found["message_time"] = one["message_time"]
        return found


class Tcp(Contender):
    program = "tcp_stream"


class Ucx(Contender):
    program = "ucx_stream"
    sysfs = True

    def missing(self, build):
        return super().missing(build) and "ucx_stream is not built: it wants libucx-dev"

    def version(self, build):
        if shutil.which("ucx_info") is None:
            return "unknown"
        return "UCX " + contenders.version_of(["ucx_info", "-v"], r"ersion[:=]? *(\d\S*)")

    def prepare(self):
        return TUNING + ("echo bbr >/proc/sys/net/ipv4/tcp_congestion_control || exit 1\n"
                         "export UCX_TLS=tcp UCX_NET_DEVICES=lab0 UCX_RNDV_THRESH=inf UCX_WARN_UNUSED_ENV_VARS=n\n")

    def stream_options(self, link):
        depth = flights_of_messages(link)
        return ["--working-set", str(depth * MESSAGE), "--depth", str(depth)]


class Srt(Contender):
    """The better of its modes at each. For a stream the live one, which sends at the rate it is told and repairs without
    slowing down; above a rate that it can keep, the file mode, whose congestion control finds one that the hosts take. For
    messages the file mode, as the live one repairs the last packets late."""
    program = "srt_stream"

    def missing(self, build):
        return super().missing(build) and "srt_stream is not built: it wants libsrt-openssl-dev"

    def version(self, build):
        return "SRT " + contenders.version_of(["pkg-config", "--modversion", "srt"], r"(\S+)")

    def common(self, link):
        return ["--rate", str(int(link.rate_gbps * 1e9 / 8)), "--mss", str(min(link.mtu, SRT_MSS_MOST)),
                "--buffer", str(max(8 * MIB, 4 * link.flight()))]

    def stream_options(self, link):
        live = ["--live"] if link.rate_gbps <= SRT_LIVE_GBPS_MOST else []
        return [*live, "--working-set", str(16 * MIB), *self.common(link)]

    def message_options(self, link):
        return self.common(link)


class Godwit(Contender):
    """`godwit perf` over a channel. The flags are here and nowhere else."""

    def __init__(self, name, what, tuning, *options, channel=True):
        super().__init__(name, what, tuning, "--channel" if channel else "--bare", *options)

    def path(self, build):
        return os.path.join(build, "godwit")

    def missing(self, build):
        # To no host: options are read first, and what it does not know it names.
        try:
            done = subprocess.run([self.path(build), "perf", "", *self.options], capture_output=True, text=True, check=False)
        except OSError:
            return "godwit is not built"
        said = done.stderr.strip().partition("\n")[0]
        return None if "name of the host is empty" in said else said

    def version(self, build):
        return contenders.version_of([self.path(build), "--version"], r"(godwit \S+)")

    def prepare(self):
        return ""

    def server(self, build, port=RECEIVER_PORT):
        return [self.path(build), "perf", "--port", str(port), "--udp-port", str(port), "--quiet"]

    def client(self, build, host, port, *more):
        return [self.path(build), "perf", host, "--port", str(port), "--udp-port", str(port), *more, *self.options, "--json"]

    def stream(self, build, host, link, seconds, port=RECEIVER_PORT):
        return self.client(build, host, port, "--duration", str(seconds), "--size", str(MESSAGE),
                           "--depth", str(flights_of_messages(link)))

    def messages(self, build, host, link, size, count, seconds, port=RECEIVER_PORT):
        return self.client(build, host, port, "--count", str(count), "--duration", str(seconds), "--size", str(size),
                           "--depth", "1", "--working-set", str(max(size, 16 * MIB)))

    def result(self, text):
        whole = contenders.last_json(text, self.name)
        if not whole.get("ok", True):
            raise Failure(f"{self.name}: {whole.get('error')}")
        row = whole["results"][0]
        way = row["directions"][0]
        all_bytes = way["bytes"] + way["missing_bytes"]
        return {"gbps": way["goodput_gbps"], "retransmits": row["client"]["packets_retransmitted"],
                "delivered": way["bytes"] / all_bytes if all_bytes else None,
                "message_time": {key: value for key, value in way["message_time"].items() if value is not None}}


def contenders_of(*names):
    every = [
        Godwit("godwit", "Godwit's channel, the scheme chosen by itself", "defaults"),
        Godwit("godwit-sr", "the same, Selective Repeat", "--scheme sr", "--scheme", "sr"),
        Godwit("godwit-ec", "the same, erasure coding", "--scheme ec", "--scheme", "ec"),
        Godwit("godwit-bounded", "bare messages under the same controller, completion bounded in time", "--scheme bounded",
               "--scheme", "bounded", "--congestion", "default", channel=False),
        Tcp("tcp-bbr", "TCP, one flow, bbr", TCP_TUNING, "--congestion", "bbr"),
        Tcp("tcp-cubic-16", "TCP, 16 flows, cubic", TCP_TUNING, "--congestion", "cubic", "--flows", "16"),
        Tcp("tcp-cubic", "TCP, one flow, cubic", TCP_TUNING, "--congestion", "cubic"),
        Ucx("ucx", "UCX over TCP, tagged messages", "bbr, UCX_RNDV_THRESH=inf; " + TCP_TUNING),
        Srt("srt", "SRT over UDP", "told the link's rate, packets of 1500 bytes at most (all that it takes), buffers of four bandwidth-delay products; a stream in "
            "live mode that drops nothing, above 1 Gbit/s in file mode; messages in file mode"),
    ]
    known = {each.name: each for each in every}
    return [known[name] for name in names]


def shell(commands_by_rank, prepare, sysfs=False):
    """What a lab host runs: a list of commands for each rank; it ends when they all have, badly if one did."""
    script = ["set -e", prepare]
    if sysfs:
        script.insert(1, "mount -t sysfs none /sys")
    for rank, commands in commands_by_rank.items():
        script.append(f"if [ $RANK = {rank} ]; then")
        script += [f"{shlex.join(command)} & p{number}=$!" for number, command in enumerate(commands)]
        script += [f"wait $p{number}" for number in range(len(commands))]
        script.append("fi")
    enter = ["unshare", "-m"] if sysfs else []
    return [*enter, "sh", "-c", "\n".join(script)]


def address(host):
    return f"10.200.0.{host + 1}"


def texts_by_rank(text):
    """What each host printed."""
    found = {}
    for line in text.splitlines():
        rank, mark, rest = line.partition("] ")
        if mark and rank.startswith("[") and rank[1:].isdigit():
            found.setdefault(int(rank[1:]), []).append(rest)
    return {rank: "\n".join(lines) for rank, lines in found.items()}


def run_lab(build, settings, command, timeout=90):
    """What each host printed, and the lab's own report."""
    whole = [os.path.join(build, "godwit"), "lab", "--json", "--kill-on-failure", *settings, "--", *command]
    try:
        done = subprocess.run(whole, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"still at it after {timeout} s") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not line.startswith("[0] {")]
        raise Failure(f"ended with {done.returncode}: {' | '.join(said)[-300:]}")
    return texts_by_rank(done.stderr), json.loads(done.stdout)


def down_link(report, host):
    return next(link for link in report["links"] if link["host"] == host and link["direction"] == "down")


def lateness(report):
    return {"late_p99_us": report["late"]["p99_us"], "was_late": report["was_late"],
            "overrun": sum(link["dropped"]["overrun"] for link in report["links"])}


def one_on_one(contender, build, settings, client, timeout=90):
    """One contender alone: host 0 sends to host 1."""
    texts, report = run_lab(build, settings, shell({1: [contender.server(build)], 0: [client]}, contender.prepare(),
                                                   contender.sysfs), timeout)
    return {**contender.result(texts.get(0, "")), **lateness(report), "waited": down_link(report, 1)["waited"]}


def stream(contender, build, link, seconds, seed, *more):
    client = contender.stream(build, address(1), link, seconds)
    return one_on_one(contender, build, [*link.settings(), "--seed", str(seed), *more], client)


def messages(contender, build, link, size, count, seconds, seed):
    client = contender.messages(build, address(1), link, size, count, seconds)
    return one_on_one(contender, build, [*link.settings(), "--seed", str(seed)], client)


def attempt(what, function, *arguments):
    """A sample, or why there is none: one contender that fails does not end the others."""
    try:
        return function(*arguments)
    except (Failure, contenders.Failure, KeyError, ValueError) as error:
        said = str(error) if isinstance(error, (Failure, contenders.Failure)) else f"its output lacks {error}"
        print(f"  {what}: {said}", flush=True)
        return {"failed": said}


def there(contenders_list, build):
    """name -> what is known of everyone, and the list of those that can be measured."""
    known = {each.name: {"what": each.what, "tuning": each.tuning, "missing": each.missing(build),
                         "version": None if each.missing(build) else each.version(build)} for each in contenders_list}
    return known, [each for each in contenders_list if not known[each.name]["missing"]]


def side_by_side(jobs, function, items):
    """function() of each, so many at a time, and each of these on processors of its own."""
    if jobs == 1:
        return [function(each) for each in items]
    processors, free = sorted(os.sched_getaffinity(0)), queue.SimpleQueue()
    share = max(1, len(processors) // jobs)
    for first in range(0, share * jobs, share):
        free.put(processors[first:first + share])

    def one(item):
        mine = free.get()
        os.sched_setaffinity(0, mine)  # of this thread and of what it starts
        try:
            return function(item)
        finally:
            free.put(mine)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, items))


def turned(sequence, number):
    """Each round begins with another."""
    turn = number % max(1, len(sequence))
    return sequence[turn:] + sequence[:turn]


def base(options, rounds, **more):
    return {"environment": "lab", "kernel": os.uname().release, "processors": os.cpu_count(), "rounds": rounds,
            "quick": options.quick, **more}
