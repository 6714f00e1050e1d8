# SPDX-License-Identifier: BSD-3-Clause
"""What the hosts of lab_test.py do: one function a role, run as `lab_ranks.py ROLE DIRECTORY [ARGUMENT...]`.

Host 0 sends to host 1. They agree on when to begin and when everything was sent by files in the directory, for any packet
would be counted. No role relies on being scheduled in time: the tests run beside others, on machines that are busy.
"""
import json
import mmap
import os
import select
import socket
import struct
import subprocess
import sys
import time

RANK = int(os.environ["RANK"])
PORT = 7000
PACKET = 200
PROGRESS = struct.Struct("!II")
AHEAD = 40  # and a batch: a small packet may take a page of the socket's buffer
POLL_S = 0.1
QUIET_POLLS = 10  # without a packet, after everything was sent: no more will come
LOST_POLLS = 2  # without a packet, after a send: what did not come was lost
UDP_SEGMENT = 103
IP_RECVTOS = 13
IP_UDP = 28  # bytes of an IPv4 header and a UDP header


def address(ipv6, host=1):
    return f"fd00:200::{host + 1}" if ipv6 else f"10.200.0.{host + 1}"


def udp(ipv6=False):
    return socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_DGRAM)


def say(directory, what):
    with open(os.path.join(directory, f"{what}-{RANK}"), "w", encoding="ascii"):
        pass


def was_said(directory, what, rank):
    return os.path.exists(os.path.join(directory, f"{what}-{rank}"))


def say_ready(directory):
    say(directory, "ready")


def await_ready(directory, rank=1):
    deadline = time.monotonic() + 20
    while not was_said(directory, "ready", rank) and time.monotonic() < deadline:
        time.sleep(0.01)


def arrivals(sock, directory):
    """Yields True when a packet can be read, False when none came for POLL_S; ends some time after everything was sent."""
    quiet = 0
    while quiet < QUIET_POLLS:
        sent = was_said(directory, "sent", 0)
        readable = bool(select.select([sock], [], [], POLL_S)[0])
        quiet = quiet + 1 if sent and not readable else 0
        yield readable


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
    """Two numbers that host 1 writes: the highest that came, and how often it found nothing to read. The sender stays near
    the first, for what overflows a socket was not lost by the lab."""
    with open(os.path.join(directory, "progress"), "a+b") as file:
        file.truncate(PROGRESS.size)
        return mmap.mmap(file.fileno(), PROGRESS.size)


def stay_near(progress, number):
    """Waits until packet `number` came, or until host 1 has read everything that is going to come. Returns whether it
    was the second."""
    polls = PROGRESS.unpack(progress[:])[1]
    while True:
        highest, now = PROGRESS.unpack(progress[:])
        if highest >= number or now >= polls + LOST_POLLS:
            return highest < number
        time.sleep(0.0005)


def numbered(directory, count, batch="1", family="4"):
    """Numbered packets, `batch` of them in one send; host 1 tells their numbers as they came."""
    count, batch, sock = int(count), int(batch), udp(family == "6")
    progress = open_progress(directory)
    if RANK == 1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.bind(("", PORT))
        say_ready(directory)
        seen, highest, polls = [], 0, 0
        for readable in arrivals(sock, directory):
            if readable:
                data = sock.recv(2048)
                seen.append(struct.unpack_from("!I", data)[0])
                highest = max(highest, seen[-1])
                if len(data) != PACKET or data[4:] != bytes(PACKET - 4):
                    tell("damaged")
            else:
                polls += 1
            progress[:] = PROGRESS.pack(highest, polls)
        tell(seen)
        return
    await_ready(directory)
    if batch > 1:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PACKET)
    floor = 0
    for first in range(0, count, batch):
        data = b"".join(struct.pack("!I", i) + bytes(PACKET - 4) for i in range(first, min(first + batch, count)))
        sock.sendto(data, (address(family == "6"), PORT))
        if floor + AHEAD < first and stay_near(progress, first - AHEAD):
            floor = first
    say(directory, "sent")


def ports(directory, flows, count):
    """Packets from several source ports in turn; host 1 tells how many came from each, in the order of the sender's. The
    first flow must lose none."""
    flows, count = int(flows), int(count)
    progress = open_progress(directory)
    if RANK == 1:
        sock, seen = udp(), [0] * flows
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sock.bind(("", PORT))
        say_ready(directory)
        for readable in arrivals(sock, directory):
            if readable:
                seen[sock.recv(2048)[0]] += 1
                progress[:] = PROGRESS.pack(seen[0] * flows, 0)
        tell(seen)
        return
    await_ready(directory)
    socks = [udp() for _ in range(flows)]
    for turn in range(count):
        for number, sock in enumerate(socks):
            sock.sendto(bytes([number]) * PACKET, (address(False), PORT))
        time.sleep(0.001)
        stay_near(progress, turn * flows - AHEAD)
    say(directory, "sent")


def sizes(directory, *lengths):
    """IP packets of these lengths; host 1 tells which came."""
    sock = udp()
    if RANK == 1:
        seen = []
        sock.bind(("", PORT))
        say_ready(directory)
        for readable in arrivals(sock, directory):
            if readable:
                seen.append(len(sock.recv(65535)) + IP_UDP)
        tell(seen)
        return
    await_ready(directory)
    for length in lengths:
        sock.sendto(bytes(int(length) - IP_UDP), (address(False), PORT))
    say(directory, "sent")


def marks(directory, count):
    """Packets that understand marks, all in one send; host 0 tells how many microseconds that took, host 1 how many of
    how many packets were marked."""
    sock = udp()
    if RANK == 1:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
        sock.bind(("", PORT))
        say_ready(directory)
        seen, marked = 0, 0
        for readable in arrivals(sock, directory):
            if readable:
                seen += 1
                marked += sock.recvmsg(2048, 64)[1][0][2][0] & 3 == 3
        tell([marked, seen])
        return
    await_ready(directory)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)
    sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, PACKET)
    start = time.perf_counter()
    sock.sendto(bytes(PACKET * int(count)), (address(False), PORT))
    tell((time.perf_counter() - start) * 1e6)
    say(directory, "sent")


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


def listens():
    """Whether a process of this host listens for TCP connections."""
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            if any(line.split()[3] == "0A" for line in lines):
                return True
    return False


def transfer(directory, godwit, *options):
    """A file by godwit itself."""
    if RANK == 1:
        with subprocess.Popen([godwit, "recv", os.path.join(directory, "target"), "--quiet", *options]) as receiver:
            while not listens() and receiver.poll() is None:
                time.sleep(0.01)
            say_ready(directory)
        sys.exit(receiver.returncode)
    await_ready(directory)
    os.execv(godwit, [godwit, "send", os.path.join(directory, "source"), address(False), "--quiet", *options])


def send(directory, godwit, *options):
    """The same, with the sender's options, and with what both ends print."""
    if RANK == 1:
        timeout = options[options.index("--timeout"):][:2] if "--timeout" in options else ()
        os.execv(godwit, [godwit, "recv", os.path.join(directory, "target"), "--json", *timeout])
    time.sleep(0.3)
    os.execv(godwit, [godwit, "send", os.path.join(directory, "source"), address(False), "--json", *options])


def perf(godwit, *options):
    """A measurement, from host 0 to host 1."""
    if RANK == 1:
        os.execv(godwit, [godwit, "perf", "--json"])
    time.sleep(0.3)
    os.execv(godwit, [godwit, "perf", address(False), "--json", *options])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
