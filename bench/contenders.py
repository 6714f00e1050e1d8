# SPDX-License-Identifier: BSD-3-Clause
"""The contenders: how each is started at either end, how it is tuned, and what its output means.

A measurement is a namespace with test (bw, lat, many), mtu, seconds, message, working_set, wait (poll, sleep), queue_pairs,
build. A contender answers with command lines, and turns what its two ends printed and used into the same few fields:
bytes, seconds, sender_cpu_s and receiver_cpu_s, or half_round_trip_us.
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


class TcpStream(Contender):
    program = "tcp_stream"

    def client(self, m):
        return super().client(m) + ["--seconds", str(m.seconds), "--message", str(m.message),
                                    "--working-set", str(m.working_set)]


class FabricStream(TcpStream):
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
    program = "udp_blast"

    def client(self, m):
        return super().client(m) + ["--seconds", str(m.seconds), "--working-set", str(m.working_set),
                                    "--payload", str((m.mtu - IP_UDP_BYTES - ROCE_BYTES) & ~3)]


class UdpPingpong(Contender):
    program = "udp_pingpong"
    tests = ("lat",)

    def client(self, m):
        return super().client(m) + ["--size", str(m.message), "--count", str(m.messages), "--" + m.wait]


class Ucx(Contender):
    """ucx_perftest sends one buffer again and again, so that its message is its working set. It takes a number of
    messages and no time; its processor time includes its start and its warm-up, which count as carried."""
    tests = ("bw", "lat")
    GUESS_BYTES_A_SECOND = 4e9

    def missing(self, m):
        return None if shutil.which("ucx_perftest") else "ucx_perftest is not installed (package ucx-utils)"

    def version(self, m):
        return "UCX " + version_of(["ucx_info", "-v"], r"ersion[:=]? *(\d\S*)")

    def environment(self, end):
        return {"UCX_TLS": "tcp", "UCX_NET_DEVICES": DEVICES[end == "server"], "UCX_WARN_UNUSED_ENV_VARS": "n"}

    def work(self, m):
        if m.test == "lat":
            return ["-t", "tag_lat", "-s", str(m.message), "-n", str(m.messages), "-w", "200"]
        count = max(8, int(m.seconds * self.GUESS_BYTES_A_SECOND / m.working_set))
        return ["-t", "tag_bw", "-s", str(m.working_set), "-n", str(count), "-w", str(self.warm_up(m))]

    def warm_up(self, m):
        return max(1, 64 * MIB // m.working_set)

    def server(self, m):
        # Asleep it waits for events of its endpoints' descriptors.
        return ["ucx_perftest", *self.work(m), *self.wait(m)]

    def wait(self, m):
        return ["-E", "sleep"] if m.test == "lat" and m.wait == "sleep" else []

    def client(self, m):
        return ["ucx_perftest", SERVER, *self.work(m), *self.wait(m), "-f", "-v"]

    def result(self, m, client, server):
        found = re.search(r"^ *(\d+),([\d.]+),([\d.]+),([\d.]+),([\d.]+),([\d.]+),", client.output, re.M)
        if not found:
            raise Failure(f"ucx_perftest printed no result: {client.output[-300:]!r}")
        count, median_us, _, overall_us = int(found.group(1)), *map(float, found.groups()[1:4])
        if m.test == "lat":
            return {"half_round_trip_us": {"p50": median_us, "mean": overall_us}, "messages": count}
        size, warm_up = m.working_set, self.warm_up(m)
        seconds = count * overall_us / 1e6
        carried = (count + warm_up) / count
        return {"bytes": count * size, "seconds": seconds, "message_bytes": size,
                "sender_cpu_s": client.cpu_s / carried, "receiver_cpu_s": server.cpu_s / carried,
                "sender_resident_bytes": client.resident_bytes}


class Godwit(Contender):
    tests = ("bw", "lat", "many")

    def path(self, m):
        return os.path.join(m.build, "godwit")

    def missing(self, m):
        done = subprocess.run([self.path(m), "perf", "--help"], capture_output=True, text=True, check=False)
        text = done.stdout + done.stderr
        if done.returncode or "perf" not in text:
            return "this godwit has no perf subcommand"
        for option in self.options:
            if option.startswith("--") and option not in text:
                return f"this godwit perf has no {option}"
        return None

    def version(self, m):
        return version_of([self.path(m), "--version"], r"(godwit \S+)")

    def server(self, m):
        return [self.path(m), "perf", "--bind", SERVER, *self.options, "--json"]

    def client(self, m):
        command = [self.path(m), "perf", SERVER, "--bind", CLIENT, "--test", "lat" if m.test == "lat" else "bw",
                   *self.options, "--size", str(m.message), "--duration", str(m.seconds), "--json"]
        if m.test == "lat":
            return command + ["--" + m.wait]
        return command + ["--working-set", str(m.working_set), "--qps", str(m.queue_pairs)]

    def result(self, m, client, server):
        return last_json(client.output, self.name)


def contenders():
    tcp = "blocking send and recv of whole messages, autotuned buffers up to 64 MiB"
    every = [
        Godwit("godwit", "Godwit on UDP sockets, Selective Repeat, with ICRC", "defaults"),
        Godwit("godwit-no-icrc", "the same without ICRC", "--icrc off", "--icrc", "off"),
        TcpStream("tcp-cubic", "TCP, one flow, cubic", tcp, "--congestion", "cubic"),
        TcpStream("tcp-bbr", "TCP, one flow, bbr", tcp, "--congestion", "bbr"),
        Ucx("ucx", "UCX over TCP, tag matching",
            "UCX_TLS=tcp on the veth, cubic, rendezvous and socket buffers as UCX chooses; message = working set"),
        FabricStream("libfabric", "libfabric's tcp provider, FI_EP_MSG",
                     "cubic, 4 sends outstanding", "--depth", "4"),
        UdpBlast("udp-blast", "bare UDP, no reliability: the floor",
                 "UDP_SEGMENT, UDP_GRO, recvmmsg, 1 MiB of credit"),
        UdpPingpong("udp-pingpong", "bare UDP, one packet each way", "connected sockets"),
    ]
    return {each.name: each for each in every}
