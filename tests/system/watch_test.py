#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit watch`: on this machine as it is, on a directory whose counters change, recorded and replayed, for Prometheus, in a
pipe and on a terminal."""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import threading
import time

from harness import GODWIT, Command, Directory, check, finish, wait_until


def watch(*arguments, **more):
    return Command("watch", *arguments, **more).wait(30)


def write(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".new", path)


def host(root):
    """A host with one RDMA port of 100 Gbit/s and one Ethernet port."""
    port = "sys/class/infiniband/mlx5_0/ports/1"
    write(root, f"{port}/state", "4: ACTIVE\n")
    write(root, f"{port}/rate", "100 Gb/sec (2X HDR)\n")
    write(root, f"{port}/counters/port_rcv_data", "1000\n")
    write(root, f"{port}/counters/port_xmit_data", "1000\n")
    write(root, f"{port}/counters/symbol_error", "65535\n")
    write(root, f"{port}/hw_counters/packet_seq_err", "4294967295\n")
    for name in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped"):
        write(root, f"sys/class/net/eth7/statistics/{name}", "0\n")
    write(root, "sys/class/net/eth7/mtu", "1500\n")
    write(root, "sys/class/net/eth7/operstate", "up\n")
    write(root, "sys/class/net/eth7/speed", "1000\n")
    return port


def this_machine():
    command = watch("--interval", "200ms")
    lines = command.stdout.splitlines()
    check(command.status == 0 and command.stderr == "" and "\033" not in command.stdout, f"calm: {command}")
    check(lines[2].startswith("port ") and all(len(line) <= 80 for line in lines), f"one table: {command}")
    if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
        check("no RDMA device" in lines[0], f"says so: {lines[0]}")
    command = watch("--all", "--count", 2, "--interval", "100ms")
    check(command.stdout.count("port  ") == 2 and re.search(r"^lo ", command.stdout, re.M), f"two tables, with lo: {command}")


def a_root_that_changes(directory):
    root = os.path.join(directory, "root")
    port = host(root)
    command = Command("watch", "--root", root, "--json", "--count", 4, "--interval", "500ms")
    began = time.monotonic()
    step, there = 0, True
    while command.alive():
        step += 1
        write(root, f"{port}/counters/port_rcv_data", f"{1000 + step * 12500000}\n")
        write(root, f"{port}/hw_counters/packet_seq_err", f"{step}\n")
        if there:
            write(root, "sys/class/net/eth7/statistics/rx_bytes", f"{step * 1250}\n")
        # The first line is out: that has the port, the last has not.
        if there and command.written() > 0:
            shutil.rmtree(os.path.join(root, "sys/class/net/eth7"))
            there = False
        time.sleep(max(0, began + step * 0.05 - time.monotonic()))
    command.wait(20)
    lines = [json.loads(line) for line in command.stdout.splitlines()]
    check(command.status == 0 and len(lines) == 4, f"four lines: {command}")
    ports = [{p["port"]: p for p in line["ports"]} for line in lines]
    # 50 MB in 50 ms: 8 Gbit/s.
    check(all(4e9 < p["mlx5_0/1"]["rx_bps"] < 16e9 and p["mlx5_0/1"]["tx_bps"] == 0 for p in ports), f"rates: {ports}")
    check(ports[-1]["mlx5_0/1"]["retransmitted"] > 0 and lines[0]["ports"][0]["port"] == "mlx5_0/1", f"trouble first: {lines[0]}")
    check(ports[-1]["eth7"]["state"] == "gone" and "rx_bps" not in ports[-1]["eth7"], f"a port that goes: {ports[-1]}")
    check(1e5 < ports[0]["eth7"]["rx_bps"] < 4e5 and ports[0]["eth7"]["rate_bps"] == 10**9, f"Ethernet: {ports[0]}")
    write(root, f"{port}/counters/port_rcv_data", "N/A (no PMA)\n")
    os.chmod(os.path.join(root, port, "counters/port_xmit_data"), 0)
    if os.geteuid() == 0 and not others_may_run():
        write(root, f"{port}/counters/port_xmit_data", "unreadable\n")
    command = watch("--root", root, "--json", "--count", 1, "--interval", "100ms",
                    **({"user": "nobody"} if others_may_run() else {}))
    values = json.loads(command.stdout)["ports"][0]
    check("rx_bps" not in values and values["tx_bps"] is None, f"unreadable is null, absent is left out: {values}")


def others_may_run():
    """Whether this is root, who reads everything, and an ordinary user may run the command from where it lies."""
    return os.geteuid() == 0 and subprocess.run([GODWIT, "--version"], user="nobody", capture_output=True,
                                                check=False).returncode == 0


def recordings(directory):
    root, path = os.path.join(directory, "root2"), os.path.join(directory, "record")
    port = host(root)
    command = Command("watch", "--root", root, "--record", path, "--count", 3, "--interval", "300ms")
    for step in range(1, 25):
        write(root, f"{port}/counters/port_xmit_data", f"{1000 + step * 1000000}\n")
        time.sleep(0.05)
    command.wait(20)
    check(command.status == 0 and command.stdout == "", f"quiet while it records: {command}")
    first, second = watch("--replay", path), watch("--replay", path)
    check(first.status == 0 and first.stdout == second.stdout and first.stdout.count("mlx5_0/1") == 3, f"replay: {first}")
    lines = [json.loads(line) for line in watch("--replay", path, "--json").stdout.splitlines()]
    check(len(lines) == 3 and all(line["ports"][0]["tx_bps"] > 0 for line in lines), f"rates of the recording: {lines}")
    check(os.path.getsize(path) < 4000, "differences are short")
    with open(path, "rb") as file:
        whole = file.read()
    for cut in (0, 5, len(whole) // 3, len(whole) // 2, len(whole) - 3):
        with open(path, "wb") as file:
            file.write(whole[:cut])
        check(watch("--replay", path).status in (0, 1), f"cut at {cut}")
    for text in (b"", b"\x00" * 100, whole.replace(b"== ", b"==="), whole + b"== nonsense\n"):
        with open(path, "wb") as file:
            file.write(text)
        command = watch("--replay", path)
        check(command.status in (0, 1) and len(command.stderr.splitlines()) <= 1, f"damaged: {command}")


def prometheus(directory):
    root, path = os.path.join(directory, "root3"), os.path.join(directory, "godwit.prom")
    host(root)
    stop, bad = threading.Event(), []

    def look():
        while not stop.is_set():
            try:
                with open(path, encoding="ascii") as file:
                    text = file.read()
                if not text.endswith("\n") or "godwit_queue_pairs" not in text and "saturated" not in text:
                    bad.append(text)
            except FileNotFoundError:
                pass

    thread = threading.Thread(target=look)
    thread.start()
    command = watch("--root", root, "--prometheus", path, "--count", 5, "--interval", "100ms")
    stop.set()
    thread.join()
    check(command.status == 0 and command.stdout == "" and not bad, f"whole at any time: {command} {bad[:1]}")
    with open(path, encoding="ascii") as file:
        lines = file.read().splitlines()
    form = re.compile(r'^(# (HELP|TYPE) \S+ .+|[a-z_]+\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\} [0-9.]+)$')
    check(all(form.match(line) for line in lines), f"the format: {[line for line in lines if not form.match(line)]}")
    check('godwit_port_receive_bytes_total{port="mlx5_0/1",kind="rdma",counter="port_rcv_data"} 4000' in lines, f"{lines}")
    check('godwit_port_counter_saturated{port="mlx5_0/1",kind="rdma",counter="symbol_error"} 1' in lines, f"{lines}")
    check(os.listdir(directory).count("godwit.prom") == 1 and not any(name.endswith(".tmp") for name in os.listdir(directory)),
          "nothing is left beside it")
    command = watch("--prometheus", "/nonexistent/x.prom", "--count", 1, "--interval", "100ms")
    check(command.status == 1 and "/nonexistent/x.prom" in command.stderr, f"cannot be written: {command}")


def terminal(directory):
    root = os.path.join(directory, "root4")
    host(root)
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(GODWIT, [GODWIT, "watch", "--root", root, "--interval", "100ms"])
    seen = b""
    deadline = time.monotonic() + 10
    while seen.count(b"\033[H") < 3 and time.monotonic() < deadline:
        if select.select([fd], [], [], 1)[0]:
            seen += os.read(fd, 4096)
    os.kill(pid, signal.SIGINT)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    check(seen.count(b"\033[H") >= 3 and b"mlx5_0/1" in seen, f"repaints: {seen[:300]}")
    check(os.waitstatus_to_exitcode(status) == 0, f"Ctrl-C is how one leaves: {status}")


def endings():
    command = Command("watch", "--json", "--interval", "100ms")
    wait_until(lambda: command.written() > 0)
    command.signal(signal.SIGTERM)
    check(command.wait(5).status == 0 and command.stdout.endswith("}\n"), f"a signal: {command}")
    done = subprocess.run(f"{GODWIT} watch --json --interval 100ms | head -n 1", shell=True, capture_output=True, timeout=20,
                          check=False)
    check(done.returncode == 0 and done.stderr == b"" and json.loads(done.stdout), f"a pipe that closes: {done}")
    for arguments in (["--interval", "1ms"], ["--count", "0"], ["now"], ["--wings"], ["--replay"], ["--root", "/etc/passwd"],
                      ["--replay", "x", "--record", "y"]):
        command = watch(*arguments)
        check(command.status == 2 and len(command.stderr.splitlines()) == 1, f"a mistake: {command}")
    check(watch("--replay", "/nonexistent").status == 1, "no such recording")


def main():
    with Directory() as directory:
        this_machine()
        a_root_that_changes(directory)
        recordings(directory)
        prometheus(directory)
        terminal(directory)
        endings()
    finish()


main()
