# SPDX-License-Identifier: BSD-3-Clause
"""The two ends of a `godwit perf`, for tests."""
from harness import Command, listening, wait_until

TIMEOUT = 5


def start_server(port, *options, **popen):
    """A server that is known to listen, or to have ended."""
    command = Command("perf", "--port", port, "--udp-port", 0, "--timeout", TIMEOUT, *options, **popen)
    wait_until(lambda: listening(port) or not command.alive(), 30)
    return command


def start_client(host, port, *options, **popen):
    return Command("perf", host, "--port", port, "--udp-port", 0, "--timeout", TIMEOUT, *options, **popen)
