#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The laboratory: its round trip, its losses, its schedule, what it reports, and that nothing of it stays behind."""
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from harness import GODWIT, Command, Directory, check, finish, kill, one_line, same, wait_until, write_random
from labs import probe, processes_in

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lab_ranks.py")
PACKETS = 4000


def run(options, role, *arguments, timeout=60, **popen):
    """One lab whose hosts play a role. Returns (command, its report, what each host told, by line)."""
    with Directory() as directory:
        if popen.get("user"):
            os.chmod(directory, 0o777)
        command = Command("lab", "--json", *options, "--", sys.executable, RANKS, role, directory, *arguments, **popen)
        command.wait(timeout)
    check(command.status == 0, str(command))
    told = {}
    for line in command.stderr.splitlines():
        if line.startswith("[") and "] " in line:
            rank, text = line[1:].split("] ", 1)
            try:
                told.setdefault(int(rank), []).append(json.loads(text))
            except ValueError:
                pass
    report = command.json()
    check(report is not None, f"one JSON object: {command}")
    return command, report or {}, told


def link(report, host, direction):
    for entry in report.get("links", []):
        if (entry["host"], entry["direction"]) == (host, direction):
            return entry
    return {"dropped": {}}


def fastest(*options, family="4"):
    """The shortest of 40 round trips in milliseconds: a busy machine makes them longer, but hardly all of them, and none
    shorter. Some absurd one when none was told."""
    return (run(options, "echo", family)[2].get(0) or [[1e9]])[0][0]


def test_round_trip():
    for family in ("4", "6"):
        best = fastest("--rtt", "25ms", family=family)
        print(f"IPv{family}: shortest round trip {best:.3f} ms of 25")
        check(24.99 <= best <= 26.25, f"a round trip of 25 ms was {best:.3f} over IPv{family}")
    best = fastest("--rtt", "4ms", "--link", "1:down:delay=11ms")
    check(13.99 <= best <= 16, f"one link 10 ms longer: {best:.3f} ms")
    # Each way the switch wakes once, 3 ms after the packet was due at the end of the uplink, after 1 ms.
    best = fastest("--rtt", "4ms", "--slack", "3ms")
    check(7.99 <= best <= 10, f"3 ms of slack: {best:.3f} ms")


def arrived(*options, batch=1, family="4"):
    _, report, told = run(["--loss", "5%", *options], "numbered", PACKETS, batch, family)
    numbers = (told.get(1) or [[]])[0]
    down = link(report, 1, "down")
    check(len(numbers) == down.get("forwarded"), f"{len(numbers)} arrived, {down}")
    check(len(numbers) + down["dropped"].get("loss", 0) == PACKETS, f"{len(numbers)} arrived of {PACKETS}, {down}")
    check(link(report, 0, "up").get("forwarded") == PACKETS, f"sent {PACKETS}: {link(report, 0, 'up')}")
    return numbers


def test_losses_follow_the_seed():
    first = arrived("--seed", 7)
    lost = PACKETS - len(first)
    check(0.035 * PACKETS < lost < 0.065 * PACKETS, f"5 % of {PACKETS} lost was {lost}")
    check(first == sorted(set(first)), "without reordering all came in order, once")
    check(arrived("--seed", 7) == first, "one seed, other losses")
    check(arrived("--seed", 8) != first, "another seed, the same losses")
    # What crosses a TUN in one piece is lost packet by packet, and by the same lot.
    check(arrived("--seed", 7, batch=40) == first, "super-packets met other fates")
    check(arrived("--seed", 7, "--no-offload", batch=40) == first, "packets without offloads met other fates")
    check(arrived("--seed", 7, batch=40, family="6") == first, "IPv6 met other fates")


def test_bursts():
    numbers = set(arrived("--seed", 3, "--burst", 8))
    lost = [i for i in range(PACKETS) if i not in numbers]
    bursts = sum(1 for i in lost if i - 1 in numbers or i == 0)
    check(bursts > 0 and 4 < len(lost) / bursts < 16, f"{len(lost)} packets lost in {bursts} bursts of 8 on average")


def test_other_faults():
    _, report, told = run(["--dup", "10%", "--reorder", "10%"], "numbered", PACKETS, 10)
    numbers, down = (told.get(1) or [[]])[0], link(report, 1, "down")
    check(set(numbers) == set(range(PACKETS)), f"{len(set(numbers))} of {PACKETS} came")
    check(len(numbers) - PACKETS == down.get("duplicated") and down["duplicated"] > PACKETS / 20,
          f"{len(numbers)} packets came: {down}")
    check(down.get("reordered", 0) > PACKETS / 20 and numbers != sorted(numbers), f"reordered: {down}")

    # 60 packets of 228 bytes at once: a queue of 10 KB has room for 44 of them, and those above 5 KB are marked.
    _, report, told = run(["--link", "1:down:rate=800k,ecn=5K,queue=10K"], "marks", 60)
    marked, seen = (told.get(1) or [[0, 0]])[0]
    down = link(report, 1, "down")
    check(0 < marked < seen < 60, f"{marked} of {seen} marked: {down}")
    check((marked, seen) == (down.get("marked"), down.get("forwarded")), f"{marked} of {seen} marked: {down}")
    check(seen + down["dropped"].get("queue", 0) == 60, f"{seen} came: {down}")


def test_black_hole():
    """A link that carries less than the interfaces drops what is larger, without a word, and counts it."""
    _, report, told = run(["--mtu", 9000, "--link", "1:down:mtu=1400"], "sizes", 1400, 1401, 9000, 1280)
    down = link(report, 1, "down")
    check((told.get(1) or [[]])[0] == [1400, 1280], f"1400 bytes at most: {told}")
    check((down.get("forwarded"), down["dropped"].get("size")) == (2, 2), f"two came, two did not: {down}")


def test_paths():
    """A flow keeps its path, the flows of a host take them in turn, and a path fails by itself and at its time."""
    _, report, told = run(["--paths", 3, "--path", "1:loss=50%", "--at", "50ms:path2:down"], "ports", 6, 400)
    seen = (told.get(1) or [[0] * 6])[0]
    check(seen[0] == seen[3] == 400, f"flows on path 0 came whole: {seen}")
    check(all(100 < seen[i] < 300 for i in (1, 4)), f"flows on path 1 lost half: {seen}")
    check(all(seen[i] < 390 for i in (2, 5)), f"flows on path 2 were cut off: {seen}")
    paths = report.get("paths", [])
    check([path["forwarded"] for path in paths] == [seen[i] + seen[i + 3] for i in range(3)], f"{seen}: {paths}")
    check([path["forwarded"] + path["dropped"]["loss"] + path["dropped"]["down"] for path in paths] == [800] * 3,
          f"none disappeared: {paths}")
    check(paths[1]["dropped"]["down"] == 0 and paths[2]["dropped"]["loss"] == 0, f"each by its own cause: {paths}")
    check(run([], "ports", 1, 1)[1].get("paths") == [], "one path is not told of")


def test_samples_and_waiting():
    """At 800 kbit/s the last of 60 packets of 228 bytes waits for 59 of them, 2.28 ms each."""
    total, rate_bps, sample_us = 60 * 228, 800e3, 5000
    with Directory() as directory:
        path = os.path.join(directory, "samples.csv")
        _, report, told = run(["--link", f"1:down:rate={rate_bps:.0f}", "--samples", f"{sample_us}us:{path}"], "marks", 60)
        with open(path, encoding="ascii") as file:
            rows = list(csv.DictReader(file))
    # They enter the link at one moment if the kernel hands them over in one piece, else no later than they were sent.
    waited, sending_us = link(report, 1, "down").get("waited", {}), (told.get(0) or [0])[0]
    longest_us = (total - 228) * 8e6 / rate_bps
    check(longest_us - sending_us - 5000 <= waited.get("max_us", 0) <= longest_us,
          f"the last one waited: {waited}, sent in {sending_us} us")
    check(link(report, 0, "up")["waited"]["max_us"] == 0, "nobody waits for a link without a rate")
    down = [row for row in rows if row["host"] == "1" and row["direction"] == "down"]
    check([float(row["seconds"]) for row in down[:3]] == [0, 0.005, 0.01], f"every 5 ms: {down[:3]}")
    check(len(rows) == 4 * len(down), f"each time every link: {len(rows)} rows, {len(down)} of them of one")
    carried, waiting = [int(row["bytes"]) for row in down], [int(row["waiting_bytes"]) for row in down]
    check(carried == sorted(carried) and carried[-1] == total, f"what was carried only grows: {carried[-1]}")
    check(any(0 < n < total for n in carried), f"137 ms of sending were seen: {carried}")
    check(all(a + b <= total + 1500 for a, b in zip(carried, waiting)), f"carried {carried}, waiting {waiting}")
    # What waits follows from the plan, not from the time at which the switch gets to run.
    step = rate_bps / 8 * sample_us / 1e6
    steady = sum(b > 0 and abs(a - b - step) <= 1 for a, b in zip(waiting, waiting[1:]))
    check(20 <= steady <= 27, f"{step} bytes every 5 ms, {steady} times: {waiting}")


def test_groups():
    told = run(["--hosts", 4], "group")[2]
    check(told == {rank: [["all", "many"]] for rank in (1, 2, 3)}, f"multicast and broadcast: {told}")


def test_tcp():
    for options in ([], ["--no-offload"], ["--loss", "0.1%", "--rate", "1G", "--reorder", "1%", "--jitter", "50us"]):
        told = run(["--rtt", "2ms", *options], "stream", 5000001)[2]
        check(told.get(1) == [True], f"a stream through {options}: {told}")


def transfer(options, size, *arguments):
    with Directory() as directory:
        source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
        write_random(source, size, random.Random(1))
        command = Command("lab", "--json", *options, "--", sys.executable, RANKS, "transfer", directory,
                          os.path.abspath(GODWIT), *arguments).wait(90)
        check(command.status == 0 and same(source, target), f"a file through {options}: {command}")
    return command.json() or {}


def test_transfers():
    report = transfer(["--rtt", "25ms", "--loss", "1%", "--rate", "1G", "--seed", 5], 5 << 20)
    check(link(report, 1, "down")["dropped"].get("loss", 0) > 10, f"some were lost: {report}")
    report = transfer(["--rtt", "5ms", "--rate", "20M", "--at", "800ms:1:down", "--at", "2800ms:1:up"], 5 << 20)
    check(link(report, 1, "up")["dropped"].get("down", 0) + link(report, 1, "down")["dropped"].get("down", 0) > 0,
          f"an outage that nobody noticed: {report}")
    # 5 MiB take 2.1 s at least, so that the outage comes before the end; it ends long after the hosts have started.
    check(report.get("seconds", 0) > 2.8, f"5 MiB at 20 Mbit/s and an outage took {report.get('seconds')} s")


def test_statuses_and_lines():
    command = Command("lab", "--hosts", 3, "--", "sh", "-c",
                      "echo out $RANK of $WORLD_SIZE; echo err >&2; printf tail; exit $((RANK * 3))").wait(20)
    check(command.status in (3, 6), f"the status of the first to fail: {command}")
    lines = [f"[{i}] out {i} of 3" for i in range(3)] + [f"[{i}] tail" for i in range(3)]
    check(sorted(command.stdout.splitlines()) == sorted(lines), f"lines with numbers: {command}")
    check(sorted(command.stderr.splitlines()) == [f"[{i}] err" for i in range(3)], f"on their own stream: {command}")
    command = Command("lab", "--", "sh", "-c", "echo $MASTER_ADDR $MASTER_PORT $GODWIT_HOST_1; kill -9 $$").wait(20)
    check(command.status == 137 and "[0] 10.200.0.1 29500 10.200.0.2" in command.stdout, f"killed: {command}")
    command = Command("lab", "--", "sh", "-c", "test $RANK = 0 && exit 4; sleep 1; echo done; exit 5").wait(20)
    check(command.status == 4 and command.stdout == "[1] done\n", f"the others go on: {command}")
    command = Command("lab", "--kill-on-failure", "--", "sh", "-c", "test $RANK = 0 && exit 4; sleep 60").wait(50)
    check(command.status == 4 and not command.timed_out, f"--kill-on-failure: {command}")
    command = Command("lab", "--", "/nonexistent/command").wait(20)
    check(command.status == 127 and "cannot run /nonexistent/command" in command.stderr, f"no such command: {command}")


def test_command_lines():
    for arguments, word in ((["--hosts", "0", "true"], "--hosts"), (["--loss", "2", "true"], "loss"),
                            (["--rtt", "25", "true"], "--rtt"), (["--rate", "quick", "true"], "rate"),
                            (["--link", "0:sideways:rate=1", "true"], "--link"), (["--at", "1s:9:up", "true"], "--at"),
                            (["--paths", "17", "true"], "--paths"), (["--path", "1:loss=1", "true"], "--path"),
                            (["--link", "0:down:mtu=100", "true"], "1280"),
                            (["--samples", "5ms", "true"], "--samples"), (["--mtu", "100", "true"], "--mtu"), (["--frob", "true"], "--frob"), ([], "command"),
                            (["--hosts"], "--hosts needs a value")):
        command = Command("lab", *arguments).wait(20)
        check(command.status == 2, f"a usage error: {command}")
        one_line(command, word)
    for option, value in (("--pcap", "/nonexistent/file"), ("--samples", "1s:/nonexistent/file")):
        command = Command("lab", option, value, "--", "true").wait(20)
        check(command.status == 1, str(command))
        one_line(command, "/nonexistent/file")
    command = Command("lab", "--help").wait(20)
    check(command.status == 0 and "usage: godwit lab" in command.stdout, str(command))


def supervisor_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        return [int(child) for child in children.read().split()]


def interfaces():
    """Interfaces of this namespace that may be a lab's; other tests may make their own meanwhile."""
    with open("/proc/net/dev", encoding="ascii") as lines:
        return [line.split(":")[0].strip() for line in lines if line.strip().startswith("lab")]


# A child that left its parent, its session and its signals behind must go too.
STUBBORN = "readlink /proc/self/ns/net > $0/$RANK.new; mv $0/$RANK.new $0/$RANK; trap '' HUP INT TERM; " \
           "setsid sleep 300 & sleep 300"


def test_nothing_stays():
    before = interfaces()
    for name, blow in (("SIGTERM", lambda lab: lab.signal(signal.SIGTERM)),
                       ("SIGINT", lambda lab: lab.signal(signal.SIGINT)),
                       ("SIGKILL", lambda lab: lab.signal(signal.SIGKILL)),
                       ("SIGKILL of the switch", lambda lab: os.kill(supervisor_of(lab.pid)[0], signal.SIGKILL))):
        with Directory() as directory:
            os.chmod(directory, 0o777)
            lab = Command("lab", "--", "sh", "-c", STUBBORN, directory)
            files = [os.path.join(directory, str(i)) for i in range(2)]
            check(wait_until(lambda: all(map(os.path.exists, files)), 30), f"{name}: the hosts started")
            networks = [open(path, encoding="ascii").read().strip() for path in files]
            check(wait_until(lambda: all(len(processes_in(network)) >= 2 for network in networks), 30),
                  f"{name}: all run")
            blow(lab)
            lab.wait(30)
            check(not lab.timed_out, f"{name}: it ended: {lab}")
            check(wait_until(lambda: not any(processes_in(network) for network in networks), 30),
                  f"{name}: left behind {[processes_in(network) for network in networks]}")
            expected = {"SIGTERM": 143, "SIGINT": 130, "SIGKILL": -9}.get(name, 1)
            check(lab.status == expected, f"{name}: {lab}")
            kill(lab)
    check(interfaces() == before, f"an interface stayed: {interfaces()}, {before} before")


def test_capture():
    with Directory() as directory:
        path = os.path.join(directory, "lab.pcap")
        run(["--pcap", path, "--loss", "50%"], "numbered", 400, 40)
        with open(path, "rb") as file:
            check(file.read(4) == (0xa1b23c4d).to_bytes(4, sys.byteorder), "it begins as pcap does")
        # 24 bytes, then 16 and an IP packet of 228 each, those that were lost on the link down included.
        check(os.path.getsize(path) == 24 + 400 * (16 + 228), f"{os.path.getsize(path)} bytes for 400 packets")
        if not shutil.which("tshark"):
            return
        shark = subprocess.run(
            ["tshark", "-r", path, "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields",
             "-e", "ip.dst", "-e", "udp.checksum.status", "-e", "ip.checksum.status", "-e", "udp.length"],
            capture_output=True, text=True, check=False)
        lines = shark.stdout.splitlines()
        check(len(lines) == 400 and set(lines) == {"10.200.0.2\t1\t1\t208"}, f"tshark: {set(lines)} {shark.stderr}")


def main():
    probe()
    for name, test in sorted(globals().items()):
        if name.startswith("test_") and (len(sys.argv) < 2 or name in sys.argv[1:]):
            start = time.monotonic()
            test()
            print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
    finish()


main()
