#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit doctor --nccl-log`: files, directories and standard input; text within 80 columns, JSON, statuses; logs that are cut
anywhere; a log of hundreds of megabytes in a few megabytes of memory; mistakes on the command line."""
import glob
import json
import os
import resource
import shutil
import subprocess

from harness import GODWIT, Command, Directory, check, finish

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = os.path.join(ROOT, "tests/unit/doctor/logs")
LARGE = 256 << 20
MEMORY = 64 << 20


def doctor(*arguments, **more):
    return Command("doctor", *arguments, **more).wait(120)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def healthy():
    for path in sorted(glob.glob(os.path.join(LOGS, "*.log"))):
        command = doctor("--nccl-log", path)
        check(command.status == 0 and "Nothing is wrong in these logs" in command.stdout, f"{path}: {command}")
        wide = [line for line in command.stdout.splitlines() if len(line) > 90]
        check(not wide, f"80 columns: {wide}")
        report = json.loads(doctor("--nccl-log", "--json", path).stdout)
        check(report["verdict"] == "healthy" and report["schema"] == 1 and report["summary"], f"{report['verdict']}")
        pairs = [note for note in report["notes"] if note["topic"] == "pair"]
        check(len(pairs) >= 4 and any("GDRDMA" in pair["text"] for pair in pairs), f"pairs: {pairs}")


def one_file_a_rank(directory):
    """The same job as one log and as a directory with a log for each process is told alike."""
    text = read(os.path.join(LOGS, "file-2.28.log"))
    folder = os.path.join(directory, "ranks")
    os.mkdir(folder)
    for process in ("node1:4101", "node1:4102", "node2:5201", "node2:5202"):
        write(os.path.join(folder, "nccl." + process.replace(":", ".")),
              "".join(line + "\n" for line in text.splitlines() if line.startswith(process)))
    one = json.loads(doctor("--nccl-log", "--json", os.path.join(LOGS, "file-2.28.log")).stdout)
    many = json.loads(doctor("--nccl-log", "--json", folder).stdout)
    pairs = [sorted((n["object"], n["text"]) for n in report["notes"] if n["topic"] == "pair") for report in (one, many)]
    check(pairs[0] == pairs[1], f"{pairs}")
    check("4 logs" in many["host"], many["host"])
    done = subprocess.run([GODWIT, "doctor", "--nccl-log", "-"], input=text, text=True, stdout=subprocess.PIPE, timeout=60,
                          check=False)
    check(done.returncode == 0 and "4 ranks" in done.stdout, f"standard input: {done}")


def faulty(directory):
    text = read(os.path.join(LOGS, "slurm-2.21.log"))
    broken = write(os.path.join(directory, "broken"), text.replace("2.21.5+cuda12.4", "2.20.5+cuda12.4", 1)
                   + "2: node2:5201:5230 [0] transport/net_ib.cc:1909 NCCL WARN NET/IB : Got completion from peer "
                   "10.1.0.1<40662> with status=12 opcode=1 len=0 vendor err 129 (Send)\n")
    command = doctor("--nccl-log", broken)
    lines = command.stdout.splitlines()
    check(command.status == 2 and lines[1].startswith("Fix first: "), f"{command}")
    check(command.stdout.index("log-version") < command.stdout.index("log-completion"), f"by weight: {command}")
    only = doctor("--nccl-log", "--only", "log-completion", broken)
    check(only.status == 2 and "log-version" not in only.stdout, f"{only}")
    skip = doctor("--nccl-log", "--skip", "log-completion,log-version", broken)
    check(skip.status == 0, f"{skip}")
    warned = write(os.path.join(directory, "warned"), text.replace("NCCL_IB_HCA set to mlx5", "NCCL_IB_HCA set to mlx4", 1))
    check(doctor("--nccl-log", warned).status == 1, "a warning")


def cut_anywhere(directory):
    """A log that ends anywhere, or begins anywhere, is examined."""
    text = read(os.path.join(LOGS, "file-2.28.log")) + "\n".join(
        line[2:] for line in read(os.path.join(LOGS, "faults")).splitlines() if line.startswith("a|"))
    for i in range(1, 60):
        at = len(text) * i // 60 + i % 7
        for part in (text[:at], text[at:]):
            command = doctor("--nccl-log", write(os.path.join(directory, "part"), part))
            check(command.status in (0, 1, 2), f"cut at {at}: {command}")
    with open(os.path.join(directory, "binary"), "wb") as file:
        file.write(bytes(range(256)) * 4096 + text.encode() + b"\0" * 4096)
    check(doctor("--nccl-log", os.path.join(directory, "binary")).status == 2, "binary around the lines")


def large():
    """A log that does not end does not take memory."""
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    lines = read(os.path.join(LOGS, "torchrun-2.24.log")) + "training step 17 loss 2.31 tokens/s 41233 grad norm 0.81\n" * 400
    piece = (lines * 20).encode()
    with subprocess.Popen([GODWIT, "doctor", "--nccl-log", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          preexec_fn=limit) as process:
        for _ in range(LARGE // len(piece)):
            process.stdin.write(piece)
        out = process.communicate(timeout=300)[0].decode()
    check(process.returncode == 0 and "4 ranks" in out, f"{LARGE >> 20} MiB in {MEMORY >> 20} MiB of memory: {out[:400]}")


def mistakes(directory):
    nothing = write(os.path.join(directory, "nothing"), "hello\n")
    good = os.path.join(LOGS, "ib-2.18.log")
    for arguments in (["--nccl-log"], ["--nccl-log", "/nonexistent"], ["--nccl-log", nothing], ["--nccl-log", os.devnull],
                      ["--nccl-log", "--only", "nothing", good], ["--nccl-log", "--only", "memlock", good],
                      ["--nccl-log", good, "--pid", "1"], ["--nccl-log", good, "--cluster", directory]):
        command = doctor(*arguments)
        check(command.status == 3 and command.stderr.startswith("godwit doctor: ") and len(command.stderr.splitlines()) == 1,
              f"refusal expected: {arguments} {command}")
    folder = os.path.join(directory, "folder")
    os.mkdir(folder)
    shutil.copy(good, folder)
    os.mkfifo(os.path.join(folder, "fifo"))
    check(doctor("--nccl-log", folder).status == 0, "a pipe in a directory is passed by")


def main():
    with Directory() as directory:
        healthy()
        one_file_a_rank(directory)
        faulty(directory)
        cut_anywhere(directory)
        large()
        mistakes(directory)
    finish()


main()
