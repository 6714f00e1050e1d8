#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The first example, on loopback: messages of several sizes there and back, with and without a secret, and its errors."""
import os
import re
import subprocess

from harness import Command, Directory, check, finish, free_port, listening, wait_until

PROGRAM = os.environ["CHANNEL_PINGPONG"]


def start(*arguments):
    return subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def collect(process):
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return process.returncode, out, err


def play(size, count, host="127.0.0.1", waiting=(), calling=()):
    port = free_port()
    pong = start("-p", port, *waiting)
    ping = start("-p", port, "-s", size, "-n", count, *calling, host)
    return collect(ping), collect(pong)


def main():
    for size, count, host in ((1, 200, "127.0.0.1"), (4096, 200, "::1"), (65537, 100, "127.0.0.1"), (3 << 20, 4, "127.0.0.1")):
        for status, out, err in play(size, count, host):
            good = re.fullmatch(rf"{count} round trips of {size} bytes with {host}, every byte verified: \S+ us each, "
                                r"\S+ Gbit/s each way\n", out)
            check(status == 0 and good and not err, f"{size} bytes: {status} {out!r} {err!r}")
    with Directory() as directory:
        secret = os.path.join(directory, "secret")
        check(Command("secret", secret).wait(10).status == 0, "godwit secret")
        ends = play(100, 10, waiting=("--secret-file", secret), calling=("--secret-file", secret))
        if any("built without OpenSSL" in err for _, _, err in ends):
            print("not checked: a secret, for want of OpenSSL")
        else:
            check([end[0] for end in ends] == [0, 0], f"with a secret: {ends}")
            os.environ["GODWIT_SECRET_FILE"] = secret
            ends = play(100, 10, waiting=("--secret-file", secret))
            del os.environ["GODWIT_SECRET_FILE"]
            check([end[0] for end in ends] == [0, 0], f"by the environment: {ends}")
    status, out, err = collect(start("--help"))
    check(status == 0 and out.startswith("usage: channel_pingpong") and not err, f"--help: {status} {out!r} {err!r}")
    for arguments in (("-s", "0", "h"), ("-n", "x", "h"), ("-p", "70000"), ("a", "b"), ("--wings",)):
        status, out, err = collect(start(*arguments))
        check(status == 2 and err and not out, f"{arguments}: {status} {out!r} {err!r}")
    port = free_port()
    status, _, err = collect(start("-p", port, "127.0.0.1"))
    check(status == 1 and f"127.0.0.1:{port}: connection refused; is `channel_pingpong` running there?" in err, f"{err!r}")
    # A command of Godwit is not an example of it.
    pong = start("-p", port)
    wait_until(lambda: listening(port))
    stranger = Command("perf", "127.0.0.1", "--port", port).wait(20)
    check(stranger.status == 1 and "`channel_pingpong` waits here" in stranger.stderr, str(stranger))
    pong.kill()
    collect(pong)
    finish()


main()
