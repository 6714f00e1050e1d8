#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit ncclcheck` on a plugin over TCP: right it passes, and broken on purpose it fails in the case that is there for it."""
import json
import os

from harness import Command, check, finish, free_port, listening, wait_until

REFERENCE = os.environ["REFERENCE"]
VERSIONS = (12, 11, 10, 9, 8)

# What is broken (tests/nccl/reference.c), the case that must fail, and what it says.
BREAKS = [
    ("stale", "stale-request", "left what was in *request"),
    ("torn", "ll", "before its data"),
    ("torn", "ll128", "before its data"),
    ("dereg", "dereg-recv", "written after deregMr"),
    ("dereg", "dereg-send", "bytes that were not sent"),
    ("linger", "close-recv", "remote error"),
    ("progress", "no-test", "unless test is called"),
    ("limit", "outstanding", "33rd"),
    ("size", "short-send", "test tells"),
    ("connect", "call-time", "connect took"),
    ("zero", "zero-bytes", "without bytes"),
    ("order", "order", "message"),
    ("overrun", "unaligned", "was written"),
    ("early", "reuse", "as soon as they are free"),  # the rank that reads, or its peer, which it then leaves
    ("early", "close-send", "remote error"),
    ("fork", "fork", "after a fork"),
    ("idle", "idle", "of a processor"),
    ("sizes", "no-sizes", "may not access"),
    ("descriptors", "connections", "descriptors stay open"),
    ("handle", "listen", "beyond the 128 bytes"),
    ("foreign", "foreign-handle", "returned a connection"),
    ("long", "long-send", "ended well"),
    ("init", "init-twice", "second init"),
    ("accept", "accept-first", "hangs"),
]


def ncclcheck(*arguments, env=None, limit=200):
    return Command("ncclcheck", *arguments, env=env).wait(limit)


def right():
    for version in VERSIONS:
        # The newest tries everything, the others what depends on the version.
        cases = [] if version == 12 else ["--case", "load,init-twice,listen,two-accepts,order,zero-bytes,outstanding,"
                                          "stale-request,ll,dereg-recv,abort"]
        command = ncclcheck(REFERENCE, "--version-only", version, "--json", "--timeout", 60, *cases)
        check(command.status == 0, f"version {version}: {command}")
        report = json.loads(command.stdout)
        check(report["failed"] == 0 and report["passed"] >= 11, f"version {version}: {report}")
        check(all(case["version"] == version for case in report["cases"]), "the version that was asked for")
    check({"throughput", "latency", "ll128"} <= {case["case"] for case in json.loads(
        ncclcheck(REFERENCE, "--version-only", 12, "--json", "--case", "throughput,latency,ll128").stdout)["cases"]},
        "the cases that were named")


def mismatch():
    """The plugin over TCP has no settings: whatever differs is not noticed, and the case says so."""
    command = ncclcheck(REFERENCE, "--version-only", 12, "--case", "mismatch", "--differ", "ANY=1")
    check(command.status == 1 and "returned a connection" in command.stdout, f"{command}")
    command = ncclcheck(REFERENCE, "--version-only", 12, "--case", "mismatch")
    check("--differ NAME=VALUE" in command.stdout, f"{command}")
    command = ncclcheck(REFERENCE, "--differ", "nothing")
    check(command.status == 2 and "NAME=VALUE" in command.stderr, f"{command}")


def broken():
    for name, case, words in BREAKS:
        command = ncclcheck(REFERENCE, "--version-only", 12, "--timeout", 5, "--case", case,
                            env={"REFERENCE_BREAK": name})
        check(command.status == 1, f"{name} is not noticed by {case}: {command}")
        check(f"FAIL  v12  {case} " in command.stdout and words in command.stdout, f"{name}: {command}")


def two_hosts():
    """Rank 1 in another process tree, reached over TCP."""
    port = free_port()
    waiter = Command("ncclcheck", REFERENCE, "--wait", "--bind", "127.0.0.1", "--port", port)
    wait_until(lambda: listening(port) or not waiter.alive())
    command = ncclcheck(REFERENCE, "--peer", "127.0.0.1", "--port", port, "--version-only", 10, "--case",
                        "bulk,load,dead-peer", "--timeout", 60)
    check(command.status == 0 and "3 passed" in command.stdout, f"two hosts: {command}")
    check(waiter.wait(20).status == 0, f"the end that waits: {waiter}")


def mistakes():
    for arguments, words, status in (
            (["/dev/null"], "cannot be loaded", 1),
            (["/nonexistent.so"], "No such file", 1),
            ([], "which plugin", 2),
            ([REFERENCE, "--case", "nonsense"], "no case", 2),
            ([REFERENCE, "--version-only", "7"], "8 to 12", 2),
            (["--ask", str(os.getpid())], "does not use", 1),
            (["--ask", "4194304"], "No such process", 1)):
        command = ncclcheck(*arguments)
        check(command.status == status and words in command.stderr, f"{arguments}: {command}")


def empty_plugin():
    """A library that is no plugin."""
    command = ncclcheck("/proc/self/exe")
    check(command.status == 1, f"{command}")


def slow_list():
    listed = ncclcheck("--list").stdout
    check("peer-killed" in listed and "(slow)" in listed, "the list")


right()
mismatch()
broken()
two_hosts()
mistakes()
empty_plugin()
slow_list()
finish()
