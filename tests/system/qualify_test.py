#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit qualify` on loopback, where there is no RDMA device: the table, the report, and what it must not say.

Devices are put up in a directory that stands in for sysfs, so that what is read from there can be checked here."""
import json
import os
import re
import socket

from harness import Command, Directory, check, finish, free_port, listening, one_line, wait_until

NO_DEVICES = {"GODWIT_SYSFS": "/nonexistent"}
PAYLOADS = [256, 1024, 0]


def start_waiter(*options, env=None):
    port = free_port()
    waiter = Command("qualify", "--port", port, *options, env=env or NO_DEVICES)
    wait_until(lambda: listening(port) or not waiter.alive())
    return waiter, port


def pair(report, *options, waiter_env=None, caller_env=None, host="127.0.0.1"):
    waiter, port = start_waiter(env=waiter_env)
    caller = Command("qualify", host, "--port", port, "--report", report, *options, env=caller_env or NO_DEVICES).wait()
    return waiter.wait(20), caller


def load(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return json.loads(text), text


def put(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text + "\n")


def make_device(root, name, state="4: ACTIVE", link="Ethernet", gids=()):
    base = f"class/infiniband/{name}"
    put(root, f"{base}/fw_ver", "22.33.1048")
    put(root, f"{base}/hca_type", "MT4129")
    put(root, f"{base}/ports/1/state", state)
    put(root, f"{base}/ports/1/link_layer", link)
    put(root, f"{base}/ports/1/rate", "200 Gb/sec (4X HDR)")
    put(root, f"{base}/ports/1/hw_counters/out_of_sequence", "7")
    for i, (gid, kind) in enumerate(gids):
        put(root, f"{base}/ports/1/gids/{i}", gid)
        put(root, f"{base}/ports/1/gid_attrs/types/{i}", kind)


def user_space(directory):
    path = os.path.join(directory, "report.json")
    waiter, caller = pair(path)
    check(waiter.status == 0 and caller.status == 0, f"loopback: {waiter} {caller}")
    check(caller.stdout.count("passed ") == 3 and "3 passed, 0 failed, 0 skipped" in caller.stdout, f"table: {caller}")
    check("took part in 3 cases" in waiter.stdout, f"waiter: {waiter}")
    report, text = load(path)
    cases = report["cases"]
    check([c["payload_asked"] for c in cases] == PAYLOADS, f"cases: {cases}")
    for case in cases:
        check(case["outcome"] == "passed" and case["this_end"] == case["other_end"] == "user", f"{case}")
        for end in ("here", "there"):
            check(case[end]["messages_right"] == 20 and case[end]["bytes"] > 60000, f"{case}")
    check(report["this_end"]["devices"] == [] and report["other_end"]["devices"] == [], "no devices")
    missing = " | ".join(report["not_verified"])
    for words in ("at this end: none", "at the other end: none", "UC", "UD", "marks", "nothing was lost", "GPU"):
        check(words in missing, f"not_verified lacks {words!r}: {missing}")
    check("127.0.0.1" not in text and socket.gethostname() not in text, "the report holds an address or a name")


def sealed(directory):
    """--seal at both ends, and at one."""
    path, secret = os.path.join(directory, "sealed.json"), os.path.join(directory, "secret")
    check(Command("secret", secret).wait(10).status == 0, "no secret")
    shared = ("--secret-file", secret)
    waiter, port = start_waiter(*shared, "--seal")
    if not waiter.alive() and "without OpenSSL" in waiter.wait(5).stderr:
        return
    caller = Command("qualify", "127.0.0.1", "--port", port, "--report", path, *shared, "--seal", "--drop", "3%",
                     env=NO_DEVICES).wait()
    check(waiter.wait(20).status == 0 and caller.status == 0, f"sealed: {waiter} {caller}")
    check(caller.stdout.count(", sealed") == 3 and "3 passed" in caller.stdout, f"table: {caller}")
    report, _ = load(path)
    check(all(c["sealed"] and c["here"]["messages_right"] == 20 for c in report["cases"]), f"cases: {report['cases']}")
    for at_waiter, at_caller in ((("--seal",), ()), ((), ("--seal",))):
        waiter, port = start_waiter(*shared, *at_waiter)
        caller = Command("qualify", "127.0.0.1", "--port", port, "--report", path, *shared, *at_caller, env=NO_DEVICES).wait()
        check("0 passed, 0 failed, 3 skipped" in caller.stdout, f"one-sided: {caller}")
        check(caller.stdout.count("one end has --seal") == 3, f"one-sided: {caller}")
        waiter.wait(20)
    one_line(Command("qualify", "127.0.0.1", "--seal", env=NO_DEVICES).wait(), "secret")


def faults_and_json(directory):
    path = os.path.join(directory, "faults.json")
    _, caller = pair(path, "--drop", "3%", "--seed", "1", "--json", "--with-addresses", host="::1")
    printed = caller.json()
    check(caller.status == 0 and printed and printed["ok"], f"faults: {caller}")
    report, _ = load(path)
    check(report["cases"] == printed["cases"], "stdout and file differ")
    check(sum(c["here"]["packets_repeated"] for c in report["cases"]) > 0, "nothing was repeated")
    check(not any("nothing was lost" in line for line in report["not_verified"]), f"{report['not_verified']}")
    check(report["this_address"] == "::1" and all(c["ip"] == 6 for c in report["cases"]), f"ipv6: {report}")


def devices(directory):
    """Devices that sysfs names and nobody can open: described, tried, and skipped with a reason."""
    root = os.path.join(directory, "sys")
    mapped = "0000:0000:0000:0000:0000:ffff:0a09:0001"
    make_device(root, "mlx5_0", gids=[("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2"),
                                      (mapped, "IB/RoCE v1"), (mapped, "RoCE v2")])
    make_device(root, "mlx5_1", state="1: DOWN", gids=[(mapped, "RoCE v2")])
    make_device(root, "mlx5_2", link="InfiniBand", gids=[(mapped, "RoCE v2")])
    make_device(root, "mlx5_3", gids=[(mapped, "IB/RoCE v1")])
    path = os.path.join(directory, "devices.json")
    env = {"GODWIT_SYSFS": root}
    waiter, caller = pair(path, waiter_env=env, caller_env=env)
    check(waiter.status == 0 and caller.status == 0, f"devices: {waiter} {caller}")
    report, text = load(path)
    found = {d["name"]: d for d in report["other_end"]["devices"]}
    check(sorted(found) == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"], f"devices: {found}")
    check(found["mlx5_0"]["usable"] and found["mlx5_0"]["ipv4"] and not found["mlx5_0"]["ipv6"], f"{found['mlx5_0']}")
    check(found["mlx5_0"]["firmware"] == "22.33.1048" and found["mlx5_0"]["type"] == "MT4129", f"{found['mlx5_0']}")
    for name, words in (("mlx5_1", "up"), ("mlx5_2", "not Ethernet"), ("mlx5_3", "RoCE v2")):
        check(not found[name]["usable"] and words in found[name]["why_not"], f"{found[name]}")
    tried = [(c["this_end"], c["outcome"]) for c in report["cases"]]
    check(tried == [("uc", "skipped")] * 3 + [("ud", "skipped")] * 3 + [("user", "passed")] * 3, f"tried: {tried}")
    check("cannot open the fabric" in report["cases"][0]["why"], f"{report['cases'][0]}")
    check("0a09" not in text, "the report holds an address")


def manual():
    """The manual page names the same options as the help."""
    told = set(re.findall(r"^  --([a-z-]+)", Command("help", "qualify").wait().stdout, re.M))
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../man/godwit-qualify.1")
    with open(page, encoding="utf-8") as file:
        written = set(re.findall(r"Fl -([a-z-]+)", "".join(line for line in file if line.startswith(".It Fl"))))
    check(told and told == written, f"help has {sorted(told)}, the manual {sorted(written)}")


def errors(directory):
    caller = Command("qualify", "127.0.0.1", "--device", "mlx5_9", env=NO_DEVICES).wait()
    check(caller.status == 1, f"no such device: {caller}")
    one_line(caller, "mlx5_9", "ibv_devinfo")
    _, caller = pair(os.path.join(directory, "no/such/directory"))
    check(caller.status == 1, f"no place for the report: {caller}")
    one_line(caller, "cannot write", "no/such/directory")
    caller = Command("qualify", "a", "b").wait()
    check(caller.status == 2, f"two hosts: {caller}")
    one_line(caller, '"b" is one argument too many')
    port = free_port()
    caller = Command("qualify", "127.0.0.1", "--port", port, "--timeout", "0.3").wait()
    check(caller.status == 1, f"nobody waits: {caller}")
    one_line(caller, "127.0.0.1")
    # Another command of the same family is told apart.
    waiter, port = start_waiter("--timeout", "2")
    stranger = Command("perf", "127.0.0.1", "--port", port, "--timeout", "1").wait()
    check(stranger.status == 1, f"perf calls qualify: {stranger}")
    one_line(stranger, "`godwit qualify` waits here", "the caller is `godwit perf`")
    waiter.signal(15)
    check(waiter.wait(10).status == 143, f"ended by a signal: {waiter}")


def main():
    with Directory() as directory:
        user_space(directory)
        sealed(directory)
        faults_and_json(directory)
        devices(directory)
        errors(directory)
    manual()
    finish()


main()
