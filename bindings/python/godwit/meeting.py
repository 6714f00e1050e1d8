# SPDX-License-Identifier: BSD-3-Clause
"""Where rank 0 waits for the others of a process group: an address that they reach, and a free port."""
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


def free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
