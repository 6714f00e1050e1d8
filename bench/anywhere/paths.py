# SPDX-License-Identifier: BSD-3-Clause
"""Draws a path and a use of it from a seed. tests/system/anywhere_test.py and bench/run's anywhere share it.

The same seed gives the same point as long as this file does not change: report the commit with a seed. Every point draws
the same random numbers in the same order, whether it uses them or not, so that one property does not depend on another.
"""
import math
import random

RTT_MS = (0.05, 800)
RATE_MBPS = (2, 300)  # the upper end is what the lab's switch and both hosts hold together on two processors
LOSS = (1e-4, 0.4)
BACK_SHARE = (0.05, 1)  # of the forward rate, in the direction of the reports
MTU = (1280, 9000)
LARGEST_EXTRA_MS = 100  # of jitter and reordering, which are up to twice the round trip
SECONDS = (3, 20)  # of the transfer, without an outage
ROUND_TRIPS = 24  # that the transfer lasts at least, within those bounds
MESSAGES = 50  # of the transfer at full rate
WARM_UP = 10  # messages that are not counted at its beginning
PATHS = 4  # side by side, under lanes

USES = ("send", "channel", "sr", "ec", "auto", "bounded", "sdr", "lanes")
MESSAGE_BYTES = (4096, 16 << 20)


def between(rng, low, high):
    """Log-uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def draw_loss(rng):
    """None in three of ten, small ones as likely as large ones in four, any share up to the largest in three."""
    small, any_share, kind = between(rng, *LOSS), rng.uniform(0, LOSS[1]), rng.random()
    return 0.0 if kind < 0.3 else small if kind < 0.7 else any_share


class Path:
    """What lies between the two hosts; data flows from host 0 to host 1."""

    def __init__(self, rng):
        self.rtt_ms = between(rng, *RTT_MS)
        self.rate_mbps = between(rng, *RATE_MBPS)
        self.loss = draw_loss(rng)
        burst = round(between(rng, 2, 32))
        self.burst = burst if rng.random() < 0.4 else 1
        extra_ms = min(2 * self.rtt_ms, LARGEST_EXTRA_MS)
        self.jitter_ms = rng.uniform(0, extra_ms) * (rng.random() < 0.3)
        self.reorder = between(rng, 1e-3, 0.2) * (rng.random() < 0.25)
        self.reorder_ms = rng.uniform(0, extra_ms)
        self.dup = between(rng, 1e-3, 0.1) * (rng.random() < 0.2)
        self._draw_way_back(rng)
        self._draw_sizes(rng)
        self._draw_changes(rng)

    def _draw_way_back(self, rng):
        """The direction of the reports: the same as the data's, or another rate, loss and share of the delay."""
        rate, loss, delay = between(rng, *BACK_SHARE), draw_loss(rng), rng.uniform(0.05, 0.45)
        self.asymmetric = rng.random() < 0.25
        self.back_mbps = max(1.0, self.rate_mbps * rate) if self.asymmetric else self.rate_mbps
        self.back_loss = loss if self.asymmetric else self.loss
        self.down_delay_share = delay if self.asymmetric else 0.25

    def _draw_sizes(self, rng):
        usual, other = rng.choice((1280, 1400, 1500, 1500, 1500, 9000)), rng.randint(*MTU)
        self.mtu = usual if rng.random() < 0.7 else other
        hole = rng.randint(MTU[0], max(MTU[0], self.mtu - 1))
        self.hole = hole if rng.random() < 0.2 and self.mtu > MTU[0] else None

    def _draw_changes(self, rng):
        """At times after the start of the transfer's commands."""
        self.seconds = min(SECONDS[1], max(SECONDS[0], ROUND_TRIPS * self.rtt_ms / 1e3))
        at, length = rng.uniform(0.2, 0.6) * self.seconds, between(rng, 0.2, 3)
        self.outage = (at, length) if rng.random() < 0.15 else None
        at, to = rng.uniform(0.2, 0.6) * self.seconds, between(rng, 0.3, 3)
        self.step = (at, min(self.rate_mbps * to, RATE_MBPS[1])) if rng.random() < 0.15 else None

    def settings(self):
        """Options of the lab."""
        options = ["--rtt", f"{self.rtt_ms * 1e3:.0f}us", "--rate", f"{self.rate_mbps * 1e3:.0f}k", "--mtu", str(self.mtu)]
        for host, loss in ((1, self.loss), (0, self.back_loss)):
            share = self.down_delay_share if host == 1 else 0.5 - self.down_delay_share
            keys = [f"delay={share * self.rtt_ms * 1e3:.0f}us"]
            if loss:
                keys.append(f"loss={loss:.6f}")
            if loss and self.burst > 1:
                # A burst is an event on the line: whoever waits is out of it.
                keys.append(f"burst={self.burst}:{4 * self.burst * self.packet_us():.0f}us")
            if self.jitter_ms:
                keys.append(f"jitter={self.jitter_ms * 1e3:.0f}us")
            if self.reorder:
                keys.append(f"reorder={self.reorder:.6f}:{self.reorder_ms * 1e3:.0f}us")
            if self.dup:
                keys.append(f"dup={self.dup:.6f}")
            if self.hole:
                keys.append(f"mtu={self.hole}")
            options += ["--link", f"{host}:down:{','.join(keys)}"]
        if self.asymmetric:
            options += ["--link", f"0:down:rate={self.back_mbps * 1e3:.0f}k", "--link", f"1:up:rate={self.back_mbps * 1e3:.0f}k"]
        if self.step and self.step[1] > self.rate_mbps:
            # The link up of the sender stays as it is, and must not be what limits after the step.
            options += ["--link", f"0:up:rate={self.step[1] * 1e3:.0f}k"]
        if self.outage:
            options += ["--at", f"{self.outage[0] * 1e3:.0f}ms:1:down", "--at", f"{sum(self.outage) * 1e3:.0f}ms:1:up"]
        if self.step:
            options += ["--at", f"{self.step[0] * 1e3:.0f}ms:1:rate={self.step[1] * 1e3:.0f}k"]
        return options

    def packet_us(self):
        """Microseconds that a packet of the MTU occupies the link."""
        return self.mtu * 8 / self.rate_mbps

    def capacity_mbit(self, begin_s, end_s):
        """Megabits that can arrive between two times after the start: rate x (1 - loss), with its step, without the outage."""
        edges = sorted({begin_s, end_s, *((self.step[0],) if self.step else ()),
                        *((self.outage[0], sum(self.outage)) if self.outage else ())})
        total = 0.0
        for first, last in zip(edges, edges[1:]):
            if first < begin_s or last > end_s:
                continue
            rate = self.step[1] if self.step and first >= self.step[0] else self.rate_mbps
            if not self.outage or not self.outage[0] <= first < sum(self.outage):
                total += rate * (last - first)
        return total * (1 - self.loss)

    def worst_loss(self):
        """The chance that a packet or its answer is lost: what the TCP connection of the rendezvous meets."""
        return 1 - (1 - self.loss) * (1 - self.back_loss)

    def described(self):
        return {key: round(value, 6) if isinstance(value, float) else value for key, value in vars(self).items()}

    def __str__(self):
        said = [f"{self.rtt_ms:.3g} ms", f"{self.rate_mbps:.3g} Mbit/s", f"MTU {self.mtu}"]
        if self.loss:
            said.append(f"loss {100 * self.loss:.2g} %" + (f" in bursts of {self.burst}" if self.burst > 1 else ""))
        for text, there in ((f"jitter {self.jitter_ms:.2g} ms", self.jitter_ms),
                            (f"{100 * self.reorder:.2g} % held back by up to {self.reorder_ms:.2g} ms", self.reorder),
                            (f"{100 * self.dup:.2g} % twice", self.dup),
                            (f"back {self.back_mbps:.3g} Mbit/s with loss {100 * self.back_loss:.2g} %", self.asymmetric),
                            (f"nothing above {self.hole} bytes passes", self.hole)):
            if there:
                said.append(text)
        if self.outage:
            said.append(f"down from {self.outage[0]:.2g} s for {self.outage[1]:.2g} s")
        if self.step:
            said.append(f"{self.step[1]:.3g} Mbit/s from {self.step[0]:.2g} s on")
        return ", ".join(said)


class Point:
    """A path, what uses it, and as whom."""

    def __init__(self, seed):
        rng = random.Random(f"anywhere {seed}")
        self.seed = seed
        self.path = Path(rng)
        self.use = rng.choice(USES)
        self.root = rng.random() < 0.5
        self.raised = rng.random() < 0.5
        self.lanes = rng.randint(2, 8)
        self.bad_path = rng.randint(1, PATHS - 1)  # path 0 carries the rendezvous
        self.bad_path_is = rng.choice(("well", "lossy", "dead"))
        self.bad_path_loss = rng.uniform(0.05, 0.5)
        self.bad_path_at = rng.uniform(0.2, 0.6) * self.path.seconds

    def settings(self):
        options = [*self.path.settings(), "--seed", str(self.seed)]
        if self.use == "lanes":
            options += ["--paths", str(PATHS)]
            if self.bad_path_is == "lossy":
                options += ["--path", f"{self.bad_path}:loss={self.bad_path_loss:.4f}"]
            if self.bad_path_is == "dead":
                options += ["--at", f"{self.bad_path_at * 1e3:.0f}ms:path{self.bad_path}:down"]
        return options

    def bytes(self):
        """What the path can carry in the time of the transfer, by its first rate."""
        return int(self.path.rate_mbps * (1 - self.path.loss) * self.path.seconds * 1e6 / 8)

    def message(self):
        """A multiple of four bytes, so that MESSAGES of them take the time of the transfer."""
        return max(MESSAGE_BYTES[0], min(MESSAGE_BYTES[1], self.bytes() // MESSAGES)) & ~3

    def meeting_seconds(self):
        """That the rendezvous over TCP may take: it has timeouts of a second, and doubles them."""
        return 5 + 0.02 * self.path.rtt_ms + 200 * self.path.worst_loss() ** 2

    def deadline(self):
        """Seconds after which the point counts as one that never ends: six times what a good one takes."""
        outage = self.path.outage[1] if self.path.outage else 0
        return self.meeting_seconds() + 6 * self.path.seconds + 2 * outage + 10

    def cost(self):
        """Seconds that a good run takes, about."""
        return 1 + 0.02 * self.path.rtt_ms + 30 * self.path.worst_loss() ** 2 + 1.3 * self.path.seconds + \
            (self.path.outage[1] if self.path.outage else 0)

    def who(self):
        return f"{'root' if self.root else 'an ordinary user'}, {'raised' if self.raised else 'default'} limits"

    def __str__(self):
        lanes = f" over {self.lanes} lanes, path {self.bad_path} {self.bad_path_is}" if self.use == "lanes" else ""
        return f"{self.use}{lanes} as {self.who()}: {self.path}"
