#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--lanes, --dscp, --traffic-class and --icrc do to the packets what they say, for both ends, and are reported."""
import itertools
import os
import socket
import struct
import threading

import namespace
import roce
from harness import Directory, check, finish, same, seed_from_environment, skip, transfer, write_random

SIZE = 1_000_000  # several turns of 16 packets on each of four lanes
ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS = 263, 6


class Tap:
    """All packets on lo, as long as the `with` lasts."""

    def __enter__(self):
        self.packets = []
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.3)
        self.ended = False
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        return self

    def read(self):
        while True:
            try:
                frame, address = self.socket.recvfrom(65536)
            except TimeoutError:
                if self.ended:
                    return
                continue
            # What is sent to oneself is seen twice: count what arrives.
            if address[2] == socket.PACKET_HOST:
                self.packets.append(roce.Packet(frame[14:]))

    def __exit__(self, *_):
        self.ended = True
        self.reader.join()
        statistics = self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self.dropped = struct.unpack("II", statistics)[1]
        self.socket.close()

    def data(self):
        return [p for p in self.packets if p.opcode == roce.UC_WRITE_ONLY_IMM]


def traffic_class(packet):
    return packet.ip[1] if packet.ip[0] >> 4 == 4 else (packet.ip[0] << 4 | packet.ip[1] >> 4) & 0xFF


def run(directory, host, send_options, recv_options=()):
    """The sender's and the receiver's JSON, and the data packets of the file."""
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    # On a busy machine the tap may not keep up with the transfer: slower then.
    for rate in ((), ("--rate", "20M"), ("--rate", "4M")):
        with Tap() as tap:
            sender, receiver = transfer(source, target, host, ("--json", *recv_options), ("--json", *send_options, *rate))
        if not tap.dropped:
            break
    label = f"{host} {send_options} {recv_options}"
    check(sender.status == 0 and receiver.status == 0 and same(source, target), f"{label}: {sender} {receiver}")
    file_to = [p for p in tap.data() if len(p.data) > 256]
    check(sum(len(p.data) for p in file_to) >= SIZE - 256, f"{label}: {len(file_to)} packets seen")
    return label, sender.json(), receiver.json(), file_to


def lanes_and_marks(directory, host):
    # A batch of packets leaves by one lane: small messages make many.
    label, sender, receiver, data = run(directory, host, ("--lanes", 4, "--dscp", 26, "--block", "16K"))
    ports = {p.source_port for p in data}
    check(len(ports) == 4, f"{label}: data left by the ports {ports}")
    # The low two bits say that the queue may mark it.
    check(all(traffic_class(p) == 26 << 2 | 2 for p in data), f"{label}: {set(map(traffic_class, data))}")
    check(all(p.icrc_is_right() for p in data), f"{label}: ICRC")
    check((sender["lanes"], sender["traffic_class"], sender["icrc"]) == (4, 104, True), f"{label}: {sender}")
    # The receiver has as many, for its reports.
    check((receiver["lanes"], receiver["traffic_class"]) == (4, 0), f"{label}: {receiver}")
    label, sender, _, data = run(directory, host, ("--traffic-class", 104))
    check(len({p.source_port for p in data}) == 1, f"{label}: more than one lane unasked")
    check(all(traffic_class(p) == 106 for p in data) and sender["traffic_class"] == 104, f"{label}: {sender}")


def icrc(directory, host):
    for here, there in itertools.product(((), ("--icrc", "on"), ("--icrc", "off")), repeat=2):
        label, sender, receiver, data = run(directory, host, here, there)
        wanted = not (here == there == ("--icrc", "off"))
        check(all(p.icrc_is_right() == wanted for p in data), f"{label}: ICRC, though it was to be {wanted}")
        check(sender["icrc"] is wanted and receiver["icrc"] is wanted, f"{label}: {sender} {receiver}")
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    for options in ((), ("--icrc", "off")):
        sender, receiver = transfer(source, target, host, options, options)
        for end in (sender, receiver):
            check(("ICRC off" in end.stdout) == bool(options), f"{options}: {end}")


def main():
    namespace.enter(lambda reason: skip("namespace", f"no network namespace to look into: {reason}"))
    namespace.segment_before_capture()
    rng = seed_from_environment()
    with Directory() as directory:
        write_random(os.path.join(directory, "source"), SIZE, rng)
        for host in ("127.0.0.1", "::1"):
            lanes_and_marks(directory, host)
        icrc(directory, "127.0.0.1")
    finish()


main()
