# SPDX-License-Identifier: BSD-3-Clause
"""What the hosts of lab_test.py do: one function a role, run as `lab_ranks.py ROLE DIRECTORY [ARGUMENT...]`.

Host 0 sends to host 1. They agree on when to begin by a file in the directory, for any packet would be counted.
"""
import json
import mmap
import os
import socket
import struct
import sys
import time

RANK = int(os.environ["RANK"])
PORT = 7000
PACKET = 200
AHEAD = 40  # and a batch: a small packet may take a page of the socket's buffer
PATIENCE_S = 0.2  # by then what did not come was lost
IDLE_S = 1.0
UDP_SEGMENT = 103
IP_RECVTOS = 13


def address(ipv6, host=1):
    return f"fd00:200::{host + 1}" if ipv6 else f"10.200.0.{host + 1}"


def udp(ipv6=False):
    return socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_DGRAM)


def say_ready(directory):
    with open(os.path.join(directory, f"ready-{RANK}"), "w", encoding="ascii"):
        pass


def await_ready(directory, rank=1):
    path = os.path.join(directory, f"ready-{rank}")
    deadline = time.monotonic() + 20
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.01)


def tell(value):
    print(json.dumps(value), flush=True)


def echo(directory, family="4", count="40"):
    """Round trips in milliseconds, sorted."""
    sock, times = udp(family == "6"), []
    if RANK == 1:
        sock.bind(("", PORT))
        say_ready(directory)
        for _ in range(int(count)):
            data, peer = sock.recvfrom(2048)
            sock.sendto(data, peer)
        return
    await_ready(directory)
    for _ in range(int(count)):
        start = time.perf_counter()
        sock.sendto(b"x", (address(family == "6"), PORT))
        sock.recv(2048)
        times.append((time.perf_counter() - start) * 1e3)
    tell(sorted(times))


def open_progress(directory):
    """The highest number that came: the sender stays near it, for what overflows a socket was not lost by the lab."""
    with open(os.path.join(directory, "progress"), "a+b") as file:
        file.truncate(4)
        return mmap.mmap(file.fileno(), 4)


def numbered(directory, count, batch="1", family="4"):
    """Numbered packets, `batch` of them in one send; host 1 tells their numbers as they came."""
    count, batch, sock = int(count), int(batch), udp(family == "6")
    if RANK == 1:
        sock.bind(("", PORT))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        progress = open_progress(directory)
        say_ready(directory)
        seen = []
        try:
            sock.settimeout(20)
            while True:
                data = sock.recv(2048)
                seen.append(struct.unpack_from("!I", data)[0])
                progress[:4] = struct.pack("!I", max(seen[-1], struct.unpack("!I", progress[:4])[0]))
                if len(data) != PACKET or data[4:] != bytes(PACKET - 4):
                    tell("damaged")
                sock.settimeout(IDLE_S)
        except TimeoutError:
            tell(seen)
        return
    await_ready(directory)
    progress = open_progress(directory)
    if batch > 1:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PACKET)
    floor = 0
    for first in range(0, count, batch):
        data = b"".join(struct.pack("!I", i) + bytes(PACKET - 4) for i in range(first, min(first + batch, count)))
        sock.sendto(data, (address(family == "6"), PORT))
        patience = time.monotonic() + PATIENCE_S
        while max(floor, struct.unpack("!I", progress[:4])[0]) + AHEAD < first:
            if time.monotonic() > patience:
                floor = first
            time.sleep(0.0005)


def ports(directory, flows, count):
    """Packets from several source ports in turn; host 1 tells how many came from each, in the order of the sender's."""
    flows, count = int(flows), int(count)
    if RANK == 1:
        sock, seen = udp(), [0] * flows
        sock.bind(("", PORT))
        say_ready(directory)
        try:
            sock.settimeout(20)
            while True:
                seen[sock.recv(2048)[0]] += 1
                sock.settimeout(IDLE_S)
        except TimeoutError:
            tell(seen)
        return
    await_ready(directory)
    socks = [udp() for _ in range(flows)]
    for _ in range(count):
        for number, sock in enumerate(socks):
            sock.sendto(bytes([number]) * PACKET, (address(False), PORT))
        time.sleep(0.001)


def marks(directory, count):
    """Packets that understand marks, sent at once; host 1 tells how many were marked of how many."""
    sock = udp()
    if RANK == 1:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
        sock.bind(("", PORT))
        say_ready(directory)
        seen, marked = 0, 0
        try:
            sock.settimeout(20)
            while True:
                control = sock.recvmsg(2048, 64)[1]
                seen += 1
                marked += control[0][2][0] & 3 == 3
                sock.settimeout(IDLE_S)
        except TimeoutError:
            tell([marked, seen])
        return
    await_ready(directory)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)
    for _ in range(int(count)):
        sock.sendto(bytes(PACKET), (address(False), PORT))


def group(directory):
    """A multicast and a broadcast from host 0; each other host tells what came."""
    sock = udp()
    if RANK > 0:
        sock.bind(("", PORT))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                        socket.inet_aton("239.1.2.3") + socket.inet_aton(address(False, RANK)))
        say_ready(directory)
        sock.settimeout(20)
        tell(sorted(sock.recv(64).decode() for _ in range(2)))
        return
    for rank in range(1, int(os.environ["WORLD_SIZE"])):
        await_ready(directory, rank)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address(False, 0)))
    sock.sendto(b"many", ("239.1.2.3", PORT))
    sock.sendto(b"all", ("10.200.0.255", PORT))


def stream(directory, size):
    """A TCP stream of known bytes; host 1 tells whether it came unchanged."""
    block, size = bytes(range(256)) * 256, int(size)
    if RANK == 1:
        with socket.create_server(("", PORT)) as listener:
            say_ready(directory)
            peer = listener.accept()[0]
            got = bytearray()
            while data := peer.recv(1 << 20):
                got += data
        tell(got == (block * (size // len(block) + 1))[:size])
        return
    await_ready(directory)
    with socket.create_connection((address(False), PORT)) as sock:
        sock.sendall((block * (size // len(block) + 1))[:size])


def transfer(directory, godwit, *options):
    """A file by godwit itself."""
    if RANK == 1:
        os.execv(godwit, [godwit, "recv", os.path.join(directory, "target"), "--quiet", *options])
    time.sleep(0.3)
    os.execv(godwit, [godwit, "send", os.path.join(directory, "source"), address(False), "--quiet", *options])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
