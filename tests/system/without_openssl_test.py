#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command as built without OpenSSL: it works, and says in one line what it cannot do."""
import os
import subprocess

from harness import (Command, Directory, GODWIT, check, finish, free_port, same, seed_from_environment, transfer,
                     write_random)

SIZE = 1 << 20


def refuses(*arguments, **environment):
    """Ends at once, with one line that says what is missing."""
    os.environ.update(environment)
    command = Command(*arguments).wait(10)
    for name in environment:
        del os.environ[name]
    lines = command.stderr.strip().splitlines()
    check(command.status not in (0, None), f"it went on: {command}")
    check(len(lines) == 1 and "built without OpenSSL" in lines[0], f"one line about OpenSSL expected: {command}")


def main():
    rng = seed_from_environment()
    libraries = subprocess.run(["ldd", GODWIT], capture_output=True, text=True, check=False).stdout
    check("libssl" not in libraries and "libcrypto" not in libraries, f"it links OpenSSL: {libraries}")
    with Directory() as directory:
        source, target, secret = (os.path.join(directory, name) for name in ("source", "target", "secret"))
        write_random(source, SIZE, rng)
        made = Command("secret", secret).wait(10)
        check(made.status == 0, f"making a secret needs none: {made}")
        port = str(free_port())
        for options in (["--secret-file", secret], ["--secret-file", secret, "--seal"]):
            refuses("recv", target, "--port", port, *options)
            refuses("send", source, "127.0.0.1", "--port", port, *options)
            refuses("perf", "--port", port, *options)
            refuses("perf", "127.0.0.1", "--port", port, *options)
            refuses("qualify", "--port", port, *options)
        refuses("recv", target, "--port", port, GODWIT_SECRET_FILE=secret)
        sender, receiver = transfer(source, target)
        check(sender.status == 0 and receiver.status == 0 and same(source, target), f"{sender} {receiver}")
    finish()


main()
