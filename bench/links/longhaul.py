# SPDX-License-Identifier: BSD-3-Clause
"""Long and lossy links: bench/run's longhaul and schemes (see haul.py for who and how).

longhaul has Godwit's channel and what people have, as a stream and as messages of 1 MiB one by one. schemes has Godwit's
own ways to repair beside each other and the best TCP, over sizes of messages; and what coding costs where nothing is lost.
bounded has messages that may end incomplete, on a short link with losses in bursts.

A round has one sample of everyone, one right after the other; the losses of a round are the same for all: one seed.
"""
from links import haul
from links.haul import MIB, Link
from veth.wire import spread

ROUNDS = 2
BURST = 16
PEERS = ("godwit", "tcp-bbr", "tcp-cubic-16", "ucx", "srt")
MESSAGES = 100  # the fewest of which a 99th percentile is told
MESSAGES_S = 12  # and the longest that one contender takes for them
HIGH_GBPS = 4  # what both ends and the lab's switch hold on two processors


def losses(*shares):
    """Of each share but 0 an independent and a bursty one."""
    return [pair for share in shares for pair in ([(share, 1), (share, BURST)] if share else [(0, 1)])]


def links_of(options):
    if options.quick:
        return [Link(25, 1), Link(25, 1, 1e-3), Link(25, 1, 1e-2, BURST), Link(0.2, 1, 1e-3)]
    return [*(Link(25, 1, *loss) for loss in losses(0, 1e-4, 1e-3, 1e-2)),
            *(Link(25, HIGH_GBPS, *loss, mtu=9000) for loss in losses(0, 1e-3, 1e-2)),
            Link(0.2, 1), Link(0.2, 1, 1e-3), Link(0.2, HIGH_GBPS, mtu=9000), Link(0.2, HIGH_GBPS, 1e-3, mtu=9000)]


def rounds_of_messages(link):
    """Not all: messages take most of the time, and a round's own percentiles tell of their spread."""
    return (0, 1) if link.rate_gbps < HIGH_GBPS else (0,)


def good(samples):
    return [each for each in samples if "failed" not in each]


def times_of(samples, key):
    """Milliseconds; None where not every sample has it."""
    values = [each["message_time"].get(key) for each in good(samples)]
    return spread([value / 1e3 for value in values]) if values and None not in values else None


def summary_of(streams, messages):
    one = {"gbps": spread([each["gbps"] for each in good(streams)]) if good(streams) else None,
           "mean_ms": times_of(messages, "mean_us"), "p99_ms": times_of(messages, "p99_us"),
           "worst_ms": times_of(messages, "max_us"),
           "messages": sum(each["message_time"]["samples"] for each in good(messages)),
           "late": sum(each["was_late"] for each in good([*streams, *messages])),
           "failed": len(streams) + len(messages) - len(good([*streams, *messages]))}
    delivered = [each["delivered"] for each in good(messages) if each["delivered"] is not None]
    return {**one, "delivered": spread(delivered) if delivered else None}


def ratios_of(samples, ours):
    """Of goodput, within a round."""
    result = {}
    for name, others in samples.items():
        pairs = [(a["gbps"], b["gbps"]) for a, b in zip(samples.get(ours, []), others)
                 if "failed" not in a and "failed" not in b and b["gbps"]]
        if name != ours and pairs:
            result[name] = spread([a / b for a, b in pairs])
    return result


def run_longhaul(options):
    known, present = haul.there(haul.contenders_of(*PEERS), options.build)
    rounds = 1 if options.quick else ROUNDS

    def measure(link):
        streams, messages = ({each.name: [] for each in present} for _ in range(2))
        for number in range(rounds):
            for each in haul.turned(present, number):
                what = f"{each.name}, {link.name()}"
                streams[each.name].append(haul.attempt(what, haul.stream, each, options.build, link, 2, number))
                if number in rounds_of_messages(link):
                    messages[each.name].append(haul.attempt(
                        what, haul.messages, each, options.build, link, MIB, MESSAGES, MESSAGES_S, number))
        return link, streams, messages

    points = haul.side_by_side(options.jobs, measure, links_of(options))
    return haul.base(options, rounds, contenders=known, points=[
        {"link": link.described(), "name": link.name(),
         "summary": {each.name: summary_of(streams[each.name], messages[each.name]) for each in present},
         "ratios": ratios_of(streams, "godwit"), "streams": streams, "messages": messages}
        for link, streams, messages in points])


# Size, messages of one sample: small ones for a 99th percentile, large ones for as long as there is time.
SIZES = ((64 << 10, 100), (MIB, 100), (16 * MIB, 12), (128 * MIB, 2))
SCHEMES = ("godwit-sr", "godwit-ec", "godwit", "tcp-bbr")


def size_name(size):
    return f"{size >> 20} MiB" if size >= MIB else f"{size >> 10} KiB"


def run_schemes(options):
    known, present = haul.there(haul.contenders_of(*SCHEMES), options.build)
    rounds = 1 if options.quick else 2
    links = [Link(25, 1, *loss) for loss in (losses(1e-3, 1e-2) if not options.quick else losses(1e-2))]
    sizes = SIZES[:2] if options.quick else SIZES
    points = [(link, size, count, {each.name: [] for each in present}) for link in links for size, count in sizes]
    coding = {each.name: [] for each in present}
    for number in range(rounds):
        for link, size, count, taken in points:
            for each in haul.turned(present, number):
                taken[each.name].append(haul.attempt(f"{each.name}, {size_name(size)}, {link.name()}", haul.messages, each,
                                                     options.build, link, size, count, MESSAGES_S, number))
        for each in haul.turned(present, number):
            coding[each.name].append(haul.attempt(f"{each.name}, coding", haul.stream, each, options.build,
                                                  Link(25, HIGH_GBPS, mtu=9000), 2, number))
    return haul.base(options, rounds, contenders=known, points=[
        {"link": link.described(), "name": link.name(), "size_bytes": size, "size": size_name(size),
         "summary": {each.name: summary_of([], taken[each.name]) for each in present}, "messages": taken}
        for link, size, count, taken in points],
        coding={"link": Link(25, HIGH_GBPS, mtu=9000).described(),
                "summary": {name: spread([each["gbps"] for each in good(samples)]) if good(samples) else None
                            for name, samples in coding.items()}, "samples": coding})


BOUNDED = ("godwit-bounded", "godwit-sr", "tcp-bbr", "tcp-cubic")


def run_bounded(options):
    known, present = haul.there(haul.contenders_of(*BOUNDED), options.build)
    rounds, count = (1, 200) if options.quick else (ROUNDS, 500)
    link = Link(0.2, 1, 1e-2, BURST)
    taken = {each.name: [] for each in present}
    for number in range(rounds):
        for each in haul.turned(present, number):
            taken[each.name].append(haul.attempt(f"{each.name}, {link.name()}", haul.messages, each, options.build, link,
                                                 MIB, count, MESSAGES_S, number))
    return haul.base(options, rounds, contenders=known, link=link.described(), name=link.name(), size_bytes=MIB,
                     summary={each.name: summary_of([], taken[each.name]) for each in present}, messages=taken)


RUNS = {"longhaul": run_longhaul, "schemes": run_schemes, "bounded": run_bounded}
