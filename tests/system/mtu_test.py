#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Paths that carry less than the interfaces at their ends, with real packets.

This process is the router between two hosts, each a namespace of its own whose interface has an MTU of 9000. On the way
large packets vanish: at a link that drops them without a word, at a router that may not say so, or at one that does.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import namespace
from harness import (GODWIT, Command, Directory, check, finish, same, seed_from_environment, skip, wait_until,
                     write_random, write_sparse)

HOST_MTU = 9000
SIZE = (48 << 20) + 17
LARGE = 256 << 20
TIMEOUT = 6
PORT = 4791
HEADERS = {4: 20 + 8 + 36, 6: 40 + 8 + 36}  # IP, UDP, and what RoCEv2 puts around the data


class Host:
    """A namespace with one interface, held open by a process that sleeps."""

    def __init__(self, name, number):
        self.name = name
        self.addresses = {4: f"10.77.{number}.2", 6: f"fd77:{number}::2"}
        self.process = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        mine = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != mine)
        ip(f"link add to-{name} mtu {HOST_MTU} type veth peer name {name} mtu {HOST_MTU}")
        ip(f"link set {name} netns {self.process.pid}")
        ip(f"addr add 10.77.{number}.1/24 dev to-{name}")
        ip(f"addr add fd77:{number}::1/64 dev to-{name} nodad")
        ip(f"link set to-{name} up")
        self.run("ip", "addr", "add", f"{self.addresses[4]}/24", "dev", name)
        self.run("ip", "addr", "add", f"{self.addresses[6]}/64", "dev", name, "nodad")
        self.run("ip", "link", "set", name, "up")
        self.run("ip", "route", "add", "default", "via", f"10.77.{number}.1")
        self.run("ip", "-6", "route", "add", "default", "via", f"fd77:{number}::1")
        # A batch of packets counts as one small enough.
        self.run(sys.executable, "-c", f"import namespace; namespace.segment_before_capture('{name}')",
                 cwd=os.path.dirname(os.path.abspath(__file__)))

    def enter(self):
        return ["nsenter", "-t", str(self.process.pid), "-n"]

    def run(self, *command, **options):
        subprocess.run([*self.enter(), *command], check=True, **options)

    def start(self, *arguments):
        return HostCommand(self, *arguments)

    def listens(self):
        with open(f"/proc/{self.process.pid}/net/tcp6", encoding="ascii") as lines:
            return any(f":{PORT:04X} " in line and line.split()[3] == "0A" for line in lines)

    def forget_routes(self):
        """What ICMP told about the path."""
        for family in ("-4", "-6"):
            self.run("ip", family, "route", "flush", "cache")

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


class HostCommand(Command):
    def __init__(self, host, *arguments):
        self.arguments = [str(a) for a in arguments]
        self.started = time.monotonic()
        self.process = subprocess.Popen([*host.enter(), GODWIT, *self.arguments], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, "GODWIT_LOG": "warn"})
        self.stdout = self.stderr = ""
        self.seconds = 0.0
        self.timed_out = False


def ip(command):
    subprocess.run(["ip", *command.split()], check=True)


def forward():
    for path in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        with open(f"/proc/sys/net/{path}", "w", encoding="ascii") as file:
            file.write("1")


def passed(interface):
    """Bytes and packets that left the router by this interface."""
    with open("/proc/net/dev", encoding="ascii") as lines:
        numbers = next(line.split(":")[1].split() for line in lines if line.strip().startswith(interface + ":"))
    return int(numbers[8]), int(numbers[9])


class Look:
    """True once 32 MiB have left by the interface and the packets since the last look were large."""

    def __init__(self, interface):
        self.interface = interface
        self.first = self.last = passed(interface)

    def __call__(self):
        before, self.last = self.last, passed(self.interface)
        size, packets = (now - then for now, then in zip(self.last, before))
        return self.last[0] - self.first[0] > 32 << 20 and size > packets * HOST_MTU / 2


class Path:
    """From west to east. `left` and `right` are the MTUs of the router's two interfaces; one that `tells` sends ICMP."""

    def __init__(self, label, left, right, tells=True):
        self.label = label
        self.left = left
        self.right = right
        self.tells = tells

    def __enter__(self):
        if not self.tells:
            # What the router itself would send has no way out.
            ip("-4 rule add pref 9 iif lo blackhole")
            ip("-6 rule add pref 9 iif lo blackhole")
        ip(f"link set to-west mtu {self.left}")
        ip(f"link set to-east mtu {self.right}")
        return self

    def __exit__(self, *_):
        if not self.tells:
            ip("-4 rule del pref 9")
            ip("-6 rule del pref 9")
        ip(f"link set to-west mtu {HOST_MTU}")
        ip(f"link set to-east mtu {HOST_MTU}")


def start(a, b, version, source, target):
    receiver = b.start("recv", target, "--json", "--timeout", TIMEOUT)
    wait_until(lambda: b.listens() or not receiver.alive())
    return a.start("send", source, b.addresses[version], "--json", "--timeout", TIMEOUT), receiver


def delivers(a, b, version, path, directory, carries):
    """The file arrives, most of it in packets as large as the path carries, and nobody need be told."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    label = f"{path.label}, IPv{version}"
    for host in (a, b):
        host.forget_routes()
    with path:
        sender, receiver = start(a, b, version, source, target)
        sender.wait(30)
        receiver.wait(5 if sender.status else 30)
    if not check(sender.status == 0 and receiver.status == 0 and same(source, target), f"{label}: {sender} {receiver}"):
        return
    cuts = sender.json()["counters"]["payload_cuts"]
    least = SIZE // (carries - HEADERS[version])
    packets = sender.json()["packets"] - sender.json()["retransmitted"]
    # The first megabytes go in the packets that every path carries. Not many.
    most = 2 * least + 8000
    check(least <= packets <= most, f"{label}: {packets} packets, {least} would do")
    check(cuts == 0 and not sender.stderr, f"{label}: {cuts} cuts on a path that did not change: {sender}")
    # Nothing waits for a probe.
    check(sender.json()["seconds"] < TIMEOUT, f"{label}: took {sender.json()['seconds']} s")
    print(f"{label}: {packets} packets, {least} would do, {sender.json()['seconds']:.2f} s")


def shrinks(a, b, version, path, directory):
    """The transfer goes on in smaller packets, and one line says why."""
    source, target = os.path.join(directory, "large"), os.path.join(directory, "shrunk")
    label = f"shrinks: {path.label}, IPv{version}"
    for host in (a, b):
        host.forget_routes()
    # On a busy machine it may take longer than these megabytes until the sender has found out what the path carries.
    are_large = Look("to-east")
    sender, receiver = start(a, b, version, source, target)
    wait_until(lambda: are_large() or not sender.alive(), 20, 0.002)
    with path:
        shrunk = time.monotonic()
        sender.wait(10 * TIMEOUT)
        receiver.wait(TIMEOUT)
        took = time.monotonic() - shrunk
    for end in (sender, receiver):
        check(end.status == 0 and not end.timed_out, f"{label}: {end}")
    if sender.status or receiver.status:
        return
    check(same(source, target), f"{label}: the file differs")
    cuts = sender.json()["counters"]["payload_cuts"]
    warned = re.findall(r"packets with (\d+) bytes of data no longer reach", sender.stderr)
    check(cuts == 1 and len(warned) == 1, f"{label}: {cuts} cuts, and the log: {sender.stderr}")
    check(len(sender.stderr.splitlines()) <= 2, f"{label}: chatter: {sender.stderr}")
    print(f"{label}: {took:.1f} s more: {sender.stderr.strip()}")


def examined(a, b, version, path, wanted):
    """`godwit doctor` says what the path carries, and whether anybody tells."""
    for host in (a, b):
        host.forget_routes()
    with path:
        server = b.start("doctor", "--serve", "--once", "--quiet")
        wait_until(lambda: b.listens() or not server.alive())
        caller = a.start("doctor", b.addresses[version], "--json", "--only", "path-mtu,path-black-hole").wait(30)
        server.wait(10)
    answer = json.loads(caller.stdout)
    found = [finding["check"] for finding in answer["findings"] if finding["object"].endswith(b.addresses[version])]
    sent = answer["path"]["here"]["sent"]
    check(found == wanted and sent["size_arrived"] == path.right, f"{path.label}, IPv{version}: doctor: {found} {sent}")


def main():
    for tool in ("ip", "nsenter", "unshare"):
        if not shutil.which(tool):
            skip("namespace", f"{tool} is not installed")
    namespace.enter(lambda reason: skip("namespace", reason))
    rng = seed_from_environment()
    forward()
    a, b = Host("west", 1), Host("east", 2)
    with Directory() as directory:
        write_random(os.path.join(directory, "source"), SIZE, rng)
        write_sparse(os.path.join(directory, "large"), LARGE)
        for version in (4, 6):
            delivers(a, b, version, Path("all is well", 9000, 9000), directory, 9000)
            delivers(a, b, version, Path("a link drops large frames", 1500, 9000), directory, 1500)
            delivers(a, b, version, Path("a link on the far side", 9000, 4300, False), directory, 4300)
            delivers(a, b, version, Path("a silent router", 9000, 1500, False), directory, 1500)
            delivers(a, b, version, Path("a silent router to a tunnel", 9000, 1400, False), directory, 1400)
            delivers(a, b, version, Path("a router that tells", 9000, 1500), directory, 1500)
            examined(a, b, version, Path("a silent router", 9000, 1500, False), ["path-black-hole"])
            examined(a, b, version, Path("a router that tells", 9000, 1500), ["path-mtu"])
        shrinks(a, b, 4, Path("a link", 1500, 9000), directory)
        shrinks(a, b, 6, Path("a silent router", 9000, 1500, False), directory)
        shrinks(a, b, 4, Path("a router that tells", 9000, 1500), directory)
    a.end()
    b.end()
    finish()


main()
