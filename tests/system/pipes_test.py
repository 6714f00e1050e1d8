#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`send -` and `recv -` in pipes: any length, any pace, nothing but the data on stdout, one line for what goes wrong."""
import os
import subprocess
import threading
import time

from harness import GODWIT, Directory, check, finish, free_port, listening, seed_from_environment, wait_until

MIB = 1 << 20


class Pipe:
    """A command with its stdin and stdout in our hands."""

    def __init__(self, *arguments, **popen):
        self.arguments = [str(a) for a in arguments]
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        self.process = subprocess.Popen([GODWIT, *self.arguments], stderr=subprocess.PIPE, **popen)
        self.data, self.stderr = b"", ""

    def read_all(self):
        self.data = self.process.stdout.read()

    def wait(self, timeout=60):
        """Ends its input and collects what it printed; returns the exit status."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.stderr = self.process.stderr.read().decode()
        self.process.stderr.close()
        return self.process.returncode

    def __str__(self):
        return f"{' '.join(self.arguments)}: {self.process.returncode}, {len(self.data)} bytes, {self.stderr!r}"


def receive(target, *options, **popen):
    port = free_port()
    receiver = Pipe("recv", target, "--port", port, *options, **popen)
    wait_until(lambda: listening(port) or receiver.process.poll() is not None)
    return receiver, f"127.0.0.1:{port}"


def lengths(directory, rng):
    """From a pipe or a file, to a pipe or a file. No length is mistaken for the end, the trailer's (32) neither."""
    for size in (0, 1, 31, 32, 33, 64, 4096, 4096 + 32, MIB, MIB + 32, 5 * MIB + 7):
        data = rng.randbytes(size)
        source = os.path.join(directory, "source")
        with open(source, "wb") as out:
            out.write(data)
        for send_from, receive_to in (("-", "-"), ("-", "target"), (source, "-")):
            target = receive_to if receive_to == "-" else os.path.join(directory, receive_to)
            receiver, where = receive(target)
            reader = threading.Thread(target=receiver.read_all)
            reader.start()
            sender = Pipe("send", send_from, where, "--block", "4K" if size < MIB else "1M", stdin=subprocess.PIPE)
            if send_from == "-":
                sender.process.stdin.write(data)
            sender.process.stdin.close()
            sent = sender.process.stdout.read().decode()
            reader.join(60)
            label = f"{size} bytes from {send_from} to {receive_to}"
            check(sender.wait() == 0 and receiver.wait() == 0, f"{label}: {sender} {receiver}")
            check(sent.startswith("sent ") and "verified by the receiver" in sent, f"{label}: {sent!r}")
            if receive_to == "-":
                check(receiver.data == data, f"{label}: {len(receiver.data)} bytes came, or others")
                check(receiver.stderr.startswith("received ") and receiver.stderr.count("\n") == 1, f"{label}: {receiver}")
            else:
                with open(target, "rb") as written:
                    check(written.read() == data, f"{label}: the file differs")
                os.unlink(target)


def paces():
    """A producer that pauses for longer than --timeout is waited for, and what it wrote before is not held back."""
    receiver, where = receive("-", "--timeout", "500ms")
    sender = Pipe("send", "-", where, "--timeout", "500ms", stdin=subprocess.PIPE)
    for line in (b"one\n", b"two\n"):
        began = time.monotonic()
        sender.process.stdin.write(line)
        sender.process.stdin.flush()
        check(receiver.process.stdout.read(len(line)) == line, "a line in a slow stream")
        check(time.monotonic() - began < 1, f"a line was held back for {time.monotonic() - began:.1f} s")
        time.sleep(1.2)
    sender.process.stdin.close()
    check(sender.wait() == 0 and receiver.wait() == 0, f"a producer that pauses: {sender} {receiver}")
    # A consumer that pauses holds the sender up, and the two stay in touch.
    data = os.urandom(3 * MIB)
    receiver, where = receive("-", "--timeout", "500ms")
    sender = Pipe("send", "-", where, "--timeout", "500ms", stdin=subprocess.PIPE)
    feeder = threading.Thread(target=lambda: (sender.process.stdin.write(data), sender.process.stdin.close()))
    feeder.start()
    time.sleep(1.5)
    receiver.read_all()
    feeder.join(20)
    check(sender.wait() == 0 and receiver.wait() == 0 and receiver.data == data, f"a consumer that pauses: {sender} {receiver}")


def one_line(command, *words):
    lines = command.stderr.splitlines()
    check(len(lines) == 1 and all(word in lines[0] for word in words), f"one line with {words} expected: {command}")


def mistakes(directory):
    source = os.path.join(directory, "source")
    with open(source, "wb") as out:
        out.truncate(8 * MIB)
    # Whoever reads leaves.
    receiver, where = receive("-")
    sender = Pipe("send", source, where)
    receiver.process.stdout.read(100)
    receiver.process.stdout.close()
    check(sender.wait() == 1 and receiver.wait() == 1, f"a reader that leaves: {sender} {receiver}")
    one_line(receiver, "cannot write standard output: its reader closed it")
    one_line(sender, "127.0.0.1 failed: cannot write standard output: its reader closed it")
    # No room, nothing to read, closed descriptors.
    with open("/dev/full", "wb") as full:
        receiver, where = receive("-", stdout=full)
        sender = Pipe("send", source, where)
        check(sender.wait() == 1 and receiver.wait() == 1, f"/dev/full: {sender} {receiver}")
    one_line(receiver, "cannot write standard output: No space left")
    there = os.open(directory, os.O_RDONLY)
    for stdin, words in ((there, "Is a directory"), (None, "Bad file descriptor")):
        receiver, where = receive("-")
        sender = Pipe("send", "-", where, stdin=stdin, preexec_fn=None if stdin else lambda: os.close(0))
        check(sender.wait() == 1 and receiver.wait() == 1, f"no standard input: {sender} {receiver}")
        one_line(sender, "cannot read standard input", words)
        one_line(receiver, "standard output is incomplete")
    os.close(there)
    receiver, where = receive("-", stdout=None, preexec_fn=lambda: os.close(1))
    sender = Pipe("send", source, where)
    check(sender.wait() == 1 and receiver.wait() == 1, f"no standard output: {sender} {receiver}")
    one_line(receiver, "cannot write standard output: Bad file descriptor")


def reports():
    """Beside data the result is on stderr; --quiet leaves nothing there."""
    for option in ("--json", "--quiet"):
        receiver, where = receive("-", option)
        sender = Pipe("send", "-", where, option, stdin=subprocess.PIPE)
        sender.process.stdin.write(b"data")
        sender.process.stdin.close()
        receiver.read_all()
        check(sender.wait() == 0 and receiver.wait() == 0 and receiver.data == b"data", f"{option}: {sender} {receiver}")
        check(('"bytes":4' in receiver.stderr and '"ok":true' in receiver.stderr) if option == "--json"
              else receiver.stderr == "", f"{option}: {receiver}")


def main():
    rng = seed_from_environment()
    with Directory() as directory:
        lengths(directory, rng)
        paces()
        mistakes(directory)
        reports()
    finish()


main()
