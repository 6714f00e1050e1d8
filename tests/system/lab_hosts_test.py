#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The hosts of a laboratory as their commands see them: names and identities, environment, a command for each, a shell on
the terminal; and the summary for people. All of it as root and as an ordinary user."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

from harness import GODWIT, Command, Directory, check, default_hangup, finish, one_line, wait_until
from labs import probe, processes_in, users

FILES = ("/etc/machine-id", "/proc/sys/kernel/random/boot_id")
with open("/proc/self/mountinfo", encoding="ascii") as table:
    PROC_MOUNTS = sum(" /proc " in line for line in table)
INTERRUPT, SUSPEND = b"\x03", b"\x1a"

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


# Prints the process's number, what /proc says that it is, and then the command line of everybody in /proc.
PROCESSES = """read number rest </proc/self/stat; echo $$ $number
for each in /proc/[0-9]*; do echo seen ${each#/proc/} $(tr '\\0' ' ' <$each/cmdline); done 2>/dev/null"""


def may_mount_proc(popen):
    """Whether this user may mount a /proc: not where parts of the machine's are hidden."""
    rest = {key: value for key, value in popen.items() if key != "executable"}
    enter = ["-Upfr"] if rest else ["-pf"]
    return subprocess.run(["unshare", *enter, "--mount-proc", "true"], capture_output=True, check=False, **rest).returncode == 0


def test_processes(popen):
    """/proc/self is the process itself, and /proc has the lab's processes alone, though the machine runs others."""
    if not may_mount_proc(popen):
        print("/proc cannot be mounted here")
        return
    other = subprocess.Popen(["sleep", "1000"])
    command = Command("lab", "--hosts", 2, "--", "sh", "-c", PROCESSES, **popen).wait(30)
    for host, lines in sorted(lines_of(command).items()):
        number, itself = lines[0].split()
        seen = {int(line.split()[1]): line for line in lines if line.startswith("seen ")}
        check(number == itself, f"host {host}: process {number} is {itself} in /proc")
        check(1 in seen and int(number) in seen, f"host {host}: processes {sorted(seen)}")
        check(not any("sleep 1000" in line for line in seen.values()), f"host {host} sees {len(seen)} processes, the machine's too")
    check(command.status == 0 and not command.stderr and len(lines_of(command)) == 2, f"{command}")
    with open("/proc/self/mountinfo", encoding="ascii") as mounts:
        check(sum(" /proc " in line for line in mounts) == PROC_MOUNTS, "a mount of /proc stayed")
    other.kill()
    other.wait()


# Prints the processors on which the host's interface receives, as the kernel has them.
STEERED = "mount -t sysfs none /dev 2>/dev/null || { echo hidden; exit; }; cat /dev/class/net/lab0/queues/rx-0/rps_cpus"


def test_steering(popen):
    """A host receives on processors of its own where there are two for each host; else on the switch's. Needs root."""
    if popen or os.geteuid():
        return
    processors = len(os.sched_getaffinity(0))
    for hosts in (1, processors // 2 + 1):
        command = Command("lab", "--hosts", hosts, "--", "sh", "-c", STEERED, **popen).wait(30)
        seen = {line for lines in lines_of(command).values() for line in lines}
        check(command.status == 0 and len(seen) == 1, f"{command}")
        if seen == {"hidden"}:
            print("no /sys of a host can be mounted here")
            return
        mask = int(seen.pop().replace(",", ""), 16)
        check((mask != 0) == (processors >= 2 * hosts), f"{hosts} hosts, {processors} processors: {mask:x}")


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
                             (["-n", 250, "a", ":", "b"], ("host 250",)), (["--hosts", 2, "--shell", 2], ("--shell", "host 2")),
                             (["--shell=x"], ("--shell", "x"))):
        command = Command("lab", *arguments, **popen).wait(30)
        check(command.status == 2, f"a usage error: {command}")
        one_line(command, *words)


class Terminal:
    """A terminal, and a shell script on it that runs a lab. What was printed before a text that was expected is forgotten."""

    def __init__(self, script, arguments, popen):
        self.master, slave = pty.openpty()
        self.seen = b""
        self.group = 0

        def own():
            os.setsid()
            fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
            default_hangup()

        shell = shutil.which("bash") or "/bin/sh"
        environment = {**os.environ, "SHELL": shell, "HOME": "/nonexistent", "PS1": "$ ", "TERM": "dumb", "HISTFILE": ""}
        popen = dict(popen)
        godwit = popen.pop("executable", os.path.abspath(GODWIT))
        self.process = subprocess.Popen(["sh", "-c", script, godwit, "lab", *map(str, arguments)], stdin=slave, stdout=slave,
                                        stderr=slave, env=environment, preexec_fn=own, **popen)
        os.close(slave)

    def expect(self, text, timeout=30):
        """Whether a text is printed in time. What is typed is printed too, so the text should not be in it."""
        deadline = time.monotonic() + timeout
        while text.encode() not in self.seen and time.monotonic() < deadline:
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                break
        before, found, self.seen = self.seen.partition(text.encode())
        if not check(found, f"{text!r} expected on the terminal: {before.decode(errors='replace')!r}"):
            self.seen = before
        return before.decode(errors="replace")

    def type(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode() + b"\n")

    def interrupt_a_command(self, key):
        """Starts a command that would run for long, and types a key when it is known to run."""
        self.type("sh -c 'echo begun-$((40+2)); exec sleep 1000'")
        self.expect("begun-42")
        self.group = os.tcgetpgrp(self.master)
        self.type(key)

    def close(self):
        os.close(self.master)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


SCRIPT = '"$0" "$@"; echo ended-$?; read line; echo read-$line'


def test_shell(popen):
    """Job control in the shell is the shell's; the lab and the other hosts do not notice."""
    terminal = Terminal(SCRIPT, ["--hosts", 3, "--shell", 1, "sh", "-c", "echo other $RANK; sleep 1000"], popen)
    terminal.expect("[0] other 0\r\n")
    terminal.type("echo here-$(hostname)-$RANK")
    terminal.expect("here-host1-1")
    terminal.type("stty -echo")
    terminal.interrupt_a_command(INTERRUPT)
    terminal.type("echo status-$?")
    terminal.expect("status-130")
    terminal.interrupt_a_command(SUSPEND)
    terminal.expect("topped")
    terminal.type("echo status-$?")
    terminal.expect("status-148")
    terminal.type("fg")
    check(wait_until(lambda: os.tcgetpgrp(terminal.master) == terminal.group, 30), "fg: the job has the terminal again")
    terminal.type(INTERRUPT)
    terminal.type("echo again-$?")
    terminal.expect("again-130")
    # A job in the background stays there.
    terminal.type("sleep 1000 & echo started-$((1+1))")
    terminal.expect("started-2")
    terminal.type("exit 5")
    terminal.expect("forwarded")
    terminal.expect("ended-5")
    # The terminal is back with whoever started the lab, and echoes again.
    terminal.type("line")
    printed = terminal.expect("read-line")
    check("line\r\n" in printed, f"the terminal's settings are back: {printed!r}")
    check(terminal.process.wait(30) == 0, "the script after the lab ended well")
    terminal.close()


def test_shell_ends(popen):
    """A lab that is told to end, or whose terminal goes away, ends with its shell."""
    for name, blow in (("SIGTERM", lambda terminal, pid: os.kill(pid, signal.SIGTERM)),
                       ("hangup", lambda terminal, pid: os.close(terminal.master))):
        terminal = Terminal('echo lab-$$-; exec "$0" "$@"', ["--shell", "--", "sleep", "1000"], popen)
        terminal.expect("lab-")
        pid = int(terminal.expect("-"))
        terminal.type("echo net-$(readlink /proc/self/ns/net)-")
        terminal.expect("net-net")
        network = "net" + terminal.expect("-")
        check(processes_in(network), f"{name}: a shell in {network}")
        blow(terminal, pid)
        try:
            status = terminal.process.wait(30)
        except subprocess.TimeoutExpired:
            status = None
        check(status in {"SIGTERM": (143,), "hangup": (129, -1)}[name], f"{name}: status {status}")
        check(wait_until(lambda: not processes_in(network), 30), f"{name}: {processes_in(network)} stayed")
        if name == "hangup":
            terminal.master = os.open("/dev/null", os.O_RDONLY)
        terminal.close()


def test_shell_without_terminal(popen):
    """Commands may come from a pipe. The others end with the shell, and only its status counts."""
    popen = {"executable": GODWIT, **popen, "env": {**os.environ, "SHELL": "/bin/sh"}}
    for last, status in (("true", 0), ("exit 3", 3)):
        lab = subprocess.run(["godwit", "lab", "--shell=1", "--json", "sleep", "1000"], input=f"uname -n; echo $RANK; {last}",
                             capture_output=True, text=True, timeout=60, check=False, **popen)
        check(lab.returncode == status and lab.stderr == "host1\n1\n", f"{lab}")
        check(lab.stdout and json.loads(lab.stdout)["statuses"] == [143, status], f"{lab}")


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
        drops = [entry["dropped"][cause] for cause in ("loss", "queue", "down", "refused", "overrun", "size")]
        if values is None:
            check(entry["forwarded"] + sum(drops) == 0, f"a link without its line: {entry}")
            continue
        check([int(value) for value in values[:7]] == [entry["forwarded"], *drops], f"{values}: {entry}")
        waited = [entry["waited"][key] / 1e3 for key in ("p50_us", "p99_us", "max_us")]
        check(all(abs(float(a) - b) <= 0.001 for a, b in zip(values[7:], waited)), f"{values}: {entry}")
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
