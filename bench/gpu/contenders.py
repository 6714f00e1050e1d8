# SPDX-License-Identifier: BSD-3-Clause
"""Who competes in bench/gpu, over which paths, with which settings, and what the least possible time is."""
import os

KIB, MIB = 1 << 10, 1 << 20
BURST = "8:1ms"  # packets, and the time after which a burst is over for who waited
CHANNELS = 2  # what NCCL chooses for one GPU a host and one interface
SPEED_MBPS = 10000  # what NCCL's Socket transport says of any interface; it steers NCCL's choices

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
LOOPBACK_SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
LAB_SIZES = (64 * KIB, MIB, 16 * MIB)


class Contender:
    """A transport under NCCL: its environment, and TCP's congestion control while it runs."""

    def __init__(self, name, what, congestion="cubic", plugin=None, loopback=True, lab=True, **environment):
        self.name, self.what, self.congestion, self.plugin, self.loopback, self.lab = name, what, congestion, plugin, loopback, lab
        self.own = environment

    def with_settings(self, text):
        """The same under another name, with variables of the environment: NAME=VALUE, with "+" between."""
        mine = Contender(f"{self.name}+{text}", f"{self.what}, {text}", self.congestion, self.plugin, self.loopback, self.lab)
        mine.own = {**self.own, **dict(pair.split("=", 1) for pair in text.split("+"))}
        return mine

    def environment(self, build):
        if self.plugin is None:
            return {"NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none", **self.own}
        return {"NCCL_NET": "godwit", "NCCL_NET_PLUGIN": os.path.join(build, self.plugin), "GODWIT_SPEED": str(SPEED_MBPS), **self.own}


GODWIT, CEILING = "plugins/nccl/libnccl-net-godwit.so", "bench/libnccl-net-ceiling.so"
MANY = {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"}
CONTENDERS = [
    Contender("socket-cubic", "NCCL's Socket, cubic"),
    Contender("socket-bbr", "NCCL's Socket, bbr", "bbr"),
    Contender("socket-cubic-4x4", "NCCL's Socket, cubic, 4 threads with 4 sockets each", **MANY),
    Contender("socket-bbr-4x4", "NCCL's Socket, bbr, 4 threads with 4 sockets each", "bbr", loopback=False, **MANY),
    Contender("godwit", "libnccl-net-godwit.so", plugin=GODWIT),
    Contender("godwit-4", "libnccl-net-godwit.so, GODWIT_THREADS=4", plugin=GODWIT, GODWIT_THREADS="4"),
    Contender("godwit-auto", "libnccl-net-godwit.so, GODWIT_SCHEME=auto", plugin=GODWIT, loopback=False, GODWIT_SCHEME="auto"),
    Contender("ceiling", "shared memory under the same interface: two copies, no network", plugin=CEILING, lab=False),
]


def shared_environment(scenario):
    """What is the same for everybody."""
    return {
        "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_BUFFSIZE": str(scenario.buffer), "NCCL_MIN_NCHANNELS": str(CHANNELS),
        "NCCL_MAX_NCHANNELS": str(CHANNELS), "NCCL_P2P_NET_CHUNKSIZE": str(MIB), "NCCL_IB_DISABLE": "1", "NCCL_RAS_ENABLE": "0",
        "NCCL_DEBUG": "WARN", "NCCL_NET_PLUGIN_REF_COUNT": "1", "OMP_NUM_THREADS": "1",
    }


class Scenario:
    """A number of ranks and what lies between them; on loopback, nothing."""

    def __init__(self, name, ranks, rtt_ms=None, rate_gbps=None, loss=0.0, bursts=False, mtu=9000, buffer=4 * MIB):
        self.name, self.ranks, self.rtt_ms, self.rate_gbps, self.loss, self.bursts = name, ranks, rtt_ms, rate_gbps, loss, bursts
        self.mtu, self.buffer = mtu, buffer

    def loopback(self):
        return self.rtt_ms is None

    def settings(self, seed):
        """Options of `godwit lab`; None for loopback."""
        if self.loopback():
            return None
        lossy = ["--loss", f"{self.loss:g}", *(["--burst", BURST] if self.bursts else [])] if self.loss else []
        return ["--rtt", f"{self.rtt_ms:g}ms", "--rate", f"{self.rate_gbps:g}G", "--mtu", str(self.mtu), *lossy, "--seed", str(seed)]

    def described(self):
        if self.loopback():
            return {"ranks": self.ranks}
        return {"ranks": self.ranks, "rtt_ms": self.rtt_ms, "rate_gbps": self.rate_gbps, "mtu": self.mtu, "loss": self.loss,
                "burst": BURST if self.loss and self.bursts else None}

    def cells(self):
        """(operation, bytes); bytes are those of the larger buffer, as in nccl-tests."""
        if self.loopback():
            return [(operation, size) for operation in OPERATIONS for size in LOOPBACK_SIZES]
        return [("all_reduce", size) for size in LAB_SIZES]

    def contenders(self):
        return [each for each in CONTENDERS if (each.loopback if self.loopback() else each.lab)]

    def floor_ms(self, operation, size):
        """What a ring takes at least: the bytes that a rank sends, at the rate of its link, and a one-way delay for each
        step. None on loopback."""
        if self.loopback():
            return None
        steps = (self.ranks - 1) * (2 if operation == "all_reduce" else 1)
        sent = size * steps / self.ranks
        return sent * 8 / (self.rate_gbps * 1e9) * 1e3 + steps * self.rtt_ms / 2


def bus_gbps(operation, size, ranks, ms):
    """GB/s in the sense of nccl-tests: what each link has to carry, whatever the number of ranks."""
    factor = (ranks - 1) / ranks * (2 if operation == "all_reduce" else 1)
    return size * factor / (ms * 1e-3) / 1e9


def scenarios():
    """In the order in which they are measured: what the goals are about comes first."""
    far = {"rtt_ms": 10, "rate_gbps": 4, "buffer": 32 * MIB}
    near = {"rtt_ms": 0.2, "rate_gbps": 4, "mtu": 1500}
    losses = ((0.0, False), (1e-2, False), (1e-3, True), (1e-3, False), (1e-2, True))
    every = [Scenario("loopback-2", 2)]
    for title, path in (("10ms", far), ("0.2ms", near)):
        for loss, bursts in losses:
            said = "0" if not loss else f"{loss:g}-{'bursts' if bursts else 'independent'}"
            every.append(Scenario(f"lab-{title}-{said}", 2, loss=loss, bursts=bursts, **path))
    every.append(Scenario("loopback-4", 4))
    every.append(Scenario("lab-10ms-4-ranks", 4, rtt_ms=10, rate_gbps=2, loss=1e-3, bursts=True, buffer=32 * MIB))
    return every


def chosen(scenario, names):
    """Contenders of a scenario by name, perhaps with settings; all without names."""
    every = {each.name: each for each in scenario.contenders()}
    if not names:
        return list(every.values())
    plain = [every[name] for name in every if name in names]
    split = [name.partition("+") for name in names if "+" in name]
    return plain + [every[name].with_settings(text) for name, _, text in split if name in every]


def sizes(text):
    """Bytes of sizes such as 64K and 1M, with commas between."""
    units = {"K": KIB, "M": MIB}
    return [int(each[:-1]) * units[each[-1]] if each[-1] in units else int(each) for each in text.upper().split(",") if each]
