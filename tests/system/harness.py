# SPDX-License-Identifier: BSD-3-Clause
"""What the system tests share: running both ends of a transfer, free ports, checks that count.

A test is a plain script that ends with finish(): 0 when every check held, 1 otherwise. skip() ends it with 77 and a
last line `SKIP: facility: reason`.
"""
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

GODWIT = os.environ.get("GODWIT") or os.path.join(os.path.dirname(__file__), "../../build/godwit")
FAILURES = []
CHECKS = [0]


def skip(facility, reason):
    print(f"SKIP: {facility}: {reason}", flush=True)
    sys.exit(77)


def check(condition, text):
    CHECKS[0] += 1
    if not condition:
        FAILURES.append(text)
        print(f"FAIL: {text}", flush=True)
    return bool(condition)


def finish():
    print(f"{CHECKS[0]} checks, {len(FAILURES)} failed", flush=True)
    sys.exit(1 if FAILURES or not CHECKS[0] else 0)


def seed_from_environment():
    """Prints the seed, so that a failing run can be repeated with GODWIT_SEED."""
    seed = int(os.environ.get("GODWIT_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed} (GODWIT_SEED={seed} repeats this run)", flush=True)
    return random.Random(seed)


def free_port(kind=socket.SOCK_STREAM):
    """A port that nobody used a moment ago, below those that the system gives to connections: these may be taken in between."""
    ports = random.SystemRandom()
    while True:
        with socket.socket(socket.AF_INET6, kind) as probe:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            try:
                probe.bind(("::", ports.randrange(20000, 32000)))
            except OSError:
                continue
            return probe.getsockname()[1]


class Directory:
    """A temporary directory, made readable for whoever a test becomes, and removed at the end."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="godwit-test-")
        os.chmod(self.path, 0o755)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def default_hangup():
    """Restores the default action of SIGHUP in a child: under nohup(1) the whole suite runs with the signal ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Command:
    """One running `godwit`."""

    def __init__(self, *arguments, env=None, **popen):
        self.arguments = [str(a) for a in arguments]
        self.started = time.monotonic()
        self.process = subprocess.Popen([GODWIT, *self.arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**os.environ, **(env or {})},
                                        preexec_fn=default_hangup, **popen)
        self.stdout = self.stderr = ""
        self.seconds = 0.0
        self.timed_out = False

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def written(self):
        """Bytes that it has written to files and pipes so far."""
        try:
            with open(f"/proc/{self.pid}/io", encoding="ascii") as lines:
                return int(re.search(r"^wchar: (\d+)", lines.read(), re.M).group(1))
        except OSError:
            return 0

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=60):
        """Collects output and status; a command that does not end in time is killed and shows as timed_out."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.timed_out = True
            self.process.kill()
            out, err = self.process.communicate()
        self.seconds = time.monotonic() - self.started
        self.stdout, self.stderr = out.decode(errors="replace"), err.decode(errors="replace")
        return self

    @property
    def status(self):
        return self.process.returncode

    def json(self):
        """The one JSON object on stdout, or None."""
        try:
            lines = self.stdout.splitlines()
            return json.loads(lines[0]) if len(lines) == 1 else None
        except ValueError:
            return None

    def __str__(self):
        late = " (killed: did not end in time)" if self.timed_out else ""
        return (f"godwit {' '.join(self.arguments)}: status {self.status}{late}, {self.seconds:.1f} s, "
                f"stdout {self.stdout!r}, stderr {self.stderr!r}")


def listening(port):
    """Whether some process listens on this TCP port. Looks, rather than connects: a connection would be noticed."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    fields = line.split()
                    if fields[1].endswith(wanted) and fields[3] == "0A":
                        return True
        except OSError:
            pass
    return False


def wait_until(condition, timeout=10, step=0.01):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(step)
    return bool(condition())


def start_recv(path, port, *options, **popen):
    """A receiver that is known to listen, or to have ended."""
    command = Command("recv", path, "--port", port, *options, **popen)
    wait_until(lambda: listening(port) or not command.alive(), 30)
    return command


def start_send(path, host, port, *options, **popen):
    return Command("send", path, host, "--port", port, *options, **popen)


def transfer(source, target, host="127.0.0.1", recv_options=(), send_options=(), timeout=60):
    """One file from here to here; returns (sender, receiver), both ended."""
    port = free_port()
    receiver = start_recv(target, port, *recv_options)
    sender = start_send(source, host, port, *send_options).wait(timeout)
    receiver.wait(5 if sender.status else timeout)
    return sender, receiver


def same(a, b):
    try:
        with open(a, "rb") as x, open(b, "rb") as y:
            while True:
                p, q = x.read(1 << 20), y.read(1 << 20)
                if p != q:
                    return False
                if not p:
                    return True
    except OSError:
        return False


def write_random(path, size, rng):
    with open(path, "wb") as out:
        while size > 0:
            n = min(size, 1 << 20)
            out.write(rng.randbytes(n))
            size -= n


def write_sparse(path, size):
    """Long to send and quick to make."""
    with open(path, "wb") as out:
        out.truncate(size)


def one_line(command, *words):
    """Checks that stderr is one line `godwit COMMAND: ...` with these words in it."""
    lines = command.stderr.splitlines()
    good = len(lines) == 1 and lines[0].startswith(f"godwit {command.arguments[0]}: ")
    return check(good and all(w in lines[0] for w in words), f"one line with {words} expected from {command}")


def kill(command):
    if command.alive():
        command.signal(signal.SIGKILL)
    command.wait(10)
