#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit doctor --cluster`: captures (tar, unpacked, manifests), logs and results of the mesh in one directory; the sentence at the
end; JSON; files that are none of these; mistakes on the command line."""
import json
import os
import shutil
import subprocess

from harness import Command, Directory, check, finish

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TREES = os.path.join(ROOT, "tests/unit/doctor/trees")
LOGS = os.path.join(ROOT, "tests/unit/doctor/logs")
NAMES = [f"node{i}" for i in range(1, 9)]
NIC = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0"


def doctor(*arguments, **more):
    return Command("doctor", *arguments, **more).wait(60)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def hosts(folder, odd=""):
    base = read(os.path.join(TREES, "host.tree")) + read(os.path.join(TREES, "mlx5-roce.tree"))
    for name in NAMES:
        write(os.path.join(folder, name + ".tree"),
              base + f"[/.godwit]\nhostname {name}\n" + (odd if name == "node5" else ""))


def mesh(folder, slow=None):
    pairs = [{"from": a, "to": b, "latency_us": 3.0, "alone_bps": 4e10 if slow in (a, b) else 1e11,
              "together_bps": 3.9e10 if slow in (a, b) else 9.7e10, "loss": 0,
              "ports": [{"source_port": 50000, "loss": 0, "bps": 1e11}]} for a in NAMES for b in NAMES if a != b]
    write(os.path.join(folder, "mesh.json"),
          json.dumps({"schema": "godwit-mesh/1", "hosts": [{"name": n, "address": "10.0.0.1"} for n in NAMES], "pairs": pairs}))


def healthy(directory):
    folder = os.path.join(directory, "healthy")
    os.mkdir(folder)
    hosts(folder)
    mesh(folder)
    shutil.copy(os.path.join(LOGS, "file-2.28.log"), folder)
    command = doctor("--cluster", folder)
    check(command.status == 0 and "cluster of 8 hosts: healthy" in command.stdout, f"{command}")
    text = " ".join(command.stdout.split())
    check("Nothing here keeps this cluster from its scaling targets: 8 hosts are set up alike and healthy, 56 pairs of hosts are "
          "alike, the job's logs are clean." in text, f"{command}")


def faulty(directory):
    folder = os.path.join(directory, "faulty")
    os.makedirs(os.path.join(folder, "logs"))
    hosts(folder, f"{NIC}/net/ens1np0/mtu 1500\n")
    mesh(folder, slow="node3")
    write(os.path.join(folder, "logs", "job.log"), read(os.path.join(LOGS, "slurm-2.21.log"))
          + "2: node2:5201:5230 [0] transport/net_ib.cc:1909 NCCL WARN NET/IB : Got completion from peer 10.1.0.1<40662> with "
          "status=12 opcode=1 len=0 vendor err 129 (Send)\n")
    write(os.path.join(folder, "notes"), "bought in 2024\n")
    command = doctor("--cluster", folder)
    text = " ".join(command.stdout.split())
    check(command.status == 2, f"{command}")
    start = text.index("We are not hitting our scaling targets because ")
    for words in ("rank 2 (node2) got completion error 12", "7 of 8 hosts have 9000, node5 has mlx5_0: 1500, mlx5_1: 9000",
                  "node3 sends 40 and receives 40 Gbit/s"):
        check(words in text[start:], f"{words}: {text[start:]}")
    check("notes: 1 file is neither" in text, f"{command}")
    wide = [line for line in command.stdout.splitlines() if len(line) > 80 and max(map(len, line.split())) < 70]
    check(not wide, f"80 columns: {wide}")
    report = json.loads(doctor("--cluster", folder, "--json").stdout)
    check(report["conclusion"].startswith("We are not hitting") and report["verdict"] == "errors", f"{report}")
    only = doctor("--cluster", folder, "--only", "mesh-host")
    check(only.status == 2 and "hosts-mtu" not in only.stdout and "mesh-host" in only.stdout, f"{only}")


def captures(directory):
    """Captures of this machine: as tar and unpacked, told alike."""
    folder = os.path.join(directory, "captures")
    os.mkdir(folder)
    doctor("--interval", "0", "--capture", os.path.join(folder, "one.tar"))
    os.mkdir(os.path.join(folder, "two"))
    subprocess.run(["tar", "-xf", os.path.join(folder, "one.tar"), "-C", os.path.join(folder, "two")], check=True)
    command = doctor("--cluster", folder)
    check(command.status in (0, 1, 2) and "cluster of 2 hosts" in command.stdout and "[hosts-" not in command.stdout, f"{command}")
    names = subprocess.run(["tar", "-tf", os.path.join(folder, "one.tar")], check=True, stdout=subprocess.PIPE, text=True).stdout
    check("proc/sys/kernel/osrelease" in names, f"a capture has the kernel's version: {names[:200]}")
    with open(os.path.join(folder, "one.tar"), "rb") as file:
        whole = file.read()
    with open(os.path.join(folder, "cut.tar"), "wb") as file:
        file.write(whole[:len(whole) // 2 + 100])
    command = doctor("--cluster", folder)
    check(command.status in (0, 1, 2) and "cut.tar: 1 file is neither" in " ".join(command.stdout.split()), f"{command}")


def mistakes(directory):
    empty = os.path.join(directory, "empty")
    os.mkdir(empty)
    for arguments in (["--cluster", empty], ["--cluster", "/nonexistent"], ["--cluster", __file__], ["--cluster", empty, "more"],
                      ["--cluster", directory, "--only", "nothing"], ["--cluster"]):
        command = doctor(*arguments)
        check(command.status == 3 and command.stderr.startswith("godwit doctor: ") and len(command.stderr.splitlines()) == 1,
              f"refusal expected: {arguments} {command}")
    write(os.path.join(empty, "broken.json"), "{\"schema\": \"godwit-mesh/1\", \"hosts\": [")
    os.mkfifo(os.path.join(empty, "fifo"))
    check(doctor("--cluster", empty).status == 3, "broken results are none, and a pipe is passed by")


def main():
    with Directory() as directory:
        healthy(directory)
        faulty(directory)
        captures(directory)
        mistakes(directory)
    finish()


main()
