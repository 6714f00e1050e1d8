# SPDX-License-Identifier: BSD-3-Clause
"""Paths that nobody chose, one dot each: bench/run's anywhere.

A seed draws a path (paths.py). Godwit's channel sends over it as an ordinary user with the usual limits of buffers, with
defaults throughout; then TCP with bbr, one flow, tuned as haul.py says and with its own search for the MTU, since some paths
swallow large packets. Both send for the same time, and what arrives counts from the tenth message on, by the lab's own record
of the link, as a share of what the path could carry in the time that counts.

Needed are the build's godwit, bench/tcp_stream and bench/libanywhere-limits.so, Python's standard library, and a kernel with
bbr, network namespaces and /dev/net/tun. Points are kept one by one in a file of JSON lines, so that a run that was stopped goes
on where it was, and several run side by side, each in its own lab (measure.py).
"""
import os
import sys

from anywhere import measure
from anywhere.paths import WARM_UP, Point
from anywhere.play import DEPTH, PORT, Play, objects, run_as, shell
from links import haul

PATHS = 200
QUICK = 12
INITIAL_WINDOW = 64
TUNING = [f"""
for side in rmem wmem; do
    echo '4096 1048576 {haul.TCP_BUFFER_MOST}' >/proc/sys/net/ipv4/tcp_$side
done
echo 0 >/proc/sys/net/ipv4/tcp_slow_start_after_idle
echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save
echo 1 >/proc/sys/net/ipv4/tcp_mtu_probing
'{sys.executable}' '{os.path.join(os.path.dirname(os.path.abspath(__file__)), "route.py")}' {INITIAL_WINDOW}
"""]
COUNTED_LEAST = 0.5  # of a transfer too slow for ten messages, the later half counts


def duration(point):
    return point.path.seconds + (point.path.outage[1] if point.path.outage else 0)


def counted(carried, delivered, seconds, message):
    """(Mbit/s, begin, end) from the tenth message on, of what the link carried in the last `seconds`; None: in all."""
    share = min(COUNTED_LEAST, WARM_UP * message / delivered) if delivered else COUNTED_LEAST
    begin, end = carried.from_tenth(seconds, share)
    return delivered * 8e-6 * (1 - share) / (end - begin) if delivered and end > begin else 0.0, begin, end


def speed(carried, delivered, seconds, message):
    """Mbit/s from the tenth message on."""
    return counted(carried, delivered, seconds, message)[0]


def outcome(point, carried, delivered, seconds):
    """Mbit/s that arrived, and that the path could carry meanwhile: the two senders do not begin at the same time, so that a change
    of the path may come before the tenth message of one and after that of the other."""
    mbps, begin, end = counted(carried, delivered, seconds, point.message())
    could = point.path.capacity_mbit(begin, end) / (end - begin) if end > begin else 0.0
    return {"mbps": mbps, "could_mbps": could}


def marks(play):
    return {"was_late": play.report.get("was_late"), "dropped": play.dropped()}


def ours(build, point):
    """0 if it does not end, or not well."""
    prefix, godwit = run_as(False, False, build), os.path.join(build, "godwit")
    receiver = shell(prefix, [godwit, "perf", "--port", str(PORT), "--quiet"])
    sender = shell(prefix, [godwit, "perf", haul.address(1), "--port", str(PORT), "--json", "--channel", "--size",
                            str(point.message()), "--depth", str(DEPTH), "--duration", f"{duration(point):.2f}"])
    with Play(build, point.path.settings() + ["--seed", str(point.seed)], receiver, sender, deadline=point.deadline(),
              port=PORT) as play:
        play.run()
        told = (objects(play.texts.get(0, "")) or [{}])[-1]
        if not play.ended or not told.get("ok"):
            return {"mbps": 0.0, "failed": play.errors() or "it did not end", **marks(play)}
        row = told["results"][0]
        way = row["directions"][0]
        return {**outcome(point, play.carried(), way["bytes"], way["seconds"]), "bytes": way["bytes"],
                "packets": row["client"]["packets_sent"], "again": row["client"]["packets_retransmitted"],
                "rtt_us": row["client"]["rtt_us"], **marks(play)}


def bbr_deadline(point):
    """Seconds. Long enough to connect and to send for its time; what is still in its buffers then may never arrive."""
    return 5 + 0.02 * point.path.rtt_ms + 40 * point.path.worst_loss() ** 2 + 2 * duration(point)


def bbr(build, point):
    """One that does not end in time is stopped, and what the link carried counts as if none of it had been sent again."""
    program = os.path.join(build, "bench", "tcp_stream")
    sender = [program, haul.address(1), "--port", str(PORT), "--seconds", f"{duration(point):.2f}", "--message",
              str(point.message()), "--working-set", str(16 * haul.MIB), "--congestion", "bbr"]
    with Play(build, point.path.settings() + ["--seed", str(point.seed)], shell([], [program, "--serve", "--port", str(PORT)]),
              shell([], sender), before=TUNING, deadline=bbr_deadline(point), port=PORT) as play:
        play.run()
        told = (objects(play.texts.get(0, "")) or [{}])[-1]
        if not play.ended or "bytes" not in told:
            carried = play.carried()
            return {**outcome(point, carried, carried.until(carried.end()), None), "stopped": True, **marks(play)}
        return {**outcome(point, play.carried(), told["bytes"], None), "bytes": told["bytes"],
                "again": told["retransmits"], **marks(play)}


def compare(build, seed):
    point = Point(seed)
    turns = (("godwit", ours), ("bbr", bbr))
    taken = {name: measure(build, point) for name, measure in (turns if seed % 2 else turns[::-1])}
    shares = {name: one["mbps"] / one["could_mbps"] if one.get("could_mbps") else 0.0 for name, one in taken.items()}
    ratio = shares["godwit"] / shares["bbr"] if shares["bbr"] else None
    return {"seed": seed, "name": str(point.path), "path": point.path.described(), "ratio": ratio,
            "capacity_mbps": point.path.rate_mbps * (1 - point.path.loss), **taken}


def said(point):
    """A line for people."""
    failed = f"; {point['godwit']['failed']}" if "failed" in point["godwit"] else ""
    late = "; the lab was late" if measure.was_late(point) else ""
    return (f"{point['seed']}: godwit {point['godwit']['mbps']:.3g}, bbr {point['bbr']['mbps']:.3g} Mbit/s; {point['name']}"
            f"{failed}{late}")


def costs(seeds):
    """seed -> seconds that both runs take, about; where a tenth is lost, bbr is seldom done in time."""
    points = [Point(seed) for seed in seeds]
    return {one.seed: one.cost() + (bbr_deadline(one) if one.path.worst_loss() > 0.1 else one.cost()) for one in points}


def compiler(build):
    with open(os.path.join(build, "bench", "compiler"), encoding="utf-8") as file:
        return file.read().strip()


def run_anywhere(options):
    """Measures what the file lacks; None while it still lacks something."""
    count = QUICK if options.quick else options.paths
    seeds = range(options.first_path, options.first_path + count)
    path = options.points or os.path.join(options.build, "anywhere.points")
    measure.measure(path, costs(seeds), lambda seed: compare(options.build, seed), options.jobs, options.budget,
                    lambda point: print(f"  {said(point)}", flush=True), compiler(options.build))
    machine, points = measure.read(path)
    left = [seed for seed in seeds if seed not in points]
    if left:
        print(f"{len(left)} of {count} points are to be measured yet: {path} has the others")
        return None
    return haul.base(options, 1, tcp=haul.TCP_TUNING + ", tcp_mtu_probing 1", jobs=options.jobs,
                     points=[points[seed] for seed in seeds], **machine)


RUNS = {"anywhere": run_anywhere}
