# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the laboratory share."""
import os
import shutil
import subprocess

from harness import GODWIT, Command, check, skip


def probe():
    """Skips where a lab cannot be; what fails for any other reason is a failure."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        skip("lab", "no /dev/net/tun")
    command = Command("lab", "--hosts", 1, "--", "true").wait(20)
    words = ("needs root", "cannot make a", "cannot map", "/dev/net/tun")
    if command.status == 1 and any(word in command.stderr for word in words):
        skip("lab", command.stderr.strip())
    check(command.status == 0, f"the smallest lab: {command}")


def processes_in(network):
    """Processes in this network namespace."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/net") == network:
                found.append(int(pid))
        except OSError:
            pass
    return found


def users(directory):
    """Yields options of Popen for each kind of user that can be tried here: oneself, and as root an ordinary user too, who
    runs a copy of the command in `directory`."""
    yield {}
    if os.geteuid() != 0:
        return
    if subprocess.run(["unshare", "-Urn", "true"], user="nobody", cwd="/", capture_output=True, check=False).returncode:
        print("users may not have namespaces here")
        return
    copy = shutil.copy(GODWIT, os.path.join(directory, "godwit"))
    os.chmod(copy, 0o755)
    yield {"executable": copy, "user": "nobody", "cwd": "/"}
