# SPDX-License-Identifier: BSD-3-Clause
"""Where rank 0 waits for the others of a process group: an address that they reach, and a free port."""
import fcntl
import ipaddress
import os
import random
import socket
import struct
from typing import Any, Iterator, Optional

# From <linux/sockios.h>
_SIOCGIFADDR = 0x8915
_HOST_KEY = "godwit/host"


def store_host(store: Any) -> Optional[str]:
    """Host of PyTorch's store, if it is on the network."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host = getattr(store, "host", None)
    return str(host) if host else None


# Addresses of documentation networks (RFC 5737, RFC 3849): nobody has them, so the default route leads there.
_ANYWHERE = ("192.0.2.1", "2001:db8::1")


def _address_toward(host: str) -> str:
    """The address from which packets to a host leave; an OSError if there is no route. No packet is sent."""
    for family, kind, protocol, _, address in socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM):
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    raise OSError(f"{host} has no address")


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.split("%")[0]).is_loopback


def _interface_addresses() -> "Iterator[str]":
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                yield socket.inet_ntoa(answer[20:24])
            except OSError:
                # It has none.
                continue


def own_address(toward: Optional[str]) -> str:
    """The address of this host from which packets to `toward` leave."""
    try:
        return _address_toward(toward or socket.gethostname())
    except OSError:
        return "127.0.0.1"


def far_address() -> str:
    """The address of this host that others reach it by: that of the default route, or else of an interface, or else the loopback's."""
    for host in _ANYWHERE:
        try:
            return _address_toward(host)
        except OSError:
            continue
    return next((address for address in _interface_addresses() if not is_loopback(address)), "127.0.0.1")


def host_id() -> str:
    """What processes have in common that reach each other by the loopback."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.stat('/proc/self/ns/net').st_ino}"


def tell_host(store: Any, rank: int) -> None:
    """For root_address() on rank 0."""
    store.set(f"{_HOST_KEY}/{rank}", host_id())


def root_address(store: Any, size: int) -> str:
    """Where rank 0 waits for the others. A host's own name may stand for an address of the loopback, as in Debian's /etc/hosts: that is
    taken only if all ranks are on this host."""
    address = own_address(store_host(store))
    if not is_loopback(address):
        return address
    mine = host_id()
    near = all(store.get(f"{_HOST_KEY}/{rank}").decode() == mine for rank in range(1, size))
    return address if near else far_address()


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
