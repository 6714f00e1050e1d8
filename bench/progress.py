# SPDX-License-Identifier: BSD-3-Clause
"""How many packets a second the threads of a communicator receive, check, note and write: bench/run progress.

Two ranks broadcast over loopback with `godwit coll broadcast --threads N`, by multicast and by a channel. Rank 1 does nothing but
receive. Its processor time for a packet is the difference of two runs, one of which has more operations: that leaves out the start,
and the memory that is touched for the first time. Loopback has an MTU that carries 4 KiB of data in a packet, in a network
namespace of its own, so that nothing else is counted. Rounds are interleaved.

What links of 400 Gbit/s to 1.6 Tbit/s would need is computed from that: packets of 4 KiB that the link carries in a second, over
packets that a core receives in a second.
"""
import ctypes
import fcntl
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

COUNTS = (1, 2, 4, 8)
SIZE = 32 << 20
# Operations of the two runs.
FEW, MANY = 3, 18
WARMUP = 2
# What a packet carries, of which 16 bytes of a multicast one are its operation's header; and what is around it, from Ethernet's
# preamble to its gap: 38 Ethernet, 20 IPv4, 8 UDP, 12 BTH, 8 DETH, 4 immediate, 4 ICRC.
PAYLOAD, AROUND = 4096, 94
DATA = {"multicast": PAYLOAD - 16, "channel": PAYLOAD}
MTU = PAYLOAD + 64
LINKS_GBPS = (400, 800, 1600)
WAYS = {"multicast": "multicast", "channel": "ring"}
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFMTU = 0x8913, 0x8914, 0x8922
IFF_UP, IFF_MULTICAST = 1, 0x1000
BUSY = 0.8


def own_network():
    """Gives this process a network namespace with nothing but loopback."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) and libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0))[:18])[1]
        fcntl.ioctl(any_socket, SIOCSIFMTU, struct.pack("16si12x", b"lo", MTU))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP | IFF_MULTICAST))


def rank(program, number, port, arguments, output):
    return subprocess.Popen([program, "coll", "broadcast", *arguments, "--size", str(SIZE), "--warmup", str(WARMUP), "--no-check", "--rank",
                             str(number), "--ranks", "2", "--root-host", "127.0.0.1", "--port", str(port), "--json"], stdout=output)


def run_once(program, way, threads, operations, port):
    """Time of an operation in s, and processor seconds of both ranks."""
    arguments = ["--algorithm", WAYS[way], "--threads", str(threads), "--iterations", str(operations)]
    with tempfile.TemporaryFile("w+") as output:
        ranks = [rank(program, number, port, arguments, output if number == 0 else subprocess.DEVNULL) for number in (0, 1)]
        cpu = []
        for each in reversed(ranks):
            _, status, used = os.wait4(each.pid, 0)
            each.returncode = status
            cpu.insert(0, used.ru_utime + used.ru_stime)
            if status:
                sys.exit(f"run: godwit coll broadcast {' '.join(arguments)} ended with status {status}")
        output.seek(0)
        told = json.load(output)
    return told["sizes"][0]["time_us"] / 1e6, cpu


def sample(program, way, threads, number):
    port = 21000 + number * 2 % 9000
    _, before = run_once(program, way, threads, FEW, port)
    seconds, after = run_once(program, way, threads, MANY, port + 1)
    packets = SIZE / DATA[way]
    spent = [(b - a) / (MANY - FEW) for a, b in zip(before, after)]
    return {"packets_a_second": packets / seconds, "goodput_gbps": SIZE * 8e-9 / seconds, "receiver_cpu_us_a_packet": spent[1] / packets * 1e6,
            "sender_cpu_us_a_packet": spent[0] / packets * 1e6, "busy": sum(spent) / seconds}


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "runs": len(values)}


def measure(program, rounds, counts):
    samples, number = {}, 0
    for turn in range(rounds):
        order = [(way, threads) for threads in counts for way in WAYS]
        for way, threads in order if turn % 2 == 0 else reversed(order):
            number += 1
            samples.setdefault((way, threads), []).append(sample(program, way, threads, number))
    return samples


def needed(core_packets):
    """What links would need of such cores."""
    rows = []
    for gbps in LINKS_GBPS:
        packets = gbps * 1e9 / 8 / (PAYLOAD + AROUND)
        rows.append({"link_gbps": gbps, "packets_a_second": packets, "cores": packets / core_packets})
    return rows


def run_progress(options):
    program = os.path.abspath(options.godwit or os.path.join(options.build, "godwit"))
    processors = len(os.sched_getaffinity(0))
    counts = [count for count in COUNTS if count == 1 or 2 * count <= processors]
    child = subprocess.run([sys.executable, os.path.abspath(__file__), program, str(options.rounds), ",".join(map(str, counts))],
                           stdout=subprocess.PIPE, text=True, check=False)
    if child.returncode:
        sys.exit(f"run: progress: {child.stdout}")
    samples = {(way, threads): runs for way, threads, runs in json.loads(child.stdout)}
    ways = {}
    for way in WAYS:
        rows = []
        for count in counts:
            mine, one = samples[way, count], samples[way, 1]
            core = [1e6 / each["receiver_cpu_us_a_packet"] for each in mine]
            rows.append({"threads": count, "packets_a_second": spread([each["packets_a_second"] for each in mine]),
                         "goodput_gbps": spread([each["goodput_gbps"] for each in mine]),
                         "against_one": spread([a["packets_a_second"] / b["packets_a_second"] for a, b in zip(mine, one)]),
                         "packets_a_core_second": spread(core),
                         "sender_cpu_us_a_packet": spread([each["sender_cpu_us_a_packet"] for each in mine]),
                         "cpu_bound": 2 * count > processors or statistics.median(each["busy"] for each in mine) > BUSY * processors})
        ways[way] = rows
    best = max(row["packets_a_core_second"]["median"] for row in ways["multicast"])
    version = subprocess.run([program, "--version"], text=True, stdout=subprocess.PIPE, check=True).stdout.split()[-1]
    return {"environment": "loopback", "processors": processors, "kernel": os.uname().release, "rounds": options.rounds, "bytes": SIZE,
            "payload": PAYLOAD, "around": AROUND, "godwit": version, "measured": time.strftime("%Y-%m-%d"), "ways": ways,
            "computed": {"packets_a_core_second": best, "links": needed(best)}}


RUNS = {"progress": run_progress}

if __name__ == "__main__":
    own_network()
    found = measure(sys.argv[1], int(sys.argv[2]), [int(count) for count in sys.argv[3].split(",")])
    json.dump([[way, threads, runs] for (way, threads), runs in found.items()], sys.stdout)
