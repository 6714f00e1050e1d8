#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit doctor HOST` against `godwit doctor --serve` in the lab: a healthy path has nothing to say, and each planted fault
is found in its own direction."""
import json
import os
import shutil
import subprocess
import time

import labs
from harness import GODWIT, Command, Directory, check, finish

PATH = ("--rtt", "4ms", "--rate", "100M")
INPUT = "add table inet t; add chain inet t i {{ type filter hook input priority -300; }}; add rule inet t i {}"
BEFORE = "add table inet t; add chain inet t i {{ type filter hook prerouting priority -300; }}; {}"


def nft(rules, chain=INPUT):
    return f"nft '{chain.format(rules)}' || exit 99; "


def examine(directory, lab, options="", here="", there="", host="10.200.0.2"):
    """(exit status, JSON object) of host 0's doctor; `here` and `there` are shell commands that run before the two ends."""
    out, status = os.path.join(directory, "out"), os.path.join(directory, "status")
    for path in (out, status):
        if os.path.exists(path):
            os.unlink(path)
    caller = (f"{here}sleep 0.4; {GODWIT} doctor {host} --json {options} > {out}; echo $? > {status}; ")
    command = Command("lab", *lab, "--", "sh", "-c", caller, ":", "sh", "-c",
                      f"{there}exec timeout 25 {GODWIT} doctor --serve --once").wait(60)
    if command.status == 99 or not os.path.exists(status):
        check(False, f"the lab: {command}")
        return None, {"findings": [], "path": {}, "notes": []}
    with open(out, encoding="utf-8") as text, open(status, encoding="ascii") as number:
        return int(number.read()), json.loads(text.read())


def found(answer):
    return sorted(f"{f['check']} {f['object']}".strip() for f in answer["findings"])


def expect(directory, label, wanted, *arguments, **more):
    """The findings are these and no others; once more if not, for this machine may be busy."""
    for _ in range(3):
        began = time.monotonic()
        status, answer = examine(directory, *arguments, **more)
        took = time.monotonic() - began
        if found(answer) == sorted(wanted):
            break
    check(found(answer) == sorted(wanted), f"{label}: {found(answer)} instead of {sorted(wanted)}: {answer['findings']}")
    severities = [f["severity"] for f in answer["findings"]]
    check(status == (2 if "error" in severities else 1 if severities else 0), f"{label}: status {status}")
    check(all(f["fix"] and f["value"] and f["why"] for f in answer["findings"]), f"{label}: each with its cure")
    print(f"{label}: {found(answer)}, {took:.1f} s", flush=True)
    return answer


A, B = "host0 -> 10.200.0.2", "10.200.0.2 -> host0"


def healthy(directory):
    answer = expect(directory, "healthy", [], PATH)
    path = answer["path"]
    check(3.9e6 < path["rtt_min_ns"] < 8e6 and path["tcp_back"] == "works", f"figures: {path}")
    check(path["here"]["sent"]["size_arrived"] == 1500 and abs(path["clock_offset_ns"]) < 5e6, f"figures: {path}")
    check(any(n["topic"] == "use" and "godwit send FILE 10.200.0.2" in n["text"] for n in answer["notes"]), "what to use")
    answer = expect(directory, "healthy, IPv6, jumbo frames, far", [], ("--rtt", "60ms", "--rate", "50M", "--mtu", "9000"),
                    host="host1")
    check(answer["path"]["there"]["sent"]["size_arrived"] == 9000, f"figures: {answer['path']}")


def sizes_and_losses(directory):
    answer = expect(directory, "black hole and loss", [f"path-black-hole {B}", f"path-loss {A}"],
                    (*PATH, "--mtu", "9000", "--link", "0:down:mtu=1473", "--link", "1:down:loss=4%"))
    path = answer["path"]
    check(path["there"]["sent"]["size_arrived"] == 1473, f"the MTU to the byte: {path['there']}")
    check(path["here"]["sent"]["size_arrived"] == 9000, f"the other direction: {path['here']}")
    expect(directory, "jitter one way", [f"path-jitter {A}", f"path-reordering {A}"], (*PATH, "--link", "1:down:jitter=40ms"))
    expect(directory, "duplicates one way", [f"path-duplication {B}"], (*PATH, "--link", "0:down:dup=5%"))
    # Slower one way by far: an offset of half a round trip, which is no clock's fault.
    expect(directory, "unequal delays", [], (*PATH, "--link", "0:down:delay=150ms"))


def filters(directory):
    expect(directory, "UDP blocked", [f"path-udp {A}"], PATH, there=nft("meta l4proto udp drop"))
    answer = expect(directory, "one port blocked", [f"path-udp {B}"], PATH, here=nft("udp dport 4791 drop"))
    check("--udp-port" in answer["findings"][0]["fix"], f"another port helps: {answer['findings']}")
    answer = expect(directory, "rate limit", [f"path-rate-limit {A}"], PATH,
                    there=nft("meta l4proto udp limit rate over 800 kbytes/second burst 250 kbytes drop"))
    check(any(n["topic"] == "use" and "--rate" in n["text"] for n in answer["notes"]), f"the rate to use: {answer['notes']}")
    expect(directory, "DSCP one way, ECN the other", [f"path-dscp {A}", f"path-ecn {B}"], PATH,
           there=nft("add rule inet t i ip dscp set cs0", BEFORE), here=nft("add rule inet t i ip ecn set not-ect", BEFORE))
    expect(directory, "TCP back", [f"path-tcp-back {B}"], PATH, here=nft("tcp flags syn / syn,ack drop"))
    nat = ("ip addr add 10.9.9.9/32 dev lo; nft 'add table ip t; add chain ip t p { type nat hook postrouting priority 100; }; "
           "add rule ip t p ip saddr 10.9.9.9 meta l4proto udp snat to 10.200.0.1:20000-30000; "
           "add rule ip t p ip saddr 10.9.9.9 snat to 10.200.0.1' || exit 99; ")
    expect(directory, "NAT", [f"path-nat {A}", f"path-tcp-back {B}"], PATH, "--bind 10.9.9.9", here=nat)


def silent(directory):
    status, answer = examine(directory, PATH, "--timeout 1s", there=nft("tcp dport 4791 drop"))
    check(status == 2 and found(answer) == ["path-tcp"] and "firewall" in answer["findings"][0]["title"],
          f"a firewall that drops: {answer}")


def main():
    labs.probe()
    with Directory() as directory:
        healthy(directory)
        sizes_and_losses(directory)
        if shutil.which("nft") and subprocess.run(["unshare", "-rn", "nft", "add", "table", "inet", "t"], check=False,
                                                  capture_output=True).returncode == 0:
            filters(directory)
            silent(directory)
        else:
            print("no nft, or it may not be used here: no filters were planted", flush=True)
    finish()


main()
