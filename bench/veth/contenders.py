# SPDX-License-Identifier: BSD-3-Clause
"""The contenders: how each is started at either end, how it is tuned, and what its output means.

A measurement has a test (bw, lat, many), mtu, seconds, message (None: the contender's choice), messages, working_set, wait
(poll, sleep), queue_pairs, build and godwit. A contender answers with command lines, and turns what its two ends printed
and used into the same few fields: bytes, seconds, sender_cpu_s and receiver_cpu_s, or half_round_trip_us.
"""
import json
import os
import re
import shutil
import subprocess

CLIENT, SERVER = "10.9.0.1", "10.9.0.2"
DEVICES = ("v0", "v1")  # the client's, the server's
# IPv4 and UDP, and what a RoCEv2 write with immediate adds within: BTH, RETH, immediate, ICRC.
IP_UDP_BYTES, ROCE_BYTES = 28, 36
MIB = 1 << 20
LATENCY_BYTES = 64


class Failure(Exception):
    pass


def version_of(command, pattern):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(pattern, done.stdout + done.stderr)
    return found.group(1) if found else "unknown"


def last_json(text, who):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failure(f"{who} printed no JSON: {text[-300:]!r}") from error


class Contender:
    """What is built here: the client prints one line of JSON that has the fields already."""
    program = None
    tests = ("bw",)

    def __init__(self, name, what, tuning, *options):
        self.name, self.what, self.tuning_text, self.options = name, what, tuning, list(options)

    def path(self, m):
        return os.path.join(m.build, "bench", self.program)

    def missing(self, m):
        return None if os.access(self.path(m), os.X_OK) else f"bench/{self.program} is not built"

    def version(self, m):
        return f"Linux {os.uname().release}"

    def tuning(self, m):
        return self.tuning_text

    def environment(self, end):
        return {}

    def server(self, m):
        return [self.path(m), "--serve", "--bind", SERVER]

    def client(self, m):
        return [self.path(m), SERVER, *self.options]

    def result(self, m, client, server):
        return last_json(client.output, self.name)


class Stream(Contender):
    """Messages from one working set into another. How large a message is best is a contender's own affair; the working
    sets are equal."""

    def client(self, m):
        message = m.message or self.message(m)
        return super().client(m) + ["--seconds", str(m.seconds), "--message", str(message),
                                    "--working-set", str(m.working_set)]

    def message(self, m):
        return min(MIB, m.working_set)


class TcpStream(Stream):
    program = "tcp_stream"


class FabricStream(Stream):
    program = "fabric_stream"

    def missing(self, m):
        return super().missing(m) and "fabric_stream is not built: it wants libfabric-dev"

    def version(self, m):
        if shutil.which("fi_info") is None:
            return "unknown"
        return "libfabric " + version_of(["fi_info", "--version"], r"libfabric: (\S+)")

    def server(self, m):
        return super().server(m) + [word for word in self.options if word == "--sleep"]


class UdpBlast(Contender):
    """Options are the receiver's."""
    program = "udp_blast"

    def server(self, m):
        return super().server(m) + self.options

    def client(self, m):
        return [self.path(m), SERVER, "--seconds", str(m.seconds), "--working-set", str(m.working_set),
                "--payload", str((m.mtu - IP_UDP_BYTES - ROCE_BYTES) & ~3)]


class UdpPingpong(Contender):
    program = "udp_pingpong"
    tests = ("lat",)

    def client(self, m):
        return super().client(m) + ["--size", str(m.message or LATENCY_BYTES), "--count", str(m.messages), "--" + m.wait]


class Ucx:
    """Over TCP on the veth. As an expert would have it: nothing but the transport and the device is set, for UCX's own
    choice of rendezvous and buffers carried most here."""

    def version(self, m):
        if shutil.which("ucx_info") is None:
            return "unknown"
        return "UCX " + version_of(["ucx_info", "-v"], r"ersion[:=]? *(\d\S*)")

    def environment(self, end):
        return {"UCX_TLS": "tcp", "UCX_NET_DEVICES": DEVICES[end == "server"], "UCX_WARN_UNUSED_ENV_VARS": "n"}


class UcxStream(Ucx, Stream):
    program = "ucx_stream"

    def missing(self, m):
        return super().missing(m) and "ucx_stream is not built: it wants libucx-dev"


class UcxPerftest(Ucx, Contender):
    tests = ("lat",)

    def missing(self, m):
        return None if shutil.which("ucx_perftest") else "ucx_perftest is not installed (package ucx-utils)"

    def server(self, m):
        return ["ucx_perftest", "-t", "tag_lat", "-s", str(m.message or LATENCY_BYTES), "-n", str(m.messages), "-w", "200",
                *(["-E", "sleep"] if m.wait == "sleep" else [])]

    def client(self, m):
        return [*self.server(m), SERVER, "-f", "-v"]

    def result(self, m, client, server):
        found = re.search(r"^ *(\d+),([\d.]+),([\d.]+),([\d.]+),", client.output, re.M)
        if not found:
            raise Failure(f"ucx_perftest printed no result: {client.output[-300:]!r}")
        median_us, _, mean_us = map(float, found.groups()[1:])
        return {"half_round_trip_us": {"p50": median_us, "mean": mean_us}, "messages": int(found.group(1))}


class Godwit(Contender):
    """Its own figures: goodput as the receiver saw it, processor time of either end from the first message to the last."""
    tests = ("bw", "lat", "many")
    bare = []

    def path(self, m):
        return m.godwit or os.path.join(m.build, "godwit")

    def missing(self, m):
        if not os.access(self.path(m), os.X_OK):
            return "godwit is not built"
        done = subprocess.run([self.path(m), "perf", "--help"], capture_output=True, text=True, check=False)
        text = done.stdout + done.stderr
        if done.returncode or "perf" not in text:
            return "this godwit has no perf subcommand"
        for option in self.options:
            if option.startswith("--") and option not in text:
                return f"this godwit perf has no {option}"
        # One that has no such option measures bare queue pairs anyway.
        self.bare = ["--bare"] if "--bare" in text else []
        return None

    def version(self, m):
        return version_of([self.path(m), "--version"], r"(godwit \S+)")

    def server(self, m):
        # All but the ICRC is the client's to choose.
        own = self.options if self.options[:1] == ["--icrc"] else []
        return [self.path(m), "perf", "--bind", SERVER, *own, "--json"]

    def client(self, m):
        bare = [] if "--channel" in self.options else self.bare
        command = [self.path(m), "perf", SERVER, "--bind", CLIENT, "--test", "lat" if m.test == "lat" else "bw",
                   *bare, *self.options, "--json"]
        if m.test == "lat":
            return command + ["--size", str(m.message or LATENCY_BYTES), "--count", str(m.messages), "--" + m.wait]
        message = m.message or (64 << 10 if m.test == "many" else min(MIB, m.working_set // 4))
        depth = min(16 if m.queue_pairs == 1 else 4, m.working_set // message // m.queue_pairs)
        return command + ["--size", str(message), "--depth", str(depth), "--duration", str(m.seconds),
                          "--working-set", str(m.working_set), "--qps", str(m.queue_pairs)]

    def result(self, m, client, server):
        whole = last_json(client.output, self.name)
        row = whole["results"][0]
        if m.test == "lat":
            times = row["half_round_trip"]
            named = {"least": "min_us", "p50": "median_us", "p99": "p99_us", "p999": "p99_9_us", "most": "max_us"}
            return {"half_round_trip_us": {ours: times[theirs] for ours, theirs in named.items()
                                           if times[theirs] is not None},
                    "messages": times["samples"], "lost": times["lost_pings"]}
        way = row["directions"][0]
        return {"bytes": way["bytes"], "seconds": way["seconds"], "message_bytes": row["size_bytes"], "depth": row["depth"],
                "working_set_bytes": row["working_set_bytes"], "queue_pairs": whole["qps"],
                "sender_cpu_s": cpu_s(row["client"]), "receiver_cpu_s": cpu_s(row["server"]),
                "packets_sent": row["client"]["packets_sent"],
                "packets_retransmitted": row["client"]["packets_retransmitted"],
                "dropped": row["server"]["dropped"], "fairness": way.get("fairness")}


def cpu_s(end):
    return end["cpu_user_seconds"] + end["cpu_system_seconds"]


def contenders():
    tcp = "blocking send and recv of whole messages, autotuned buffers up to 64 MiB"
    every = [
        Godwit("godwit", "Godwit on UDP sockets, Selective Repeat, with ICRC", "defaults"),
        Godwit("godwit-no-icrc", "the same without ICRC", "--icrc off", "--icrc", "off"),
        Godwit("godwit-channel", "the channel: ordered, paced, under congestion control", "--channel", "--channel"),
        Godwit("godwit-unpaced", "the channel without congestion control", "--channel --congestion none", "--channel", "--congestion", "none"),
        TcpStream("tcp-cubic", "TCP, one flow, cubic", tcp, "--congestion", "cubic"),
        TcpStream("tcp-bbr", "TCP, one flow, bbr", tcp, "--congestion", "bbr"),
        UcxStream("ucx", "UCX over TCP, tagged messages", "UCX_TLS=tcp, cubic, 4 messages of 1 MiB under way",
                  "--depth", "4"),
        UcxPerftest("ucx-perftest", "UCX over TCP, tag_lat of its own ucx_perftest", "UCX_TLS=tcp; asleep: -E sleep"),
        FabricStream("libfabric", "libfabric's tcp provider, FI_EP_MSG", "cubic, 4 messages of 1 MiB under way",
                     "--depth", "4"),
        UdpBlast("udp-blast", "bare UDP, no reliability: the floor",
                 "UDP_SEGMENT, UDP_GRO, recvmmsg, 1 MiB of credit"),
        UdpBlast("udp-eager", "the same, with a receiver that is always ahead of the sender",
                 "it does not sleep, and copies no payload to its place", "--eager"),
        UdpPingpong("udp-pingpong", "bare UDP, one packet each way", "connected sockets"),
        UdpPingpong("udp-as-godwit", "the same, asking the kernel what Godwit asks it, in packets of its size", "unconnected sockets, ancillary data; asleep: ppoll", "--as-godwit"),
    ]
    return {each.name: each for each in every}
