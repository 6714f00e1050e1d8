#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""perf over a control connection that stalls for longer than --timeout, as TCP does where many packets are lost. A proxy holds
one message back at a time: the server's GO while the fabric works, the client's END when both ends have closed their contexts,
and both results while the client is stopped. Neither end may take the pause for a peer that is gone."""
import signal
import socket
import threading
import time

from harness import Command, check, finish, free_port, listening, wait_until
from rendezvous_peer import KIND_FIRST, frame, read_frame

KIND_GO, KIND_RESULT, KIND_END = KIND_FIRST + 3, KIND_FIRST + 5, KIND_FIRST + 6
TIMEOUT_S = 1
HELD_S = 2.5


def nothing():
    pass


def forward(source, target, held, before):
    """Frame by frame, until one end closes."""
    try:
        while True:
            kind, body, _ = read_frame(source)
            if kind is None:
                break
            if kind == held:
                before()
                time.sleep(HELD_S)
            target.sendall(frame(kind, body))
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def proxy(listener, port, by_server, by_client, before):
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", port))
    back = threading.Thread(target=forward, args=(server, client, by_server, nothing), daemon=True)
    back.start()
    forward(client, server, by_client, before)
    back.join()


class Pair:
    """Both ends, with the proxy between them."""

    def __init__(self, by_server=None, by_client=None, before=nothing):
        port = free_port()
        self.server = Command("perf", "--port", port, "--timeout", TIMEOUT_S, "--json")
        check(wait_until(lambda: listening(port)), "the server listens")
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=proxy, args=(self.listener, port, by_server, by_client, before), daemon=True).start()
        self.client = Command("perf", "127.0.0.1", "--port", self.listener.getsockname()[1], "--timeout", TIMEOUT_S,
                              "--duration", 0.5, "--json")

    def wait(self):
        self.server.wait(40)
        self.client.wait(20)
        self.listener.close()


def go_is_late():
    pair = Pair(by_server=KIND_GO)
    pair.wait()
    check(pair.client.status == 0 and pair.server.status == 0,
          f"the data was late, not stuck:\n  {pair.client}\n  {pair.server}")


def end_is_late():
    """The client stays until the server has it: TCP doubles its pauses when a connection was closed."""
    stays = []

    def look():
        threading.Timer(HELD_S / 2, lambda: stays.append(pair.client.alive())).start()

    pair = Pair(by_client=KIND_END, before=look)
    pair.wait()
    check(stays == [True], "the client keeps its connection until the server has the end")
    check(pair.client.status == 0 and pair.server.status == 0, f"the end was late:\n  {pair.client}\n  {pair.server}")


def result_is_late():
    """The fabric hears nothing of a client that is stopped, as of one that has both results and has closed its context. It is
    stopped before it has the server's, for the server would hear it close."""
    def stop():
        pair.client.signal(signal.SIGSTOP)
        threading.Timer(HELD_S, lambda: pair.client.signal(signal.SIGCONT)).start()

    pair = Pair(by_server=KIND_RESULT, by_client=KIND_RESULT, before=stop)
    pair.wait()
    check(pair.server.status == 0, f"the result was late:\n  {pair.client}\n  {pair.server}")


def main():
    go_is_late()
    end_is_late()
    result_is_late()
    finish()


main()
