#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes that people make with more than one command: units, addresses, ends that do not belong together, NAT.

Each quantity is read alike by every command, and each mistake is answered with one line.
"""
import contextlib
import os
import socket
import threading

from harness import (Command, Directory, check, finish, free_port, kill, listening, one_line, same,
                     seed_from_environment, start_recv, wait_until, write_random)

POINT = ["--rtt", "25ms", "--rate", "1G", "--loss", "1e-3", "--size", "1M"]


def run(*arguments, **popen):
    return Command(*arguments, **popen).wait(30)


def refused(command, *words):
    check(command.status == 2 and not command.stdout, f"a usage error expected: {command}")
    one_line(command, *words)


# Where each command takes a quantity of a kind: the arguments before the value, and those after it.
PLACES = {
    "seconds": [(["send", "f", "h", "--timeout"], []), (["recv", "f", "--timeout"], []), (["perf", "h", "--timeout"], []),
                (["perf", "h", "--duration"], []), (["qualify", "h", "--timeout"], [])],
    "time": [(["plan", *POINT, "--rtt"], []), (["plan", *POINT, "--deadline"], []), (["lab", "--rtt"], ["true"]),
             (["lab", "--jitter"], ["true"])],
    "rate": [(["send", "f", "h", "--rate"], []), (["perf", "h", "--rate"], []), (["plan", *POINT, "--rate"], []),
             (["lab", "--rate"], ["true"])],
    "size": [(["send", "f", "h", "--block"], []), (["perf", "h", "--size"], []), (["perf", "h", "--working-set"], []),
             (["perf", "--memory"], []), (["plan", *POINT, "--size"], []), (["lab", "--queue"], ["true"]),
             (["lab", "--ecn"], ["true"])],
    "share": [(["send", "f", "h", "--drop"], []), (["recv", "f", "--dup"], []), (["perf", "h", "--reorder"], []),
              (["qualify", "h", "--drop"], []), (["plan", *POINT, "--loss"], []), (["lab", "--loss"], ["true"]),
              (["lab", "--dup"], ["true"]), (["lab", "--reorder"], ["true"])],
}
# Values that no command takes, and what each says about them.
WRONG = {
    "seconds": [("5m", "may be minutes or milliseconds"), ("soon", "write 10s, 500ms or 2min")],
    "time": [("25", "has no unit: write 25s, 25ms or 25us"), ("5m", "may be minutes or milliseconds"), ("x", "write 25ms")],
    "rate": [("1GB", "is in bytes"), ("1GB/s", "is in bytes"), ("fast", "write 800M, 1Gbit or 400Gbps")],
    "size": [("1Mb", "is in bits"), ("big", "write 1500, 64K, 1MiB or 128MB"), ("1.5", "whole number of bytes")],
    "share": [("3", "write 0.03 or 3%"), ("-1%", "write 0.03 or 3%")],
}


def units():
    for kind, places in PLACES.items():
        for before, after in places:
            for value, words in WRONG[kind]:
                refused(run(*before[:-1], f"{before[-1]}={value}", *after), before[-1], f'"{value}"', words)
    # Inside the lab's specifications, too: the whole is quoted, and the part that is wrong.
    for option, text, part, words in (
            ("--link", "0:up:rate=1GB", "1GB", "is in bytes"), ("--link", "0:down:delay=5", "5", "has no unit"),
            ("--link", "all:up:queue=64Kb", "64Kb", "is in bits"), ("--path", "0:loss=3", "3", "write 0.03 or 3%"),
            ("--at", "2:0:down", "2", "has no unit"), ("--at", "2s:0:rate=1GBps", "1GBps", "is in bytes"),
            ("--at", "2s:0:loss=3", "3", "0.03 or 3%"), ("--samples", "5:file", "5", "has no unit"),
            ("--reorder", "1%:3", "3", "has no unit"), ("--burst", "8:1", "1", "has no unit")):
        refused(run("lab", option, text, "true"), option, f'"{part}"', words)
    refused(run("plan", *POINT[:4], *POINT[6:], "--sweep", "loss=1e-3..3"), "--sweep", '"3"', "0.03 or 3%")


def understood():
    """The same quantity in other words gives the same result."""
    plans = [run("plan", "--rtt", rtt, "--rate", rate, "--loss", loss, "--size", size, "--payload", payload, "--json").stdout
             for rtt, rate, loss, size, payload in (
                 ("25ms", "400G", "0.03", "128MiB", "4096"), ("25000us", "400Gbps", "3%", "128M", "4K"),
                 ("0.025s", "0.4 Tbit/s", "3e-2", "134217728", "4KiB"), ("25 ms", "400Gbit", "3 %", "131072K", "4096B"))]
    check(plans[0] and len(set(plans)) == 1, f"the same plan in other words: {plans}")
    lab = run("lab", "--rtt", "10 ms", "--rate", "100Mbit", "--queue", "64KiB", "--loss", "0%", "--link",
              "0:up:rate=50Mbps,delay=2.5ms,queue=128MB", "--at", "1h:0:rate=1Gbit/s", "--json", "true")
    check(lab.status != 2, f"the lab's units: {lab}")


def addresses(directory, rng):
    """A port may follow a host, or the address that a waiting end binds."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    write_random(source, 100001, rng)
    for address, bound in (("127.0.0.1:{}", "127.0.0.1:{}"), ("[::1]:{}", "[::1]:{}"), ("localhost:{}", None)):
        port = free_port()
        receiver = Command("recv", target, *(["--bind", bound.format(port)] if bound else ["--port", port]))
        wait_until(lambda: listening(port) or not receiver.alive())
        sender = run("send", source, address.format(port))
        receiver.wait(20)
        check(sender.status == 0 and receiver.status == 0 and same(source, target), f"{address}: {sender} {receiver}")
        check(f" to {address.split(':{}')[0].strip('[]')} in" in sender.stdout, f"the host without its port: {sender}")
        os.unlink(target)
    port = free_port()
    server = Command("perf", "--bind", f"127.0.0.1:{port}")
    wait_until(lambda: listening(port) or not server.alive())
    client = run("perf", f"127.0.0.1:{port}", "--count", 4, "--size", "4KiB", "--port", port)
    check(client.status == 0 and server.wait(20).status == 0, f"perf: {client} {server}")
    for command in (["send", source], ["perf"], ["qualify"]):
        expect = run(*command, f"[::1]:{free_port()}")
        check(expect.status == 1, str(expect))
        one_line(expect, "cannot reach [::1]:", "refused")
        for text, words in (("host:", "does not end in a port"), ("host:65536", "a port from 1 to 65535"),
                            ("host:/tmp/file", "does not end in a port"), ("[::1", "write HOST, HOST:PORT or [IPV6]:PORT"),
                            (":5000", "is not an address")):
            refused(run(*command, text), f'"{text}"', words)
        refused(run(*command, "host:5000", "--port", 5001), "port 5000 of host and --port 5001 differ")
        refused(run(*command, "host", "--bind", "127.0.0.1:5000"), "--bind 127.0.0.1 takes no port here")
    for command in (["recv", target], ["perf"], ["qualify"]):
        refused(run(*command, "--bind", "[::1]:x"), "--bind", '"[::1]:x"', "does not end in a port")
        refused(run(*command, "--bind", "::1", "--bind", "[::1]:5000", "--port", 5001), "differ")


def wrong_partners(directory):
    """Each command against each that it does not belong to: both ends say which two met, in one line."""
    source = os.path.join(directory, "source")
    for waiting, wanted in ((["recv", os.path.join(directory, "target")], "send"), (["perf"], "perf"), (["qualify"], "qualify")):
        port = free_port()
        waiter = Command(*waiting, "--port", port)
        wait_until(lambda: listening(port) or not waiter.alive())
        callers = [c for c in (["send", source], ["perf"], ["qualify"]) if c[0] != wanted]
        for caller in callers:
            command = run(*caller, f"127.0.0.1:{port}")
            check(command.status == 1, str(command))
            one_line(command, f"`godwit {waiting[0]}` waits here for `godwit {wanted}`, and the caller is `godwit {caller[0]}`")
        kill(waiter)
        lines = waiter.stderr.splitlines()
        check(len(lines) == 2 and all(f"it is `godwit {c[0]}`, not `godwit {wanted}`" in line
                                      for line, c in zip(lines, callers)), f"a warning for each: {waiter}")


def pump(source, target, change):
    """Carries bytes from one connection to the other until the first is closed."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(change(data))
        target.shutdown(socket.SHUT_WR)


def translated(directory):
    """Between the ends the sender's address is translated, as NAT does: its packets come from another than it named."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port = free_port()
    receiver = start_recv(target, port, "--timeout", "1s", "--bind", "127.0.0.1", "--udp-port", 0)
    with socket.create_server(("127.0.0.2", 0)) as server:
        sender = Command("send", source, f"127.0.0.2:{server.getsockname()[1]}", "--bind", "127.0.0.3", "--timeout", "1s",
                         "--udp-port", 0)
        inside, _ = server.accept()
        with inside, socket.create_connection(("127.0.0.1", port)) as outside:
            back = threading.Thread(target=pump, args=(outside, inside, lambda data: data))
            back.start()
            pump(inside, outside, lambda data: data.replace(bytes((127, 0, 0, 3)), bytes((127, 0, 0, 9))))
            back.join()
    sender.wait(20)
    receiver.wait(20)
    check(sender.status == 1 and receiver.status == 1, f"{sender} {receiver}")
    one_line(receiver, "UDP packets of 127.0.0.1 come from another address than the one it named (is there NAT in between?)")


def main():
    rng = seed_from_environment()
    units()
    understood()
    with Directory() as directory:
        addresses(directory, rng)
        wrong_partners(directory)
        translated(directory)
    finish()


main()
