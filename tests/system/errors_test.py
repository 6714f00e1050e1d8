#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Everything a person can get wrong is answered with one clear line and the right exit status, and leaves nothing."""
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from harness import (GODWIT, Command, Directory, check, finish, free_port, kill, listening, one_line, same,
                     seed_from_environment, start_recv, start_send, transfer, wait_until, write_random,
                     write_sparse)
from rendezvous_peer import KIND_FIRST, KIND_REFUSE, KIND_WELCOME, frame, hello, read_frame

MIB = 1 << 20
BIG = 256 * MIB
SLOWLY = "1G"  # takes long enough to be interrupted
NOBODY = 65534


def run(*arguments, **popen):
    return Command(*arguments, **popen).wait(20)


def expect(command, status, *words):
    """One line with these words, this status, and, with --json, one valid object that says the same."""
    check(command.status == status, f"status {status} expected from {command}")
    one_line(command, *words)
    if "--json" in command.arguments:
        result = command.json()
        if check(result is not None, f"one JSON object expected from {command}"):
            check(result.get("ok") is False and result.get("error") in command.stderr, f"JSON of a failure: {command}")
    else:
        check(command.stdout == "", f"nothing on stdout expected from {command}")


def command_line(directory):
    source = os.path.join(directory, "source")
    version = run("--version")
    check(version.status == 0 and version.stdout.startswith("godwit "), str(version))
    for arguments in (["--help"], ["help"], ["help", "send"], ["help", "recv"], ["send", "--help"], ["recv", "-h"]):
        result = run(*arguments)
        check(result.status == 0 and result.stdout.startswith("usage: godwit") and not result.stderr, str(result))
    result = run()
    check(result.status == 0 and "\ntry\n" in result.stdout and not result.stderr, f"what this host can do: {result}")
    for arguments in (["fly"], ["help", "fly"]):
        result = run(*arguments)
        check(result.status == 2 and len(result.stderr.splitlines()) == 1 and '"fly"' in result.stderr
              and "godwit help" in result.stderr, str(result))

    expect(run("send"), 2, "file", "godwit help send")
    expect(run("recv"), 2, "file", "godwit help recv")
    expect(run("send", source), 2, "host")
    expect(run("send", source, "a", "b"), 2, '"b"')
    expect(run("recv", "a", "b"), 2, '"b"')
    expect(run("recv", ""), 2, "empty")
    expect(run("send", source, "", "--json"), 2, "empty")
    expect(run("recv", "f", "--wings"), 2, "--wings")
    expect(run("recv", "f", "-x"), 2, "-x")
    expect(run("recv", "f", "--port"), 2, "--port", "value")
    expect(run("recv", "f", "--block", "1M"), 2, "--block")
    for option, values in {
            "--port": ["0", "65536", "-1", "http", "80x", "", " 80", "99999999999999999999"],
            "--udp-port": ["65536", "-1", "x"],
            "--timeout": ["0", "-1", "soon", "1e9", "nan", "inf", ""],
            "--block": ["0", "1", "17M", "1G", "-4K", "big", "18446744073709551616", "99999999999999M"],
            "--drop": ["1.5", "-0.1", "101%", "x", "nan", "5%%", ""],
            "--dup": ["2"],
            "--lanes": ["0", "9", "-1", "two", ""],
            "--icrc": ["", "yes", "OFF", "1"],
            "--dscp": ["64", "-1", "af31", ""],
            "--traffic-class": ["1", "105", "256", "-4", "x"],
            "--reorder": ["1.0001"],
            "--seed": ["-1", "x", "1.5"],
    }.items():
        for value in values:
            expect(run("send", source, "127.0.0.1", f"{option}={value}"), 2, option, "is not")
    expect(run("send", source, "127.0.0.1", "--drop", "7", "--json"), 2, "--drop")
    loud = run("recv", os.path.join(directory, "f"), "--port", free_port(), env={"GODWIT_LOG": "loud"})
    expect(loud, 1, "GODWIT_LOG", "loud")


def receiving_nowhere(directory):
    port = free_port()
    expect(run("recv", directory, "--port", port), 1, directory, "is a directory")
    expect(run("recv", directory + "/new/", "--port", port), 1, "directory")
    expect(run("recv", directory + "/no/file", "--port", port, "--json"), 1, "there is no directory", directory + "/no")
    expect(run("recv", "/proc/file", "--port", port), 1, "/proc takes no new files")
    expect(run("recv", directory + "/source/file", "--port", port), 1, "is not a directory")
    expect(run("recv", "/dev/null", "--port", port), 1, "/dev/null", "not a regular file")
    expect(run("recv", directory + "/" + "n" * 300, "--port", port), 1, "too long")
    expect(run("recv", directory + "/f\nname/x", "--port", port), 1, "f?name")
    if os.getuid() == 0:
        expect(run("recv", directory + "/denied", "--port", port, user=NOBODY), 1, "no permission", directory)
    expect(run("recv", directory + "/f", "--port", port, "--bind", "192.0.2.1"), 1, "192.0.2.1", "not an address")
    expect(run("recv", directory + "/f", "--port", port, "--bind", "no.such.host.invalid"), 1, "no.such.host.invalid")

    first = start_recv(directory + "/f", port)
    expect(run("recv", directory + "/g", "--port", port), 1, f"port {port}", "in use", "--port")
    expect(run("recv", directory + "/g", "--port", port, "--json"), 1, f"port {port}", "in use")
    kill(first)


def sending_nothing(directory):
    source = os.path.join(directory, "source")
    port = free_port()
    expect(run("send", directory + "/none", "127.0.0.1", "--port", port), 1, "none", "No such file")
    expect(run("send", directory, "127.0.0.1", "--port", port), 1, "is a directory")
    expect(run("send", "/dev/zero", "127.0.0.1", "--port", port), 1, "not a regular file")
    os.mkfifo(directory + "/fifo")
    expect(run("send", directory + "/fifo", "127.0.0.1", "--port", port), 1, "not a regular file")
    os.unlink(directory + "/fifo")
    if os.getuid() == 0:
        os.chmod(source, 0o600)
        expect(run("send", source, "127.0.0.1", "--port", port, user=NOBODY), 1, "source", "Permission denied")
    expect(run("send", source, "no.such.host.invalid"), 1, "unknown host no.such.host.invalid")
    refused = run("send", source, "127.0.0.1", "--port", port)
    expect(refused, 1, f"cannot reach 127.0.0.1:{port}: connection refused", "is `godwit recv` running there?")
    check(0.8 < refused.seconds < 5, f"about a second of patience expected: {refused}")
    expect(run("send", source, "::1", "--port", port, "--json"), 1, f"cannot reach [::1]:{port}", "refused")
    expect(run("send", source, "127.0.0.1", "--port", port, "--bind", "192.0.2.1"), 1, "192.0.2.1", "not an address")


def file_hello(size=5, block=MIB, lanes=1, scheme=1):
    """What describes a file to a receiver, with a channel that is nonsense."""
    return struct.pack(">QIIBB6x", size, block, 0, lanes, scheme) + bytes(320)


def odd_callers(directory):
    """A receiver puts up with strangers, and a sender with a host that is no receiver."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port = free_port()
    receiver = start_recv(target, port, "--timeout", 1)
    greeting = hello("godwit send")
    strangers = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"",
        b"Godw",
        os.urandom(4096),
        frame(1, length=0xFFFFFFFF),
        frame(2, bytes(128)),
        greeting[:40],
        greeting + frame(KIND_FIRST, bytes(100)),
        greeting + frame(KIND_FIRST + 1, file_hello()),
        greeting + frame(KIND_FIRST, file_hello(size=1 << 63)),
        greeting + frame(KIND_FIRST, file_hello(block=1)),
        greeting + frame(KIND_FIRST, file_hello(block=0xFFFFFFFF)),
        greeting + frame(KIND_FIRST, file_hello(lanes=0)),
        greeting + frame(KIND_FIRST, file_hello(lanes=9)),
        greeting + frame(KIND_FIRST, file_hello(scheme=99)),
    ]
    for data in strangers:
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(data)
    # One of a later version is told so.
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.sendall(frame(1, bytes(64), version=9))
        caller.settimeout(5)
        kind, text, _ = read_frame(caller)
    check(kind == KIND_REFUSE and b"version 9" in text and b"this end version 2" in text, f"another version: {text!r}")
    # One that says nothing at all does not hold the others up.
    silent = socket.create_connection(("127.0.0.1", port))
    sender = start_send(source, "127.0.0.1", port).wait(20)
    silent.close()
    receiver.wait(20)
    check(sender.status == 0 and receiver.status == 0 and same(source, target), f"after strangers: {sender} {receiver}")
    lines = receiver.stderr.splitlines()
    check(sender.seconds < 0.9, f"held up by a silent stranger: {sender}")
    # Who hangs up without a word is not worth one.
    spoke = [data for data in strangers if data]
    check(len(lines) == len(spoke) + 1 and all("warning" in line and "127.0.0.1" in line for line in lines),
          f"one warning for each stranger that spoke expected: {receiver}")
    os.unlink(target)

    welcome = hello("godwit recv", kind=KIND_WELCOME)
    for answer, words in ((b"SSH-2.0-OpenSSH_9\r\n", "not `godwit recv`"), (b"", "hung up"),
                          (frame(KIND_WELCOME, bytes(64), version=7), "version 7"),
                          (hello("godwit perf", kind=KIND_WELCOME), "is `godwit perf`, not `godwit recv`"),
                          (hello("godwit recv", version=9, kind=KIND_WELCOME), "has version 9"),
                          (frame(KIND_REFUSE, b"not\nnow"), "refused: not?now"),
                          (welcome, "closed the connection"), (welcome + frame(KIND_FIRST), "makes no sense"),
                          (welcome + frame(KIND_FIRST + 1, bytes(320)), "127.0.0.1")):
        with socket.create_server(("127.0.0.1", 0)) as server:
            sender = start_send(source, "127.0.0.1", server.getsockname()[1], "--timeout", 2)
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(answer)
            connection.close()
            expect(sender.wait(20), 1, words)
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = start_send(source, "127.0.0.1", server.getsockname()[1], "--timeout", 1, "--json").wait(20)
        expect(sender, 1, f"no answer from 127.0.0.1:{server.getsockname()[1]} within 1 s", "is the port open?")
        check(sender.seconds < 2.5, f"took too long: {sender}")


def interrupted(directory):
    """A signal at each end, before and during a transfer."""
    source = os.path.join(directory, "big")
    target = os.path.join(directory, "target")
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        receiver = start_recv(target, free_port(), "--json")
        receiver.signal(number)
        expect(receiver.wait(5), status, "interrupted by SIG")
        for end in ("send", "recv"):
            port = free_port()
            # The end that is hit loses nothing itself, and shares its port with nobody, so its farewell arrives.
            common = ["--timeout", 5, "--udp-port", 0]
            receiver = start_recv(target, port, "--drop", "20%" if end == "send" else 0, *common)
            sender = start_send(source, "127.0.0.1", port, "--rate", SLOWLY, "--drop", "20%" if end == "recv" else 0, *common)
            # One that is hit before it has met the other has nobody to take leave of.
            wait_until(lambda: receiver.written() > MIB or not receiver.alive())
            hit, other = (sender, receiver) if end == "send" else (receiver, sender)
            check(hit.alive() and other.alive(), f"the transfer ended before the signal: {hit} {other}")
            hit.signal(number)
            signalled = time.monotonic()
            expect(hit.wait(5), status, "interrupted by SIG")
            expect(other.wait(10), 1, "127.0.0.1 gave up")
            check(time.monotonic() - signalled < 3, f"the farewell was not heard: {other}")
            check(not os.path.exists(target), f"{target} was written")


def changing_source(directory):
    source, target = os.path.join(directory, "shrinking"), os.path.join(directory, "target")
    write_sparse(source, BIG)
    port = free_port()
    receiver = start_recv(target, port, "--drop", "10%", "--timeout", 3)
    sender = start_send(source, "127.0.0.1", port, "--rate", SLOWLY, "--drop", "10%", "--timeout", 3)
    time.sleep(0.15)
    os.truncate(source, 1000)
    expect(sender.wait(20), 1, "shrank")
    expect(receiver.wait(20), 1, "127.0.0.1", "was not written")
    check(not os.path.exists(target), f"{target} was written")
    os.unlink(source)


def replacing(directory):
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    with open(target, "wb") as out:
        out.write(b"old")
    os.chmod(source, 0o640)
    before = os.open(target, os.O_RDONLY)
    sender, receiver = transfer(source, target)
    check(sender.status == 0 and receiver.status == 0 and same(source, target), f"replacing: {sender} {receiver}")
    check(os.read(before, 10) == b"old", "the old file was changed, not replaced")
    os.close(before)
    check(os.stat(target).st_mode & 0o777 == 0o640, f"mode {os.stat(target).st_mode:o}")
    check(sender.stdout.startswith("sent ") and "verified by the receiver" in sender.stdout and not sender.stderr
          and sender.stdout.count("\n") == 1, str(sender))
    check(receiver.stdout.startswith("received ") and not receiver.stderr, str(receiver))
    sender, receiver = transfer(source, target, recv_options=["--quiet"], send_options=["--quiet"])
    check(sender.status == 0 and receiver.status == 0, f"quiet: {sender} {receiver}")
    check(not sender.stdout + sender.stderr + receiver.stdout + receiver.stderr, f"quiet: {sender} {receiver}")
    os.unlink(target)


def full_output(directory):
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port = free_port()
    receiver = start_recv(target, port)
    with open("/dev/full", "w", encoding="ascii") as full:
        result = subprocess.run([GODWIT, "send", source, "127.0.0.1", "--port", str(port)], stdout=full,
                                stderr=subprocess.PIPE, timeout=20, check=False)
    receiver.wait(20)
    check(result.returncode == 1 and b"standard output" in result.stderr, f"/dev/full: {result}")
    os.unlink(target)
    # The line that did not fit is not the last thing that these do.
    port = str(free_port())
    here = ("--rank", "0", "--ranks", "1", "--root-host", "127.0.0.1", "--port", str(free_port()))
    with open("/dev/full", "w", encoding="ascii") as full:
        server = subprocess.Popen([GODWIT, "perf", "--port", port], stdout=full, stderr=subprocess.PIPE)
        wait_until(lambda: listening(int(port)) or server.poll() is not None)
        for status, *command in ((1, "perf", "127.0.0.1", "--port", port, "--duration", "200ms"),
                                 (1, "coll", "barrier", "--iterations", "3", *here), (3, "mesh", *here)):
            result = subprocess.run([GODWIT, *command], stdout=full, stderr=subprocess.PIPE, timeout=20, check=False)
            check(result.returncode == status and b"standard output: No space left on device" in result.stderr, f"{command}: {result}")
        errors = server.communicate(timeout=20)[1]
        check(server.returncode == 1 and b"standard output: No space left on device" in errors, f"perf: {server.returncode} {errors}")


def read_terminal(fd):
    """What was written to it so far. It comes in pieces, and a moment late."""
    shown = b""
    while select.select([fd], [], [], 0.3)[0]:
        shown += os.read(fd, 65536)
    return shown.decode()


def on_terminal(directory):
    """A bar and a word while waiting, for a person only; it is wiped at the end."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port = free_port()
    main_end, terminal = os.openpty()
    receiver = start_recv(target, port)
    sender = subprocess.run([GODWIT, "send", source, "127.0.0.1", "--port", str(port)], stdout=subprocess.PIPE,
                            stderr=terminal, timeout=20, check=False)
    receiver.wait(20)
    shown = read_terminal(main_end)
    check("% [" in shown and "bit/s" in shown and shown.endswith("\r\033[K"), f"on a terminal: {shown!r}")
    check(b"\033" not in sender.stdout and sender.returncode == 0, f"stdout beside a terminal: {sender.stdout}")
    os.unlink(target)
    receiver = subprocess.Popen([GODWIT, "recv", target, "--port", str(port)], stdout=subprocess.PIPE, stderr=terminal)
    wait_until(lambda: listening(port))
    shown = read_terminal(main_end)
    check(shown.strip() == f"waiting on [::]:{port}", f"on a terminal: {shown!r}")
    receiver.terminate()
    check(receiver.wait(10) == 143, f"status {receiver.returncode} after SIGTERM")
    receiver.stdout.close()
    os.close(terminal)
    os.close(main_end)


def manual(_):
    """The manual page of a command names the same options as its help."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    for command in ("send", "recv"):
        told = set(re.findall(r"^  --([a-z-]+)", run("help", command).stdout, re.M))
        with open(os.path.join(root, f"man/godwit-{command}.1"), encoding="utf-8") as page:
            written = set(re.findall(r"^\.It Fl -([a-z-]+)", page.read(), re.M))
        check(told and told == written, f"{command}: help has {sorted(told)}, the manual {sorted(written)}")


DISK_FULL = """
set -e
mount -t tmpfs -o size=4m tmpfs "$1"
exec "$2" "$3" in-namespace "$1" "$4"
"""


def disk_full(directory):
    """A small file system of our own, in a namespace of our own."""
    mount = os.path.join(directory, "mount")
    os.mkdir(mount)
    probe = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", mount], capture_output=True, check=False)
    if probe.returncode:
        print(f"not checked: disk full ({probe.stderr.decode().strip()})")
    else:
        inner = subprocess.run(["unshare", "-rm", "sh", "-c", DISK_FULL, "sh", mount, sys.executable,
                                os.path.abspath(__file__), os.path.join(directory, "big")], check=False, timeout=60)
        check(inner.returncode == 0, "a full disk, see above")
    os.rmdir(mount)


def disk_full_inside(mount, source):
    target = os.path.join(mount, "target")
    port = free_port()
    receiver = start_recv(target, port)
    sender = start_send(source, "127.0.0.1", port, "--json").wait(20)
    # It goes on waiting; the sender is not told what room there is, nor where.
    receiver.signal(signal.SIGTERM)
    receiver.wait(20)
    first = receiver.stderr.splitlines()[0]
    check("warning" in first and f"no space for {target}: needs 256.0 MiB, {mount} has 4.0 MiB free" in first, f"{receiver}")
    expect(sender, 1, "refused: there is no room for a file of 256.0 MiB")
    check(mount not in sender.stderr and "4.0 MiB" not in sender.stderr, f"told too much: {sender}")
    check(sender.json() and sender.json()["bytes"] == 0, f"something was sent: {sender}")
    check(os.listdir(mount) == [], f"left behind: {os.listdir(mount)}")
    nameless_impossible(mount)
    finish()


def nameless_impossible(mount):
    """Without /proc a nameless file could never get its name: a hidden one has to do, and must not stay."""
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/proc"], capture_output=True, check=False).returncode:
        print("not checked: receiving without /proc")
        return
    if run("--version").stderr:
        print("not checked: receiving without /proc, which a build with sanitizers needs itself")
        return
    source, target = os.path.join(mount, "small"), os.path.join(mount, "target")
    with open(source, "wb") as out:
        out.write(os.urandom(100001))
    for round_number in range(2):
        port = free_port()
        receiver = Command("recv", target, "--port", port)
        sender = start_send(source, "127.0.0.1", port).wait(20)
        receiver.wait(20)
        check(sender.status == 0 and receiver.status == 0 and same(source, target),
              f"without /proc, round {round_number}: {sender} {receiver}")
    receiver = Command("recv", target, "--port", port)
    hidden = wait_until(lambda: len(os.listdir(mount)) == 3)
    check(hidden and any(n.startswith(".target.godwit-") for n in os.listdir(mount)), f"{os.listdir(mount)}")
    receiver.signal(signal.SIGTERM)
    expect(receiver.wait(5), 143, "SIGTERM")
    check(sorted(os.listdir(mount)) == ["small", "target"], f"left behind: {os.listdir(mount)}")


def check_json(directory):
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    sender, receiver = transfer(source, target, recv_options=["--json"], send_options=["--json"])
    numbers = ["bytes", "seconds", "goodput_bps", "packets", "retransmitted", "rtt_us", "loss"]
    for command in (sender, receiver):
        result = command.json()
        if not check(result is not None and result["ok"] is True, f"one JSON object expected: {command}"):
            continue
        check(all(isinstance(result.get(n), (int, float)) for n in numbers), f"numbers in {json.dumps(result)}")
        check(result["bytes"] == os.path.getsize(source), f"bytes in {json.dumps(result)}")
        check(result["peer"] == "127.0.0.1" and len(result["crc32"]) == 8, f"peer, crc32 in {json.dumps(result)}")
        check(result["packets"] > 0, f"packets in {json.dumps(result)}")
        check(result["dropped"] and all(result["counters"]["drop_" + k] == v for k, v in result["dropped"].items()),
              f"drops in {json.dumps(result)}")
    os.unlink(target)


def main():
    if sys.argv[1:2] == ["in-namespace"]:
        disk_full_inside(*sys.argv[2:4])
    rng = seed_from_environment()
    with Directory() as directory:
        write_random(os.path.join(directory, "source"), 3 * MIB + 17, rng)
        write_sparse(os.path.join(directory, "big"), BIG)
        for part in (command_line, receiving_nowhere, sending_nothing, odd_callers, interrupted, changing_source,
                     replacing, full_output, on_terminal, manual, check_json, disk_full):
            part(directory)
            wait_until(lambda: sorted(os.listdir(directory)) == ["big", "source"], timeout=1)
            check(sorted(os.listdir(directory)) == ["big", "source"],
                  f"{part.__name__} left behind: {sorted(os.listdir(directory))}")
    finish()


main()
