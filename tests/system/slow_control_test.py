#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""perf over a control connection that stalls, as TCP does where many packets are lost, while the fabric works: a proxy holds the
server's GO back for longer than --timeout. The receiving end must not take the pause for messages that never end."""
import socket
import threading
import time

from harness import Command, check, finish, free_port, listening, wait_until
from rendezvous_peer import KIND_FIRST, frame, read_frame

KIND_GO = KIND_FIRST + 3
TIMEOUT_S = 1
HELD_S = 2.5


def forward(source, target, held_s):
    """Frame by frame, until one end closes."""
    try:
        while True:
            kind, body, _ = read_frame(source)
            if kind is None:
                break
            if kind == KIND_GO:
                time.sleep(held_s)
            target.sendall(frame(kind, body))
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def proxy(listener, port):
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", port))
    back = threading.Thread(target=forward, args=(server, client, HELD_S), daemon=True)
    back.start()
    forward(client, server, 0)
    back.join()


def main():
    port = free_port()
    server = Command("perf", "--port", port, "--timeout", TIMEOUT_S, "--json")
    check(wait_until(lambda: listening(port)), "the server listens")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        between = threading.Thread(target=proxy, args=(listener, port), daemon=True)
        between.start()
        client = Command("perf", "127.0.0.1", "--port", listener.getsockname()[1], "--timeout", TIMEOUT_S, "--duration", 0.5,
                         "--json").wait(40)
    server.wait(20)
    check(client.status == 0 and server.status == 0, f"the data was late, not stuck:\n  {client}\n  {server}")
    finish()


main()
