#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The hosts of a laboratory as their commands see them: names and identities, environment, a command for each; and the summary for
people. All of it as root and as an ordinary user."""
import os
import re
import socket
import subprocess
import sys
import time

from harness import GODWIT, Command, Directory, check, finish, one_line
from labs import probe, users

FILES = ("/etc/machine-id", "/proc/sys/kernel/random/boot_id")

# Prints what a host takes itself for: its name, its environment, both files, and the addresses of host 1.
DESCRIBE = """uname -n; echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $HOSTNAME
cat %s 2>/dev/null || echo none; cat %s 2>/dev/null || echo none
echo $(getent ahosts host1 | cut -d" " -f1 | sort -u)""" % FILES


def lines_of(command):
    """What each host printed: lists of lines by host."""
    told = {}
    for line in command.stdout.splitlines():
        match = re.fullmatch(r"\[(\d+)\] (.*)", line)
        if check(match, f"a line without its host: {line!r} in {command}"):
            told.setdefault(int(match[1]), []).append(match[2])
    return told


def read(path):
    if not os.path.exists(path):
        return "none"
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def describe(popen):
    command = Command("lab", "--hosts", 3, "--", "sh", "-c", DESCRIBE, **popen).wait(30)
    told = lines_of(command)
    check(command.status == 0 and not command.stderr and [len(told.get(i, [])) for i in range(3)] == [5] * 3, f"{command}")
    return [told.get(i, [""] * 5) for i in range(3)]


def test_identity(popen):
    """Programs that compare names or identities see three machines, none of which is this one."""
    machine = [read(path) for path in FILES]
    hosts, again = describe(popen), describe(popen)
    check([host[0] for host in hosts] == ["host0", "host1", "host2"], f"names: {hosts}")
    check([host[1] for host in hosts] == [f"{i} 3 0 1 host{i}" for i in range(3)], f"environments: {hosts}")
    patterns = (r"[0-9a-f]{32}", r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    for i, (path, mine, pattern) in enumerate(zip(FILES, machine, patterns)):
        seen, later = [host[2 + i] for host in hosts], [host[2 + i] for host in again]
        check(read(path) == mine, f"{path} of the machine changed")
        if mine == "none":
            continue
        check(len({mine, *seen}) == 4 and all(re.fullmatch(pattern, text) for text in seen), f"{path}: {seen}")
        # A machine keeps its identity; a boot is one run.
        check((seen == later) == (i == 0), f"{path}: {seen}, then {later}")
    if os.path.exists("/etc/hosts"):
        check(all(host[4] in ("10.200.0.2", "10.200.0.2 fd00:200::2") for host in hosts), f"addresses of host 1: {hosts}")
    check(socket.gethostname() not in ("host0", "host1", "host2"), "the machine's own name changed")
    with open("/proc/self/mountinfo", encoding="ascii") as mounts:
        check("godwit-lab" not in mounts.read(), "a mount stayed")


def test_no_identity(popen):
    """Where mounts are forbidden hosts have names at least, and the lab says what they lack, once."""
    godwit = popen.get("executable", os.path.abspath(GODWIT))
    rest = {key: value for key, value in popen.items() if key != "executable"}
    forbid = 'echo 0 > /proc/sys/user/max_mnt_namespaces || exit 99; exec "$0" lab uname -n'
    lab = subprocess.run(["unshare", "-Ur", "sh", "-c", forbid, godwit], capture_output=True, text=True, check=False, **rest)
    if lab.returncode == 99 or "unshare" in lab.stderr:
        print(f"mounts cannot be forbidden here: {lab.stderr}")
        return
    check(lab.returncode == 0 and sorted(lab.stdout.splitlines()) == ["[0] host0", "[1] host1"], f"{lab}")
    check(re.fullmatch(r"\[0\] godwit lab: warning: [^\n]*mount namespace[^\n]*\n", lab.stderr), f"{lab}")


def test_commands(popen):
    for arguments, expected in (
            (["echo", "a", ":", "echo", "b", ":", "echo", "c"], ["a", "b", "c"]),
            (["--hosts", 4, "--", "echo", "a", ":", "echo", "b"], ["a", "b", "b", "b"]),
            (["-n", 1, "echo", "a", ":", "-n", 2, "echo", "b"], ["a", "b", "b"]),
            (["-n", 1, "echo", "a"], ["a"]), (["-n", 3, "echo", "a"], ["a"] * 3),
            (["--hosts", 3, "--", "-n", 2, "echo", "a", ":", "--", "echo", "b"], ["a", "a", "b"]),
            (["echo", "a"], ["a", "a"]), (["echo", "a", "x:y", "::"], ["a x:y ::"] * 2)):
        command = Command("lab", *arguments, **popen).wait(30)
        check(command.status == 0 and lines_of(command) == {i: [line] for i, line in enumerate(expected)}, f"{command}")
    command = Command("lab", "--json", "true", ":", "sh", "-c", "exit 7", **popen).wait(30)
    check(command.status == 7 and command.json() and command.json()["statuses"] == [0, 7], f"{command}")
    for arguments, words in ((["--hosts", 2, "a", ":", "b", ":", "c"], ("c", "host 2", "2 hosts")),
                             (["--hosts", 3, "-n", 2, "a"], ("host 2", "no command")), (["sh", "-c", ":"], ('":"',)),
                             ([":", "a"], ('":"',)), (["a", ":", "-n", "x", "b"], ("-n",)), (["-n", "0", "a"], ("-n",)),
                             (["-n", 250, "a", ":", "b"], ("host 250",))):
        command = Command("lab", *arguments, **popen).wait(30)
        check(command.status == 2, f"a usage error: {command}")
        one_line(command, *words)


def test_summary(popen):
    """One line a link that had packets, with the numbers of the report."""
    godwit = popen.get("executable", os.path.abspath(GODWIT))
    arguments = ["--loss", "2%", "--rate", "100M", "--paths", 2, godwit, "perf", "--quiet", ":",
                 "sh", "-c", 'until "$0" perf host0 --quiet --count 100 --size 20000 2>/dev/null; do sleep 0.1; done', godwit]
    command = Command("lab", "--hosts", 3, "--summary", "--json", *arguments, ":", "true", **popen).wait(60)
    report, rows = command.json() or {"links": []}, {}
    for line in command.stderr.splitlines():
        if match := re.match(r"(\d+ up|\d+ down|path \d+) +(.*)", line):
            rows[match[1]] = match[2].split()
    check(command.status == 0 and {"0 up", "0 down", "1 up", "1 down", "path 0"} <= set(rows), f"{command}")
    for entry in report["links"]:
        values = rows.get(f"{entry['host']} {entry['direction']}")
        drops = [entry["dropped"][cause] for cause in ("loss", "queue", "down", "refused", "overrun")]
        if values is None:
            check(entry["forwarded"] + sum(drops) == 0, f"a link without its line: {entry}")
            continue
        check([int(value) for value in values[:6]] == [entry["forwarded"], *drops], f"{values}: {entry}")
        waited = [entry["waited"][key] / 1e3 for key in ("p50_us", "p99_us", "max_us")]
        check(all(abs(float(a) - b) <= 0.001 for a, b in zip(values[6:], waited)), f"{values}: {entry}")
    check(any(int(values[1]) for values in rows.values()), f"some were lost: {rows}")
    for options in ([], ["--no-summary"], ["--json"]):
        command = Command("lab", *options, "true", **popen).wait(30)
        check(command.status == 0 and not command.stderr, f"a summary that nobody asked for: {command}")


def main():
    probe()
    with Directory() as directory:
        for popen in users(directory):
            for name, test in sorted(globals().items()):
                if name.startswith("test_") and (len(sys.argv) < 2 or name in sys.argv[1:]):
                    start = time.monotonic()
                    test(popen)
                    print(f"{name} as {popen.get('user', 'oneself')}: {time.monotonic() - start:.1f} s", flush=True)
    finish()


main()
