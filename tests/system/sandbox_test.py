#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit recv` as a user of its own with nothing but its output directory, and the systemd unit that runs it so."""
import os
import shutil
import subprocess

from harness import (GODWIT, Command, Directory, check, finish, free_port, listening, same, seed_from_environment, start_send,
                     wait_until, write_random)

UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/godwit-recv@.service")
NOBODY = 65533
# Tenths: systemd-analyze fails above it.
EXPOSURE_MOST = 20

# Everything is read-only but the directory $1; /proc and /sys stay as they are. The rest is a command and its arguments.
SANDBOX = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
awk '{print $2}' /proc/self/mounts | grep -v -e "^$1\\$" -e '^/proc' -e '^/sys' | while read -r at; do
	mount -o remount,bind,ro "$at" 2>/dev/null || true
done
! touch /var/tmp/godwit-sandbox 2>/dev/null
shift
exec setpriv --reuid=%d --regid=%d --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
""" % (NOBODY, NOBODY)


class Sandboxed(Command):
    """`godwit` in the sandbox; Command starts what GODWIT names."""

    def __init__(self, directory, *arguments):
        self.arguments = [str(a) for a in arguments]
        self.started = 0
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", SANDBOX, "sh", directory, GODWIT, *self.arguments],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.stdout = self.stderr = ""
        self.seconds = 0.0
        self.timed_out = False


def unit():
    if not shutil.which("systemd-analyze"):
        print("not checked: the unit, for there is no systemd-analyze")
        return
    with Directory() as directory:
        # It looks at an instance, not at a template.
        instance = os.path.join(directory, "godwit-recv@x.service")
        shutil.copy(UNIT, instance)
        result = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MOST}",
                                 instance], capture_output=True, text=True, check=False)
        if "unrecognized option" in result.stderr or "Unknown" in result.stderr:
            print("not checked: the unit, for systemd-analyze is too old")
            return
        last = result.stdout.strip().splitlines()[-1:]
        print(*last)
        check(result.returncode == 0, f"exposed too much: {last} {result.stderr}")


def own_user(source):
    with Directory() as directory:
        os.chown(directory, NOBODY, NOBODY)
        os.chmod(directory, 0o700)
        secret, target = os.path.join(directory, "secret"), os.path.join(directory, "target")
        made = Sandboxed(directory, "secret", secret).wait(20)
        check(made.status == 0 and os.stat(secret).st_uid == NOBODY, f"{made}")
        for options in ([], ["--secret-file", secret, "--seal", "--max-size", "64M"]):
            port = free_port()
            # Port 4791 is shared among processes of one user only.
            receiver = Sandboxed(directory, "recv", target, "--port", port, "--udp-port", 0, *options)
            wait_until(lambda: listening(port) or not receiver.alive())
            sender = start_send(source, "127.0.0.1", port, *options[:3]).wait(20)
            receiver.wait(20)
            if receiver.status != 0 and "built without OpenSSL" in receiver.stderr:
                print("not checked: a secret, for this build has none")
                break
            check(sender.status == 0 and receiver.status == 0 and same(source, target), f"{sender} {receiver}")
            if receiver.status == 0:
                check(receiver.stderr == "" and os.stat(target).st_uid == NOBODY, f"{receiver}")
                os.unlink(target)


def main():
    rng = seed_from_environment()
    unit()
    with Directory() as directory:
        source = os.path.join(directory, "source")
        write_random(source, 3000001, rng)
        probe = subprocess.run(["unshare", "-m", "setpriv", "--reuid=65533", "true"], capture_output=True, text=True, check=False)
        if probe.returncode:
            print(f"not checked: a user of its own ({probe.stderr.strip()})")
            check(True, "")
        else:
            own_user(source)
    finish()


main()
