#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libnccl-net-godwit.so under `godwit ncclcheck`: every version, losses and reordering, other settings, wrong settings, a hang."""
import json
import os
import random
import re
import subprocess
import sys
import time

from harness import GODWIT, Command, Directory, check, finish, wait_until
from labs import probe

PLUGIN = os.environ["NCCL_PLUGIN"]
# What depends on the version of the interface.
VERSIONED = "load,init-twice,listen,connect-first,bulk,zero-bytes,outstanding,stale-request,dereg-recv,abort"
FAULTY = {"GODWIT_DROP": "0.02", "GODWIT_REORDER": "0.05"}


def ncclcheck(*arguments, env=None, limit=300):
    return Command("ncclcheck", PLUGIN, "--timeout", 60, *arguments, env=env).wait(limit)


def passes(name, *arguments, env=None):
    command = ncclcheck(*arguments, env=env)
    check(command.status == 0, f"{name}: {command}")


def exported():
    """Nothing but the five tables."""
    lines = subprocess.run(["nm", "-D", "--defined-only", PLUGIN], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in lines.splitlines()}
    check(names == {f"ncclNetPlugin_v{version}" for version in range(8, 13)}, f"exported: {names}")
    dynamic = subprocess.run(["readelf", "-d", PLUGIN], check=True, capture_output=True, text=True).stdout
    check("NODELETE" in dynamic, "the plugin has threads and can be unloaded")
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    check(not any(re.match("libgodwit|libnccl|libcuda|libibverbs|libisal", name) for name in needed), f"needed: {needed}")


def carried():
    """The newest C library that it asks for: that of Debian 10 and RHEL 8."""
    dynamic = subprocess.run(["objdump", "-p", PLUGIN], check=True, capture_output=True, text=True).stdout
    if re.search("NEEDED +lib([atl]|ub)san", dynamic):
        return
    asked = {tuple(map(int, text.split("."))) for text in re.findall(r"GLIBC_([0-9.]+)", dynamic)}
    check(not asked or max(asked) <= (2, 28), f"versions of glibc: {sorted(asked)}")


def versions():
    passes("version 12", "--version-only", 12)
    for version in (11, 10, 9, 8):
        passes(f"version {version}", "--version-only", version, "--case", VERSIONED)


def faults():
    passes("losses", "--version-only", 12, "--case", "bulk,order,ll,ll128,close-recv,close-send,dereg-recv,dereg-send,abort,no-test", env=FAULTY)
    # All copies of what a receiver says at its end are lost now and then.
    for _ in range(2):
        passes("heavy losses", "--version-only", 12, "--case", "close-recv", env={"GODWIT_DROP": "0.6"})


def early():
    """Small sends end before there is a receive, and arrive after closeSend and the end of the process."""
    command = ncclcheck("--version-only", 12, "--case", "close-send", "--json")
    check(command.status == 0, f"close-send: {command}")
    metrics = json.loads(command.stdout)["cases"][0]["metrics"]
    check(metrics["sends_before_receives"] == 5, f"sends that ended before there was a receive: {metrics}")


def communicators(case):
    """What each process of a case tells of its communicator."""
    entries = []
    with Directory() as directory:
        passes(f"movers, {case}", "--version-only", 12, "--case", case,
               env={"GODWIT_THREADS": "2", "GODWIT_IFNAME": "=lo", "GODWIT_STATISTICS": os.path.join(directory, "%p.json")})
        for name in os.listdir(directory):
            with open(os.path.join(directory, name), encoding="ascii") as file:
                entries.append(json.load(file)["communicators"][0])
    return entries


def moved_by_caller(entry):
    """Whether NCCL's thread moved the data: of large messages some are posted while an engine thread owns no context, small ones
    are handed over while it does."""
    requests = entry["sends"] + entry["receives"]
    check(requests > 20, f"too few requests: {entry}")
    return entry["hand_overs"] < requests / 8 and entry["caller_turns"] > requests


def moved_by_engine(entry):
    return entry["hand_overs"] > (entry["sends"] + entry["receives"]) / 8


def movers():
    """NCCL's thread moves small messages, engine threads large ones. Other work on the machine blurs it: one run of five must show it."""
    for case, mover in (("latency", moved_by_caller), ("steps", moved_by_engine), ("channels", moved_by_engine)):
        runs = (communicators(case) for _ in range(5))
        check(any(all(mover(entry) for entry in entries) for entries in runs), f"{case}: never {mover.__name__}")


def settings():
    with Directory() as directory:
        secret = os.path.join(directory, "secret")
        check(Command("secret", secret).wait(10).status == 0, "a secret")
        several = {"GODWIT_THREADS": "3", "GODWIT_LANES": "2", "GODWIT_CONGESTION": "swift", "GODWIT_RATE": "5G", "GODWIT_SPIN": "20us",
                   "GODWIT_ICRC": "off", "GODWIT_IFNAME": "=lo", "GODWIT_FABRIC": "roce"}
        passes("several settings", "--version-only", 12, "--case", "load,bulk,order,threads", env=several)
        passes("a secret", "--version-only", 11, "--case", "bulk", env={"GODWIT_SECRET_FILE": secret})
        passes("sealed", "--version-only", 11, "--case", "bulk,ll", env={"GODWIT_SECRET_FILE": secret, "GODWIT_SEAL": "on"})
        for differ in ("GODWIT_SCHEME=auto", f"GODWIT_SECRET_FILE={secret}"):
            passes(f"one end with {differ}", "--version-only", 12, "--case", "mismatch", "--differ", differ)
        passes("one end sealed", "--version-only", 12, "--case", "mismatch", "--differ", "GODWIT_SEAL=on", env={"GODWIT_SECRET_FILE": secret})
        same = ncclcheck("--version-only", 12, "--case", "mismatch", "--differ", "GODWIT_LANES=2")
        check("FAIL" in same.stdout and "returned a connection" in same.stdout, f"a setting that may differ: {same}")
        passes("auto", "--version-only", 11, "--case", "bulk", env={"GODWIT_SCHEME": "auto", **FAULTY})


def wrong_settings():
    """init succeeds, listen fails, and one sentence says why."""
    for name, value, words in (
            ("GODWIT_SCHEME", "bounded", "sr or auto"), ("GODWIT_CONGESTION", "vegas", "long-haul"),
            ("GODWIT_RATE", "fast", "bits a second"), ("GODWIT_LANES", "9", "1 to 8"), ("GODWIT_THREADS", "0", "1 to 16"), ("GODWIT_INLINE", "few", "4K"), ("GODWIT_CPUS", "3-1", "0-3,8"),
            ("GODWIT_TIMEOUT", "-1", "a time"), ("GODWIT_LOG", "loud", "debug"), ("GODWIT_SECRET_FILE", "/nonexistent", "godwit secret"),
            ("GODWIT_SEAL", "on", "GODWIT_SECRET_FILE"), ("GODWIT_FABRIC", "token-ring", "roce or verbs"), ("GODWIT_ICRC", "maybe", "on or off"),
            ("GODWIT_IFNAME", "=nosuch0", "nosuch0"), ("NCCL_PROTO", "LL128", "LL128"), ("GODWIT_STATISTICS", "/nonexistent/file", "can write to"), ("GODWIT_DROP", "2", "share")):
        command = ncclcheck("--version-only", 12, "--verbose", "--case", "load,listen", env={name: value})
        check("pass  v12  load" in command.stdout, f"{name}={value}: init must succeed: {command}")
        check("FAIL  v12  listen" in command.stdout and "invalid usage" in command.stdout, f"{name}={value}: {command}")
        check(words in command.stderr, f"{name}={value}: {command}")


def misspelt():
    name = "GODWIT_" + "THREAD"
    command = ncclcheck("--version-only", 12, "--verbose", "--case", "listen", env={name: "4"})
    check(command.status == 0 and f"{name} is no setting" in command.stderr, f"a misspelt setting: {command}")


def no_rdma_device():
    """No RDMA device answers for 127.0.0.1, and no socket is used in its place."""
    command = ncclcheck("--version-only", 12, "--verbose", "--case", "load,listen", env={"GODWIT_FABRIC": "verbs", "GODWIT_IFNAME": "=lo"})
    check("pass  v12  load" in command.stdout and "FAIL  v12  listen" in command.stdout, f"no RDMA device: {command}")
    check("no RDMA device" in command.stderr and "=lo" in command.stderr, f"no RDMA device: {command}")


def engine_processors():
    """The engine threads run where GODWIT_CPUS says, and only they."""
    allowed = sorted(os.sched_getaffinity(0))
    command = Command("ncclcheck", PLUGIN, "--version-only", 12, "--case", "throughput",
                      env={"GODWIT_CPUS": str(allowed[-1]), "GODWIT_THREADS": "2", "GODWIT_IFNAME": "=lo"})

    def engines():
        found = {}
        for pid in workers("throughput"):
            for task in os.listdir(f"/proc/{pid}/task"):
                try:
                    with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
                        name = file.read().strip()
                    found[name] = sorted(os.sched_getaffinity(int(task)))
                except OSError:
                    pass
        return found if "godwit-nccl/1" in found else None

    def misplaced(found):
        return [(name, processors) for name, processors in found.items()
                if processors != (allowed[-1:] if name.startswith("godwit-nccl/") else allowed)]

    # The thread that starts them is there, too, for a moment.
    seen = []
    wait_until(lambda: not command.alive() or (found := engines()) and (seen.append(found) or not misplaced(found)), 20)
    check(seen, "engine threads")
    check(seen and not misplaced(seen[-1]), f"{seen[-1:]} of {allowed}")
    check(command.wait(60).status == 0, f"with GODWIT_CPUS: {command}")
    wrong = ncclcheck("--version-only", 12, "--verbose", "--case", "listen", env={"GODWIT_CPUS": "1000", "GODWIT_IFNAME": "=lo"})
    check("FAIL" in wrong.stdout and "GODWIT_CPUS=1000" in wrong.stderr, f"a processor that is not there: {wrong}")


def one_line_of_information():
    command = ncclcheck("--version-only", 9, "--verbose", "--case", "listen", env={"GODWIT_IFNAME": "lo"})
    lines = [line for line in command.stderr.splitlines() if "NET/Godwit" in line]
    check(len(lines) == 1 and all(word in lines[0] for word in ("v9", "roce on lo (127.0.0.1)", "Selective Repeat")),
          f"one line: {command}")


def statistics():
    with Directory() as directory:
        for end in ("json", "prom"):
            passes("statistics", "--version-only", 12, "--case", "communicators",
                   env={"GODWIT_STATISTICS": os.path.join(directory, f"%p.{end}")})
        for name in os.listdir(directory):
            with open(os.path.join(directory, name), encoding="ascii") as file:
                text = file.read()
            if name.endswith(".prom"):
                check("godwit_nccl_sent_bytes_total{" in text, text[:200])
            elif name.endswith(".json"):
                entries = json.loads(text)["communicators"]
                check(len(entries) >= 60 and any(entry["received_bytes"] > 0 for entry in entries), text[:200])
        check(len(os.listdir(directory)) == 4, f"files: {os.listdir(directory)}")


def workers(case="peer-stopped"):
    """Processes that run a case, by their command lines."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"worker" in words and PLUGIN.encode() in words and case.encode() in words:
            found.append((words[words.index(case.encode()) + 2], int(pid)))
    return [pid for _, pid in sorted(found)]


def asked():
    """One rank is stopped; the other says for whom it waits."""
    command = Command("ncclcheck", PLUGIN, "--timeout", 60, "--version-only", 12, "--case", "peer-stopped", env={"RANK": "7"})

    def answer():
        for pid in workers():
            said = Command("ncclcheck", "--ask", pid).wait(10)
            if "bytes, open for" in said.stdout:
                return said.stdout
        return None

    texts = []
    wait_until(lambda: texts.append(answer()) or texts[-1] or not command.alive(), 30)
    check(texts and texts[-1] and "rank 7" in texts[-1], f"an answer: {texts[-1:]}")
    check(command.wait(100).status == 0, f"stopped and gone on: {command}")


def killed():
    """Silence is given up after GODWIT_TIMEOUT, a process that has ended much earlier: its host refuses connections."""
    passes("a peer that dies, long timeout", "--version-only", 12, "--case", "peer-killed", "--silence", 30, env={"GODWIT_TIMEOUT": "100s"})
    passes("a peer that dies", "--version-only", 12, "--case", "peer-killed", "--silence", 30, env={"GODWIT_TIMEOUT": "5s"})


def random_path():
    """Another one in every run; $NCCL_LAB_SEED repeats one that failed."""
    seed = int(os.environ.get("NCCL_LAB_SEED") or time.time())
    dice = random.Random(seed)
    path = ["--seed", str(seed % 1000000 + 1), "--rtt", f"{10 ** dice.uniform(-1, 1.6):.2f}ms", "--rate", f"{10 ** dice.uniform(2, 3.3):.0f}M"]
    if dice.random() < 0.8:
        path += ["--loss", f"{dice.uniform(0.05, 2):.2f}%", *(["--burst", str(dice.randint(2, 10))] if dice.random() < 0.5 else [])]
    if dice.random() < 0.5:
        path += ["--reorder", f"{dice.uniform(0.1, 5):.1f}%"]
    print(f"NCCL_LAB_SEED={seed}: {' '.join(path)}", flush=True)
    return path


def lab():
    script = (f'if [ $RANK = 1 ]; then exec {GODWIT} ncclcheck --wait {PLUGIN}; fi; '
              f'exec {GODWIT} ncclcheck --peer host1 --timeout 90 --version-only 12 --case "$CASES" {PLUGIN}')
    for path, cases in ((["--rtt", "1ms", "--loss", "1%", "--reorder", "5%"], "bulk,order,ll,ll128,close-recv,long-send"),
                        (["--rtt", "100ms", "--rate", "100M", "--loss", "1%", "--burst", "8"], "order,ll,close-recv"),
                        (random_path(), "bulk,order,ll,ll128,close-recv,close-send,operations")):
        command = Command("lab", *path, "--no-summary", "--", "sh", "-c", script, env={"CASES": cases}).wait(300)
        check(command.status == 0 and "0 failed" in command.stdout, f"lab {path}: {command}")


PARTS = [exported, carried, one_line_of_information, wrong_settings, misspelt, no_rdma_device, engine_processors, versions, faults, early, movers, settings, statistics, killed, asked]
if sys.argv[1:] == ["lab"]:
    probe()
    PARTS = [lab]
for part in PARTS:
    began = time.monotonic()
    part()
    print(f"{part.__name__}: {time.monotonic() - began:.1f} s", flush=True)
finish()
