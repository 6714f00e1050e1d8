#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit doctor`: on this machine as an ordinary user, without a write, in under a second; on every kept tree and fault within
80 columns; captures; JSON as docs/doctor.md describes it; mistakes on the command line."""
import json
import os
import re
import shutil
import subprocess
import time

from harness import GODWIT, Command, Directory, check, finish

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TREES = os.path.join(ROOT, "tests/unit/doctor/trees")
# What changes a file system or a host.
CHANGES = re.compile(r"^\d*\s*(unlink|rename|mkdir|rmdir|link|symlink|chmod|chown|fchmod|mknod|mount|umount|truncate|ftruncate|"
                     r"setxattr|sethostname|init_module|utime|bpf|ptrace|swapon|reboot)(at|at2|ns|2)?\(")


def doctor(*arguments, **more):
    return Command("doctor", *arguments, **more).wait(60)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sections():
    """(heading, overlay) of every planted fault."""
    for part in read(os.path.join(TREES, "faults")).split("\n== ")[1:]:
        heading, _, overlay = part.partition("\n")
        yield heading.split(), overlay


def this_machine(directory):
    began = time.monotonic()
    command = doctor("--interval", "0")
    took = time.monotonic() - began
    check(command.status in (0, 1, 2) and took < 1, f"under a second: {took:.2f} s, {command}")
    check(command.stderr == "", f"nothing on stderr: {command}")
    lines = command.stdout.splitlines()
    check(re.match(r"\S+: .*\(\d+ checks; \d+ not visible\)$", lines[0]), f"a verdict first: {lines[0]}")
    check(any(line.startswith("next: ") for line in lines), f"what to run next: {command}")
    if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
        check("no RDMA device" in lines[0] and "UDP sockets" in command.stdout, f"an answer without RDMA: {command}")
    capture = os.path.join(directory, "here.tar")
    first = json.loads(doctor("--json", "--interval", "0", "--capture", capture).stdout)
    second = json.loads(doctor("--json", "--root", capture).stdout)
    check(first["findings"] == second["findings"], "a capture of this machine says the same")
    names = subprocess.run(["tar", "-tf", capture], check=True, stdout=subprocess.PIPE, text=True).stdout
    check("sys/class/net" in names and ".godwit/version" in names, f"tar reads the capture: {names[:200]}")
    check(read_environment(capture) == [], "a capture has no variables but those of NCCL and its relatives")


def read_environment(capture):
    """Variables of a capture that nobody asked for."""
    os.environ["NCCL_DOCTOR_TEST_TOKEN"] = "hidden"
    doctor("--interval", "0", "--capture", capture)
    text = subprocess.run(["tar", "-xOf", capture, ".godwit/environ"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    return [line for line in text.splitlines() if "TOKEN" in line or line.startswith(("PATH=", "USER="))]


def writes_nothing(directory):
    if not shutil.which("strace"):
        print("no strace: not looked at", flush=True)
        return
    trace = os.path.join(directory, "trace")
    environment = dict(os.environ, NCCL_NET_PLUGIN="libnothing-here.so")
    done = subprocess.run(["strace", "-f", "-o", trace, GODWIT, "doctor", "--interval", "0"], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    if not os.path.exists(trace) or "exited with" not in read(trace):
        print(f"strace does not work here: {done.stderr[:200]}", flush=True)
        return
    bad = [line for line in read(trace).splitlines()
           if CHANGES.match(line) or (re.search(r"\bopen(at)?\(", line)
                                      and re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", line)
                                      and "/dev/null" not in line and "/dev/infiniband/" not in line)]
    check(not bad, f"no writes: {bad[:3]}")
    check("libnothing-here.so" in done.stdout, f"the loader's own words: {done.stdout}")


def as_nobody():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", GODWIT, "doctor", "--interval", "0"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    check(done.returncode in (0, 1, 2) and done.stderr == "", f"as nobody: {done}")


def a_job():
    with subprocess.Popen(["sleep", "60"], env={"NCCL_IB_TC": "3", "SECRET_THING": "x"}) as job:
        command = doctor("--pid", str(job.pid), "--only", "tc-bits", "--interval", "0")
        check(command.status == 1 and "environment of the job" in command.stdout, f"the job's environment: {command}")
        job.kill()
    command = doctor("--pid", "999999999", "--interval", "0")
    check(command.status == 3, f"a process that is not there: {command}")


def plugins(directory):
    """Libraries that load, crash, hang or lack something: the doctor survives each, and says which."""
    if not shutil.which("cc"):
        return
    for name, code, words in (
            ("good", "int ncclNetPlugin_v9, ncclNetPlugin_v8;", "newest interface ncclNetPlugin_v9"),
            ("foreign", "int something_else;", "exports no ncclNetPlugin"),
            ("crash", "__attribute__((constructor)) static void f(void) { __builtin_trap(); }", "with signal"),
            ("hang", "int sleep(unsigned); __attribute__((constructor)) static void f(void) { for (;;) sleep(9); }", "within 5 s"),
            ("lacking", "int missing_function(void); int (*volatile p)(void) = missing_function; int ncclNetPlugin_v9;",
             "undefined symbol: missing_function")):
        library = os.path.join(directory, f"libnccl-net-{name}.so")
        done = subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=code, text=True, check=False)
        if done.returncode:
            continue
        environment = dict(os.environ, NCCL_NET_PLUGIN=library)
        command = doctor("--only", "plugin-load", "--interval", "0", "--verbose", env=environment)
        check(words in " ".join(command.stdout.split()), f"plugin {name}: {command}")
        check(command.status == (0 if name == "good" else 2), f"plugin {name}: {command}")
    environment = dict(os.environ, NCCL_NET_PLUGIN="good", LD_LIBRARY_PATH=directory)
    command = doctor("--only", "plugin-load", "--interval", "0", env=environment)
    check(command.status == 0 and "libnccl-net-good.so" in command.stdout, f"by its short name: {command}")


def trees(directory):
    host = read(os.path.join(TREES, "host.tree"))
    path = os.path.join(directory, "x.tree")
    seen = set()
    for heading, overlay in sections():
        with open(path, "w", encoding="utf-8") as file:
            file.write(host + read(os.path.join(TREES, heading[2] + ".tree")) + overlay)
        options = [f"--{word.replace('=', ' ')}" for word in heading[3:] if word.startswith("intent=")]
        arguments = [part for option in options for part in option.split()]
        command = doctor("--root", path, *arguments)
        # A path is one word, to be copied.
        wide = [line for line in command.stdout.splitlines() if len(line) > 80 and max(map(len, line.split())) < 70]
        check(command.status in (0, 1, 2) and not wide, f"{heading}: 80 columns: {wide or command}")
        check("\033" not in command.stdout, f"{heading}: no colour in a pipe")
        shown = len(re.findall(r"^(?:ERROR|WARN|NOTE) ", command.stdout, re.M))
        check(shown <= 5, f"{heading}: at most five findings: {shown}")
        report = json.loads(doctor("--root", path, "--json", *arguments).stdout)
        check({"healthy": 0, "warnings": 1, "errors": 2}[report["verdict"]] == command.status, f"{heading}: status")
        if heading[0] == "found":
            finding = next(f for f in report["findings"] if f["check"] == heading[1])
            check(all(finding[name] for name in ("title", "where", "value", "healthy", "why", "fix")), f"{finding}")
        seen.add(heading[1])
    return seen


def words(seen):
    document = read(os.path.join(ROOT, "docs/doctor.md"))
    listed = {line.split()[0] for line in doctor("--list").stdout.splitlines() if line[0] != " "}
    # Those of a path, of logs and of clusters have tests of their own.
    here = {name for name in listed if not name.startswith(("path-", "log-", "hosts-", "mesh-"))}
    check(here == seen, f"every check has a fault: {here ^ seen}")
    for name in sorted(listed):
        check(f"`{name}`" in document, f"docs/doctor.md names {name}")
        command = doctor("--explain", name)
        check(command.status == 0 and "how to fix it" in command.stdout, f"--explain {name}: {command}")
    report = json.loads(doctor("--json", "--interval", "0").stdout)
    for member in report:
        check(f"`{member}`" in document, f"docs/doctor.md describes the member {member}")
    check(report["schema"] == 1, "the schema's version")


def mistakes(directory):
    empty = os.path.join(directory, "empty")
    open(empty, "w", encoding="utf-8").close()
    for arguments in (["--only", "nothing"], ["--skip", "pfc,x"], ["--root", "/nonexistent"], ["--root", empty],
                      ["--intent", "both"], ["--interval", "soon"], ["--explain", "x"], ["--pid", "me"], ["--wings"],
                      ["a", "b"], ["--only"], ["--root", directory, "--pid", "1"], ["--capture", "/nonexistent/x.tar"]):
        command = doctor(*arguments)
        check(command.status == 3 and command.stderr.startswith("godwit doctor: ")
              and len(command.stderr.splitlines()) == 1, f"refusal expected: {command}")
    check(doctor("--only", "memlock", "--root", directory).status == 0, "an empty directory is a host without RDMA")


def main():
    with Directory() as directory:
        this_machine(directory)
        writes_nothing(directory)
        as_nobody()
        a_job()
        plugins(directory)
        words(trees(directory))
        mistakes(directory)
    finish()


main()
