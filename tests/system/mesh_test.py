#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit mesh` in the lab: eight hosts of which one has a link at half rate, one drops 1 %, one is asymmetric, and exactly those are
named in under a minute; what it writes; and how it ends where it cannot measure."""
import json
import os
import subprocess
from html.parser import HTMLParser

from harness import GODWIT, Command, Directory, check, finish, free_port
from labs import probe

NAMES = [f"host{i}" for i in range(8)]
MINUTE = 60
# Low enough for a machine that is busy with other tests.
RATE = 40


class Page(HTMLParser):
    """What a page is made of: cells, items of lists, and everything that would be loaded from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.items, self.foreign, self.open, self.balanced = 0, 0, [], [], True
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.cells += tag == "td"
        self.items += tag == "li"
        self.foreign += [name for name, _ in attrs if name in ("src", "href", "data", "action")]
        self.foreign += [tag] if tag in ("script", "link", "iframe", "object") else []
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.balanced = self.balanced and bool(self.open) and self.open.pop() == tag


def output_of(command):
    """What rank 0 printed."""
    return "\n".join(line[4:] for line in command.stdout.splitlines() if line.startswith("[0] "))


def lab(*arguments, hosts=8, mesh=()):
    return Command("lab", "--hosts", hosts, "--rtt", "1ms", "--rate", f"{RATE}M", *arguments, "--", GODWIT, "mesh",
                   *mesh).wait(150)


def one_of(findings, kind, **members):
    found = [f for f in findings if f["kind"] == kind and all(f.get(k) == v for k, v in members.items())]
    check(len(found) == 1, f"{kind} {members}: {findings}")


def faults(directory):
    page = os.path.join(directory, "mesh.html")
    command = lab("--link", f"3:up:rate={RATE // 2}M", "--link", f"3:down:rate={RATE // 2}M", "--link", "5:down:loss=1%",
                  "--link", f"6:up:rate={RATE // 2}M", mesh=("--json", "--html", page))
    result = json.loads(output_of(command))
    check(result["schema"] == "godwit-mesh/1" and command.status == 1, f"{command}")
    check([h["name"] for h in result["hosts"]] == NAMES and result["hosts"][2]["address"] == "10.200.0.3", f"{result['hosts']}")
    findings = result["findings"]
    print("\n".join(f["text"] for f in findings), f"{result['seconds']:.0f} s")
    one_of(findings, "slow-host", **{"from": "host3", "to": "host3"})
    one_of(findings, "host-loss", to="host5")
    one_of(findings, "asymmetric-host", **{"from": "host6"})
    check(len(findings) == 3, f"exactly those: {findings}")
    check(result["seconds"] < MINUTE, f"{result['seconds']} s")
    pairs = {(p["from"], p["to"]): p for p in result["pairs"]}
    check(len(pairs) == 56 and all(len(p["ports"]) == 4 for p in pairs.values()), "all pairs, with four ports each")
    check(all(p["latency_us"] >= 500 for p in pairs.values()), "no packet is faster than the network")
    # Samples of 60 ms, timed by a sender that has to wait for a processor.
    check(all(0 < p["alone_bps"] < 1.25 * RATE * 1e6 for p in pairs.values()), "none is far above the rate of its links")
    lost = [p["loss"] for (_, to), p in pairs.items() if to == "host5"]
    check(0.005 < sum(lost) / 7 < 0.02, f"1 % of what host5 is sent: {lost}")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    html = Page(text)
    check(html.balanced and not html.open and html.cells == 4 * 64 and html.items == 3 and not html.foreign, f"{vars(html)}")
    check("host3 sends and receives" in text and "://" not in text, "the page says the same and loads nothing")


def healthy():
    # A busy machine is late for packets, and the network looks as if it were slow: one of three runs must show that it is not.
    for _ in range(3):
        command = lab(hosts=5, mesh=("--ports", "2"))
        if command.status == 0:
            break
    text = output_of(command)
    check(command.status == 0 and "mesh of 5 hosts, 2 source ports" in text and "healthy" in text, f"{command}")
    check("rate of each pair alone" in text and "\033" not in text, "maps, and no colour where there is no terminal")


def ranks(count, *arguments):
    """On this host, by themselves."""
    port = str(free_port())
    processes = [subprocess.Popen([GODWIT, "mesh", "--rank", str(i), "--ranks", str(count), "--root-host", "127.0.0.1", "--port", port,
                                   *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for i in range(count)]
    return [(*p.communicate(timeout=100), p.returncode) for p in processes]


def small():
    results = ranks(1, "--json")
    found = json.loads(results[0][0])
    check(results[0][2] == 0 and found["pairs"] == [] and found["findings"] == [], f"one rank: {results}")
    results = ranks(2, "--json", "--passes", "1", "--ports", "1", "--time", "20ms")
    found = json.loads(results[0][0])
    check(len(found["pairs"]) == 2 and len({h["name"] for h in found["hosts"]}) == 2 and not results[1][0], f"two ranks: {results}")


def mistakes(directory):
    for arguments in (("--ports", "9"), ("--passes", "0"), ("--time", "1ms"), ("more",), ("--what",), ("--ranks", "4"), ("--rank", "1"),
                      ("--rank", "4", "--ranks", "4", "--root-host", "127.0.0.1")):
        command = Command("mesh", *arguments).wait(20)
        check(command.status == 2 and "godwit mesh: " in command.stderr, f"{arguments}: {command}")
    results = ranks(2, "--passes", "1", "--ports", "1", "--time", "20ms", "--html", os.path.join(directory, "no", "such"))
    check(results[0][2] == 3 and "cannot write" in results[0][1] and results[1][2] == 0, f"{results}")
    command = Command("mesh", "--rank", 0, "--ranks", 2, "--root-host", "127.0.0.1", "--port", free_port(), "--meet", "1s", "--json").wait(20)
    check(command.status == 3 and "rank 1" in json.loads(command.stdout)["error"], f"a rank is missing: {command}")


def main():
    with Directory() as directory:
        mistakes(directory)
        small()
        probe()
        healthy()
        faults(directory)
    finish()


if __name__ == "__main__":
    main()
