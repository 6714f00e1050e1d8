#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A path that carries TCP and no UDP: each command says so in one sentence, with the port and the address.

In a network namespace of its own a routing rule throws UDP packets away, as a firewall would.
"""
import os
import subprocess

import namespace
from harness import (Command, Directory, check, finish, free_port, listening, one_line, same, seed_from_environment, skip,
                     start_recv, start_send, wait_until, write_random)

ASKS = "although TCP works (does a firewall or NAT block UDP?)"


def ip(*arguments):
    return subprocess.run(["ip", "rule", *arguments], capture_output=True, check=False)


def prepare():
    """Moves the lookup of this host's own addresses behind the place where block() puts its rule."""
    try:
        results = [ip("add", "pref", "10", "lookup", "local"), ip("del", "pref", "0")]
    except OSError as error:
        skip("iproute2", str(error))
    if any(result.returncode for result in results):
        skip("iproute2", results[0].stderr.decode().strip() or results[1].stderr.decode().strip())


def block(*which):
    result = ip("add", "pref", "5", "ipproto", "udp", *which, "blackhole")
    if result.returncode:
        skip("iproute2", result.stderr.decode().strip())


def unblock():
    ip("del", "pref", "5")


def files(source, target):
    for recv_options, send_options, recv_port, send_port in (
            ([], [], "port 4791", "port 4791"), (["--udp-port", 5001], ["--udp-port", 0], "port 5001", "a free port")):
        port = free_port()
        receiver = start_recv(target, port, "--timeout", "1s", *recv_options)
        sender = start_send(source, "127.0.0.1", port, "--timeout", "1s", *send_options).wait(20)
        receiver.wait(20)
        check(sender.status == 1 and receiver.status == 1, f"{sender} {receiver}")
        one_line(sender, f"no UDP packet from 127.0.0.1 reached {send_port} of 127.0.0.1 in 1 s", ASKS)
        one_line(receiver, f"no UDP packet from 127.0.0.1 reached {recv_port} of 127.0.0.1 in 1 s", ASKS, "was not written")
        check(not os.path.exists(target), "a file was written")


def measurements(directory):
    port = free_port()
    server = Command("perf", "--port", port, "--timeout", "1s")
    wait_until(lambda: listening(port) or not server.alive())
    client = Command("perf", f"127.0.0.1:{port}", "--timeout", "1s").wait(20)
    server.wait(20)
    check(client.status == 1 and server.status == 1, f"{client} {server}")
    # One of them may hear first that the other gave up.
    lines = [command.stderr for command in (client, server)]
    check(any(ASKS in line for line in lines), f"perf: {client} {server}")
    waiter = Command("qualify", "--port", port, "--timeout", "1s")
    wait_until(lambda: listening(port) or not waiter.alive())
    caller = Command("qualify", f"127.0.0.1:{port}", "--timeout", "1s", "--report", os.path.join(directory, "r.json")).wait(30)
    waiter.wait(20)
    check(caller.status == 1 and "no packet came although TCP works: a firewall or NAT?" in caller.stdout, str(caller))


def one_way(source, target):
    """Packets towards the receiver are lost; the other way they pass."""
    port = free_port()
    receiver = start_recv(target, port, "--timeout", "1s", "--udp-port", 5001)
    sender = start_send(source, "127.0.0.1", port, "--timeout", "1s", "--udp-port", 5002).wait(20)
    receiver.wait(20)
    one_line(receiver, "no UDP packet from 127.0.0.1 reached port 5001 of 127.0.0.1 in 1 s", ASKS)
    check(sender.status == 1 and ASKS not in sender.stderr, f"the sender heard the receiver: {sender}")


def main():
    namespace.enter(lambda reason: skip("namespace", reason))
    rng = seed_from_environment()
    prepare()
    with Directory() as directory:
        source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
        write_random(source, 3000001, rng)
        block()
        files(source, target)
        measurements(directory)
        unblock()
        block("dport", "5001")
        one_way(source, target)
        unblock()
        port = free_port()
        receiver = start_recv(target, port)
        sender = start_send(source, "127.0.0.1", port).wait(20)
        check(sender.status == 0 and receiver.wait(20).status == 0 and same(source, target), f"{sender} {receiver}")
    finish()


main()
