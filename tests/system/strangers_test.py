#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Strangers at the TCP port: none of them ends a command that waits, fills its disk or its log, or learns where it writes.

GODWIT_STRANGERS is the number of hostile connections beside a live transfer: 2,000 by default, 100,000 for the long form.
"""
import os
import socket
import struct
import subprocess
import threading
import time

from harness import (GODWIT, Command, Directory, check, finish, free_port, kill, listening, one_line, same,
                     seed_from_environment, start_recv, start_send, wait_until, write_random)
from rendezvous_peer import (KIND_FIRST, KIND_REFUSE, KIND_WELCOME, connect, frame, hello, read_frame)

HOSTILE = int(os.environ.get("GODWIT_STRANGERS") or 2000)
GIB = 1 << 30
LINES_MOST = 32
# The first message of `godwit send`: size, block, mode, lanes, scheme, and a channel of 320 bytes.
HELLO = struct.Struct(">QIIBB6x320s")


def receive(target, port, *options):
    """Port 4791 may be another user's at this moment."""
    return start_recv(target, port, "--udp-port", 0, *options)


def transmit(source, host, port, *options):
    return start_send(source, host, port, "--udp-port", 0, *options)


def describe(size, channel=bytes(320)):
    return hello("godwit send") + frame(KIND_FIRST, HELLO.pack(size, 1 << 20, 0o600, 1, 1, channel))


def overhear(source):
    """The channel in the first message of a real sender, whose packets then go nowhere."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = transmit(source, "127.0.0.1", server.getsockname()[1], "--timeout", 20)
        connection, _ = server.accept()
        with connection:
            connection.sendall(hello("godwit recv", kind=KIND_WELCOME))
            read_frame(connection)
            kind, body, _ = read_frame(connection)
            check(kind == KIND_FIRST and len(body) == HELLO.size, f"not a first message: {kind} {len(body)}")
        sender.wait(30)
    return HELLO.unpack(body)[-1]


def answers(port, data, limit=10):
    """Every byte that the command says to one who sends this."""
    with connect(port, data, limit) as stranger:
        told = b""
        try:
            stranger.shutdown(socket.SHUT_WR)
            while part := stranger.recv(4096):
                told += part
        except OSError:
            pass
    return told


def refused_and_waiting(directory, channel, *options):
    """Descriptions that are nonsense or ask for too much: an answer that tells nothing, and the next sender is served."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port = free_port()
    receiver = receive(target, port, *options)
    cases = [describe(5), describe(1 << 62, channel), describe(1 << 50, channel), describe(5, os.urandom(320)),
             hello("godwit send") + frame(KIND_FIRST, b"what?"), hello("godwit send") + frame(KIND_FIRST + 1)]
    for number, data in enumerate(cases):
        told = answers(port, data)
        check(b"refuse" not in told and told.count(b"Godwit\r\n") == 2 and told[90:92] == struct.pack(">H", KIND_REFUSE),
              f"case {number}: no refusal: {told!r}")
        leaks = [word for word in (directory, "target", "free", "max", "64.0 MiB") if word.encode() in told]
        check(not leaks, f"case {number} was told {leaks}: {told!r}")
        if not check(receiver.alive(), f"case {number} ended it"):
            print(receiver.wait(5))
            receiver = receive(target, port, *options)
    sender = transmit(source, "127.0.0.1", port).wait(20)
    receiver.wait(20)
    check(sender.status == 0 and receiver.status == 0 and same(source, target), f"{sender} {receiver}")
    check(receiver.stderr.count("warning") == len(cases), f"a warning for each: {receiver}")
    os.unlink(target)


def target_blocks(pid, directory):
    """512-byte blocks of disk behind the nameless file of a receiver."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if os.readlink(path).startswith(directory):
            return os.stat(path).st_blocks
    return None


def disk(directory, channel):
    """Announcing a file takes no space."""
    free = os.statvfs(directory)
    size = min(4 * GIB, free.f_bavail * free.f_frsize // 2)
    port = free_port()
    receiver = receive(os.path.join(directory, "target"), port, "--timeout", 20)
    with connect(port, describe(size, channel)) as stranger:
        check(read_frame(stranger)[0] == KIND_WELCOME, "no welcome")
        kind, text, _ = read_frame(stranger)
        check(kind == KIND_FIRST + 1, f"not accepted: {kind} {text!r}")
        blocks = target_blocks(receiver.pid, directory)
        check(blocks == 0, f"{blocks} blocks are taken for a file of {size} bytes of which nothing has come")
    kill(receiver)


def limits(directory):
    """--max-size, for files and for pipes."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    size = os.path.getsize(source)
    for most, fits in ((size, True), (size - 1, False)):
        port = free_port()
        receiver = receive(target, port, "--max-size", most)
        sender = transmit(source, "127.0.0.1", port).wait(20)
        if fits:
            check(sender.status == 0 and receiver.wait(20).status == 0 and same(source, target), f"{sender} {receiver}")
            os.unlink(target)
        else:
            check(sender.status == 1 and receiver.alive(), str(sender))
            one_line(sender, "refused: a file of", "is too large here")
            kill(receiver)
        port = free_port()
        receiver = receive(target, port, "--max-size", most)
        with open(source, "rb") as data:
            sender = subprocess.run([GODWIT, "send", "-", f"127.0.0.1:{port}", "--udp-port", "0"], stdin=data,
                                    capture_output=True, text=True, timeout=20, check=False)
        receiver.wait(20)
        if fits:
            check(sender.returncode == 0 and receiver.status == 0 and same(source, target), f"{sender} {receiver}")
            os.unlink(target)
        else:
            check(sender.returncode == 1 and receiver.status == 1, f"{sender} {receiver}")
            one_line(receiver, "sent more than --max-size", "was not written")
            check("failed: more data than is taken here" in sender.stderr, f"{sender}")
            check(not os.path.exists(target), "a file was written")
    for arguments, words in ((("recv", target, "--max-size", "x"), "--max-size"),
                             (("send", source, "127.0.0.1", "--max-size", "5"), "the receiver's to choose")):
        wrong = Command(*arguments).wait(10)
        check(wrong.status == 2, str(wrong))
        one_line(wrong, words)


def from_networks(directory):
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port = free_port()
    for waiting in (["recv", target], ["perf"], ["qualify"]):
        server = Command(*waiting, "--udp-port", 0, "--port", port, "--from", "127.0.0.2/32,::1")
        wait_until(lambda: listening(port) or not server.alive())
        told = answers(port, hello("godwit send"))
        check(told == b"", f"{waiting[0]} answered one who may not connect: {told!r}")
        client = {"recv": ["send", source], "perf": ["perf"], "qualify": ["qualify"]}[waiting[0]]
        stranger = Command(*client, "127.0.0.1", "--port", port, "--timeout", 2).wait(20)
        check(stranger.status == 1 and server.alive(), f"{stranger}")
        if waiting[0] == "recv":
            sender = transmit(source, "::1", port).wait(20)
            server.wait(20)
            check(sender.status == 0 and same(source, target), f"{sender} {server}")
            os.unlink(target)
        elif waiting[0] == "perf":
            client = Command("perf", "127.0.0.1", "--udp-port", 0, "--bind", "127.0.0.2", "--port", port, "--count", 20)
            check(client.wait(30).status == 0, f"{client}")
            server.wait(20)
        else:
            kill(server)
        check("nobody may connect from there" in server.stderr, f"{server}")
    for wrong, words in (("host", "is not a network"), ("10.0.0.0/33", "ADDRESS/LENGTH"), ("", "is not a network")):
        command = Command("recv", target, "--port", port, "--from", wrong).wait(10)
        check(command.status == 1, str(command))
        one_line(command, words)
    command = Command("send", source, "127.0.0.1", "--from", "127.0.0.1").wait(10)
    check(command.status == 2, str(command))
    one_line(command, "--from is for the end that waits")


def servers_go_on(directory):
    """A first message that makes no sense does not end `perf` or `qualify`."""
    for name in ("perf", "qualify"):
        port = free_port()
        server = Command(name, "--udp-port", 0, "--port", port)
        wait_until(lambda: listening(port) or not server.alive())
        # The first message of `qualify` has no content that could be wrong.
        for first in (frame(KIND_FIRST + 1), frame(99, b"what?"), frame(KIND_FIRST, bytes(200)))[:3 if name == "perf" else 2]:
            told = answers(port, hello(f"godwit {name}") + first)
            check(told[90:92] == struct.pack(">H", KIND_REFUSE), f"{name}: no refusal: {told!r}")
            check(server.alive(), f"{name} ended")
        more = [] if name == "perf" else ["--report", os.path.join(directory, "report")]
        client = Command(name, "127.0.0.1", "--udp-port", 0, "--port", port, *(more or ["--count", 20])).wait(60)
        server.wait(20)
        check(client.status == 0 and server.status == 0, f"{client} {server}")


def sit(port, count, source):
    """Strangers that connect and say nothing."""
    held = []
    for _ in range(count):
        stranger = socket.socket()
        stranger.bind((source, 0))
        stranger.connect(("127.0.0.1", port))
        held.append(stranger)
    return held


def among_idle_strangers(directory):
    """A hundred strangers that sit there delay nobody, wherever they come from: with all places taken the next one to come gets
    one of theirs at once."""
    source, target = os.path.join(directory, "small"), os.path.join(directory, "target")
    with open(source, "wb") as file:
        file.write(b"x" * 1000)
    alone = None
    for crowd in (0, 100, 100):
        port = free_port()
        receiver = receive(target, port)
        # From the sender's own address, and from another.
        held = sit(port, crowd, "127.0.0.1" if alone else "127.0.0.3")
        began = time.monotonic()
        sender = transmit(source, "127.0.0.1", port).wait(30)
        took = time.monotonic() - began
        receiver.wait(20)
        check(sender.status == 0 and receiver.status == 0 and same(source, target), f"among {crowd} strangers: {sender} {receiver}")
        if crowd:
            check(took < alone + 1, f"{took:.2f} s among {crowd} strangers, {alone:.2f} s alone")
        else:
            alone = took
        os.unlink(target)
        for stranger in held:
            stranger.close()


def slow_among_newcomers():
    """An end whose segments are lost and repeated seconds later is not one that says nothing: strangers from elsewhere that come
    meanwhile take each other's places and not its own."""
    port = free_port()
    server = Command("perf", "--udp-port", 0, "--port", port)
    wait_until(lambda: listening(port))
    greeting = hello("godwit perf")
    with connect(port, greeting[:40], 20) as slow:
        held = []
        for _ in range(3):
            time.sleep(1)
            held += sit(port, 100, "127.0.0.3")
        slow.sendall(greeting[40:])
        time.sleep(1)
        held += sit(port, 100, "127.0.0.3")
        slow.sendall(frame(99, b"what?"))
        kind = read_frame(slow)[0]
        check(kind == KIND_WELCOME, f"the slow one was not heard: {kind}")
        check(read_frame(slow)[0] == KIND_REFUSE, "its message was not looked at")
        for stranger in held:
            stranger.close()
    kill(server)


def hostile_bytes(rng, channel):
    """What a stranger may send, of every kind."""
    greeting = hello("godwit send")
    good = describe(rng.randrange(1 << 40), channel)
    spoilt = bytearray(good)
    spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    # A description that is right would be a sender; its size never is.
    spoilt[96 + 16:96 + 24] = b"\x7f" + rng.randbytes(7)
    return rng.choice([
        b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(64),
        rng.randbytes(rng.randrange(1, 2000)), greeting, greeting[:rng.randrange(len(greeting))], bytes(spoilt),
        bytes(spoilt)[:rng.randrange(len(spoilt))], greeting + frame(KIND_FIRST, rng.randbytes(344)),
        describe(1 << 62, channel), describe(5), frame(1, length=0xFFFFFFFF), hello("godwit send", version=9), hello("godwit perf"),
    ])


def flood(port, count, rng, channel, source="127.0.0.1", reached=None):
    """Opens so many connections; up to a hundred stay open, and some are reset. Those that were heard count in reached[0]."""
    held = []
    for _ in range(count):
        stranger = socket.socket()
        try:
            stranger.settimeout(2)
            stranger.bind((source, 0))
            stranger.connect(("127.0.0.1", port))
            stranger.sendall(hostile_bytes(rng, channel))
            if reached is not None:
                reached[0] += 1
            if rng.random() < 0.3:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        held.append(stranger)
        if len(held) > 100:
            held.pop(rng.randrange(len(held))).close()
    for stranger in held:
        stranger.close()


def resources(pid):
    """(open files, resident KiB) of a process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return len(os.listdir(f"/proc/{pid}/fd")), pages * os.sysconf("SC_PAGE_SIZE") // 1024


def beside_a_transfer(directory, channel, rng):
    """Hostile connections by the thousand, to a receiver that waits and to a server at work: both serve the next one."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port, perf_port = free_port(), free_port()
    receiver = receive(target, port, "--timeout", 5)
    server = Command("perf", "--udp-port", 0, "--keep", "--port", perf_port, "--timeout", 5)
    wait_until(lambda: listening(perf_port))
    flood(port, 200, rng, channel)
    before = resources(receiver.pid)
    live = Command("perf", "127.0.0.1", "--udp-port", 0, "--port", perf_port, "--rate", "50M", "--duration", "3s", "--json")
    reached = [0]
    flooders = [threading.Thread(target=flood, args=(port, HOSTILE, rng, channel, "127.0.0.3", reached)),
                threading.Thread(target=flood, args=(perf_port, 300, rng, channel, "127.0.0.3"))]
    for flooder in flooders:
        flooder.start()
    # Under way: a sender from elsewhere is served while they come.
    live.wait(60)
    result = live.json()
    check(live.status == 0 and result["ok"], f"beside strangers: {live}")
    for flooder in flooders:
        flooder.join()
    if not check(receiver.alive(), "strangers ended it"):
        print(receiver.wait(5))
        return
    check(reached[0] > 0.9 * HOSTILE, f"{reached[0]} of {HOSTILE} were heard")
    after = resources(receiver.pid)
    # Strangers with a whole description make it touch the memory of a transfer, 56 MiB, and that of another while the last one ends.
    check(after[0] <= before[0] + 64 and after[1] < 160 << 10, f"files and KiB before {before}, after {after}")
    again = Command("perf", "127.0.0.1", "--udp-port", 0, "--port", perf_port, "--count", 20).wait(20)
    check(again.status == 0, f"the next test: {again}")
    trickle = threading.Thread(target=flood, args=(port, HOSTILE // 4, rng, channel, "127.0.0.3"))
    trickle.start()
    sender = transmit(source, "127.0.0.1", port).wait(30)
    trickle.join()
    receiver.wait(30)
    check(sender.status == 0 and receiver.status == 0 and same(source, target), f"among strangers: {sender} {receiver}")
    lines = len(receiver.stderr.splitlines())
    check(lines <= LINES_MOST + 2 * (receiver.seconds + 2), f"{lines} lines in {receiver.seconds:.0f} s")
    kill(server)
    check(os.listdir(directory).count("target") == 1, f"{os.listdir(directory)}")
    os.unlink(target)


def main():
    rng = seed_from_environment()
    with Directory() as directory:
        source = os.path.join(directory, "source")
        write_random(source, 3000001, rng)
        channel = overhear(source)
        refused_and_waiting(directory, channel)
        refused_and_waiting(directory, channel, "--max-size", "64M")
        disk(directory, channel)
        limits(directory)
        from_networks(directory)
        servers_go_on(directory)
        among_idle_strangers(directory)
        slow_among_newcomers()
        beside_a_transfer(directory, channel, rng)
    finish()


main()
