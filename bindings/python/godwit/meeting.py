# SPDX-License-Identifier: BSD-3-Clause
"""Where rank 0 waits for the others of a process group: an address that they reach, and a free port."""
import random
import socket
from typing import Any, Optional


def store_host(store: Any) -> Optional[str]:
    """Host of PyTorch's store, if it is on the network."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host = getattr(store, "host", None)
    return str(host) if host else None


def own_address(toward: Optional[str]) -> str:
    """The address of this host from which packets to `toward` leave. No packet is sent."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(toward or socket.gethostname(), 9, type=socket.SOCK_DGRAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
    except OSError:
        pass
    return "127.0.0.1"


def _first_ephemeral() -> int:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 32768


def free_port(address: str) -> int:
    """A port that is free, and below those that the system gives to connections: one of these may be taken before rank 0 listens."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    below = _first_ephemeral()
    ports = [random.SystemRandom().randrange(max(1024, below - 12000), below) for _ in range(50)] if below > 2048 else []
    for port in [*ports, 0]:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no TCP port is free")
