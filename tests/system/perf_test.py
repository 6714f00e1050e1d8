#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`godwit perf`: what it measures adds up, at both ends alike."""
import re
import signal

from harness import Command, check, finish, free_port, listening, one_line, wait_until
from perf_ends import start_client, start_server

MIB = 1 << 20
SMALLEST_PACKET = 64
LARGEST_PACKET = 8936
# Of ends that should not notice a silence: a busy machine may not run one of them for seconds.
PATIENT = ("--timeout", 30)


def measure(*options, host="127.0.0.1", server_options=(), timeout=60):
    """Both ends' JSON, after checking that they ended well; or None."""
    port = free_port()
    server = start_server(port, "--json", *PATIENT, *server_options)
    client = start_client(host, port, "--json", *PATIENT, *options).wait(timeout)
    server.wait(5 if client.status else timeout)
    label = " ".join(str(o) for o in options)
    good = check(client.status == 0 and server.status == 0 and not client.stderr and not server.stderr,
                 f"{label}: {client} {server}")
    here, there = client.json(), server.json()
    good = good and check(here and there and here["ok"] and there["ok"], f"{label}: no JSON: {client} {server}")
    if not good:
        return None
    check((here["role"], there["role"]) == ("client", "server"), f"{label}: roles {here['role']}, {there['role']}")
    check(here["icrc"] is there["icrc"], f"{label}: the ends disagree on the ICRC")
    check(here["results"] == there["results"], f"{label}: the ends disagree:\n{here}\n{there}")
    for row in here["results"]:
        check_row(label, here, row)
    return here


def check_row(label, test, row):
    """What must hold whatever was measured."""
    size = row["size_bytes"]
    label = f"{label}: {size} bytes"
    moved = 0
    for way in row["directions"]:
        sent = way["messages"] * (size // SMALLEST_PACKET + 1)
        check(way["messages"] > 0 and way["seconds"] > 0, f"{label}: nothing happened: {way}")
        check(way["bytes"] + way["missing_bytes"] == way["messages"] * size, f"{label}: bytes do not add up: {way}")
        check(0 <= way["missing_packets"] <= sent, f"{label}: more missing than there was: {way}")
        check((way["missing_bytes"] == 0) == (way["missing_packets"] == 0) == (way["messages_with_holes"] == 0),
              f"{label}: holes do not add up: {way}")
        check(abs(way["goodput_gbps"] - way["bytes"] * 8e-9 / way["seconds"]) <= 1e-6 * (1 + way["goodput_gbps"]),
              f"{label}: goodput: {way}")
        if test["exact"]:
            check(way["missing_packets"] == 0, f"{label}: an exact scheme left holes: {way}")
        check(("fairness" in way) == (test["qps"] > 1), f"{label}: fairness of {test['qps']} queue pairs: {way}")
        if "fairness" in way:
            check_fairness(label, way["fairness"], test["qps"])
        # A receiver counts from its "go" to its last byte: that lies within what it took in all.
        check(way["seconds"] <= row[way["to"]]["seconds"] + 1e-9, f"{label}: the window is longer than the test: {row}")
        moved += way["bytes"]
    for name in ("client", "server"):
        end = row[name]
        cpu = end["cpu_user_seconds"] + end["cpu_system_seconds"]
        check(cpu >= 0 and abs(end["cpu_seconds_per_gb"] - cpu / (moved / 1e9)) < 1e-3 * (1 + end["cpu_seconds_per_gb"]),
              f"{label}: CPU of the {name}: {end}")
        check(end["packets_sent"] == end["counters"].get("sent_packets", 0), f"{label}: packets of the {name}: {end}")
        check(all(value > 0 for value in end["counters"].values()), f"{label}: a counter that did not move: {end}")
        check(all(end["counters"].get("drop_" + why) == n for why, n in end["dropped"].items()), f"{label}: drops: {end}")
    if test["test"] == "bw":
        check_times(label, test, row)
    if test["count"] and not test["duration_seconds"]:
        check(all(way["messages"] == test["count"] * test["qps"] for way in row["directions"]),
              f"{label}: {test['count']} messages expected on each of {test['qps']} queue pairs: {row}")


def check_times(label, test, row):
    """How long messages took, as their senders saw it."""
    for way in row["directions"]:
        times = way["message_time"]
        check(times["samples"] == way["messages"], f"{label}: a time for each message: {way}")
        check(0 < times["min_us"] <= times["median_us"] <= times["max_us"], f"{label}: {times}")
        check(times["min_us"] <= times["mean_us"] <= times["max_us"], f"{label}: {times}")
        # So many are under way at once, for that long each, and no longer than the test.
        busy = times["mean_us"] * 1e-6 * way["messages"] / (test["qps"] * row["depth"])
        check(busy <= row[way["from"]]["seconds"] * 1.01, f"{label}: more time in messages than there was: {row}")


def channels():
    for options in ((), ("--congestion", "none", "--drop", "2%", "--dup", "1%", "--reorder", "1%", "--seed", 4),
                    ("--congestion", "swift", "--qps", 4, "--both"), ("--congestion", "long-haul", "--drop", "1%")):
        for channel in ((), ("--channel",), ("--bare",)):
            got = measure(*options, *channel, "--count", 100, "--size", "100000", "--verify")
            check(not got or got["channel"] is (channel != ("--bare",)), f"{options}: {got}")
    measure("--channel", "--size", "1,2,3,4,100,5000", "--count", 300, "--verify", "--both")
    for channel in (("--congestion", "none"), ("--bare",)):
        # Slow, so that a busy machine keeps up; but a cap that is taken for bytes a second is an eighth of it.
        got = measure("--rate", "8M", *channel, "--size", "10000", "--duration", 1)
        if not got:
            continue
        rate = got["results"][0]["directions"][0]["goodput_gbps"]
        check(0.0015 <= rate <= 0.0085, f"a cap of 8 Mbit/s gave {rate} Gbit/s")
        check((got["congestion"], got["rate_cap_bps"]) == ("none", 8000000), f"{got}")
    got = measure("--test", "lat", "--channel", "--count", 500, "--verify")
    if got:
        check_latency("lat over a channel", got["results"][0], 490)


def schemes():
    """What repairs by parity is exact like what repeats; what is bounded says what is missing."""
    for scheme in ("ec", "auto"):
        for options in ((), ("--drop", "2%", "--seed", 5), ("--channel", "--drop", "1%"), ("--both", "--depth", 3, "--drop", "1%")):
            measure("--scheme", scheme, "--count", 60, "--size", "300000", "--verify", *options)
    measure("--scheme", "auto", "--size", "1,64,5000", "--count", 100, "--verify", "--drop", "1%")
    # Thousands of messages end while an early one is repaired: more than the library has room for.
    measure("--size", "1", "--count", 20000, "--depth", 16, "--verify", "--drop", "2%")
    got = measure("--scheme", "bounded", "--count", 200, "--size", "300000", "--depth", 1, "--verify", "--drop", "2%")
    if got:
        row = got["results"][0]
        way, client = row["directions"][0], row["client"]
        check(20 <= way["missing_packets"] <= 2000 + late_packets(row["server"]), f"2 % of the packets were dropped: {row}")
        check(client["packets_retransmitted"] == 0, f"bounded without a floor repaired something: {client}")


    # Some announcements are lost more often than a deadline lasts; the test goes on all the same.
    measure("--scheme", "bounded", "--count", 1000, "--size", "300000", "--depth", 1, "--verify", "--drop", "10%")


def late_packets(end):
    """Packets that came after their message was given up, as some do when an end is not scheduled in time."""
    return end["dropped"].get("slot", 0) + end["counters"].get("late_packets", 0)


def check_fairness(label, fairness, qps):
    check(1 / qps - 1e-9 <= fairness["jain_index"] <= 1 + 1e-9, f"{label}: {fairness}")
    check(0 <= fairness["min_share"] <= 1 <= fairness["max_share"] <= qps, f"{label}: {fairness}")


def check_latency(label, row, at_least):
    lat = row["half_round_trip"]
    n = lat["samples"]
    check(n >= at_least, f"{label}: {n} samples, {at_least} expected: {lat}")
    check((lat["p99_us"] is not None) == (n >= 100), f"{label}: p99 of {n} samples: {lat}")
    check((lat["p99_9_us"] is not None) == (n >= 1000), f"{label}: p99.9 of {n} samples: {lat}")
    order = [lat[k] for k in ("min_us", "median_us", "p99_us", "p99_9_us", "max_us") if lat[k] is not None]
    check(order == sorted(order) and order[0] > 0, f"{label}: {lat}")
    check(all(way["messages"] == n + lat["lost_pings"] for way in row["directions"]),
          f"{label}: pings and samples do not add up: {row}")
    # Each ping takes two halves, one after the other.
    check(n * 2 * lat["min_us"] <= row["client"]["seconds"] * 1e6, f"{label}: more time in pings than there was: {row}")


def unread_packets(end):
    """At most so many packets the kernel had no room for; it counts them by the batch."""
    return 64 * end["dropped"].get("overrun", 0)


def bandwidth():
    for scheme in ("sr", "raw"):
        for loss in ((), ("--drop", "2%", "--dup", "1%", "--reorder", "1%", "--seed", 3)):
            got = measure("--scheme", scheme, "--count", 200, "--size", "100000", "--verify", *loss)
            if not got:
                continue
            way, client = got["results"][0]["directions"][0], got["results"][0]["client"]
            check((way["from"], way["to"]) == ("client", "server"), f"{scheme}: {way}")
            packets = client["packets_sent"] - client["packets_retransmitted"]
            check(packets >= 200 * (100000 // LARGEST_PACKET + 1), f"{scheme}: {client}")
            if loss and scheme == "sr":
                check(client["packets_retransmitted"] >= packets // 200, f"a loss of 2 % was not repaired: {client}")
            if loss and scheme == "raw":
                # 2 % of 2400 or more: between a fifth and many times of it, wherever the seed leads.
                most = 500 + unread_packets(got["results"][0]["server"])
                check(10 <= way["missing_packets"] <= most, f"2 % of the packets were dropped: {got['results'][0]}")
                check(client["packets_retransmitted"] == 0, f"raw repaired something: {client}")
    got = measure("--scheme", "raw", "--count", 300, "--size", "1M")
    if got:
        row = got["results"][0]
        # Apart from what the kernel had no room for nothing may be given up that still comes.
        unread = unread_packets(row["server"])
        check(row["directions"][0]["missing_packets"] <= unread, f"nothing was lost, and yet: {row}")
        late = late_packets(row["server"])
        check(late == 0, f"{late} packets came after they were given up: {row}")
    got = measure("--duration", 0.3, "--size", "256K", "--poll")
    if got:
        check(0.25 <= got["results"][0]["client"]["seconds"] <= 20, f"0.3 s were asked for: {got}")
        check(got["poll"] is True and got["count"] is None and got["duration_seconds"] == 0.3, f"{got}")


def latency():
    for scheme in ("sr", "raw"):
        got = measure("--test", "lat", "--scheme", scheme, "--count", 3000, "--sleep", timeout=120)
        if got:
            row = got["results"][0]
            check_latency(scheme, row, 2970 - late_packets(row["client"]) - late_packets(row["server"]))
        got = measure("--test", "lat", "--scheme", scheme, "--duration", 0.4, "--drop", "2%", "--size", 200, "--verify",
                      "--sleep", server_options=("--drop", "2%"))
        if got:
            check_latency(f"{scheme} with loss", got["results"][0], 1)
            lost = got["results"][0]["half_round_trip"]["lost_pings"]
            check(scheme == "raw" or lost == 0, f"an exact scheme lost {lost} pings")
    got = measure("--test", "lat", "--count", 500, "--size", "1,64K", "--poll")
    if got:
        for row in got["results"]:
            check_latency("polling", row, 500)


def shapes():
    """Sweeps, directions, queue pairs, addresses."""
    got = measure("--size", "1K..8K,100,3M", "--count", 20)
    if got:
        sizes = [row["size_bytes"] for row in got["results"]]
        check(sizes == [1024, 2048, 4096, 8192, 100, 3 * MIB], f"a sweep and a list: {sizes}")
    for scheme in ("sr", "raw"):
        got = measure("--both", "--count", 50, "--size", "64K", "--scheme", scheme, "--verify", "--drop", "1%",
                      server_options=("--drop", "1%"))
        if got:
            ways = [(way["from"], way["to"]) for way in got["results"][0]["directions"]]
            check(ways == [("client", "server"), ("server", "client")], f"both directions: {ways}")
        measure("--qps", 8, "--count", 30, "--size", "20000", "--scheme", scheme, "--verify", host="::1")
    got = measure("--qps", 8, "--both", "--duration", 0.3, "--size", "16K", "--depth", 4, "--working-set", "8M")
    if got:
        row = got["results"][0]
        check(row["working_set_bytes"] == 8 * MIB and row["depth"] == 4, f"{row}")
    for options in (("--qps", 7, "--both"), ("--qps", 3, "--poll"), ("--bare", "--qps", 6, "--reverse")):
        got = measure("--threads", 3, *options, "--count", 40, "--size", "100K", "--verify", "--drop", "0.2%")
        if got:
            row = got["results"][0]
            each = [40 * len(range(i, got["qps"], 3)) * len(row["directions"]) for i in range(3)]
            for end in ("client", "server"):
                moved = [thread["messages"] for thread in row[end]["threads"]]
                check(moved == each, f"messages of three threads, {end}, {options}: {moved}, not {each}")
    got = measure("--test", "lat", "--qps", 4, "--count", 300, "--sleep", host="::1")
    if got:
        check(got["results"][0]["half_round_trip"]["samples"] == 1200, f"300 pings on each of 4: {got}")
    got = measure("--bare", "--qps", 1000, "--count", 3, "--size", "4K", "--depth", 1, "--verify")
    if got:
        check(got["results"][0]["directions"][0]["messages"] == 3000, f"a thousand queue pairs: {got}")
    got = measure("--size", "64M", "--count", 2, "--memory", "512M", server_options=("--memory", "512M"))
    if got:
        check(got["results"][0]["depth"] == 7, f"as deep as 512M allow: {got['results'][0]['depth']}")
    got = measure("--depth", 1, "--count", 100, "--size", "5000", "--scheme", "raw", "--drop", "5%")
    if got:
        check(got["results"][0]["depth"] == 1, f"{got}")


def reverse():
    """The server sends: what is measured is the way back."""
    for options in ((), ("--bare",), ("--scheme", "raw"), ("--qps", 3), ("--scheme", "ec", "--drop", "1%")):
        got = measure("--reverse", "--count", 50, "--size", "100000", "--verify", *options)
        if got:
            ways = [(way["from"], way["to"], way["messages"]) for way in got["results"][0]["directions"]]
            check(ways == [("server", "client", 50 * got["qps"])] and got["reverse"] is True, f"{options}: {ways}")
            check(got["results"][0]["server"]["packets_sent"] > 500, f"{options}: {got['results'][0]['server']}")
    port = free_port()
    server = start_server(port)
    client = start_client("127.0.0.1", port, "-R", "--count", 5).wait(30)
    server.wait(10)
    check(" received " in client.stdout and " sent " in server.stdout, f"each end names its part: {client} {server}")


def intervals():
    """What moved in each interval adds up to the whole, at either end; nothing of it in a pipe unless asked."""
    for options in ((), ("--reverse",), ("--bare",), ("--both",)):
        port = free_port()
        server = start_server(port, "--json", "--interval", 0.2)
        client = start_client("127.0.0.1", port, "--json", "-i", 0.2, "--duration", 1, "--size", "64K", *options).wait(30)
        server.wait(10)
        if not check(client.status == 0 and server.status == 0, f"{options}: {client} {server}"):
            continue
        for end in (client.json(), server.json()):
            told, ways = end["intervals"], end["results"][0]["directions"]
            check(3 <= len(told) <= 12, f"{options}: 1 s in intervals of 0.2 s: {told}")
            check(told[0]["start_seconds"] == 0 and all(a["end_seconds"] == b["start_seconds"] for a, b in zip(told, told[1:])),
                  f"{options}: a gap between intervals: {told}")
            moved, whole = sum(i["bytes"] for i in told), sum(way["bytes"] for way in ways)
            # The last one is left out where it is very short.
            check(0.7 * whole <= moved <= whole, f"{options}: {moved} of {whole} bytes in intervals")
            check(all(abs(i["goodput_gbps"] - i["bytes"] * 8e-9 / (i["end_seconds"] - i["start_seconds"])) < 1e-6 *
                      (1 + i["goodput_gbps"]) for i in told), f"{options}: {told}")
    port = free_port()
    server = start_server(port)
    client = start_client("127.0.0.1", port, "--interval", 0.1, "--duration", 0.35).wait(30)
    server.wait(10)
    lines = [line for line in client.stdout.splitlines() if re.match(r" *[0-9.]+-[0-9.]+ ", line)]
    check(2 <= len(lines) <= 5 and " 0.00-0.1" in lines[0], f"a line an interval: {client}")
    check(not re.search(r"[0-9]-[0-9]", server.stdout), f"intervals that nobody asked for: {server}")


def letters():
    """iperf3's letters, where they mean the same."""
    port = free_port()
    server = Command("perf", "-s", "-p", port, "--udp-port", 0)
    wait_until(lambda: listening(port))
    run = lambda *arguments: Command("perf", "-p", port, "--udp-port", 0, *arguments).wait(30)
    client = run("-c", "127.0.0.1", "-J", "-t", 0.3, "-l", "64K", "-P", 2, "-b", "80M", "-R", "-C", "swift", "-S", 104)
    told = client.json() or {}
    check(client.status == 0 and told.get("ok"), f"{client}")
    plan_told = tuple(told.get(k) for k in ("duration_seconds", "qps", "rate_cap_bps", "reverse", "congestion", "traffic_class"))
    check(plan_told == (0.3, 2, 80000000, True, "swift", 104), f"{plan_told}")
    client = run("-c", "127.0.0.1", "-J", "-n", "1M", "-l", "100000", "-P", 2)
    told = client.json() or {"results": [{"directions": [{"messages": 0}]}]}
    check(told["results"][0]["directions"][0]["messages"] == 12, f"1M in messages of 100000 on two channels are 6 each: {client}")
    check(server.alive(), "-s goes on after a test")
    server.signal(signal.SIGTERM)
    server.wait(10)
    port = free_port()
    server = Command("perf", "-s", "-1", "-p", port, "--udp-port", 0)
    wait_until(lambda: listening(port))
    check(Command("perf", "127.0.0.1", "-p", port, "--udp-port", 0, "--count", 3).wait(20).status == 0, "-s -1")
    check(server.wait(10).status == 0, f"-1 ends after one test: {server}")
    for arguments, words in ((("-u",), ("-u", "UDP")), (("-c", "h", "-k", "3"), ("-k", "--count")), (("-w", "1M"), ("-w", "--depth")),
                             (("-c", "h", "-n", "1M", "--count", "3"), ("--bytes", "--count")), (("-s", "h"), ("-s", '"h"')),
                             (("-c", "h", "i"), ('"i"', "too many")), (("-y",), ("-y",)), (("-t",), ("-t", "value")),
                             (("-s", "-t", "3"), ("--duration", "client")), (("-c", "h", "-b", "0"), ("--rate",)),
                             (("-c", "h", "-i", "0"), ("--interval", "time"))):
        command = Command("perf", *arguments).wait(20)
        check(command.status == 2 and not command.stdout, f"status 2 expected from {command}")
        one_line(command, *words, "see `godwit help perf`")


def wire():
    """How packets travel is the client's to say; a server may insist on the ICRC."""
    got = measure("--count", 20, "--size", "256K", "--lanes", 4, "--dscp", 26, "--both", "--verify")
    if got:
        check((got["lanes"], got["traffic_class"], got["icrc"]) == (4, 104, True), f"{got}")
    for here, there, wanted in (("off", (), False), ("off", ("--icrc", "off"), False), ("off", ("--icrc", "on"), True),
                                ("on", ("--icrc", "off"), True)):
        got = measure("--count", 20, "--size", "64K,100", "--icrc", here, "--verify", server_options=there)
        if got:
            check(got["icrc"] is wanted, f"client {here}, server {there}: ICRC {got['icrc']}")
            check(got["lanes"] == 1, f"{got}")
    port = free_port()
    server = start_server(port)
    client = start_client("127.0.0.1", port, "--count", 5, "--icrc", "off", "--lanes", 2).wait(30)
    server.wait(10)
    for end in (client, server):
        check(", 2 lanes, " in end.stdout and "ICRC off" in end.stdout, f"{end}")


def text():
    """For people: a head, a line a size, and nothing else in a pipe."""
    port = free_port()
    server = start_server(port, "--quiet")
    client = start_client("127.0.0.1", port, "--count", 10, "--size", "4K,8K").wait(30)
    server.wait(10)
    lines = client.stdout.splitlines()
    check(client.status == 0 and len(lines) == 4 and not client.stderr, f"head, columns and two lines: {client}")
    check(lines[0].startswith("bandwidth with 127.0.0.1: scheme auto") and "4.0 KiB" in lines[2], f"{client}")
    check(server.status == 0 and not server.stdout and not server.stderr, f"a quiet server: {server}")
    port = free_port()
    server = start_server(port)
    client = start_client("127.0.0.1", port, "--test", "lat", "--count", 20).wait(30)
    server.wait(10)
    check(" - " in client.stdout.splitlines()[2], f"20 samples have no p99: {client}")
    check(server.stdout.splitlines()[2].split()[:3] == ["64", "bytes", "20"], f"the server prints it too: {server}")


def keeps():
    """--keep: one client after the other, also after one that failed."""
    port = free_port()
    server = start_server(port, "--keep", "--json", "--memory", "64M")
    for options, status in ((("--count", 5, "--size", "4K"), 0), (("--count", 5, "--size", "32M"), 1),
                            (("--test", "lat", "--count", 5), 0)):
        client = start_client("127.0.0.1", port, *options).wait(30)
        check(client.status == status, f"status {status} expected from {client}")
    check(server.alive(), "a server told to keep on ended")
    server.signal(signal.SIGTERM)
    server.wait(10)
    check(server.status == 143 and len(server.stdout.splitlines()) == 3, f"two tests and a signal: {server}")
    check("warning" in server.stderr and "--memory allows 64.0 MiB" in server.stderr, f"{server}")


def main():
    bandwidth()
    channels()
    schemes()
    latency()
    shapes()
    reverse()
    intervals()
    letters()
    wire()
    text()
    keeps()
    finish()


main()
