#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit doctor HOST` and `--serve` among others: against recv and against nobody, with secrets, and with strangers who send
packets, call badly, fall silent or answer in the place of a doctor."""
import json
import os
import socket
import struct
import time

from harness import Command, Directory, check, finish, free_port, kill, listening, seed_from_environment, wait_until
from rendezvous_peer import KIND_FIRST, KIND_WELCOME, connect, frame, hello, read_frame


def found(answer):
    return sorted(f"{f['check']} {f['object']}".strip() for f in answer["findings"])


def without_a_doctor(directory):
    """What can be learned from a waiting recv, from a host alone, and from nothing."""
    port = free_port()
    command = Command("doctor", f"127.0.0.1:{port}").wait(20)
    check(command.status == 2 and f"godwit doctor --serve --port {port}" in command.stdout and
          "nobody listens" in command.stdout, f"nobody: {command}")
    receiver = Command("recv", os.path.join(directory, "never"), "--port", port)
    wait_until(lambda: listening(port))
    command = Command("doctor", f"127.0.0.1:{port}", "--json").wait(20)
    answer = json.loads(command.stdout)
    check(command.status == 1 and found(answer) == ["path-peer"] and "godwit recv" in answer["findings"][0]["value"],
          f"recv: {command}")
    check(receiver.alive(), "recv waits on")
    kill(receiver)
    command = Command("doctor", "no-such-host.invalid").wait(30)
    check(command.status == 3 and command.stderr.startswith("godwit doctor: "), f"unknown host: {command}")
    for arguments in (("localhost", "--only", "port-state"), ("--serve", "x"), ("a", "b"), ("--port", "99"), ("--once",),
                      ("x:99999",), ("localhost", "--root", "/"), ("localhost", "--from", "10.0.0.0/8")):
        command = Command("doctor", *arguments).wait(20)
        check(command.status == 3 and len(command.stderr.splitlines()) == 1, f"{arguments}: {command}")


def secrets(directory):
    secret = os.path.join(directory, "secret")
    Command("secret", secret).wait(20)
    port = free_port()
    server = Command("doctor", "--serve", "--port", port, "--secret-file", secret)
    wait_until(lambda: listening(port) or not server.alive())
    if not server.alive():
        print(f"no secrets here: {server.wait(5)}", flush=True)
        return
    command = Command("doctor", f"127.0.0.1:{port}").wait(20)
    check(command.status == 2 and "secret" in command.stdout, f"without the secret: {command}")
    command = Command("doctor", f"127.0.0.1:{port}", "--secret-file", secret).wait(20)
    check(command.status in (0, 1) and "--seal" in command.stdout, f"with the secret: {command}")
    server.signal(15)
    check(server.wait(10).status == 128 + 15, f"ends with the signal: {server}")


def strangers(rng):
    """Nobody gets a packet without having called, and whoever calls badly does not end the server."""
    port, udp_port = free_port(), free_port(socket.SOCK_DGRAM)
    server = Command("doctor", "--serve", "--port", port, "--udp-port", udp_port)
    wait_until(lambda: listening(port))
    caller = hello("godwit doctor")
    for body in (b"", b"{}", b"[1,2]", b"\xff" * 300, b'{"token":"zz"}', b'{"token":"00112233445566778899"}',
                 b'{"token":"0011223344556677","udp_port":-5,"other_port":1e99,"name":"' + b"\\u001b[2J" * 200 + b'"}'):
        with connect(port, caller + frame(KIND_FIRST, body)) as connection:
            connection.shutdown(socket.SHUT_WR)
            connection.recv(4096)
    with connect(port, caller + frame(KIND_FIRST + 5, rng.randbytes(4096)) * 20) as connection:
        time.sleep(0.1)
    check(server.alive(), f"after nonsense: {server}")
    spray = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    spray.setblocking(False)
    good = Command("doctor", f"127.0.0.1:{port}", "--json")
    answers = sent = 0
    while good.alive():
        for size in (0, 1, 47, 48, 1400):
            packet = struct.pack(">IBBH", 0x47574450, rng.randrange(8), 0, size) + rng.randbytes(max(size, 8))
            try:
                sent += spray.sendto(packet, ("127.0.0.1", udp_port)) > 0
            except OSError:
                pass
        try:
            while spray.recv(2000):
                answers += 1
        except OSError:
            pass
        time.sleep(0.002)
    good.wait(20)
    path = json.loads(good.stdout)["path"]
    check(answers == 0 and sent > 100, f"{answers} answers to {sent} packets of a stranger")
    check(good.status in (0, 1) and path["peer"] == "doctor" and path["here"]["heard"]["packets"] > 700,
          f"beside a stranger's packets: {good}")
    # A caller that falls silent keeps others waiting for ten seconds at most.
    idle = connect(port, caller + frame(KIND_FIRST, b'{"token":"0011223344556677","udp_port":9,"other_port":9}'))
    began = time.monotonic()
    behind = Command("doctor", f"127.0.0.1:{port}", "--timeout", "20s").wait(40)
    check(behind.status in (0, 1) and time.monotonic() - began < 20, f"behind an idle caller: {behind}")
    idle.close()
    kill(server)


def hostile_server(rng):
    """Whoever answers in the place of a doctor: the caller ends with a sentence."""
    for body in (b"", b"{}", rng.randbytes(500), b'{"token":"0011223344556677","udp_port":1,"other_port":1,"back_port":7}'):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            command = Command("doctor", f"127.0.0.1:{listener.getsockname()[1]}", "--timeout", "2s")
            connection, _ = listener.accept()
            read_frame(connection)
            connection.sendall(hello("godwit doctor", kind=KIND_WELCOME) + frame(KIND_FIRST, body) +
                               frame(KIND_FIRST + 3, rng.randbytes(100)))
            command.wait(30)
            connection.close()
        check(command.status in (1, 3) and command.status != -11, f"a hostile answer: {command}")


def main():
    rng = seed_from_environment()
    with Directory() as directory:
        without_a_doctor(directory)
        secrets(directory)
        strangers(rng)
        hostile_server(rng)
    finish()


main()
