#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libnccl-net-godwit.so between two hosts with two rails: each is a device, whose connections use its interface only, and go on when
the other one is down."""
import json
import os
import shutil
import subprocess
import time

import namespace
from harness import GODWIT, check, finish, skip

PLUGIN = os.environ["NCCL_PLUGIN"]
RAILS = 2
# What the other rail may carry meanwhile: neighbour discovery and the like.
IDLE_BYTES = 20000


def bytes_sent():
    """By ip, because /sys is that of the namespace in which it was mounted."""
    links = json.loads(subprocess.run(["ip", "-json", "-statistics", "link"], check=True, capture_output=True, text=True).stdout)
    return [next(link["stats64"]["tx"]["bytes"] for link in links if link["ifname"] == f"rail{rail}") for rail in range(RAILS)]


def ncclcheck(host, device, case, during=None):
    """Runs a case over a device; returns the report, and the bytes that each rail sent."""
    env = {**os.environ, "GODWIT_IFNAME": "rail"}
    with subprocess.Popen([*host.enter, GODWIT, "ncclcheck", "--wait", PLUGIN], env=env) as other:
        before = bytes_sent()
        command = [GODWIT, "ncclcheck", "--peer", "10.78.0.2", "--json", "--version-only", "12", "--timeout", "60", "--device", str(device),
                   "--case", case, PLUGIN]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            if during:
                during()
            report = json.loads(process.communicate(timeout=120)[0])
        other.wait(60)
    return report, [after - least for after, least in zip(bytes_sent(), before)]


def each_its_own(host):
    for device in range(RAILS):
        report, sent = ncclcheck(host, device, "bulk")
        check(report["failed"] == 0 and report["passed"] == 1, f"device {device}: {report}")
        check(sent[device] > 1 << 20, f"device {device}: bytes on each rail: {sent}")
        check(sent[1 - device] < IDLE_BYTES, f"device {device} used the other rail: {sent}")


def properties(host):
    report, _ = ncclcheck(host, 0, "load")
    check("2 devices" in report["cases"][0]["text"] and "rail0" in report["cases"][0]["text"], f"two devices: {report}")


def goes_on(host):
    """The case takes 1.5 s at the least, and the other rail goes down within."""
    def cut():
        time.sleep(0.8)
        namespace.ip("link set rail0 down")

    report, sent = ncclcheck(host, 1, "throughput", cut)
    check(report["failed"] == 0 and report["passed"] == 1, f"the other rail down: {report}")
    check(sent[1] > 1 << 17, f"bytes on each rail: {sent}")
    namespace.ip("link set rail0 up")


namespace.enter(lambda reason: skip("rails", reason))
for tool in ("ip", "nsenter"):
    if not shutil.which(tool):
        skip("rails", f"no {tool}")
HOST = namespace.Host(["harness", *(f"rail{rail}" for rail in range(RAILS))])
try:
    for part in (properties, each_its_own, goes_on):
        part(HOST)
finally:
    HOST.close()
finish()
