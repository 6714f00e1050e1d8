#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit plan`: what it refuses, what its JSON promises, and that its drawings are drawings."""
import os
import xml.etree.ElementTree as tree

from harness import Command, Directory, check, finish, one_line

SVG = "{http://www.w3.org/2000/svg}"
POINT = ["--rtt", "25ms", "--rate", "400G", "--loss", "1e-3", "--size", "128MiB"]
QUANTILES = ["p50", "p99", "p99.9"]


def plan(*arguments):
    return Command("plan", *arguments).wait(60)


def without(option):
    at = POINT.index(option)
    return POINT[:at] + POINT[at + 2:]


def refused(words, *arguments):
    command = plan(*arguments)
    check(command.status == 2 and command.stdout == "", f"refusal expected: {command}")
    one_line(command, *words)


def errors(directory):
    for option in ("--rtt", "--rate", "--loss", "--size"):
        refused([option, "missing", "godwit help plan"], *without(option))
    for option, values in {
            "--rtt": ["5", "fast", "-1ms", "", "1e9s"],
            "--rate": ["x", "", "0", "1e30"],
            "--loss": ["1.5", "-1", "nan", "x", "95%"],
            "--size": ["0", "x", "1Mb", "-5"],
            "--burst": ["0", "0.5", "x", "1e9"],
            "--payload": ["0", "1.5", "x"],
            "--chunk": ["0", "2.5"],
            "--cores": ["0", "x"],
            "--rto": ["0", "x"],
            "--goal": ["p42", ""],
            "--samples": ["0", "x", "1000001"],
            "--seed": ["-1", "x"],
            "--deadline": ["5", "0"],
            "--rs-speed": ["0", "x"],
            "--scheme": ["sr", "mds", "mds:32", "mds:0:8", "mds:32:8:1:1", "xor:32:5", "mds:250:7", "sr-rto:3", "x" * 99],
            "--sweep": ["loss", "loss=1e-6", "loss=1e-1..1e-6", "loss=0..1", "colour=1..2", "rtt=1..2", "size=1K..1M:1",
                        "size=1K..1M:x", "loss=1e-3..95%", "loss=" + "1" * 99],
    }.items():
        for value in values:
            command = plan(*POINT, option, value)
            check(command.status == 2 and command.stdout == "" and len(command.stderr.splitlines()) == 1
                  and command.stderr.startswith("godwit plan: "), f"refusal expected: {command}")
    refused(["too many"], *POINT, "now")
    refused(["--wings"], *POINT, "--wings")
    refused(["--goal", "value"], *POINT, "--goal")
    refused(["--svg", "--sweep"], *POINT, "--svg", os.path.join(directory, "x.svg"))
    refused(["--map"], *POINT, "--sweep", "loss=1e-6..1e-1", "--sweep", "size=1M..1G")
    refused(["two sweeps"], *POINT, "--map", "--sweep", "loss=1e-6..1e-1")
    refused(["already"], *POINT, "--map", "--sweep", "loss=1e-6..1e-1", "--sweep", "loss=1e-6..1e-2")
    refused(["--deadline"], *POINT, "--deadline", "30ms", "--sweep", "loss=1e-6..1e-1")
    nowhere = plan(*POINT, "--sweep", "loss=1e-6..1e-1", "--svg", os.path.join(directory, "no", "x.svg"))
    check(nowhere.status == 1, str(nowhere))
    one_line(nowhere, "x.svg", "No such file")
    full = Command("plan", *POINT, "--sweep", "loss=1e-6..1e-1", "--svg", "/dev/full").wait(20)
    check(full.status == 1, str(full))
    one_line(full, "/dev/full")


def ordered(scheme, ideal):
    """A prediction that contradicts itself nowhere."""
    name = scheme["name"]
    for key in ["mean", *QUANTILES]:
        one = scheme[key]
        check(one["low_s"] <= one["s"] * 1.000001 and one["s"] <= one["high_s"] * 1.000001, f"{name}: bounds of {key}")
        check(one["s"] >= ideal * 0.999999, f"{name}: {key} is below the ideal")
        if scheme["method"] == "closed":
            check(one["low_s"] == one["high_s"], f"{name}: a closed form is sure of {key}")
    check(scheme["p50"]["s"] <= scheme["p99"]["s"] <= scheme["p99.9"]["s"], f"{name}: quantiles ascend")
    check(abs(scheme["slowdown"] - scheme["mean"]["s"] / ideal) < 1e-6, f"{name}: slowdown")
    check(scheme["sent_share"] >= 1 and 0 <= scheme["repair_chance"] <= 1, f"{name}: shares")
    coded = name.startswith(("mds", "xor"))
    check((scheme["k"] > 0) == coded and (scheme["m"] > 0) == coded, f"{name}: k and m")


def points():
    result = plan(*POINT, "--json").json()
    check(result is not None, "one JSON object")
    names = [scheme["name"] for scheme in result["schemes"]]
    check({"sr-rto", "sr-nack", "mds(32,8)", "xor(32,8)"} <= set(names) and len(names) == len(set(names)), str(names))
    for scheme in result["schemes"]:
        ordered(scheme, result["ideal_s"])
    means = [scheme["mean"]["s"] for scheme in result["schemes"][1:]]
    check(means == sorted(means), "the best of the others first")
    chosen = result["schemes"][0]
    check(chosen["name"] == result["choice"]["name"] and [s["chosen"] for s in result["schemes"]]
          == [True] + [False] * (len(names) - 1), f"the choice first, and it alone marked: {names[:3]}")
    usable = [s["mean"]["s"] for s in result["schemes"] if s["name"] != "sr-rto"]
    check(chosen["mean"]["s"] <= 1.0101 * min(usable), "the choice is as good as the best")
    check(result["choice"]["reason"].startswith(chosen["name"] + ": ") and result["choice"]["reason"].endswith("."),
          result["choice"]["reason"])
    check(result["path"]["size"] == 128 * 2**20 and result["path"]["rate_bps"] == 400e9, str(result["path"]))
    text = plan(*POINT)
    check(text.status == 0 and all(name in text.stdout for name in names) and result["choice"]["reason"] in text.stdout,
          str(text))
    table = text.stdout.splitlines()[3:]
    check(table[0].startswith(f"* {chosen['name']} ") and [line[0] for line in table[1:len(names)]] == [" "] * (len(names) - 1)
          and f"* {result['choice']['reason']}" in table, f"the choice marked in the table: {text}")
    # Among equals the one that sends least is chosen: it may have been further down.
    other = plan("--rtt", "25ms", "--rate", "10G", "--loss", "1e-3", "--size", "128M").stdout.splitlines()
    starred = [line for line in other if line.startswith("* ")]
    check(starred[0] == other[3] and other[3].split()[1] == starred[1].split()[1].rstrip(":"), f"{other[3]} {starred}")
    unchosen = plan(*POINT, "--scheme", "sr-rto")
    check("*" not in unchosen.stdout, f"the choice is not among those named: {unchosen}")

    by_tail = plan(*POINT, "--goal", "p99.9", "--json").json()
    tails = [scheme["p99.9"]["s"] for scheme in by_tail["schemes"][1:]]
    check(by_tail["goal"] == "p99.9" and tails == sorted(tails), "by tail")
    slow = plan(*POINT, "--scheme", "mds:32:8", "--json").json()["schemes"]
    fast = plan(*POINT, "--scheme", "mds:32:8", "--cores", "8", "--json").json()["schemes"]
    check(len(slow) == 1 and fast[0]["mean"]["s"] < slow[0]["mean"]["s"], "more cores code faster")
    late = plan(*POINT, "--deadline", "40ms", "--json").json()["deadline"]
    check(late["once"] <= late["repaired"] <= 1 and abs(late["once"] - 0.999) < 1e-6 and late["whole"] < 1, str(late))


def samples():
    arguments = [*POINT, "--scheme", "sr-nack", "--scheme", "mds:32:2", "--json"]
    closed = plan(*arguments).json()
    once, again, other = (plan(*arguments, "--samples", "2000", "--seed", seed) for seed in ("1", "1", "2"))
    check(once.stdout == again.stdout and once.stdout != other.stdout, "a seed decides")
    for one, two in zip(closed["schemes"], once.json()["schemes"]):
        ordered(two, closed["ideal_s"])
        check(two["method"] == "sampled" and two["samples"] == 2000 and one["method"] == "closed", "methods")
        check(abs(one["mean"]["s"] / two["mean"]["s"] - 1) < 0.02, f"closed and sampled agree on {one['name']}")
    burst = plan(*POINT, "--burst", "8", "--json").json()
    check(all(s["method"] == "sampled" for s in burst["schemes"]), "bursts are sampled")
    for scheme in burst["schemes"]:
        ordered(scheme, burst["ideal_s"])


def paper():
    """SDR-RDMA's path and model: what it says about repeating and about its code."""
    result = plan(*POINT, "--paper", "--scheme", "sr-rto", "--scheme", "mds:32:8", "--json").json()
    slowdowns = {scheme["name"]: scheme["slowdown"] for scheme in result["schemes"]}
    check(abs(slowdowns["sr-rto"] - 3.34) < 0.02 and abs(slowdowns["mds(32,8)"] - 1.024) < 0.001, str(slowdowns))


def drawing(path):
    root = tree.parse(path).getroot()
    check(root.tag == SVG + "svg" and root.get("width") and root.get("viewBox"), f"{path}: an SVG")
    texts = [text.text for text in root.iter(SVG + "text")]
    check(all(texts), f"{path}: no empty text")
    for element in root.iter():
        for key, value in element.attrib.items():
            check("nan" not in value and "inf" not in value, f"{path}: {key}={value}")
    width, height = float(root.get("width")), float(root.get("height"))
    for circle in root.iter(SVG + "circle"):
        check(0 < float(circle.get("cx")) < width and 0 < float(circle.get("cy")) < height, f"{path}: inside")
    return root, texts


def sweeps(directory):
    picture = os.path.join(directory, "sweep.svg")
    for sweep, label, first, last in (("loss=1e-6..1e-1", "share of packets lost", 1e-6, 1e-1),
                                      ("size=64K..8GiB:7", "size of the message", 65536, 8 * 2**30),
                                      ("rtt=50us..100ms", "round trip", 50e-6, 0.1),
                                      ("rate=1G..1T:4", "rate of the wire", 1e9, 1e12)):
        quantity, _, rest = sweep.partition("=")
        points_wanted = int(rest.partition(":")[2] or 11)
        key = {"loss": "loss", "size": "size", "rtt": "rtt_s", "rate": "rate_bps"}[quantity]
        command = plan(*without("--" + quantity), "--sweep", sweep, "--svg", picture, "--json")
        check(command.status == 0 and command.stderr == "", str(command)[:400])
        result = command.json()
        check(result["sweep"] == quantity and len(result["points"]) == points_wanted, sweep)
        values = [point["path"][key] for point in result["points"]]
        check(values == sorted(values) and abs(values[0] / first - 1) < 1e-6 and abs(values[-1] / last - 1) < 1e-6, sweep)
        for point in result["points"]:
            for scheme in [*point["schemes"], point["choice"]]:
                ordered(scheme, point["ideal_s"])
        root, texts = drawing(picture)
        check(label in texts and "choice" in texts and "sr-nack" in texts, f"{sweep}: labels")
        check(len(list(root.iter(SVG + "polyline"))) == 5, f"{sweep}: a line each")
        table = plan(*without("--" + quantity), "--sweep", sweep)
        check(len(table.stdout.splitlines()) == points_wanted + 3, str(table)[:400])
    command = plan(*without("--loss"), "--sweep", "loss=1e-4..1e-1:3", "--scheme", "sr-rto", "--scheme", "xor:8:2",
                   "--svg", picture)
    check(command.status == 0, str(command))
    check({"sr-rto", "xor(8,2)"} <= set(drawing(picture)[1]), "schemes that were named")


def maps(directory):
    picture = os.path.join(directory, "map.svg")
    command = plan("--rtt", "25ms", "--rate", "100G", "--map", "--svg", picture, "--json")
    result = command.json()
    check(command.status == 0 and result["x"] == "loss" and result["y"] == "size", str(command)[:400])
    rows = result["chosen"]
    check(len(rows) == len(result["y_values"]) and all(len(row) == len(result["x_values"]) for row in rows), "a full map")
    names = {name for row in rows for name in row}
    check("sr-nack" in names and any(n.startswith("mds") for n in names) and "sr-rto" not in names, str(names))
    # Small and clean, or small with few losses: repeat. Small and lossy, or large with as few: code.
    few = len(result["x_values"]) * 2 // 5
    check(rows[0][0] == "sr-nack" and rows[0][-1].startswith("mds"), "corners")
    check(rows[1][few] == "sr-nack" and rows[-4][few].startswith("mds"), "a few losses")
    root, texts = drawing(picture)
    cells = [r for r in root.iter(SVG + "rect") if r.get("stroke") == r.get("fill")]
    covered = sum(float(cell.get("width")) * float(cell.get("height")) for cell in cells)
    frame = next(r for r in root.iter(SVG + "rect") if r.get("fill") == "none")
    whole = float(frame.get("width")) * float(frame.get("height"))
    check(len(cells) > len(rows) and abs(covered / whole - 1) < 0.001, f"{len(cells)} cells cover {covered / whole}")
    check("selective repeat" in texts and "size of the message" in texts, "labels")
    other = plan("--loss", "1e-3", "--rate", "100G", "--map", "--sweep", "rtt=50us..100ms:5", "--sweep", "size=64K..1G:4",
                 "--svg", picture)
    check(other.status == 0 and len(other.stdout.splitlines()) == 8, str(other))
    drawing(picture)


def main():
    with Directory() as directory:
        errors(directory)
        points()
        samples()
        paper()
        sweeps(directory)
        maps(directory)
    finish()


main()
