#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How commands meet: secrets right, wrong and missing; strangers that do not hold others up; the wrong command."""
import os
import socket
import stat
import time

from harness import (FAILURES, Command, Directory, check, finish, free_port, kill, listening, one_line,
                     same, seed_from_environment, skip, start_recv, start_send, wait_until, write_random)
from rendezvous_peer import KIND_FIRST, KIND_REFUSE, KIND_WELCOME, connect, frame, hello, read_frame

STRANGERS = 100


def warnings(command, *texts):
    """Checks that stderr holds exactly one warning with each of these words, in this order."""
    lines = command.stderr.splitlines()
    good = len(lines) == len(texts) and all(t in line and "warning" in line for t, line in zip(texts, lines))
    check(good, f"warnings {texts} expected from {command}")


def make_secrets(directory):
    paths = []
    for name in ("one", "two"):
        path = os.path.join(directory, name)
        command = Command("secret", path).wait(10)
        check(command.status == 0 and path in command.stdout, str(command))
        mode = stat.S_IMODE(os.stat(path).st_mode)
        with open(path, encoding="ascii") as file:
            text = file.read()
        check(mode == 0o600 and len(text) == 65 and len(bytes.fromhex(text)) == 32, f"{path}: mode {mode:o}, {text!r}")
        paths.append(path)
    command = Command("secret", paths[0]).wait(10)
    check(command.status == 1, str(command))
    one_line(command, paths[0], "exists already")
    for arguments in ((), ("a", "b"), ("--wings",)):
        command = Command("secret", *arguments).wait(10)
        check(command.status == 2, str(command))
        one_line(command, "see `godwit help secret`")
    return paths


def secrets(directory):
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    one, two = make_secrets(directory)
    port = free_port()
    receiver = start_recv(target, port, "--secret-file", one)
    if receiver.process.poll() is not None and "OpenSSL" in receiver.wait().stderr:
        one_line(receiver, "built without OpenSSL")
        if FAILURES:
            finish()
        skip("openssl", "this build has no secrets")
    wrong = start_send(source, "127.0.0.1", port, "--secret-file", two).wait(20)
    check(wrong.status == 1, str(wrong))
    one_line(wrong, f"127.0.0.1:{port}", "does not hold this end's secret", "the same secret file")
    missing = start_send(source, "127.0.0.1", port).wait(20)
    check(missing.status == 1, str(missing))
    one_line(missing, "a secret is needed here and the caller has none")
    other = Command("perf", "127.0.0.1", "--port", port, "--secret-file", one).wait(20)
    check(other.status == 1, str(other))
    one_line(other, "`godwit recv` waits here for `godwit send`, and the caller is `godwit perf`")
    # By the environment, and with bytes of a stranger before it.
    with connect(port, os.urandom(64)), connect(port, b"\x16\x03\x01\x00\x04nope"):
        right = start_send(source, "127.0.0.1", port, env={"GODWIT_SECRET_FILE": one}).wait(20)
    receiver.wait(20)
    check(right.status == 0 and receiver.status == 0 and same(source, target), f"the right secret: {right} {receiver}")
    check(receiver.stderr.count("warning") == 5, f"five strangers: {receiver}")
    check("does not hold this end's secret" in receiver.stderr and "it has no secret" in receiver.stderr, str(receiver))
    os.unlink(target)

    # Sealed packets, on two lanes and with repeats: what one end asks for alone is refused.
    receiver = start_recv(target, port, "--secret-file", one, "--seal")
    sealed = start_send(source, "127.0.0.1", port, "--secret-file", one, "--seal", "--lanes", "2", "--dup", "5%", "--drop", "2%").wait(20)
    receiver.wait(20)
    check(sealed.status == 0 and receiver.status == 0 and same(source, target), f"sealed: {sealed} {receiver}")
    os.unlink(target)
    for there, here in (("--seal",), ()), ((), ("--seal",)):
        receiver = start_recv(target, port, "--secret-file", one, *there)
        alone = start_send(source, "127.0.0.1", port, "--secret-file", one, *here).wait(20)
        check(alone.status == 1 and receiver.alive(), f"--seal at one end: {alone} {receiver}")
        one_line(alone, "one end has --seal and the other has not: give it to both")
        kill(receiver)
    keyless = start_send(source, "127.0.0.1", port, "--seal", env={"GODWIT_SECRET_FILE": ""}).wait(20)
    check(keyless.status == 2, str(keyless))
    one_line(keyless, "--secret-file")

    receiver = start_recv(target, port)
    extra = start_send(source, "127.0.0.1", port, "--secret-file", one).wait(20)
    check(extra.status == 1, str(extra))
    one_line(extra, "the caller has a secret and this end has none")
    plain = start_send(source, "127.0.0.1", port).wait(20)
    check(plain.status == 0 and receiver.wait(20).status == 0, f"{plain} {receiver}")
    warnings(receiver, "it has a secret, and this end has none")
    os.unlink(target)

    for command in ("perf", "qualify"):
        report = [] if command == "perf" else ["--report", os.path.join(directory, "report")]
        server = Command(command, "--port", port, "--secret-file", one)
        wait_until(lambda: listening(port))
        client = Command(command, "127.0.0.1", "--port", port, "--udp-port", 0, "--secret-file", one,
                         *(report or ["--count", 20])).wait(60)
        server.wait(20)
        check(client.status == 0 and server.status == 0, f"under a secret: {client} {server}")


def bad_files(directory):
    source, bad = os.path.join(directory, "source"), os.path.join(directory, "bad")
    for text, mode, words in (("ab" * 32, 0o644, "chmod 600"), ("ab" * 31, 0o600, "64 to 128 hexadecimal digits"),
                              ("xy" * 32, 0o600, "`godwit secret FILE` makes one"), ("", 0o600, "hexadecimal")):
        with open(bad, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(bad, mode)
        for command in (Command("recv", os.path.join(directory, "t"), "--port", free_port(), "--secret-file", bad),
                        Command("send", source, "127.0.0.1", "--secret-file", bad),
                        Command("perf", "--port", free_port(), "--secret-file", bad)):
            command.wait(10)
            check(command.status == 1, str(command))
            one_line(command, bad, words)
    command = Command("qualify", "127.0.0.1", "--secret-file", os.path.join(directory, "none")).wait(10)
    one_line(command, "none", "No such file")


def crowd(directory):
    """Many that say nothing, and some that say hello and nothing else: a sender does not wait for them."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port = free_port()
    receiver = start_recv(target, port, "--timeout", 5)
    idle = [connect(port) for _ in range(STRANGERS)] + [connect(port, hello("godwit send")) for _ in range(20)]
    sender = start_send(source, "127.0.0.1", port).wait(20)
    receiver.wait(20)
    check(sender.status == 0 and receiver.status == 0 and same(source, target), f"in a crowd: {sender} {receiver}")
    check(sender.seconds < 2, f"held up: {sender}")
    for stranger in idle:
        stranger.close()
    os.unlink(target)
    # Alone, an idle one is gone after the receiver's patience. Where packets are lost, a hello may come late.
    receiver = start_recv(target, port, "--timeout", 1)
    with connect(port) as stranger:
        began = time.monotonic()
        check(stranger.recv(1) == b"", "an idle stranger was sent something")
        check(0.7 < time.monotonic() - began < 2.5, f"an idle stranger stayed for {time.monotonic() - began:.1f} s")
    kill(receiver)
    warnings(receiver, "it did not say who it is")


def wrong_command(directory):
    """Each command against the others: both ends say which two met."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    port = free_port()
    receiver = start_recv(target, port)
    for caller in ("perf", "qualify"):
        stranger = Command(caller, "127.0.0.1", "--port", port).wait(20)
        check(stranger.status == 1, str(stranger))
        one_line(stranger, f"`godwit recv` waits here for `godwit send`, and the caller is `godwit {caller}`")
    with connect(port, hello("godwit send", version=9)) as other:
        kind, text, _ = read_frame(other)
    check(kind == KIND_REFUSE and b"version 9" in text and b"this end version 3" in text, f"version: {kind} {text!r}")
    # A first message that is none of `godwit send` is answered, and the next caller is served.
    with connect(port, hello("godwit send") + frame(KIND_FIRST, b"what?")) as other:
        check(read_frame(other)[0] == KIND_WELCOME, "no welcome")
        kind, text, _ = read_frame(other)
    check(kind == KIND_REFUSE and b"does not describe a file" in text, f"{kind} {text!r}")
    sender = start_send(source, "127.0.0.1", port).wait(20)
    receiver.wait(20)
    check(sender.status == 0 and receiver.status == 0, f"after others: {sender} {receiver}")
    warnings(receiver, "it is `godwit perf`, not `godwit send`", "it is `godwit qualify`, not `godwit send`",
             "it has version 9", "does not describe a file")
    os.unlink(target)


def unreachable(directory):
    """An address that answers nothing: the sentence says what to look at, after --timeout and not later."""
    source = os.path.join(directory, "source")
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        port = server.getsockname()[1]
        sender = start_send(source, "127.0.0.1", port, "--timeout", 0.5).wait(20)
    check(sender.status == 1 and sender.seconds < 3, str(sender))
    one_line(sender, f"no answer from 127.0.0.1:{port} within 0.5 s: is `godwit recv` running there, is the port open?")


def connecting_from(port):
    """Local ports from which somebody tries to connect to this one and has no answer yet."""
    with open("/proc/net/tcp", encoding="ascii") as lines:
        fields = [line.split() for line in lines]
    return {int(f[1].split(":")[1], 16) for f in fields if f[2].endswith(f":{port:04X}") and f[3] == "02"}


def unanswered(directory):
    """A connection without an answer is made again, from another source port, until the time is up."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        # They fill the queue; the kernel then drops what comes after them.
        queue = [socket.socket() for _ in range(4)]
        for filler in queue:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        time.sleep(0.2)
        idle = connecting_from(port)
        sender = start_send(os.path.join(directory, "source"), "127.0.0.1", port, "--timeout", 5)
        seen = set()
        wait_until(lambda: seen.update(connecting_from(port) - idle) or not sender.alive(), 8, 0.05)
        sender.wait(10)
        for filler in queue:
            filler.close()
    check(sender.status == 1 and 4 < sender.seconds < 7, f"5 s of patience: {sender}")
    one_line(sender, "no answer from", "within 5 s")
    check(len(seen) >= 2, f"tried from the ports {seen}")


def main():
    rng = seed_from_environment()
    with Directory() as directory:
        write_random(os.path.join(directory, "source"), 300001, rng)
        crowd(directory)
        wrong_command(directory)
        unreachable(directory)
        unanswered(directory)
        bad_files(directory)
        secrets(directory)
    finish()


main()
