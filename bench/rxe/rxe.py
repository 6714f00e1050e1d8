# SPDX-License-Identifier: BSD-3-Clause
"""User-space RoCE against the kernel's soft-RoCE in one user-mode Linux guest: bench/run's rxe.

The guest and its kernel are those of tests/interop; bench/rxe/rxe-job is what runs inside, and says when a sample is in full
swing. Processor time is the guest's as a whole, seen from the host: soft-RoCE works in the kernel, where no process is
charged for it. Goodput is what godwit perf says, and the messages that perftest counted in the middle half of its time. That
is the rate it prints, too, unless it could not settle on the clock's frequency: then it prints 0. A sample of perftest's
counts only where every packet that one soft-RoCE device sent arrived at the other: on UC completions are the sender's own.
"""
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INTEROP = os.path.join(ROOT, "tests", "interop")
LINK_MTU = 4200  # the least that leaves room for soft-RoCE's largest path MTU, 4096
WINDOW_S = 1
PERFTEST_S = 2  # it runs for 4 (bench/rxe/rxe-job) and leaves out the first and the last quarter
SAMPLE_S = 12  # at most, with the start of two programs
DISTURBED = 0.2
GOAL = 2
TICKS = os.sysconf("SC_CLK_TCK")
CONTENDERS = {
    "godwit": "godwit perf on UDP sockets, Selective Repeat, with ICRC: 16 messages of 1 MiB under way",
    "rxe-uc-64k": "ib_write_bw -c UC -s 65536 -t 128",
    "rxe-uc-1m": "ib_write_bw -c UC -s 1048576 -t 16",
    "rxe-rc-64k": "ib_write_bw -c RC -s 65536 -t 128",
    "rxe-rc-1m": "ib_write_bw -c RC -s 1048576 -t 16",
}


def stat_of(pid):
    """The parent and the processor time, in ticks, of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        words = file.read().rpartition(")")[2].split()
    return int(words[1]), int(words[11]) + int(words[12])


def ticks_below(top):
    """Of a process and all that descend from it: a guest's programs are processes of the host."""
    stats = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stats[int(name)] = stat_of(name)
            except OSError:
                continue
    family = {top}
    while True:
        more = {pid for pid, (parent, _) in stats.items() if parent in family} - family
        if not more:
            return sum(stats[pid][1] for pid in family if pid in stats)
        family |= more


def busy_ticks():
    with open("/proc/stat", encoding="ascii") as file:
        words = [int(word) for word in file.readline().split()[1:9]]
    return sum(words) - words[3] - words[4]


def watch(top):
    """For a while: which part of one processor the guest used, and which part of all of them others did."""
    begin, own, all_ = time.monotonic(), ticks_below(top), busy_ticks()
    time.sleep(WINDOW_S)
    own, all_ = (ticks_below(top) - own) / TICKS, (busy_ticks() - all_) / TICKS
    took = time.monotonic() - begin
    return {"cpu_share": own / took, "foreign_share": max(0, all_ - own) / took / os.cpu_count()}


def call_ns():
    begin = time.perf_counter_ns()
    for _ in range(20000):
        os.getppid()
    return (time.perf_counter_ns() - begin) // 20000


def goodput_of(name, text):
    """In Gbit/s; None where the program failed."""
    if name == "godwit":
        found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return found[-1]["results"][0]["directions"][0]["goodput_gbps"] if found and found[-1]["ok"] else None
    found = re.search(r"#bytes.*\n *(\d+) +(\d+) ", text)
    return int(found.group(1)) * int(found.group(2)) * 8 / PERFTEST_S / 1e9 if found else None


def sample_of(name, text, watched, end):
    status, sent, received = map(int, end)
    rate = goodput_of(name, text)
    if status or not rate or not watched:
        return {"failed": f"status {status}: {text.strip()[-200:]}"}
    if name != "godwit" and sent != received:
        return {"failed": f"{sent - received} of {sent} packets did not arrive"}
    return {"goodput_gbps": rate, "cpu_s_per_gb": watched["cpu_share"] / (rate / 8), **watched,
            "disturbed": watched["foreign_share"] > DISTURBED}


def read(guest, samples):
    """Takes what the job prints, as it prints it; returns what a system call costs in the guest."""
    call, name, lines, watched = None, None, [], None
    for line in guest.stdout:
        word, _, rest = line.strip().partition(" ")
        if word == "call":
            call = int(rest)
        elif word == "begin":
            name, lines, watched = rest, [], None
        elif word == "steady" and name:
            watched = watch(guest.pid)
        elif word == "end" and name:
            samples[name].append(sample_of(name, "".join(lines), watched, rest.split()))
            print(f"  {name}: {samples[name][-1]}", file=sys.stderr, flush=True)
            name = None
        else:
            lines.append(line)
    if guest.wait() or call is None:
        sys.exit(f"run: the guest ended with {guest.returncode}: {''.join(lines[-5:])}")
    return call


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "runs": len(values)}


def summarize(samples):
    """Ratios are formed within a round."""
    summary, ratios = {}, {}
    for name, taken in samples.items():
        good = [each for each in taken if "failed" not in each]
        if good:
            summary[name] = {key: spread([each[key] for each in good]) for key in ("goodput_gbps", "cpu_s_per_gb")}
            summary[name].update(disturbed=sum(each["disturbed"] for each in good), failed=len(taken) - len(good))
        pairs = [(ours["goodput_gbps"], theirs["goodput_gbps"]) for ours, theirs in zip(samples["godwit"], taken)
                 if "failed" not in ours and "failed" not in theirs]
        if name != "godwit" and pairs:
            ratios[name] = spread([ours / theirs for ours, theirs in pairs])
    return summary, ratios


def missing():
    for tool, package in (("ib_write_bw", "perftest"), ("rdma", "iproute2"), ("ip", "iproute2")):
        if shutil.which(tool) is None:
            return f"no {tool} (package {package})"
    return None


def kernel():
    built = subprocess.run([os.path.join(INTEROP, "kernel-build")], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode not in (0, 77):
        sys.exit("run: the guest's kernel could not be built")
    return built.stdout.strip() or None


def run_rxe(options):
    binary = None if missing() else kernel()
    if not binary:
        print(f"SKIP: rxe: {missing() or 'no guest kernel'}")
        return None
    samples = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as share:
        command = [os.path.join(INTEROP, "guest"), "-k", binary, "-t", str(60 + SAMPLE_S * len(samples) * options.rounds),
                   share, os.path.join(ROOT, "bench", "rxe", "rxe-job"), options.godwit or os.path.join(options.build, "godwit"),
                   os.path.join(ROOT, "tests", "system"), str(options.rounds), str(LINK_MTU)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as guest:
            call = read(guest, samples)
    summary, ratios = summarize(samples)
    return {"environment": "soft-RoCE: one user-mode Linux guest, veth pairs, single packets", "rounds": options.rounds,
            "kernel": platform.release(), "guest_kernel": os.path.basename(binary), "link_mtu": LINK_MTU, "goal": GOAL,
            "call_ns": {"guest": call, "host": call_ns()}, "contenders": CONTENDERS, "summary": summary, "ratios": ratios,
            "samples": samples}


RUNS = {"rxe": run_rxe}
