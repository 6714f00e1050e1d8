# SPDX-License-Identifier: BSD-3-Clause
"""Several paths of which one is bad: bench/run's spray (see haul.py for how).

The lab has four paths side by side between links of one rate, so that three of them carry all of it. In each case the
flows of a host take the paths in the order in which they appear: first the TCP connection of the rendezvous (path 0), then the
queue pair's own port (path 1), and then the further lanes (2, 3, 0). Selective Repeat's reports come from the receiver's
own port. So the bad path is 2 under four lanes, which then harms a lane and nothing else; and 1 under one lane, which
is a flow that a network hashed onto the bad path.
"""
from links import haul
from links.haul import Link
from veth.wire import spread

LINK = Link(5, 1)
ROUNDS = 3
SECONDS = 3
PATHS = 4
DEAD_AT_S = 1.5
LOSS = "5%"
TIMEOUT_S = 3  # of a flow that hears nothing any more
LONGEST_S = 20  # that a flow may take to the end of what it began
GOAL = 0.9


def faults(path):
    return {"healthy": [], f"a path loses {LOSS}": ["--path", f"{path}:loss={LOSS}"],
            "a path dies": ["--at", f"{DEAD_AT_S}s:path{path}:down"]}


def lanes(count):
    return haul.Godwit(f"{count} lane{'s' if count > 1 else ''}", f"Godwit's channel over {count} source ports",
                       f"--lanes {count}", "--lanes", str(count), "--timeout", str(TIMEOUT_S))


def sample(contender, build, seconds, seed, settings):
    """A flow that ends with an error carried nothing to the end: that is a result here."""
    try:
        client = contender.stream(build, haul.address(1), LINK, seconds)
        return haul.one_on_one(contender, build, [*LINK.settings(), "--seed", str(seed), "--paths", str(PATHS), *settings],
                               client, LONGEST_S)
    except haul.Failure as failure:
        return {"gbps": 0.0, "ended": str(failure)}


def run_spray(options):
    rounds, seconds = (1, 2.5) if options.quick else (ROUNDS, SECONDS)
    cases = [(each, fault, settings) for count, path in ((4, 2), (1, 1)) for each in [lanes(count)]
             for fault, settings in faults(path).items()]
    taken = {(each.name, fault): [] for each, fault, _ in cases}
    for number in range(rounds):
        for each, fault, settings in haul.turned(cases, number):
            taken[each.name, fault].append(haul.attempt(f"{each.name}, {fault}", sample, each, options.build, seconds, number,
                                                        settings))
    return haul.base(options, rounds, seconds=seconds, link=LINK.described(), name=LINK.name(), paths=PATHS,
                     dead_at_s=DEAD_AT_S, goal=GOAL, cases=[summary_of(name, fault, taken) for name, fault in taken])


def summary_of(name, fault, taken):
    samples = taken[name, fault]
    pairs = [(a["gbps"], b["gbps"]) for a, b in zip(samples, taken[name, "healthy"])
             if "gbps" in a and b.get("gbps")]
    rates = [each["gbps"] for each in samples if "gbps" in each]
    return {"lanes": name, "fault": fault, "gbps": spread(rates) if rates else None,
            "of_healthy": spread([a / b for a, b in pairs]) if pairs else None,
            "ended": sum("ended" in each for each in samples), "samples": samples}


RUNS = {"spray": run_spray}
