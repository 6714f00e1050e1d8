#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit perf`: what cannot be measured is refused in one line, and an end notices when the other one dies."""
import os
import signal
import socket
import struct
import threading
import time

from harness import (Command, check, finish, free_port, kill, listening, one_line, seed_from_environment, wait_until)
from perf_ends import TIMEOUT, start_client, start_server
from rendezvous_peer import KIND_FIRST, KIND_REFUSE, KIND_WELCOME, connect, frame, hello, read_frame

ROUNDS = int(os.environ.get("GODWIT_KILLS") or 8)
QP_KIND, ACCEPT_KIND = 17, 24
PLAN = struct.Struct(">IIIIIHBBQQQQ16sQ16s")
PLAN_VERSION = 2


def usage():
    run = lambda *arguments: Command("perf", *arguments).wait(20)
    for arguments, words in (
            (("h", "--test", "speed"), ("--test", "speed")), (("h", "--scheme", "magic"), ("magic", "auto, sr, ec, bounded, raw")),
            (("h", "--congestion", "hope"), ("hope", "swift", "long-haul")), (("h", "--rate", "fast"), ("--rate", "fast")),
            (("h", "--channel", "--bare"), ("--channel", "--bare")), (("h", "--channel", "--scheme", "raw"), ("exact",)),
            (("--channel",), ("--channel", "client's")),
            (("h", "--size", "0"), ("--size", "0")), (("h", "--size", "2G"), ("2G",)), (("h", "--size", "8..4"), ("8..4",)),
            (("h", "--size", "4K,,8K"), ("4K,,8K",)), (("h", "--size", "1..1G,1..1G,1..1G"), ("64 sizes",)),
            (("h", "--count", "0"), ("--count",)), (("h", "--duration", "0"), ("--duration",)),
            (("h", "--depth", "513"), ("--depth", "513")), (("h", "--qps", "0"), ("--qps",)),
            (("h", "--qps", "1e3"), ("--qps",)), (("h", "--both", "--test", "lat"), ("--both",)),
            (("h", "--poll", "--sleep"), ("--poll", "--sleep")), (("h", "--depth", "4", "--test", "lat"), ("--depth",)),
            (("h", "--working-set", "1M", "--size", "1M"), ("working set", "--depth")),
            (("h", "--size", "1G", "--depth", "4"), ("--memory",)), (("h", "--bare", "--qps", "9000", "--depth", "4"), ("9000", "--depth")),
            (("h", "--test", "lat", "--count", "100000000"), ("pings",)), (("h", "--keep"), ("--keep",)),
            (("h", "i"), ("one argument too many",)), (("",), ("host", "empty")), (("--size", "4K"), ("--size", "client")),
            (("--both",), ("--both", "client")), (("h", "--memory", "1"), ("--memory",)), (("--lanes", "2"), ("--lanes", "client")),
            (("--dscp", "2"), ("--dscp", "client")), (("h", "--lanes", "9"), ("--lanes", "9")), (("h", "--icrc", "no"), ("--icrc", "no")),
            (("h", "--drop", "2"), ("--drop",)), (("h", "--count"), ("--count", "value"))):
        command = run(*arguments)
        check(command.status == 2 and not command.stdout, f"status 2 expected from {command}")
        one_line(command, *words, "see `godwit help perf`")
    command = run("h", "--qps", "0", "--json")
    check(command.status == 2 and command.json() and not command.json()["ok"], f"JSON on failure: {command}")
    command = run("127.0.0.1", "--port", str(free_port()))
    check(command.status == 1, f"{command}")
    one_line(command, "connection refused", "is `godwit perf` running there?")


def plan(version=PLAN_VERSION, test=0, flags=0, qps=1, depth=1, zero=0, marks=0, lanes=1, size=4096, count=1,
         duration=0, working_set=0, scheme=b"sr", rate=0, controller=b""):
    return PLAN.pack(version, test, flags, qps, depth, zero, marks, lanes, size, count, duration, working_set, scheme,
                     rate, controller)


def answer_to(port, body, kind=KIND_FIRST):
    with connect(port, hello("godwit perf") + frame(kind, body)) as connection:
        first, text, _ = read_frame(connection)
        if first == KIND_WELCOME:
            first, text, _ = read_frame(connection)
        return first, text.decode()


def hostile():
    """Plans that no client of ours makes: each is refused with a sentence, and allocates nothing."""
    port = free_port()
    server = start_server(port, "--keep", "--quiet", "--memory", "64M")
    huge = 1 << 63
    plans = ((plan(version=7), "version 7"), (plan(test=2), "does not know"), (plan(flags=1 << 31), "does not know"),
             (plan(zero=1), "does not know"), (plan(lanes=0), "lanes"), (plan(lanes=9), "lanes"),
             (plan(flags=16, scheme=b"raw"), "a channel is exact"), (plan(flags=33), "--reverse"),
             (plan(flags=32, test=1), "--reverse"),
             (plan(scheme=b"ec", depth=300), "256"),
             (plan(flags=16, qps=5001), "5000 channels"), (plan(flags=16, controller=b"x" * 16), "no controller"),
             (plan(marks=5), "traffic class"), (plan(scheme=b"x" * 16), "no scheme"), (plan(size=0), "1 byte to 1G"),
             (plan(size=huge), "1 byte to 1G"), (plan(qps=0), "queue pairs"), (plan(qps=1 << 31), "queue pairs"),
             (plan(depth=0), "depth"), (plan(depth=1 << 31), "depth"), (plan(count=0), "neither"),
             (plan(count=huge), "counted"), (plan(count=0, duration=huge), "seconds"), (plan(working_set=huge), "working set"),
             (plan(test=1, working_set=huge), "working set"), (plan(working_set=1 << 39), "--memory"), (plan(size=1 << 30), "--memory"),
             (plan(qps=10000, depth=100), "at once"), (plan(qps=9, depth=400, working_set=1), "at once|--memory|working"),
             (plan(test=1, flags=1), "--both"), (plan() + b"x", "no plan"), (plan()[:40], "no plan"), (b"", "no plan"))
    for body, words in plans:
        kind, text = answer_to(port, body)
        check(kind == KIND_REFUSE and any(w in text for w in words.split("|")), f"{words}: answered {kind} {text!r}")
    kind, text = answer_to(port, b"hello", kind=KIND_FIRST + 30)
    check(kind == KIND_REFUSE and "makes no sense" in text, f"a message of no kind: {kind} {text!r}")
    # One who agrees and then talks nonsense.
    with connect(port, hello("godwit perf") + frame(KIND_FIRST, plan())) as connection:
        check(read_frame(connection)[0] == KIND_WELCOME, "no welcome")
        check(read_frame(connection)[0] == ACCEPT_KIND, "a sane plan was not accepted")
        connection.sendall(frame(QP_KIND, os.urandom(128)))
        check(b"cannot connect" in read_frame(connection)[1], "a queue pair of noise")
    client = start_client("127.0.0.1", port, "--count", 3, "--size", "4K").wait(30)
    check(client.status == 0, f"after all of them: {client}")
    if check(server.alive(), "the server did not live through it"):
        peak = peak_kib(server.pid)
        check(peak < 200 * 1024, f"the server used {peak} KiB")
    kill(server)


def peak_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def refused():
    """What one end allows and the other does not is said at both."""
    port = free_port()
    server = start_server(port, "--memory", "8M")
    client = start_client("127.0.0.1", port, "--size", "4M", "--depth", 16).wait(20)
    check(client.status == 1 and server.alive(), f"{client}")
    kill(server)
    one_line(client, "127.0.0.1", "refused", "--memory allows 8.0 MiB")
    one_line(server, "warning", "127.0.0.1", "--memory allows 8.0 MiB")
    for answer, words in ((b"SSH-2.0-OpenSSH_9\r\n", "is not `godwit perf`"), (b"", "hung up")):
        with socket.create_server(("127.0.0.1", 0)) as fake:
            client = start_client("127.0.0.1", fake.getsockname()[1])
            connection, _ = fake.accept()
            connection.recv(4096)
            connection.sendall(answer)
            connection.close()
            client.wait(20)
            check(client.status == 1, f"{client}")
            one_line(client, "127.0.0.1", words)


def kill_one(number, victim_end, delay, options):
    port = free_port()
    server = start_server(port, "--drop", "1%")
    client = start_client("127.0.0.1", port, "--duration", 30, *options)
    victim, left = (client, server) if victim_end == "client" else (server, client)
    time.sleep(delay)
    # The server waits for ever for one that never called.
    wait_until(lambda: not listening(port), 30)
    victim.signal(signal.SIGKILL)
    killed = time.monotonic()
    victim.wait(10)
    left.wait(TIMEOUT + 10)
    took = time.monotonic() - killed
    label = f"round {number}: {victim_end} killed after {delay:.3f} s, {options}"
    check(left.status == 1, f"{label}: {left}")
    # It does not wait for the default of 10 s.
    check(took <= TIMEOUT + 4, f"{label}: took {took:.2f} s: {left}")
    one_line(left, "127.0.0.1")


def kills(rng):
    shapes_ = (("--both",), ("--scheme", "raw"), ("--test", "lat", "--sleep"), ("--qps", 20), ("--size", "64,1M"))
    rounds = []
    for i in range(ROUNDS):
        delay = rng.uniform(0, 0.1) if i % 3 == 0 else rng.uniform(0.1, 0.7)
        rounds.append((i, ("client", "server")[i % 2], delay, rng.choice(shapes_)))
    workers = [threading.Thread(target=kill_one, args=arguments) for arguments in rounds]
    for start in range(0, len(workers), 4):
        for worker in workers[start:start + 4]:
            worker.start()
        for worker in workers[start:start + 4]:
            worker.join()


def interrupted():
    port = free_port()
    server = start_server(port)
    client = start_client("127.0.0.1", port, "--duration", 30)
    wait_until(lambda: not listening(port), 30)
    time.sleep(0.5)
    client.signal(signal.SIGINT)
    client.wait(10)
    server.wait(10)
    check(client.status == 130, f"{client}")
    one_line(client, "interrupted by SIGINT")
    check(server.status == 1, f"{server}")
    one_line(server, "127.0.0.1")


def main():
    rng = seed_from_environment()
    usage()
    hostile()
    refused()
    interrupted()
    kills(rng)
    finish()


main()
