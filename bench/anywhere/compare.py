# SPDX-License-Identifier: BSD-3-Clause
"""Paths that nobody chose, one dot each: bench/run's anywhere.

A seed draws a path (paths.py). Godwit's channel sends over it as an ordinary user with the usual limits of buffers, with
defaults throughout; then TCP with bbr, one flow, tuned as haul.py says and with its own search for the MTU, since some paths
swallow large packets. Both send for the same time, and what arrives counts from the tenth message on, by the lab's own record
of the link.
"""
import os

from anywhere.paths import WARM_UP, Point
from anywhere.play import DEPTH, PORT, Play, objects, run_as, shell
from links import haul

PATHS = 200
QUICK = 12
MTU_PROBING = "echo 1 >/proc/sys/net/ipv4/tcp_mtu_probing\n"
COUNTED_LEAST = 0.5  # of a transfer too slow for ten messages, the later half counts


def duration(point):
    return point.path.seconds + (point.path.outage[1] if point.path.outage else 0)


def speed(play, delivered, seconds, message):
    """Mbit/s from the tenth message on."""
    carried = play.carried()
    share = min(COUNTED_LEAST, WARM_UP * message / delivered) if delivered else COUNTED_LEAST
    begin, end = carried.from_tenth(seconds, share)
    return delivered * 8e-6 * (1 - share) / (end - begin) if delivered and end > begin else 0.0


def marks(play):
    return {"was_late": play.report.get("was_late"), "dropped": play.dropped()}


def ours(build, point):
    """0 if it does not end, or not well."""
    prefix, godwit = run_as(False, False, build), os.path.join(build, "godwit")
    receiver = shell(prefix, [godwit, "perf", "--port", str(PORT), "--quiet"])
    sender = shell(prefix, [godwit, "perf", haul.address(1), "--port", str(PORT), "--json", "--channel", "--size",
                            str(point.message()), "--depth", str(DEPTH), "--duration", f"{duration(point):.2f}"])
    with Play(build, point.path.settings() + ["--seed", str(point.seed)], receiver, sender, deadline=point.deadline()) as play:
        play.run()
        told = (objects(play.texts.get(0, "")) or [{}])[-1]
        if not play.ended or not told.get("ok"):
            return {"mbps": 0.0, "failed": play.errors() or "it did not end", **marks(play)}
        row = told["results"][0]
        way = row["directions"][0]
        return {"mbps": speed(play, way["bytes"], way["seconds"], point.message()), "bytes": way["bytes"],
                "packets": row["client"]["packets_sent"], "again": row["client"]["packets_retransmitted"],
                "rtt_us": row["client"]["rtt_us"], **marks(play)}


def bbr(build, point):
    """One that does not end in time is stopped, and what the link carried counts as if none of it had been sent again."""
    program = os.path.join(build, "bench", "tcp_stream")
    sender = [program, haul.address(1), "--port", str(PORT), "--seconds", f"{duration(point):.2f}", "--message",
              str(point.message()), "--working-set", str(16 * haul.MIB), "--congestion", "bbr"]
    with Play(build, point.path.settings() + ["--seed", str(point.seed)], shell([], [program, "--serve", "--port", str(PORT)]),
              shell([], sender), before=[haul.TUNING, MTU_PROBING], deadline=point.deadline()) as play:
        play.run()
        told = (objects(play.texts.get(0, "")) or [{}])[-1]
        if not play.ended or "bytes" not in told:
            carried = play.carried()
            return {"mbps": speed(play, carried.until(carried.end()), None, point.message()), "stopped": True, **marks(play)}
        return {"mbps": speed(play, told["bytes"], None, point.message()), "bytes": told["bytes"],
                "again": told["retransmits"], **marks(play)}


def compare(build, seed):
    point = Point(seed)
    turns = (("godwit", ours), ("bbr", bbr))
    taken = {name: measure(build, point) for name, measure in (turns if seed % 2 else turns[::-1])}
    ratio = taken["godwit"]["mbps"] / taken["bbr"]["mbps"] if taken["bbr"]["mbps"] else None
    return {"seed": seed, "name": str(point.path), "path": point.path.described(), "ratio": ratio,
            "capacity_mbps": point.path.rate_mbps * (1 - point.path.loss), **taken}


def run_anywhere(options):
    count = QUICK if options.quick else options.paths
    points = []
    for seed in range(options.first_path, options.first_path + count):
        one = compare(options.build, seed)
        points.append(one)
        print(f"  {seed}: godwit {one['godwit']['mbps']:.3g}, bbr {one['bbr']['mbps']:.3g} Mbit/s; {one['name']}"
              + (f"; {one['godwit']['failed']}" if "failed" in one["godwit"] else ""), flush=True)
    with open("/proc/sys/net/core/rmem_max", encoding="ascii") as file:
        rmem_max = int(file.read())
    return haul.base(options, 1, tcp=haul.TCP_TUNING + ", tcp_mtu_probing 1", rmem_max=min(rmem_max, 212992), points=points)


RUNS = {"anywhere": run_anywhere}
